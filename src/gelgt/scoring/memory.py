"""Gives freed memory back to the system.

Batches differ in size, so that glibc's heap is left with holes that the next batch does not fit
into: without this, a million predictions on rel-f1 would hold many gigabytes that nobody uses.
"""

import ctypes
from functools import cache
from typing import Any


@cache
def _trim() -> Any:
    """glibc's `malloc_trim`; None on systems without it, whose allocators keep themselves in
    order."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None


def release_memory() -> None:
    """Return free pages to the system; a few milliseconds."""
    trim = _trim()
    if trim is not None:
        trim(0)
