"""Compiled loops over lists of events of which each variant of a seed lacks some."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gelgt.compiled import compiled
from gelgt.explain.kernels import weights
from gelgt.graph import NEVER
from gelgt.history.event_kernels import once_each, sort_by_time


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


class UnitLists(NamedTuple):
    """The nodes of units, ascending, the unit of each, and the unit of all other nodes."""

    nodes: Any
    units: Any
    rest: Any


class Known(NamedTuple):
    """The units that events depend on: (2, n) of their own rows, and of the rows on the way to
    them, -1 for none; those of each owner's events, each once, and (O + 1,) where these begin."""

    units: Any
    each: Any
    starts: Any


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
def unit_of(units: UnitLists, node: Any) -> Any:
    """The unit of a node."""
    place = np.searchsorted(units.nodes, node)
    is_known = place < len(units.nodes) and units.nodes[place] == node
    return units.units[place] if is_known else units.rest


@compiled
def units_of(units: UnitLists, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
    """(n,) the units of some nodes."""
    out = np.empty(len(nodes), np.int64)
    for i in range(len(nodes)):
        out[i] = unit_of(units, nodes[i])
    return out


@compiled
def known_units(
    nodes: NDArray[np.int64],
    ways: NDArray[np.int64],
    starts: NDArray[np.int64],
    own: UnitLists,
    way: UnitLists,
    size: int,
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """The units that events depend on, as `Known` has them.

    Args:
        nodes: (n,) of the events' own rows.
        ways: (n,) of the rows on the way to them; empty on paths of one step.
        starts: (O + 1,) where the events of each owner begin.
        own: The units of nodes.
        way: The units of ways.
        size: Units in all.
    """
    units = np.full((2, len(nodes)), -1, np.int64)
    each, each_starts = np.empty(2 * len(nodes), np.int64), np.zeros(len(starts), np.int64)
    owner_of = np.full(size, -1, np.int64)  # for which a unit was last seen
    count = 0
    for owner in range(len(starts) - 1):
        for e in range(starts[owner], starts[owner + 1]):
            units[0, e] = unit_of(own, nodes[e])
            if len(ways):
                units[1, e] = unit_of(way, ways[e])
            for unit in units[:, e]:
                if unit >= 0 and owner_of[unit] != owner:
                    owner_of[unit] = owner
                    each[count] = unit
                    count += 1
        each_starts[owner + 1] = count
    return units, each[:count].copy(), each_starts


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
    known: Known,
    row: NDArray[np.int64],
    starts: NDArray[np.int64],
    stand_ins: NDArray[np.int64],
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """The events that each variant sees, variants that see the same together.

    Args:
        state: (V, U) of the units.
        owner: (V,) whose events each variant looks at; -1 for nobody's.
        known: The units that the events depend on.
        row: (n,) rows of the events, owner after owner.
        starts: (O + 1,) where the events of each owner begin.
        stand_ins: The place of each stand-in among those of its table.

    Returns:
        Events and what is read of each, list after list: its own place, or n plus a place among the
        stand-ins of the table; (m + 1,) where each list begins; (V,) the list of each variant; and
        (m,) the row of each list's newest event, -1 for none.
    """
    which, first = shared_lists(state, owner, known.each, known.starts)
    most = 0
    for v in first:
        if owner[v] >= 0:
            most += starts[owner[v] + 1] - starts[owner[v]]
    events, read = np.empty(most, np.int64), np.empty(most, np.int64)
    bounds, newest = np.zeros(len(first) + 1, np.int64), np.full(len(first), -1, np.int64)
    at = 0
    for number in range(len(first)):
        v = first[number]
        if owner[v] >= 0:
            for e in range(starts[owner[v]], starts[owner[v] + 1]):
                own, way = known.units[0, e], known.units[1, e]
                seen = state[v, own] if own >= 0 else 1
                if seen == 0 or (way >= 0 and state[v, way] == 0):
                    continue
                events[at], newest[number] = e, row[e]
                read[at] = len(row) + stand_ins[seen - 2] if seen >= 2 else e
                at += 1
        bounds[number + 1] = at
    return events[:at], read[:at], bounds, which, newest


@compiled
def named_rows(
    rows: NDArray[np.int64],
    graph: GraphLists,
    key: KeyLists,
    limit: int,
    units: UnitLists,
    state: NDArray[np.int64],
) -> NDArray[np.int64]:
    """(V,) the row that a row of each variant names by a key; -1 for the row -1, where there is
    none, where it is not before a limit, and where it is absent."""
    out = np.full(len(rows), -1, np.int64)
    for v in range(len(rows)):
        node = np.int64(key.named[rows[v], key.place]) if rows[v] >= 0 else np.int64(-1)
        if node >= 0 and graph.node_time[node] < limit:
            unit = unit_of(units, node)
            if unit < 0 or state[v, unit] != 0:
                out[v] = node - key.first_parent
    return out


@compiled
def read_rows(
    rows: NDArray[np.int64],
    first: int,
    units: UnitLists,
    state: NDArray[np.int64],
    numbers: NDArray[np.int64],
) -> NDArray[np.int64]:
    """(V,) the rows whose columns are read for a row of each variant, -1 for none.

    Args:
        first: The node of the table's first row.
        numbers: The row that each stand-in is in its table.
    """
    out = rows.copy()
    for v in range(len(rows)):
        unit = unit_of(units, rows[v] + first) if rows[v] >= 0 else -1
        if unit >= 0 and state[v, unit] >= 2:
            out[v] = numbers[state[v, unit] - 2]
    return out
