"""Compiled loops that extend the arrays of a graph by new rows.

Everything is read and written from the first place to the last, except for the new numbers of old
rows. Nothing is allocated, so that references need not be counted.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gelgt.compiled import allocation_free


class Numbering(NamedTuple):
    """The new node of each old one.

    Rows of a table before its first new row keep their place in the table; the nodes of those after
    it are in `moved`, table after table.
    """

    old: NDArray[np.int64]  # first old node of each table, and the number of nodes (tables + 1)
    new: NDArray[np.int64]  # the same of new nodes
    first: NDArray[np.int64]  # first old row of each table that has new ones before it
    start: NDArray[np.int64]  # where these rows of each table begin in `moved`
    moved: NDArray[np.int64]


class Lists(NamedTuple):
    """Lists of neighbours, as in `graph/store.py`."""

    indptr: NDArray[np.int64]
    indices: NDArray[Any]
    list_time: NDArray[np.int64]


class Rows(NamedTuple):
    """All rows of the new graph, and which of them are new."""

    node_time: NDArray[np.int64]
    parents: NDArray[Any]
    parent_start: NDArray[np.int64]  # first place in `parents` of each table (tables + 1)
    num_keys: NDArray[np.int64]
    new_nodes: NDArray[np.int64]  # rising


class Edges(NamedTuple):
    """The filled keys of new rows: by parent, for each parent newest first, ties by child."""

    parent: NDArray[np.int64]
    child: NDArray[np.int64]


# Of `grow_lists`, before the first node: the next place in the lists, the next of the new edges, of
# the new nodes and of the old nodes; the first node with the most neighbours, their number, and the
# number of nodes without neighbours.
START = (0, 0, 0, 0, -1, -1, 0)


@allocation_free
def table_of(offsets: NDArray[np.int64], node: int) -> int:
    """The table of a node."""
    low, high = 0, offsets.shape[0] - 1
    while high - low > 1:
        middle = (low + high) // 2
        if node >= offsets[middle]:
            low = middle
        else:
            high = middle
    return low


@allocation_free
def renumbered(numbering: Numbering, table: int, node: int) -> int:
    """The new number of an old node of a table."""
    row = node - numbering.old[table]
    behind = row - numbering.first[table]
    if behind < 0:
        return int(numbering.new[table] + row)
    return int(numbering.moved[numbering.start[table] + behind])


@allocation_free
def move_parents(numbering: Numbering, table: int, old: NDArray[Any], block: NDArray[Any]) -> None:
    """Write the keys of a table's old rows into the new block of the table (rows, keys)."""
    for row in range(old.shape[0]):
        place = renumbered(numbering, table, numbering.old[table] + row) - numbering.new[table]
        for key in range(old.shape[1]):
            parent = old[row, key]
            if parent >= 0:
                parent = renumbered(numbering, table_of(numbering.old, parent), parent)
            block[place, key] = parent


@allocation_free
def _merge(
    numbering: Numbering,
    node_time: NDArray[np.int64],
    old: Lists,
    old_range: tuple[int, int],
    edges: Edges,
    edge_range: tuple[int, int],
    grown: Lists,
    place: int,
) -> int:
    """Write a part of an old list, and new children where they belong in it, from `place` on;
    returns the place after them.

    Both come newest first, ties by node.
    """
    edge, last_edge = edge_range
    table = 0
    for entry in range(old_range[0], old_range[1]):
        node, time = int(old.indices[entry]), old.list_time[entry]
        if not numbering.old[table] <= node < numbering.old[table + 1]:
            table = table_of(numbering.old, node)
        node = renumbered(numbering, table, node)
        while edge < last_edge:
            child = edges.child[edge]
            if node_time[child] < time or (node_time[child] == time and child > node):
                break
            grown.indices[place], grown.list_time[place] = child, node_time[child]
            place, edge = place + 1, edge + 1
        grown.indices[place], grown.list_time[place] = node, time
        place += 1
    for rest in range(edge, last_edge):
        child = edges.child[rest]
        grown.indices[place], grown.list_time[place] = child, node_time[child]
        place += 1
    return place


@allocation_free
def _write_parents(rows: Rows, first: int, keys: int, grown: Lists, place: int) -> int:
    """Write the parents of a new row, in key order; returns the place after them."""
    for key in range(first, first + keys):
        parent = rows.parents[key]
        if parent >= 0:
            grown.indices[place], grown.list_time[place] = parent, rows.node_time[parent]
            place += 1
    return place


@allocation_free
def _num_parents(parents: NDArray[Any], first: int, keys: int) -> int:
    count = 0
    for key in range(first, first + keys):
        count += parents[key] >= 0
    return count


@allocation_free
def grow_lists(
    numbering: Numbering,
    rows: Rows,
    edges: Edges,
    old: Lists,
    grown: Lists,
    table: int,
    nodes: tuple[int, int],
    done: NDArray[np.int64],
) -> None:
    """Fill the lists of a table's nodes from the first to before the last of `nodes`, and count on
    in `done`, which says where the nodes before these ended (see `START`)."""
    place, edge, new, old_node, hub, largest, isolated = done
    keys = rows.num_keys[table]
    for node in range(nodes[0], nodes[1]):
        begin, first_edge = place, edge
        while edge < edges.parent.shape[0] and edges.parent[edge] == node:
            edge += 1
        key = rows.parent_start[table] + (node - numbering.new[table]) * keys
        start, stop = 0, 0
        if new < rows.new_nodes.shape[0] and rows.new_nodes[new] == node:
            new += 1
            place = _write_parents(rows, key, keys, grown, place)
        else:
            start, stop = old.indptr[old_node], old.indptr[old_node + 1]
            old_node += 1
            if edge > first_edge:
                middle = start + _num_parents(rows.parents, key, keys)
                place = _merge(
                    numbering, rows.node_time, old, (start, middle), edges, (0, 0), grown, place
                )
                start = middle
        place = _merge(
            numbering, rows.node_time, old, (start, stop), edges, (first_edge, edge), grown, place
        )
        grown.indptr[node + 1] = place
        if place - begin > largest:
            hub, largest = node, place - begin
        isolated += place == begin
    done[:] = (place, edge, new, old_node, hub, largest, isolated)
