"""Compiled loops that make history columns of rows, and of lists of events which variants of a seed
share. The numbers are those of `history/kernels.py`, summed in the same order; what no column of
the plan asks for is not computed."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gelgt.compiled import compiled
from gelgt.explain.event_kernels import (
    EventLists,
    Times,
    age_of,
    fill_events,
    first_since,
    give,
    of_days,
    windows_of,
)
from gelgt.history.kernels import LONGER, RECENT, sum_up

STATISTICS = 9  # of a number: `NUMBERS` of history/columns.py


class Table(NamedTuple):
    """Columns of one kind: (R, …) an array of the table, (E, …) that of its stand-ins, the columns
    (C,) of both that are read, and (C, …) the places of what is made of each, -1 for none."""

    array: Any
    further: Any
    columns: Any
    places: Any


class Tables(NamedTuple):
    """The columns of a table by kind, and (K,) how many categories of each are counted."""

    numbers: Any
    codes: Any
    times: Any
    tops: Any


@compiled
def fill_path(
    lists: EventLists,
    times: Times,
    tables: Tables,
    event_places: NDArray[np.int64],
    day_places: NDArray[np.int64],
    out: NDArray[np.float32],
) -> None:
    """Write the columns of one path for all variants, computed once for each list.

    Args:
        tables: Places of numbers: nine statistics, then the means of windows, then what `sum_up`
            says of the sums of windows. Of codes: shares of the first categories, and last the
            newest. Of times: the age of the newest.
        event_places: Of the number of events, of those in windows, of ages, and of mean gap, last
            gap and overdue; -1 for none.
        day_places: The same of the events of one day counted once.
        out: (V, F), written.
    """
    numbers, codes = tables.numbers, tables.codes
    windows, of_windows = len(times.mean_windows), len(times.median_windows) + 2
    sums = STATISTICS + windows  # where those of windows begin
    made = np.empty((len(lists.bounds) - 1, sums + of_windows), np.float32)
    since = np.empty((windows, len(made)), np.int64)
    if len(numbers.columns) and windows and numbers.places[:, STATISTICS:sums].max() >= 0:
        for w in range(windows):
            first_since(lists, times, times.mean_windows[w], since[w])
    whole, each = np.zeros(0, np.int64), np.zeros((0, 0), np.int64)
    if len(numbers.columns) and numbers.places[:, -of_windows:].max() >= 0:
        whole, each = windows_of(lists, times)
    for c in range(len(numbers.columns)):
        column, places = _column(numbers, c, lists.row), numbers.places[c]
        _sweep_numbers(column, lists, since, places[: len(places) - of_windows], made)
        if places[-of_windows:].max() >= 0:
            _sums_of_windows(column, lists, whole, each, times.median_windows, made[:, sums:])
        give(made[:, :sums], lists.which, places[: len(places) - of_windows], out)
        give(made[:, sums:], lists.which, places[-of_windows:], out)
    for c in range(len(codes.columns)):
        top = tables.tops[c]
        _sweep_codes(_column(codes, c, lists.row), lists, top, made)
        give(made[:, :top], lists.which, codes.places[c, :top], out)
        give(made[:, top : top + 1], lists.which, codes.places[c, -1:], out)
    for c in range(len(tables.times.columns)):
        column = _column(tables.times, c, lists.row)
        for m in range(len(made)):
            first, last = lists.bounds[m], lists.bounds[m + 1]
            is_there = last > first
            made[m, 0] = (
                age_of(column[lists.read[last - 1]], times.reference) if is_there else np.nan
            )
        give(made[:, :1], lists.which, tables.times.places[c], out)
    if event_places.max() >= 0:
        fill_events(lists, times, event_places, out)
    if day_places.max() >= 0:
        fill_events(of_days(lists), times, day_places, out)


@compiled
def fill_rows(
    rows: NDArray[np.int64],
    read: NDArray[np.int64],
    moments: NDArray[np.int64],
    reference: int,
    tables: Tables,
    own: NDArray[np.int64],
    out: NDArray[np.float32],
) -> None:
    """Write the columns of one row for each variant.

    Args:
        rows: (V,) rows of a table, -1 for none.
        read: (V,) the rows whose columns are read; from R on, stand-ins.
        moments: (R,) the times of the table's rows.
        reference: The time from which ages are measured.
        tables: Each column has one place; a category others for whether it is a certain one.
        own: (1,) the place of the row's own age, -1 for none.
        out: (V, F), written.
    """
    numbers, codes, times = tables.numbers, tables.codes, tables.times
    for v in range(len(rows)):
        if own[0] >= 0:
            out[v, own[0]] = age_of(moments[rows[v]], reference) if rows[v] >= 0 else np.nan
        for c in range(len(numbers.columns)):
            is_there = read[v] >= 0
            out[v, numbers.places[c, 0]] = _cell(numbers, c, read[v]) if is_there else np.nan
        for c in range(len(codes.columns)):
            code = _cell(codes, c, read[v]) if read[v] >= 0 else -1
            for k in range(codes.places.shape[1]):
                if codes.places[c, k] >= 0:
                    made = code if k == 0 else int(code == k - 1)
                    out[v, codes.places[c, k]] = made if code >= 0 else np.nan
        for c in range(len(times.columns)):
            is_there = read[v] >= 0
            age = age_of(_cell(times, c, read[v]), reference) if is_there else np.nan
            out[v, times.places[c, 0]] = age


@compiled
def _sweep_numbers(
    column: NDArray[Any],
    lists: EventLists,
    since: NDArray[np.int64],
    places: NDArray[np.int64],
    made: NDArray[np.float32],
) -> None:
    """What `sweep_numbers` and `window_means` make of a column, for each list.

    Args:
        column: (n + E,) values of events and stand-ins.
        since: (W, m) the first event of each list in the last windows, of which each is longer than
            the one before.
        places: (9 + W,) -1 for what nobody reads, which may stay unwritten.
        made: (m, 9 + W), written.
    """
    read, windows = lists.read, len(since)
    has_windows = windows > 0 and places[STATISTICS:].max() >= 0
    has_deviation, is_swept = places[3] >= 0, has_windows or places[:4].max() >= 0
    totals, counts = np.zeros(windows), np.zeros(windows, np.int64)
    for m in range(len(made)):
        first, last = lists.bounds[m], lists.bounds[m + 1]
        at, count, total, low, high = first, 0, 0.0, np.inf, -np.inf
        mean, squares = 0.0, 0.0
        for w in range(windows if has_windows else 0, -1, -1):
            end = since[w - 1, m] if w else last
            for i in range(at, end if is_swept else at):
                value = column[read[i]]
                if not np.isnan(value):
                    count += 1
                    total += value
                    low, high = min(low, value), max(high, value)
                    if has_deviation:
                        step = value - mean
                        mean += step / count
                        squares += step * (value - mean)
            at = max(at, end)
            if w:
                totals[w - 1], counts[w - 1] = total, count
        made[m, 0] = total / count if count else np.nan
        made[m, 1] = low if count else np.nan
        made[m, 2] = high if count else np.nan
        made[m, 3] = np.sqrt(squares / (count - 1)) if count > 1 else np.nan
        if places[4] >= 0:
            made[m, 4] = _mean_of_newest(column, read, first, last, RECENT)
        if places[5] >= 0:
            made[m, 5] = _mean_of_newest(column, read, first, last, LONGER)
        for back in range(3):
            there = last - 1 - back
            made[m, 6 + back] = column[read[there]] if there >= first else np.nan
        for w in range(windows if has_windows else 0):
            inside = count - counts[w]
            made[m, STATISTICS + w] = (total - totals[w]) / inside if inside else np.nan


@compiled
def _sums_of_windows(
    column: NDArray[Any],
    lists: EventLists,
    whole: NDArray[np.int64],
    since: NDArray[np.int64],
    sizes: NDArray[np.int64],
    made: NDArray[np.float32],
) -> None:
    """What `sums_of_windows` makes of a column, for each list.

    Args:
        column: (n + E,) values of events and stand-ins.
        whole, since: As `windows_of` gives them.
        made: (m, M + 2), written.
    """
    held, row = np.empty(len(since), np.float64), np.empty(len(sizes) + 2, np.float64)
    for m in range(len(made)):
        made[m] = np.nan
        at, total = lists.bounds[m], 0.0
        for w in range(whole[m], -1, -1):  # the sum before each window, from the oldest on
            end = since[w - 1, m] if w else lists.bounds[m + 1]
            before = total
            for i in range(at, end):
                value = column[lists.read[i]]
                if not np.isnan(value):
                    total += value
            at = max(at, end)
            if w < whole[m]:
                held[w] = total - before
        if whole[m]:
            sum_up(held, since[:, m], whole[m], sizes, row)
            made[m] = row


@compiled
def _mean_of_newest(
    column: NDArray[Any], read: NDArray[np.int64], first: int, last: int, most: int
) -> float:
    total, count = 0.0, 0
    for i in range(max(first, last - most), last):
        value = column[read[i]]
        if not np.isnan(value):
            total += value
            count += 1
    return total / count if count else np.nan


@compiled
def _sweep_codes(
    column: NDArray[Any], lists: EventLists, most: int, made: NDArray[np.float32]
) -> None:
    """The shares of the codes 0 … most - 1 in each list, then the newest code."""
    counts = np.zeros(most, np.int64)
    for m in range(len(made)):
        first, last = lists.bounds[m], lists.bounds[m + 1]
        counts[:] = 0
        for i in range(first, last):
            code = column[lists.read[i]]
            if 0 <= code < most:
                counts[code] += 1
        for k in range(most):
            made[m, k] = counts[k] / (last - first) if last > first else np.nan
        newest = column[lists.read[last - 1]] if last > first else -1
        made[m, most] = newest if newest >= 0 else np.nan


@compiled
def _column(table: Table, c: int, rows: NDArray[np.int64]) -> NDArray[Any]:
    """(n + E,) a column of some rows, and of all stand-ins of their table."""
    array, further, column = table.array, table.further, table.columns[c]
    out = np.empty(len(rows) + len(further), array.dtype)
    for i in range(len(rows)):
        out[i] = array[rows[i], column]
    for i in range(len(further)):
        out[len(rows) + i] = further[i, column]
    return out


@compiled
def _cell(table: Table, c: int, row: int) -> Any:
    size, column = len(table.array), table.columns[c]
    return table.array[row, column] if row < size else table.further[row - size, column]
