"""How much memory training and prediction need, and giving freed memory back to the system.

Batches differ in size, so that glibc's heap is left with holes that the next batch does not fit
into: without this, a million predictions on rel-f1 would hold many gigabytes that nobody uses.
"""

import ctypes
from functools import cache
from typing import Any

from gelgt.sources.database import Database

# Estimates: libraries as measured by `gelgt bench scale`, the rest counted in the code.
_LIBRARIES = 700 << 20  # with models and batches of the preset cpu
_ROW = 28  # bytes for each row of the largest table: the events of one path, and values of them
_SEED = 1_500  # bytes for each seed: history columns, as they are computed and as trees bin them


def needed_memory(db: Database, seeds: int) -> int:
    """Bytes of memory, besides mapped files, that training on some seeds or predicting for them
    needs."""
    largest = max((db.num_rows(name) for name in db.table_names), default=0)
    return _LIBRARIES + _ROW * largest + _SEED * seeds


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
