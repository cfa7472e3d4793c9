"""The one error family of gelgt.

A `GelgtError` is the user's to repair: its message names the table, column and offending values,
its hint names the repair, and its `code` is stable, so that scripts may rely on it. Anything else
that escapes is a bug.
"""

from collections.abc import Iterable
from difflib import get_close_matches


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
        self.message = message
        self.hint = hint
        super().__init__(f"{message} {hint}" if hint else message)

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


def some(values: Iterable[object], limit: int = 5) -> str:
    """The first few offending values, for a message."""
    listed = list(values)
    shown = ", ".join(repr(v) for v in listed[:limit])
    return shown + (", …" if len(listed) > limit else "")
