"""The loops of `pieces.py`, over B rows of F columns. A missing value has the piece -1."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gelgt.compiled import allocation_free

Floats = NDArray[np.float32]
Numbers = NDArray[np.int64]
LEAST = np.float32(1e-12)  # of a width that is divided by


@allocation_free
def find_pieces(
    values: Floats,
    edges: Floats,
    borders: Floats,
    piece_of: Numbers,
    place: Floats,
    piece: Numbers,
    share: Floats,
) -> None:
    """Where values lie among the quantiles of their columns.

    Args:
        values: (B, F), NaN where there is none.
        edges: (F, Q) ascending quantiles.
        borders: (F, P + 1) those between which pieces lie.
        piece_of: (Q + 1,) the piece of a value, by how many quantiles are not above it.
        place: (B, F) in [0, 1], written; 0.5 where there is no value, or all were alike.
        piece: (B, F) written; P above all of them.
        share: (B, F) how far each value is into its piece, written.
    """
    rows, columns = values.shape
    last, pieces = edges.shape[1] - 1, borders.shape[1] - 1
    for b in range(rows):
        for f in range(columns):
            x = values[b, f]
            if np.isnan(x):
                place[b, f], piece[b, f], share[b, f] = 0.5, -1, 0.0
                continue
            low = _first(edges[f], x, True)
            high = low
            if low <= last and edges[f, low] == x:
                high = _first(edges[f], x, False)
            if edges[f, 0] == edges[f, last]:
                place[b, f] = 0.5
            elif high > low:  # a value that many rows share lies in the middle of them
                place[b, f] = np.float32(low + high - 1) / 2 / np.float32(last)
            else:
                after = min(max(low, 1), last)
                inside = _share(x, edges[f, after - 1], edges[f, after])
                place[b, f] = (np.float32(after - 1) + inside) / np.float32(last)
            at = piece_of[high]
            piece[b, f] = at
            share[b, f] = _share(x, borders[f, at], borders[f, at + 1]) if at < pieces else 0.0


@allocation_free
def _first(edges: Floats, x: Any, is_equal_enough: bool) -> int:
    """The first edge above a value, or not below it."""
    low, high = 0, len(edges)
    while low < high:
        middle = (low + high) // 2
        if edges[middle] < x or (edges[middle] == x and not is_equal_enough):
            low = middle + 1
        else:
            high = middle
    return low


@allocation_free
def _share(x: Any, low: Any, high: Any) -> Any:
    """How far a value is between two others, between 0 and 1."""
    share = (x - low) / max(high - low, LEAST)
    return min(max(share, np.float32(0)), np.float32(1))


@allocation_free
def add_pieces(
    piece: Numbers,
    share: Floats,
    scaled: Floats,
    kept: Floats,
    below: Floats,
    pieces: Floats,
    of_scaled: Floats,
    of_missing: Floats,
    offset: Floats,
    numbers: Floats,
) -> None:
    """Write the numbers (B, F, E) of values, from (B, F) what is known of them and (F, …, E) what
    is learned; `below` holds the sums of the pieces below each."""
    rows, columns, width = numbers.shape
    most = pieces.shape[1] - 1
    for b in range(rows):
        for f in range(columns):
            at, factor = piece[b, f], kept[b, f]
            if at < 0:
                for e in range(width):
                    numbers[b, f, e] = factor * (of_missing[f, e] + offset[f, e])
                continue
            own, s, z = min(at, most), share[b, f], scaled[b, f]
            for e in range(width):
                total = below[f, at, e] + s * pieces[f, own, e] + z * of_scaled[f, e] + offset[f, e]
                numbers[b, f, e] = factor * total


@allocation_free
def add_slopes(
    piece: Numbers,
    share: Floats,
    scaled: Floats,
    kept: Floats,
    gradient: Floats,
    below: Floats,
    pieces: Floats,
    of_scaled: Floats,
    of_missing: Floats,
    offset: Floats,
) -> None:
    """Add the slopes of what is learned, from those of the numbers (B, F, E)."""
    rows, columns, width = gradient.shape
    most = pieces.shape[1] - 1
    for b in range(rows):
        for f in range(columns):
            at, factor = piece[b, f], kept[b, f]
            own, s, z = min(at, most), share[b, f], scaled[b, f]
            for e in range(width):
                slope = factor * gradient[b, f, e]
                offset[f, e] += slope
                if at < 0:
                    of_missing[f, e] += slope
                else:
                    below[f, at, e] += slope
                    pieces[f, own, e] += s * slope
                    of_scaled[f, e] += z * slope
