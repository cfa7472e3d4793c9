"""Compiled loops that make history columns of lists of events which variants of a seed share. The
sums are those of `history/kernels.py`, in the same order."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gelgt.compiled import compiled
from gelgt.graph import NEVER, TIMELESS
from gelgt.history.kernels import (
    block_sums,
    first_from,
    sweep_codes,
    sweep_numbers,
    window_means,
)

DAY = 86_400


class Lists(NamedTuple):
    """m lists of events as variants share them: (N,) times and read rows, (m + 1,) where each list
    begins, and (V,) the list of each variant."""

    time: Any
    read: Any
    bounds: Any
    which: Any


class Times(NamedTuple):
    """The time from which ages are measured, seconds of a window, and over how many windows means
    are taken and events are counted; which of the newest events have an age."""

    reference: Any
    window: Any
    mean_windows: Any
    count_windows: Any
    back: Any


class Table(NamedTuple):
    """Columns of one kind: (R, …) an array of the table, (E, …) that of its stand-ins, the columns
    (C,) of both that are read, and (C, …) the places of what is made of each, -1 for none."""

    array: Any
    further: Any
    columns: Any
    places: Any


@compiled
def fill_path(
    lists: Lists,
    times: Times,
    numbers: Table,
    codes: Table,
    tops: NDArray[np.int64],
    event_places: NDArray[np.int64],
    out: NDArray[np.float32],
) -> None:
    """Write the columns of one path for all variants, computed once for each list.

    Args:
        numbers: Places: nine statistics (`sweep_numbers`), then the means of windows.
        codes: Places: shares of the first categories, and last the newest.
        tops: (C,) categories of each column whose share is counted.
        event_places: Of the number of events, of those in windows, of ages, and of mean gap, last
            gap and overdue; empty for none.
        out: (V, F), written.
    """
    first, last = lists.bounds[:-1].copy(), lists.bounds[1:].copy()
    order, made = np.arange(len(first)), np.empty(len(first), np.float32)
    since = np.empty((len(times.mean_windows), len(first)), np.int64)
    for w in range(len(times.mean_windows)):
        since[w] = _since(lists, times, times.mean_windows[w], first, last)
    swept = np.empty((len(first), 9), np.float32)
    for c in range(len(numbers.columns)):
        column, places = _gathered(numbers, c, lists.read), numbers.places[c]
        if places[:9].max() >= 0:
            sweep_numbers(column, first, last, order, swept)
            for s in range(9):
                _give(swept[:, s], lists.which, places[s], out)
        if len(since) and places[9:].max() >= 0:
            small = column.astype(np.float32)
            sums, counts = block_sums(small, lists.bounds)
            for w in range(len(since)):
                if places[9 + w] >= 0:
                    means = window_means(small, sums, counts, first, since[w], last)
                    _give(means, lists.which, places[9 + w], out)
    for c in range(len(codes.columns)):
        shares = np.empty((len(first), tops[c] + 1), np.float32)
        sweep_codes(_gathered(codes, c, lists.read), first, last, order, shares)
        for k in range(tops[c]):
            _give(shares[:, k], lists.which, codes.places[c, k], out)
        _give(shares[:, tops[c]], lists.which, codes.places[c, -1], out)
    if len(event_places) and event_places.max() >= 0:
        _fill_events(lists, times, first, last, event_places, made, out)


@compiled
def _fill_events(
    lists: Lists,
    times: Times,
    first: NDArray[np.int64],
    last: NDArray[np.int64],
    places: NDArray[np.int64],
    made: NDArray[np.float32],
    out: NDArray[np.float32],
) -> None:
    """Numbers and times of events, as `SeedColumns.of_events` has them."""
    count, at = last - first, 1
    made[:] = count
    _give(made, lists.which, places[0], out)
    for w in range(len(times.count_windows)):
        if places[at] >= 0:
            made[:] = last - _since(lists, times, times.count_windows[w], first, last)
            _give(made, lists.which, places[at], out)
        at += 1
    for b in range(len(times.back)):
        if places[at] >= 0:
            back = times.back[b]
            for m in range(len(first)):
                is_there = count[m] >= back
                made[m] = _age(lists.time[last[m] - back], times.reference) if is_there else np.nan
            _give(made, lists.which, places[at], out)
        at += 1
    for what in range(3):  # mean gap, last gap, overdue
        if places[at + what] < 0:
            continue
        for m in range(len(first)):
            made[m] = np.nan
            if count[m] > 1:
                newest, oldest = lists.time[last[m] - 1], lists.time[first[m]]
                mean_gap = (newest - oldest) / DAY / (count[m] - 1)
                if what == 0:
                    made[m] = mean_gap
                elif what == 1:
                    made[m] = (newest - lists.time[last[m] - 2]) / DAY
                elif mean_gap > 0:
                    made[m] = np.float32(_age(newest, times.reference)) / mean_gap
        _give(made, lists.which, places[at + what], out)


@compiled
def _gathered(table: Table, c: int, rows: NDArray[np.int64]) -> NDArray[Any]:
    """(n,) a column of rows and stand-ins, which are numbered from R on."""
    array, further, column = table.array, table.further, table.columns[c]
    out, size = np.empty(len(rows), array.dtype), len(array)
    for i in range(len(rows)):
        row = rows[i]
        out[i] = array[row, column] if row < size else further[row - size, column]
    return out


@compiled
def _since(
    lists: Lists,
    times: Times,
    windows: int,
    first: NDArray[np.int64],
    last: NDArray[np.int64],
) -> NDArray[np.int64]:
    """(m,) the first event of each list in the last windows."""
    moment = times.reference - windows * times.window
    return first_from(lists.time, first, last, np.full(len(first), moment))


@compiled
def _give(
    made: NDArray[np.float32], which: NDArray[np.int64], place: int, out: NDArray[np.float32]
) -> None:
    """Give every variant the value of its list."""
    if place >= 0:
        for v in range(len(which)):
            out[v, place] = made[which[v]]


@compiled
def _age(time: int, reference: int) -> float:
    return np.nan if time in (NEVER, TIMELESS) else (reference - time) / DAY
