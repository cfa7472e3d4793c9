"""What a figure was measured on: every benchmark reports it beside its results."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

_PACKAGES = (
    "gelgt",
    "numpy",
    "pandas",
    "pyarrow",
    "duckdb",
    "numba",
    "torch",
    "triton",
    "pytorch-frame",
)


def machine() -> dict[str, Any]:
    """Processor, memory, platform and versions.

    Example:
        >>> sorted(machine())
        ['cores', 'cpu', 'memory_gib', 'platform', 'python', 'versions']
    """
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "memory_gib": _memory_gib(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: text for name in _PACKAGES if (text := _version(name))},
    }


def _cpu_model() -> str:
    """Linux names the model in /proc/cpuinfo only; `platform.processor` is empty there."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _memory_gib() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, ValueError, OSError):
        return None


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
