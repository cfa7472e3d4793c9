"""Compiled loops that list events and find them in their lists. Imported when they run, because
importing numba takes longer than opening a graph."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gelgt.compiled import compiled

DAY = 86_400


@compiled
def by_owner(
    owner: NDArray[Any], row: NDArray[Any], starts: NDArray[np.int64]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Owners and rows of events owner by owner, each owner's in the given order: a counting
    sort."""
    owners, rows, cursor = np.empty_like(owner), np.empty_like(row), starts[:-1].copy()
    for place in range(len(owner)):
        target = cursor[owner[place]]
        owners[target], rows[target] = owner[place], row[place]
        cursor[owner[place]] = target + 1
    return owners, rows


@compiled
def sort_by_time(time: NDArray[np.int64], row: NDArray[Any], starts: NDArray[np.int64]) -> None:
    """Sort times and rows of each owner's events by time, in place; equal times keep their order.
    One owner at a time, so that what sorting needs is as long as one list."""
    for owner in range(len(starts) - 1):
        begin, end = starts[owner], starts[owner + 1]
        is_ascending = True  # the rows of most tables lie in the order of their times
        for i in range(begin + 1, end):
            is_ascending &= time[i] >= time[i - 1]
        if not is_ascending:
            order = np.argsort(time[begin:end], kind="mergesort")
            time[begin:end] = time[begin:end][order]
            row[begin:end] = row[begin:end][order]


@compiled
def listed_rows(
    indptr: NDArray[np.int64],
    indices: NDArray[Any],
    named: NDArray[Any],
    nodes: NDArray[np.int64],
    places: NDArray[np.int64],
    first_child: int,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """The rows of a table that name some nodes by a key, from the nodes' lists of neighbours:
    places (n,) and rows (n,), ascending within each place.

    Args:
        indptr: Of the graph.
        indices: Likewise.
        named: (rows,) the node that each row of the table names by the key.
        nodes: (m,) the nodes.
        places: (m,) the place of each, ascending.
        first_child: The node of the table's first row.
    """
    most = 0
    for i in range(len(nodes)):
        most += indptr[nodes[i] + 1] - indptr[nodes[i]]
    place, row = np.empty(most, indices.dtype), np.empty(most, indices.dtype)
    count = 0
    begin = 0  # of the rows of the present place
    for i in range(len(nodes)):
        if i and places[i] != places[i - 1]:
            count = begin = once_each(row, begin, count)
        # from the oldest to the newest, which mostly is the order of the rows
        for j in range(indptr[nodes[i] + 1] - 1, indptr[nodes[i]] - 1, -1):
            candidate = indices[j] - first_child
            if 0 <= candidate < len(named) and named[candidate] == nodes[i]:
                place[count], row[count] = places[i], candidate
                count += 1
    count = once_each(row, begin, count)
    return place[:count], row[:count]


@compiled
def once_each(values: NDArray[Any], start: int, stop: int) -> int:
    """Sort the values `start … stop` and keep each once; returns where they end. A row that names
    another by two keys is listed twice."""
    is_ascending = True
    for i in range(start + 1, stop):
        is_ascending &= values[i] > values[i - 1]
    if is_ascending:
        return stop
    values[start:stop].sort()
    end = start + 1
    for i in range(start + 1, stop):
        if values[i] != values[end - 1]:
            values[end] = values[i]
            end += 1
    return end


@compiled
def gather(
    values: NDArray[Any], rows: NDArray[Any], window: int, most: int, out: NDArray[Any]
) -> None:
    """Write the values of some rows, a window of the values after the other: where these lie in a
    file that memory does not hold, each part of it is read once. The row -1 leaves what is there.

    Args:
        values: (N,) of all rows.
        rows: (n,) numbers of rows.
        window: Values at a time.
        most: The largest row.
        out: (n,), written.
    """
    for begin in range(0, most + 1, window):
        end = begin + window
        for i in range(len(rows)):
            if begin <= rows[i] < end:
                out[i] = values[rows[i]]


@compiled
def first_of_days(time: NDArray[np.int64], starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The places of events before which nothing happened to their owner on the same day."""
    places, count = np.empty(len(time), np.int64), 0
    for owner in range(len(starts) - 1):
        for i in range(starts[owner], starts[owner + 1]):
            if i == starts[owner] or time[i] // DAY != time[i - 1] // DAY:
                places[count] = i
                count += 1
    return places[:count].copy()


@compiled
def first_from(
    times: NDArray[np.int64],
    first: NDArray[np.int64],
    last: NDArray[np.int64],
    moments: NDArray[np.int64],
) -> NDArray[np.int64]:
    """For each seed, the first position in `first … last` whose time is not before its moment;
    `last` where there is none."""
    places = np.empty(len(moments), np.int64)
    for s in range(len(moments)):
        low, high = first[s], last[s]
        while low < high:
            middle = (low + high) // 2
            if times[middle] < moments[s]:
                low = middle + 1
            else:
                high = middle
        places[s] = low
    return places
