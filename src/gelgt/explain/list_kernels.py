"""Compiled loops over lists of events of which each variant of a seed lacks some."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gelgt.compiled import compiled
from gelgt.explain.kernels import mixed_in
from gelgt.graph import NEVER, TIMELESS
from gelgt.history.kernels import (
    block_sums,
    first_from,
    sweep_codes,
    sweep_numbers,
    window_means,
)

DAY = 86_400


@compiled
def row_prints(kinds: NDArray[np.int64]) -> NDArray[np.uint64]:
    """A number of 64 bits for each row (n, K), the same for equal rows. That two others share one
    is less likely than a fault of the memory."""
    prints = np.zeros(len(kinds), np.uint64)
    for v in range(len(kinds)):
        value = np.uint64(0)
        for k in range(kinds.shape[1]):
            value = mixed_in(value, np.uint64(kinds[v, k]))
        prints[v] = value
    return prints


@compiled
def seen_lists(
    kinds: NDArray[np.int64],
    places: NDArray[np.int64],
    row: NDArray[np.int64],
    time: NDArray[np.int64],
    numbers: NDArray[np.int64],
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """The events that are there in each of m lists.

    Args:
        kinds: (m, K) the states of units in each list.
        places: (2, n) where the units of each event stand in it: its own, and that on the way.
        row: (n,) rows of the events.
        time: (n,) their times.
        numbers: The row that each stand-in is.

    Returns:
        Rows, times and read rows, list after list, and (m,) their lengths.
    """
    lists, count = len(kinds), len(row)
    lengths = np.zeros(lists, np.int64)
    rows = np.empty(lists * count, np.int64)
    times, read = np.empty_like(rows), np.empty_like(rows)
    at = 0
    for number in range(lists):
        begin = at
        for e in range(count):
            own, way = places[0, e], places[1, e]
            state = kinds[number, own] if own >= 0 else 1
            if state == 0 or (way >= 0 and kinds[number, way] == 0):
                continue
            rows[at], times[at] = row[e], time[e]
            read[at] = numbers[state - 2] if state >= 2 else row[e]
            at += 1
        lengths[number] = at - begin
    return rows[:at], times[:at], read[:at], lengths


@compiled
def gathered(
    array: NDArray[Any], extra: NDArray[Any], columns: NDArray[np.int64], rows: NDArray[np.int64]
) -> NDArray[Any]:
    """(n, C) some columns of rows (n,) of an array (R, …), and of an array of further rows (E, C)
    that are numbered from R on; anything for the row -1."""
    out, size = np.empty((len(rows), len(columns)), array.dtype), len(array)
    for i in range(len(rows)):
        for c in range(len(columns)):
            if rows[i] >= size:
                out[i, c] = extra[rows[i] - size, c]
            elif size:
                out[i, c] = array[max(rows[i], 0), columns[c]]
    return out


@compiled
def scattered(
    made: NDArray[np.float32],
    which: NDArray[np.int64],
    places: NDArray[np.int64],
    out: NDArray[np.float32],
) -> None:
    """Give every variant (V,) the columns (m, F) of its list, at their places in `out`."""
    for v in range(len(which)):
        for f in range(len(places)):
            out[v, places[f]] = made[which[v], f]


@compiled
def fill_times(
    times: NDArray[np.int64],
    bounds: NDArray[np.int64],
    since: NDArray[np.int64],
    reference: int,
    back: NDArray[np.int64],
    places: NDArray[np.int64],
    out: NDArray[np.float32],
) -> None:
    """Numbers and times of events over m lists (`SeedColumns.of_events`).

    Args:
        times: (N,) of the events, ascending in each list.
        bounds: (m + 1,) where each list begins.
        since: (windows, m) the first event of each list in the last windows.
        reference: The time from which ages are measured.
        back: (B,) which of the newest events have an age, 1 for the newest.
        places: (1 + windows + B + 3,) the column of `out` for the number of events, of those in the
            windows, for the ages, and for mean gap, last gap and overdue; -1 for none.
        out: (m, F), written.
    """
    windows, ages = len(since), len(back)
    mean_at, last_at, overdue_at = places[-3], places[-2], places[-1]
    for m in range(len(bounds) - 1):
        first, last = bounds[m], bounds[m + 1]
        count = last - first
        if places[0] >= 0:
            out[m, places[0]] = count
        for w in range(windows):
            if places[1 + w] >= 0:
                out[m, places[1 + w]] = last - since[w, m]
        for b in range(ages):
            if places[1 + windows + b] >= 0:
                out[m, places[1 + windows + b]] = (
                    _age(times[last - back[b]], reference) if count >= back[b] else np.nan
                )
        mean_gap, last_gap, overdue = np.nan, np.nan, np.nan
        if count > 1:
            mean_gap = (times[last - 1] - times[first]) / DAY / (count - 1)
            last_gap = (times[last - 1] - times[last - 2]) / DAY
            if mean_gap > 0:
                overdue = np.float32(_age(times[last - 1], reference)) / mean_gap
        if mean_at >= 0:
            out[m, mean_at] = mean_gap
        if last_at >= 0:
            out[m, last_at] = last_gap
        if overdue_at >= 0:
            out[m, overdue_at] = overdue


@compiled
def _age(time: int, reference: int) -> float:
    return np.nan if time in (NEVER, TIMELESS) else (reference - time) / DAY


@compiled
def firsts_since(
    times: NDArray[np.int64],
    bounds: NDArray[np.int64],
    moments: NDArray[np.int64],
    out: NDArray[np.int64],
) -> None:
    """(moments, m) the first event of each list that is not before a moment."""
    first, last = bounds[:-1].copy(), bounds[1:].copy()
    for w in range(len(moments)):
        out[w] = first_from(times, first, last, np.full(len(first), moments[w]))


@compiled
def fill_numbers(
    values: NDArray[Any],
    bounds: NDArray[np.int64],
    since: NDArray[np.int64],
    places: NDArray[np.int64],
    out: NDArray[np.float32],
) -> None:
    """Statistics of numerical columns over m lists.

    Args:
        values: (N, C) of the events.
        bounds: (m + 1,) where each list begins.
        since: (windows, m) the first event of each list in the last windows.
        places: (C, 9 + windows) the column of `out` for each statistic, -1 for none.
        out: (m, F), written.
    """
    first, last = bounds[:-1].copy(), bounds[1:].copy()
    order, windows = np.arange(len(first)), len(since)
    swept = np.empty((len(first), 9), np.float32)
    for c in range(values.shape[1]):
        column = values[:, c].copy()
        if places[c, :9].max() >= 0:
            sweep_numbers(column, first, last, order, swept)
            for s in range(9):
                if places[c, s] >= 0:
                    out[:, places[c, s]] = swept[:, s]
        if windows and places[c, 9:].max() >= 0:
            small = column.astype(np.float32)
            sums, counts = block_sums(small, bounds)
            for w in range(windows):
                if places[c, 9 + w] >= 0:
                    out[:, places[c, 9 + w]] = window_means(
                        small, sums, counts, first, since[w], last
                    )


@compiled
def fill_codes(
    codes: NDArray[Any],
    bounds: NDArray[np.int64],
    tops: NDArray[np.int64],
    places: NDArray[np.int64],
    out: NDArray[np.float32],
) -> None:
    """Shares of categories over m lists, and the newest.

    Args:
        codes: (N, C) of the events.
        bounds: (m + 1,) where each list begins.
        tops: (C,) categories of each column whose share is counted.
        places: (C, most + 1) the column of `out` for each share, and last for the newest code; -1
            for none.
        out: (m, F), written.
    """
    first, last = bounds[:-1].copy(), bounds[1:].copy()
    order = np.arange(len(first))
    for c in range(codes.shape[1]):
        swept = np.empty((len(first), tops[c] + 1), np.float32)
        sweep_codes(codes[:, c].copy(), first, last, order, swept)
        for k in range(tops[c]):
            if places[c, k] >= 0:
                out[:, places[c, k]] = swept[:, k]
        if places[c, -1] >= 0:
            out[:, places[c, -1]] = swept[:, tops[c]]
