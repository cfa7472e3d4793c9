"""What the words of a command line mean: durations, times, choices, sizes, addresses."""

import re
import shlex
import sys
from collections.abc import Iterable

from gelgt.errors import GelgtError, did_you_mean, masked
from gelgt.storage.place import is_storage, safe_place

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def one_of(option: str, value: str, choices: Iterable[str]) -> str:
    """The value, if it is one of the choices of an option.

    Raises:
        GelgtError: ``bad_option``.
    """
    choices = tuple(choices)
    if value not in choices:
        raise GelgtError(
            "bad_option",
            f"{option} must be one of {', '.join(choices)}, got '{value}'.",
            hint=did_you_mean(value, choices),
        )
    return value


def check_visibility(value: str | None, *more: str) -> None:
    """Raises unless a regime is one of the two, or of `more`; None leaves it to the data."""
    if value is not None:
        one_of("--visibility", value, ("frozen", "seed-time", *more))


def seconds(text: str) -> float:
    """A duration as it is written after --time-limit.

    >>> seconds("90s"), seconds("10m"), seconds("1h30m")
    (90.0, 600.0, 5400.0)
    """
    parts = re.findall(r"(\d+(?:\.\d+)?)\s*([smhd])[a-z]*", text.lower())
    rest = re.sub(r"(\d+(?:\.\d+)?)\s*([smhd])[a-z]*", "", text.lower()).strip()
    total = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    if rest or total <= 0:
        raise GelgtError(
            "bad_duration",
            f"'{text}' is not a duration.",
            hint="Write a number and s, m, h or d, such as 90s, 10m or 1h30m.",
        )
    return total


def epoch_seconds(text: str, role: str) -> int:
    """A time as seconds since 1970; `role` names it in an error."""
    from gelgt.tasks.times import timestamp

    return int(timestamp(text, role).timestamp())


def sizes(text: str) -> list[int]:
    """
    >>> sizes("1400000,14e6")
    [1400000, 14000000]
    """
    try:
        return [int(float(part.replace("_", ""))) for part in text.split(",")]
    except (ValueError, OverflowError):
        raise GelgtError(
            "bad_size",
            f"'{text}' is not a list of sizes.",
            hint="Write numbers separated by commas, such as 1400000,14000000.",
        ) from None


def address_of(source: str) -> str:
    """The address of a source without its password.

    >>> address_of("postgresql://ann:secret@host/shop"), address_of("exports/")
    ('postgresql://ann@host/shop', 'exports/')
    """
    if "://" not in source or source.startswith(("hf://", "duckdb://")):
        return masked(source)  # a mistyped address is a path, with its password
    if is_storage(source):
        return safe_place(source)
    # imported here: SQLAlchemy is needed for SQL sources only
    from gelgt.sources.address import parse_url, safe_address

    return masked(safe_address(parse_url(source)))


def typed_command(source: str, address: str) -> str:
    """The command that the user typed, with the address of the source in its place."""
    return shlex.join(["gelgt", *(address if word == source else word for word in sys.argv[1:])])
