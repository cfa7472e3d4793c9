"""Compiled loops of packing."""

from collections.abc import Callable
from typing import Any, TypeVar

import numba

Function = TypeVar("Function", bound=Callable[..., Any])
compiled: Callable[[Function], Function] = numba.njit(cache=True, nogil=True)


@compiled
def find_distinct(node: Any, table: Any, place: Any, counts: Any, keys: Any, places: Any) -> None:
    """Number the distinct nodes of each table in the order in which they are met."""
    last = len(keys) - 1
    for i in range(len(node)):
        slot = (node[i] * 2654435761) & last
        while keys[slot] >= 0 and keys[slot] != node[i]:
            slot = (slot + 1) & last
        if keys[slot] < 0:
            keys[slot] = node[i]
            places[slot] = counts[table[i]]
            counts[table[i]] += 1
        place[i] = places[slot]


@compiled
def fill_rows(
    offsets: Any, node: Any, table: Any, place: Any, stacked: Any, bases: Any, first: Any,
    subgraph: Any, source: Any, used: Any, used_starts: Any, cells: Any,
) -> None:  # fmt: skip
    """Subgraphs of rows, their places in the stack of distinct rows, and for each of those the rows
    that use it."""
    for b in range(len(offsets) - 1):
        for i in range(offsets[b], offsets[b + 1]):
            subgraph[i] = b
            t = table[i]
            source[i] = stacked[t] + place[i]
            cells[bases[t] + place[i]] = node[i] - first[t]
            used_starts[source[i] + 1] += 1
    for s in range(len(used_starts) - 1):
        used_starts[s + 1] += used_starts[s]
    # backwards, with the ends counting down, so that equal sources keep their order
    for i in range(len(node) - 1, -1, -1):
        used_starts[source[i] + 1] -= 1
        used[used_starts[source[i] + 1]] = i
    # Counting down left each end at its own start: the starts lie one place too late.
    for s in range(len(used_starts) - 1):
        used_starts[s] = used_starts[s + 1]
    used_starts[len(used_starts) - 1] = len(node)


@compiled
def fill_messages(
    child: Any, parent: Any, relation: Any, rows: int, groups: int, ends: Any, scratch: Any,
    starts: Any, row: Any, other: Any, run_start: Any, run_end: Any, reverse: Any,
) -> None:  # fmt: skip
    """Messages sorted by their row, then by group; message 2e goes to the parent of edge e, 2e + 1
    to its child.

    A run is the messages of one row and one group, which are averaged together.
    """
    count = 2 * len(child)
    by_group, group, place = scratch[0], scratch[1], scratch[2]
    for m in range(count):
        group[m] = 2 * relation[m >> 1] + (m & 1) if groups > 1 else 0
        ends[group[m] + 1] += 1
    for g in range(groups):
        ends[g + 1] += ends[g]
    for m in range(count):
        by_group[ends[group[m]]] = m
        ends[group[m]] += 1
    for m in range(count):
        own = child[m >> 1] if m & 1 else parent[m >> 1]
        starts[own + 1] += 1
    for r in range(len(starts) - 1):
        starts[r + 1] += starts[r]
    for k in range(count):  # starts[r] walks to the end of row r
        m = by_group[k]
        e = m >> 1
        own, far = (child[e], parent[e]) if m & 1 else (parent[e], child[e])
        at = starts[own]
        starts[own] = at + 1
        row[at], other[at], place[m] = own, far, at
        run_start[at] = group[m]  # for a moment
    for r in range(len(starts) - 1, 0, -1):
        starts[r] = starts[r - 1]
    starts[0] = 0
    for m in range(count):
        reverse[place[m]] = place[m ^ 1]
    at = 0
    while at < count:
        stop = at + 1
        while stop < count and row[stop] == row[at] and run_start[stop] == run_start[at]:
            stop += 1
        for k in range(at, stop):
            run_end[k] = stop
        at = stop
    at = 0
    while at < count:
        stop = run_end[at]
        for k in range(at, stop):
            run_start[k] = at
        at = stop
