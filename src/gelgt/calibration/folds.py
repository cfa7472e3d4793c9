"""Folds over entities, because rows of one entity are alike; and over time, because the next period
differs from this one."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

FOLDS = 5
LEAST = 50  # rows from which anything is chosen by folds
# a random odd number: keys that count up do not fall into folds in step with their order
_MIX = np.uint64(0x9E3779B97F4A7C15)


def folds(entity: NDArray[Any]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Places of the rows to learn from, and of those held out, for each fold that has both.

    Args:
        entity: (S,) whole numbers that identify entities. A row's fold depends on its own number
            alone, so that other rows never move it.
    """
    with np.errstate(over="ignore"):
        mixed = (entity.astype(np.uint64) * _MIX) >> np.uint64(33)
    yield from _folds(mixed % np.uint64(FOLDS))


def time_folds(times: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """The same with neighbouring seed times held out together; none for a single seed time."""
    distinct, place = np.unique(times, return_inverse=True)
    yield from _folds(place * min(FOLDS, len(distinct)) // max(1, len(distinct)))


def _folds(fold: NDArray[Any]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    for number in range(FOLDS):
        held_out, learned = np.flatnonzero(fold == number), np.flatnonzero(fold != number)
        if len(held_out) and len(learned):
            yield learned, held_out
