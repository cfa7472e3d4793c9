"""The one error family of gelgt.

A `GelgtError` is the user's to repair: its message names the table, column and offending values,
its hint names the repair, and its `code` is stable, so that scripts may rely on it. Anything else
that escapes is a bug. Secrets are hidden in whatever it says, even where somebody gives an address
with a password in the place of something else.
"""

import re
from collections.abc import Iterable
from difflib import get_close_matches

# Parts of the names of options in an address whose values are secrets.
SECRET_WORDS = (
    "password",
    "passwd",
    "pwd",
    "passphrase",
    "secret",
    "token",
    "credential",
    "authorization",
    "private_key",
    "privatekey",
    "access_key",
    "account_key",
    "api_key",
    "apikey",
    "sslkey",
    "signature",
)
# A password may hold anything but spaces, @ and / included. A path has one slash behind its scheme.
_PASSWORD = re.compile(r"(\b[a-zA-Z][\w+.-]+:/{1,3}[^\s/@:]*):(?!password@)\S+@")
# Where the address is mistyped, and what is left of it a path or the name of a database.
_MISTYPED = re.compile(r"([^\s/:@])(?::|%3A)(?!/|password@)[^\s:@]+(?:@|%40)", re.IGNORECASE)
_OPTION = re.compile(
    rf"([?&](?:[\w.-]*(?:{'|'.join(SECRET_WORDS)})[\w.-]*|sig)=)[^&\s]+", re.IGNORECASE
)


def masked(text: str) -> str:
    """A text without the passwords and tokens of addresses in it.

    Example:
        >>> masked("There is no postgresql:/me:hunter2@host/db?sslpassword=x&sslmode=require")
        'There is no postgresql:/me:***@host/db?sslpassword=***&sslmode=require'
    """
    if "@" not in text and "%40" not in text and "=" not in text:
        return text
    text = _MISTYPED.sub(r"\1:***@", _PASSWORD.sub(r"\1:***@", text))
    return _OPTION.sub(r"\1***", text)


class GelgtError(Exception):
    """A problem that the user can repair.

    Args:
        code: Stable identifier, such as ``"duplicate_key"``.
        message: What is wrong and where: table, column, offending values.
        hint: What to do about it.

    Example:
        >>> hint = "Did you mean 'orders'?"
        >>> error = GelgtError("unknown_table", "There is no table 'oders'.", hint=hint)
        >>> error.code
        'unknown_table'
        >>> print(error)
        There is no table 'oders'. Did you mean 'orders'?
    """

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        self.code = code
        self.message = masked(message)
        self.hint = masked(hint)
        super().__init__(f"{self.message} {self.hint}" if hint else self.message)

    def to_dict(self) -> dict[str, str]:
        """The shape that ``--json`` prints under ``error``."""
        return {"code": self.code, "message": self.message, "hint": self.hint}


class SourceError(GelgtError):
    """A source that cannot be opened or read."""


class SchemaError(GelgtError):
    """Keys, times or columns that do not fit together."""


class TaskError(GelgtError):
    """A task that cannot be understood or has no labels."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint that names the closest known word, or lists what there is."""
    name, known = str(name), [str(k) for k in known]
    lowered = {k.lower(): k for k in reversed(known)}
    close = get_close_matches(name.lower(), list(lowered), n=1, cutoff=0.6)
    if close:
        return f"Did you mean '{lowered[close[0]]}'?"
    if not known:
        return "There are none."
    shown = ", ".join(repr(k) for k in known[:12])
    return f"There {'is' if len(known) == 1 else 'are'}: {shown}{', …' if len(known) > 12 else ''}."


def in_schema(table: str, entry: str) -> str:
    """Where a user states something about a table, whatever the source: the end of a hint.

    >>> in_schema("orders", "time_col: …")
    'in a file for --schema (Python: schema=): orders: {time_col: …}'
    """
    name = table if table.isidentifier() else f'"{table}"'
    return f"in a file for --schema (Python: schema=): {name}: {{{entry}}}"


def some(values: Iterable[object], limit: int = 5) -> str:
    """The first few offending values, for a message."""
    listed = list(values)
    shown = ", ".join(repr(v) for v in listed[:limit])
    return shown + (", …" if len(listed) > limit else "")
