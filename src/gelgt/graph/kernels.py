"""Compiled loops that turn parent pointers into the two-way adjacency.

Imported only when a graph is built, because importing numba takes longer than opening a graph.
`parents` holds, for each table, a block of rows × keys of parent nodes, -1 for none.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gelgt.compiled import compiled


class Tables(NamedTuple):
    """Where the rows of each table are.

    `sorted_rows` holds the rows by time of the tables that are not in that order already, from
    `sorted_start` on (-1 for a table that is).
    """

    offsets: NDArray[np.int64]  # first node, and the number of nodes (tables + 1)
    parent_start: NDArray[np.int64]  # first place in `parents` (tables + 1)
    num_keys: NDArray[np.int64]
    sorted_rows: NDArray[np.int64]
    sorted_start: NDArray[np.int64]


@compiled
def count_neighbours(
    block: NDArray[Any], first_node: int, degree: NDArray[np.int64], edges: NDArray[np.int64]
) -> None:
    """Add both ends of every key of one table to `degree` (num_nodes), and the filled keys of each
    column to `edges`."""
    for row in range(block.shape[0]):
        for key in range(block.shape[1]):
            parent = block[row, key]
            if parent >= 0:
                degree[first_node + row] += 1
                degree[parent] += 1
                edges[key] += 1


@compiled
def add_up(values: NDArray[np.int64]) -> None:
    """Replace values by their running sum."""
    for place in range(1, values.shape[0]):
        values[place] += values[place - 1]


@compiled
def shift(values: NDArray[np.int64]) -> None:
    """Move every value one place on; the first becomes 0."""
    for place in range(values.shape[0] - 1, 0, -1):
        values[place] = values[place - 1]
    values[0] = 0


@compiled
def is_ascending(values: NDArray[np.int64]) -> bool:
    """Whether no value is smaller than the one before it."""
    ascending = True
    for place in range(1, values.shape[0]):
        ascending &= values[place] >= values[place - 1]
    return ascending


@compiled
def place_parents(
    block: NDArray[Any], first_node: int, cursor: NDArray[np.int64], indices: NDArray[Any]
) -> None:
    """Write the parents of one table's rows, in key order, at the head of their lists."""
    for row in range(block.shape[0]):
        node = first_node + row
        for key in range(block.shape[1]):
            parent = block[row, key]
            if parent >= 0:
                indices[cursor[node]] = parent
                cursor[node] += 1


@compiled
def _node(tables: Tables, table: int, place: int) -> int:
    """The node at a place in the order of a table's rows by time."""
    start = tables.sorted_start[table]
    row = place if start < 0 else tables.sorted_rows[start + place]
    return int(tables.offsets[table] + row)


@compiled
def place_children(
    tables: Tables,
    node_time: NDArray[np.int64],
    parents: NDArray[Any],
    cursor: NDArray[np.int64],
    indices: NDArray[Any],
    low: int,
    high: int,
) -> None:
    """Append each node to the lists of its parents from `low` to before `high`, from the newest to
    the oldest and equal times by node: every list comes out in that order.

    Merges the tables from their ends, one run of equal times after the other.
    """
    count = tables.num_keys.shape[0]
    end = tables.offsets[1:] - tables.offsets[:-1]
    last = np.zeros(count, np.int64)  # the newest time that is left
    for table in range(count):
        if end[table] > 0:
            last[table] = node_time[_node(tables, table, end[table] - 1)]
    while True:
        newest = -1
        for table in range(count):
            if end[table] > 0 and (newest < 0 or last[table] > last[newest]):
                newest = table
        if newest < 0:
            return
        time = last[newest]
        for table in range(newest, count):
            if end[table] == 0 or last[table] != time:
                continue
            stop = end[table]
            start = stop - 1
            while start > 0 and node_time[_node(tables, table, start - 1)] == time:
                start -= 1
            keys = tables.num_keys[table]
            for place in range(start, stop):
                node = _node(tables, table, place)
                first = tables.parent_start[table] + (node - tables.offsets[table]) * keys
                for key in range(keys):
                    parent = parents[first + key]
                    if low <= parent < high:
                        indices[cursor[parent]] = node
                        cursor[parent] += 1
            end[table] = start
            if start > 0:
                last[table] = node_time[_node(tables, table, start - 1)]
