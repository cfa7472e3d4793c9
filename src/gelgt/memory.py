"""How much memory this process may use, and what to say when work needs more.

`GELGT_MEMORY` (such as 4GiB) replaces what the system says.
"""

import os
import re
from pathlib import Path

from gelgt.errors import GelgtError

VARIABLE = "GELGT_MEMORY"
_CGROUPS = Path("/sys/fs/cgroup")
_UNITS = "KMGT"


def byte_count(text: str) -> int:
    """An amount of memory in bytes.

    >>> byte_count("2GiB"), byte_count("512MiB")
    (2147483648, 536870912)
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT])i?B?", text.strip(), re.IGNORECASE)
    if match is None or float(match[1]) == 0:
        raise GelgtError(
            "bad_size",
            f"'{text}' is not an amount of memory.",
            hint="Write a number and MiB or GiB, such as 512MiB or 2GiB.",
        )
    return int(float(match[1]) * 2 ** (10 * (_UNITS.index(match[2].upper()) + 1)))


def available_memory() -> int | None:
    """Bytes that this process may hold: what it holds already, and what the machine has free and
    its memory cgroups leave; None where the system does not say."""
    if os.environ.get(VARIABLE):
        return byte_count(os.environ[VARIABLE])
    left = [amount for amount in (_machine(), *_cgroups()) if amount is not None]
    return min(left) + (_number("/proc/self/status", "RssAnon:") or 0) if left else None


def check_memory(needed: int, work: str) -> None:
    """Refuse work that needs more memory than there is.

    Raises:
        GelgtError: ``too_little_memory``.
    """
    available = available_memory()
    if available is not None and available < needed:
        raise GelgtError(
            "too_little_memory",
            f"{work} needs about {needed / 2**30:.1f} GiB of memory; "
            f"{available / 2**30:.1f} GiB are available.",
            hint="Free memory or use a larger machine; to try it all the same, set "
            f"{VARIABLE}={needed / 2**30 + 0.1:.1f}GiB.",
        )


def too_little_memory(work: str, reason: str) -> GelgtError:
    """The error of work that ran out of the memory that it was given."""
    available = available_memory()
    amount = "" if available is None else f" of the {available / 2**30:.1f} GiB available"
    return GelgtError(
        "too_little_memory",
        f"{work} ran out of its share{amount}: {reason.splitlines()[0]}",
        hint=f"Free memory, or set {VARIABLE} to what may be used, such as {VARIABLE}=4GiB.",
    )


def _machine() -> int | None:
    return _number("/proc/meminfo", "MemAvailable:")


def _number(file: str, name: str) -> int | None:
    """A number of kilobytes in a file of the system, in bytes."""
    try:
        lines = Path(file).read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(name)), None)


def _cgroups() -> list[int | None]:
    """What the cgroup of this process, and those above it, leave."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    names = {name: path for _, name, path in (line.split(":", 2) for line in lines)}
    is_first = any("memory" in name.split(",") for name in names)
    inside = next(p for n, p in names.items() if "memory" in n.split(",")) if is_first else ""
    base = _CGROUPS / "memory" if is_first else _CGROUPS
    inside = inside or names.get("", "/")
    files = (
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_")
        if is_first
        else ("memory.max", "memory.current", "")
    )
    folder = base / inside.lstrip("/")
    return [_left(f, *files) for f in (folder, *folder.parents) if f.is_relative_to(base)]


def _left(folder: Path, limit: str, usage: str, prefix: str) -> int | None:
    """Bytes that one cgroup leaves; its file pages can be given back."""
    try:
        most, used = (folder / limit).read_text().strip(), (folder / usage).read_text()
        stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):
        return None
    if not most.isdigit():  # max
        return None
    cached = sum(int(stat.get(f"{prefix}{kind}_file", 0)) for kind in ("inactive", "active"))
    return max(0, int(most) - int(used) + cached)
