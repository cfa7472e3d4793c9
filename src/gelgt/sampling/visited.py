"""The hash set of the rows in one subgraph, compiled. A new stamp empties it, so that a seed costs
what it visits, not what the set could hold.
"""

from typing import Any

import numpy as np

from gelgt.compiled import inlined
from gelgt.sampling.arrays import NODE_BITS, Visited
from gelgt.sampling.sample import Sample


@inlined
def slot_of(node: Any, visited: Visited) -> Any:
    """The slot that holds a node, or the free one where it belongs. Fibonacci hashing spreads
    neighbouring numbers.

    It is unsigned, or each access would ask whether it counts from the end.
    """
    mask = np.uint64(visited.entries.shape[0] - 1)
    slot = ((np.uint64(node) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40)) & mask
    tagged = (visited.stamp << NODE_BITS) | node
    entry = visited.entries[slot]
    while entry != tagged and (entry >> NODE_BITS) == visited.stamp:
        slot = (slot + np.uint64(1)) & mask
        entry = visited.entries[slot]
    return slot


@inlined
def is_free(slot: Any, visited: Visited) -> Any:
    """Whether no node was entered in a slot under this stamp."""
    return (visited.entries[slot] >> NODE_BITS) != visited.stamp


@inlined
def enter(node: Any, position: Any, slot: Any, visited: Visited) -> None:
    """Let a slot hold a node that stands at a position of the sample."""
    visited.entries[slot] = (visited.stamp << NODE_BITS) | node
    visited.positions[slot] = position


@inlined
def enter_rows(start: Any, stop: Any, sample: Sample, visited: Visited) -> None:
    """Enter rows of the sample, none of which is in the set."""
    for i in range(start, stop):
        enter(sample.node[i], i, slot_of(sample.node[i], visited), visited)
