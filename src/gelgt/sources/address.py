"""Addresses of sources: the same from every working folder, and without their passwords.

A run stores the address of its source and opens it again from any working folder, so it has to be
absolute. A password is used to connect and nowhere else: not in a file, a log, an error or a
report. Every message of a driver passes through `scrub` before a user sees it.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, quote_plus, unquote

from gelgt.errors import SECRET_WORDS, SourceError
from gelgt.sources.hub import is_hub_address
from gelgt.storage.place import is_storage, safe_place

if TYPE_CHECKING:  # SQLAlchemy is imported where an address is SQL
    from sqlalchemy.engine import URL

HUB, DUCKDB = "hf://", "duckdb://"

_PLAIN_SQLITE = re.compile(r"sqlite:///([\w./~ -]+)", re.ASCII)


def absolute_source(source: Any) -> Any:
    """A source that means the same from every working folder; symbolic links stay as they are and
    are followed when it is opened.

    Example:
        >>> absolute_source("/data/exports"), absolute_source("postgresql://host/shop")
        ('/data/exports', 'postgresql://host/shop')
        >>> absolute_source("rel-no-such-folder")
        'hf://rel-no-such-folder'
    """
    if isinstance(source, Path):
        return source.expanduser().absolute()
    if not isinstance(source, str) or source.startswith(HUB):
        return source
    if source.startswith(DUCKDB):
        return f"{DUCKDB}/{duckdb_path(source).absolute()}"
    if is_storage(source):
        return source
    if "://" in source:
        return _absolute_url(source)
    path = Path(source).expanduser()
    if is_hub_address(source) and not path.exists():
        return HUB + source  # or a folder of this name elsewhere would be taken for it
    return str(path.absolute())


def address_of(source: Any) -> str:
    """The address of a source as a run stores it: absolute, and without its password."""
    if isinstance(source, Mapping):
        return "frames"
    text = str(absolute_source(source))
    if is_storage(text):
        return safe_place(text)
    if "://" not in text or text.startswith((HUB, DUCKDB)) or sqlite_path(text) is not None:
        return text
    return safe_address(parse_url(text))


def duckdb_path(address: str) -> Path:
    """The file of a DuckDB address or path."""
    return Path(address.removeprefix(f"{DUCKDB}/").removeprefix(DUCKDB)).expanduser()


def sqlite_path(address: str) -> Path | None:
    """The file of a SQLite address that has no options and nothing to unquote, which needs no
    SQLAlchemy; None for other addresses.

    Example:
        >>> sqlite_path("sqlite:///data/shop.db"), sqlite_path("sqlite:///shop.db?mode=ro")
        (PosixPath('data/shop.db'), None)
    """
    plain = _PLAIN_SQLITE.fullmatch(address)
    return None if plain is None else Path(plain[1]).expanduser()


def parse_url(text: str) -> "URL":
    """A SQLAlchemy URL, or an error that does not repeat what it could not read (it may hold a
    password)."""
    import sqlalchemy as sa
    from sqlalchemy.exc import ArgumentError, NoSuchModuleError

    try:
        return sa.make_url(text)
    except (ArgumentError, NoSuchModuleError, ValueError):
        scheme = text.split("://", 1)[0]
        scheme = scheme if re.fullmatch(r"[\w+.-]+", scheme) else "…"
        raise SourceError(
            "bad_url",
            f"The address '{scheme}://…' is not a database URL.",
            hint="Write dialect://user:password@host:port/database; characters such as @ or / in "
            "a password are written %40, %2F.",
        ) from None


def _absolute_url(source: str) -> str:
    """SQLite names a file, all others a server."""
    if (path := sqlite_path(source)) is not None:
        return f"sqlite:///{path.absolute()}"
    url = parse_url(source)
    if not url.drivername.startswith("sqlite") or not url.database or url.database == ":memory:":
        return source
    return url.set(database=str(Path(url.database).expanduser().absolute())).render_as_string(
        hide_password=False
    )


def safe_address(url: "URL") -> str:
    """The address as it may be shown: neither the password nor query values that look like
    secrets."""
    query = {
        k: v for k, v in url.query.items() if not any(word in k.lower() for word in SECRET_WORDS)
    }
    return url.set(query=query)._replace(password=None).render_as_string(hide_password=True)


def scrub(message: str, url: "URL") -> str:
    """A driver's message without any form of the secrets in the address."""
    secrets = [str(url.password)] if url.password else []
    for key, value in url.query.items():
        if any(word in key.lower() for word in SECRET_WORDS):
            secrets += [value] if isinstance(value, str) else list(value)
    # quote(s, safe=" +") is how SQLAlchemy writes a password into an address.
    forms = {
        form
        for s in secrets
        for form in (
            s,
            quote(s, safe=""),
            quote(s, safe=" +"),
            quote_plus(s),
            unquote(s),
            repr(s)[1:-1],
        )
    }
    for form in sorted(forms, key=len, reverse=True):
        if form:
            message = message.replace(form, "***")
    return message
