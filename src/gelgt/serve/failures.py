"""Errors as responses: the codes and hints of the command line, without a traceback, a path or a
password."""

import re
from pathlib import Path
from typing import Any

from gelgt.errors import GelgtError
from gelgt.serve.batching import BusyError

STATUS = {
    "bad_request": 400,
    "unauthorized": 401,
    "wrong_host": 403,
    "not_found": 404,
    "unknown_keys": 404,
    "wrong_method": 405,
    "too_slow_request": 408,
    "too_large": 413,
    "too_many_rows": 413,
    "wrong_media_type": 415,
    "busy": 429,
    "bug": 500,
    "closing": 503,
    "too_slow": 504,
}
OTHER = 422  # understood, and cannot be done
# An absolute path of this machine (no path of the server), or an address of a source, maybe with a
# password.
_PATH = re.compile(r"(?<![\w/.:])(?!/v1/)(?:[A-Za-z]:)?[/\\](?:[\w.@+~-]+[/\\])+[\w.@+~-]*")
_ADDRESS = re.compile(r"\b(?!https?:)[a-z][a-z0-9+]*://\S+")


def status_of(error: GelgtError) -> int:
    return STATUS.get(error.code, OTHER)


def body_of(error: GelgtError) -> dict[str, Any]:
    """What a client is told."""
    return {
        "error": {
            "code": error.code,
            "message": without_paths(error.message),
            "hint": without_paths(error.hint),
        }
    }


def headers_of(error: GelgtError) -> dict[str, str]:
    if isinstance(error, BusyError):
        return {"Retry-After": str(error.seconds)}
    if error.code == "unauthorized":
        return {"WWW-Authenticate": "Bearer"}
    return {}


def without_paths(text: str) -> str:
    """A message without what only this machine knows: of a path its last name is left.

    >>> without_paths("The run /data/runs/churn has no intervals.json.")
    'The run churn has no intervals.json.'
    >>> without_paths("postgresql://me:secret@db/shop cannot be reached.")
    'the source cannot be reached.'
    >>> without_paths("Ask /v1/predictions.")
    'Ask /v1/predictions.'
    """
    text = _ADDRESS.sub("the source", text)
    return _PATH.sub(lambda found: Path(found.group()).name or "a folder", text)


BUG = GelgtError(
    "bug",
    "The server failed to answer: a bug in gelgt.",
    hint="Its log says more; please report it.",
)
