"""Compiled loops over lists of events of which each variant of a seed lacks some."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gelgt.compiled import compiled
from gelgt.explain.kernels import weights
from gelgt.graph import NEVER
from gelgt.history.kernels import once_each, sort_by_time


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
