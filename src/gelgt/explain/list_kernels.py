"""Compiled loops over lists of events of which each variant of a seed lacks some."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gelgt.compiled import compiled
from gelgt.explain.kernels import weights
from gelgt.graph import NEVER, TIMELESS
from gelgt.history.kernels import (
    block_sums,
    first_from,
    once_each,
    sort_by_time,
    sweep_codes,
    sweep_numbers,
    window_means,
)

DAY = 86_400


class GraphLists(NamedTuple):
    """Lists of neighbours of a graph, and the times of its nodes."""

    indptr: Any
    indices: Any
    node_time: Any


class KeyLists(NamedTuple):
    """A foreign key: (R, keys) the nodes that the child's rows name, its place among them, and the
    first nodes of both tables."""

    named: Any
    place: Any
    first_child: Any
    first_parent: Any


@compiled
def row_prints(kinds: NDArray[np.int64]) -> NDArray[np.uint64]:
    """A number of 64 bits for each row (n, K), the same for equal rows, as `fingerprints`."""
    prints, weight = np.zeros(len(kinds), np.uint64), weights(kinds.shape[1], 4)
    for v in range(len(kinds)):
        value = np.uint64(0)
        for k in range(kinds.shape[1]):
            value += np.uint64(kinds[v, k]) * weight[k]
        prints[v] = value ^ (value >> np.uint64(32))
    return prints


@compiled
def read_children(
    graph: GraphLists, key: KeyLists, owners: NDArray[np.int64], limit: int
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """The rows that name some rows by a key, before a limit, by (owner, time, row): rows, times,
    and (O + 1,) where those of each owner begin. As `history.events.children`, for a few owners.

    Args:
        owners: (O,) rows of the key's parent.
    """
    most = 0
    for o in range(len(owners)):
        node = owners[o] + key.first_parent
        most += graph.indptr[node + 1] - graph.indptr[node]
    row, time = np.empty(most, np.int64), np.empty(most, np.int64)
    starts = np.zeros(len(owners) + 1, np.int64)
    count = 0
    for o in range(len(owners)):
        node, begin = owners[o] + key.first_parent, count
        # from the oldest to the newest, which mostly is the order of the rows
        for j in range(graph.indptr[node + 1] - 1, graph.indptr[node] - 1, -1):
            child = np.int64(graph.indices[j]) - key.first_child
            if 0 <= child < len(key.named) and key.named[child, key.place] == node:
                row[count] = child
                count += 1
        count = once_each(row, begin, count)
        end = begin
        for i in range(begin, count):
            moment = graph.node_time[row[i] + key.first_child]
            if moment < limit and moment != NEVER:
                row[end], time[end] = row[i], moment
                end += 1
        sort_by_time(time, row, np.array([begin, end]))
        count = end
        starts[o + 1] = end
    return row[:count], time[:count], starts


@compiled
def units_of(
    known: NDArray[Any], units: NDArray[np.int64], nodes: NDArray[np.int64], rest: int
) -> NDArray[np.int64]:
    """(n,) the unit of each node by the known ones, which ascend; `rest` for the others."""
    out = np.empty(len(nodes), np.int64)
    for i in range(len(nodes)):
        place = np.searchsorted(known, nodes[i])
        is_known = place < len(known) and known[place] == nodes[i]
        out[i] = units[place] if is_known else rest
    return out


@compiled
def shared_lists(
    state: NDArray[np.int64],
    owner: NDArray[np.int64],
    known: NDArray[np.int64],
    known_starts: NDArray[np.int64],
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Which variants see the same list of events.

    Args:
        state: (V, U) of the units.
        owner: (V,) whose events each variant looks at; -1 for nobody's.
        known: The units of each owner's events.
        known_starts: (O + 1,) where those of each owner begin.

    Returns:
        (V,) the list of each variant, and for each list a variant that sees it.
    """
    variants, slots = len(state), 8
    while slots < 2 * variants:
        slots *= 2
    keys, lists = np.zeros(slots, np.uint64), np.full(slots, -1, np.int64)
    which, first = np.empty(variants, np.int64), np.empty(variants, np.int64)
    weight, of_owner = weights(len(known), 5), weights(1, 6)[0]
    count = 0
    for v in range(variants):
        value = np.uint64(owner[v] + 1) * of_owner
        if owner[v] >= 0:
            for k in range(known_starts[owner[v]], known_starts[owner[v] + 1]):
                value += np.uint64(state[v, known[k]]) * weight[k]
        value ^= value >> np.uint64(32)
        slot = np.int64(value & np.uint64(slots - 1))
        while lists[slot] >= 0 and keys[slot] != value:
            slot = (slot + 1) & (slots - 1)
        if lists[slot] < 0:
            keys[slot], lists[slot], first[count] = value, count, v
            count += 1
        which[v] = lists[slot]
    return which, first[:count].copy()


@compiled
def seen_lists(
    state: NDArray[np.int64],
    owner: NDArray[np.int64],
    first: NDArray[np.int64],
    row: NDArray[np.int64],
    time: NDArray[np.int64],
    units: NDArray[np.int64],
    starts: NDArray[np.int64],
    numbers: NDArray[np.int64],
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """The events that are there in each of m lists.

    Args:
        state: (V, U) of the units.
        owner: (V,) whose events each variant looks at; -1 for nobody's.
        first: (m,) a variant that sees each list.
        row: (n,) rows of the events, owner after owner.
        time: (n,) their times.
        units: (2, n) units of their own rows, and of the rows on the way to them; -1 for none.
        starts: (O + 1,) where the events of each owner begin.
        numbers: The row that each stand-in is.

    Returns:
        Rows, times and read rows, list after list, and (m + 1,) where each list begins.
    """
    most = 0
    for v in first:
        if owner[v] >= 0:
            most += starts[owner[v] + 1] - starts[owner[v]]
    rows, bounds = np.empty(most, np.int64), np.zeros(len(first) + 1, np.int64)
    times, read = np.empty_like(rows), np.empty_like(rows)
    at = 0
    for number in range(len(first)):
        v = first[number]
        if owner[v] >= 0:
            for e in range(starts[owner[v]], starts[owner[v] + 1]):
                own, way = units[0, e], units[1, e]
                seen = state[v, own] if own >= 0 else 1
                if seen == 0 or (way >= 0 and state[v, way] == 0):
                    continue
                rows[at], times[at] = row[e], time[e]
                read[at] = numbers[seen - 2] if seen >= 2 else row[e]
                at += 1
        bounds[number + 1] = at
    return rows[:at], times[:at], read[:at], bounds


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
