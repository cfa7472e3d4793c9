"""Compiled loops that turn parent pointers into the two-way adjacency.

Imported only when a graph is built, because importing numba takes longer than opening a graph.
`parents` holds, for each table, a block of rows × keys of parent nodes, -1 for none.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gelgt.compiled import compiled


@compiled
def count_neighbours(block: NDArray[Any], first_node: int, degree: NDArray[np.int64]) -> None:
    """Add both ends of every key of one table to `degree` (num_nodes)."""
    for row in range(block.shape[0]):
        for key in range(block.shape[1]):
            parent = block[row, key]
            if parent >= 0:
                degree[first_node + row] += 1
                degree[parent] += 1


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
def place_children(
    order: NDArray[np.int64],
    offsets: NDArray[np.int64],
    parent_start: NDArray[np.int64],
    num_keys: NDArray[np.int64],
    parents: NDArray[Any],
    cursor: NDArray[np.int64],
    indices: NDArray[Any],
) -> None:
    """Append each node, in the given order, to the lists of its parents: every list comes out in
    that order."""
    for position in range(order.shape[0]):
        node = order[position]
        table = np.searchsorted(offsets, node, side="right") - 1
        keys = num_keys[table]
        start = parent_start[table] + (node - offsets[table]) * keys
        for key in range(keys):
            parent = parents[start + key]
            if parent >= 0:
                indices[cursor[parent]] = node
                cursor[parent] += 1
