"""Compiled loops of packing. Arrays that belong together are named bundles, which numba takes as
they are."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numba

Function = TypeVar("Function", bound=Callable[..., Any])
compiled: Callable[[Function], Function] = numba.njit(cache=True, nogil=True)


class SampledRows(NamedTuple):
    """The rows of a batch: (B + 1,) `offsets`; (T,) `node`, `table`, and `place` among the distinct
    rows of its table."""

    offsets: Any
    node: Any
    table: Any
    place: Any


class TableRoom(NamedTuple):
    """For each table: the place of its first distinct row in the stack of all (`stacked`) and in
    the list of cells (`cells`), and its first node (`first_node`)."""

    stacked: Any
    cells: Any
    first_node: Any


class RowParts(NamedTuple):
    """The parts of the buffer that `fill_rows` fills."""

    subgraph: Any
    source: Any
    used: Any
    used_starts: Any
    cells: Any


class Edges(NamedTuple):
    """(E,) foreign keys inside the subgraphs."""

    child: Any
    parent: Any
    relation: Any


class MessageParts(NamedTuple):
    """The parts of the buffer that `fill_messages` fills."""

    starts: Any
    row: Any
    other: Any
    run_start: Any
    run_end: Any
    reverse: Any


class EdgeRoom(NamedTuple):
    """For each of R relations: (R,) the place of its first edge, of the first row of its child
    table in `child_starts` and of its parent table in `parent_starts`; (R, 2) the rows that these
    two tables have room for."""

    edges: Any
    child: Any
    parent: Any
    rows: Any


class EdgeParts(NamedTuple):
    """The parts of the buffer that `fill_edges` fills."""

    child: Any
    parent: Any
    is_edge: Any
    by_child: Any
    by_parent: Any
    child_starts: Any
    parent_starts: Any


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
def fill_rows(rows: SampledRows, room: TableRoom, parts: RowParts) -> None:
    """Subgraphs of rows, their places in the stack of distinct rows, and for each of those the rows
    that use it."""
    source, used, used_starts = parts.source, parts.used, parts.used_starts
    for b in range(len(rows.offsets) - 1):
        for i in range(rows.offsets[b], rows.offsets[b + 1]):
            parts.subgraph[i] = b
            t, place = rows.table[i], rows.place[i]
            source[i] = room.stacked[t] + place
            parts.cells[room.cells[t] + place] = rows.node[i] - room.first_node[t]
            used_starts[source[i] + 1] += 1
    for s in range(len(used_starts) - 1):
        used_starts[s + 1] += used_starts[s]
    # backwards, with the ends counting down, so that equal sources keep their order
    for i in range(len(rows.node) - 1, -1, -1):
        used_starts[source[i] + 1] -= 1
        used[used_starts[source[i] + 1]] = i
    # Counting down left each end at its own start: the starts lie one place too late.
    for s in range(len(used_starts) - 1):
        used_starts[s] = used_starts[s + 1]
    used_starts[len(used_starts) - 1] = len(rows.node)


@compiled
def fill_messages(edges: Edges, groups: int, ends: Any, scratch: Any, parts: MessageParts) -> None:
    """Messages sorted by their row, then by group; message 2e goes to the parent of edge e, 2e + 1
    to its child.

    A run is the messages of one row and one group, which are averaged together.

    Args:
        groups: How many; 1 puts all messages of a row into one run.
        ends: (groups + 1,) zeros.
        scratch: (3, 2E).
    """
    child, parent = edges.child, edges.parent
    starts, row, run_start, run_end = parts.starts, parts.row, parts.run_start, parts.run_end
    count = 2 * len(child)
    by_group, group, place = scratch[0], scratch[1], scratch[2]
    for m in range(count):
        group[m] = 2 * edges.relation[m >> 1] + (m & 1) if groups > 1 else 0
        ends[group[m] + 1] += 1
    for g in range(groups):
        ends[g + 1] += ends[g]
    for m in range(count):
        by_group[ends[group[m]]] = m
        ends[group[m]] += 1
    for m in range(count):
        target = child[m >> 1] if m & 1 else parent[m >> 1]
        starts[target + 1] += 1
    for r in range(len(starts) - 1):
        starts[r + 1] += starts[r]
    for k in range(count):  # starts[r] walks to the end of row r
        m = by_group[k]
        e = m >> 1
        target, far = (child[e], parent[e]) if m & 1 else (parent[e], child[e])
        at = starts[target]
        starts[target] = at + 1
        row[at], parts.other[at], place[m] = target, far, at
        run_start[at] = group[m]  # for a moment
    for r in range(len(starts) - 1, 0, -1):
        starts[r] = starts[r - 1]
    starts[0] = 0
    for m in range(count):
        parts.reverse[place[m]] = place[m ^ 1]
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


@compiled
def fill_blocks(table: Any, starts: Any, block_rows: Any, joined: Any) -> None:
    """Rows table by table: the row at each place, and the place of each row.

    Args:
        starts: (tables,) the first place of each; afterwards behind its last row.
    """
    for i in range(len(table)):
        at = starts[table[i]]
        starts[table[i]] = at + 1
        block_rows[at], joined[i] = i, at


@compiled
def _sorted(row: Any, starts: Any, order: Any) -> None:
    """Items by their row, those of one row in their order. Of each row, `starts` holds one place
    later how many items it has, and afterwards where they begin."""
    for r in range(len(starts) - 1):
        starts[r + 1] += starts[r]
    for k in range(len(row)):  # starts[r] walks to the end of row r
        order[starts[row[k]]] = k
        starts[row[k]] += 1
    for r in range(len(starts) - 1, 0, -1):
        starts[r] = starts[r - 1]
    starts[0] = 0


@compiled
def fill_edges(edges: Edges, place: Any, room: EdgeRoom, counts: Any, parts: EdgeParts) -> None:
    """Edges relation by relation, their ends as places in the blocks of their tables, and the
    edges of each row of both tables.

    Args:
        place: (T,) of each row in the block of its table.
        counts: (R,) zeros; afterwards the edges of each relation.
    """
    for e in range(len(edges.child)):
        r = edges.relation[e]
        at = room.edges[r] + counts[r]
        counts[r] += 1
        child, parent = place[edges.child[e]], place[edges.parent[e]]
        parts.child[at], parts.parent[at], parts.is_edge[at] = child, parent, 1
        parts.child_starts[room.child[r] + child + 1] += 1
        parts.parent_starts[room.parent[r] + parent + 1] += 1
    for r in range(len(counts)):
        at, count = room.edges[r], counts[r]
        first, rows = room.child[r], room.rows[r, 0]
        starts = parts.child_starts[first : first + rows + 1]
        _sorted(parts.child[at : at + count], starts, parts.by_child[at : at + count])
        first, rows = room.parent[r], room.rows[r, 1]
        starts = parts.parent_starts[first : first + rows + 1]
        _sorted(parts.parent[at : at + count], starts, parts.by_parent[at : at + count])
