"""Bundles of arrays and numbers that the compiled sampler takes (numba reads named tuples)."""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gelgt.graph import TIMELESS, Graph
from gelgt.graph.arrays import read_at_random
from gelgt.memory import available_memory

BFS, RANDOM, RECENT = 0, 1, 2  # strategies
AHEAD = 16  # rows whose parents are loaded together
NODE_BITS = 40  # an entry of the hash set is stamp · 2^40 + node
MAX_STAMP = 1 << 22
STRETCHES = 4096  # of nodes, for which `table_guide` knows the table of the first node


class GraphArrays(NamedTuple):
    """What the sampler reads of a graph: N nodes in t tables, R relations (foreign keys).

    Attributes:
        indptr: (N + 1,) first neighbour of each node.
        indices: Neighbours: parents in key order, then children newest first.
        list_time: Times of `indices`.
        node_time: (N,) times of the nodes.
        parents: Parent nodes by table and key, -1 for none.
        offsets: (t + 1,) first node of each table.
        parent_start: (t + 1,) where each table's block of `parents` begins.
        num_keys: (t,) foreign keys of each table.
        relation_start: (t,) relation id of each table's first key.
        has_children: (t,) whether some key refers to the table.
        has_leaves: (t,) whether all children of the table are leaves, rows that no key refers to,
            and no child table refers to it by two keys: then no row can be met twice in its lists.
        is_timeless: (R,) whether the relation's parent table has no times.
        guide: See `table_guide`.
        by_time: (N,) the nodes of each table in the order of their times, ties by node; empty where
            they are numbered so in every table, or nobody asks for the newest rows of a table.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[Any]
    list_time: NDArray[np.int64]
    node_time: NDArray[np.int64]
    parents: NDArray[Any]
    offsets: NDArray[np.int64]
    parent_start: NDArray[np.int64]
    num_keys: NDArray[np.int64]
    relation_start: NDArray[np.int64]
    has_children: NDArray[np.bool_]
    has_leaves: NDArray[np.bool_]
    is_timeless: NDArray[np.bool_]
    guide: NDArray[np.int16]
    by_time: NDArray[np.int64]


class SeedArrays(NamedTuple):
    """S seeds: their nodes, the first second that they may not see, the time from which ages are
    measured, and the start of their random orders."""

    node: NDArray[np.int64]
    limit: NDArray[np.int64]
    reference: NDArray[np.int64]
    key: NDArray[np.uint64]


class Options(NamedTuple):
    """How one call samples.

    Attributes:
        strategy: BFS, RANDOM or RECENT.
        budget: Rows of a subgraph at most.
        reach: Rows that the search collects at most: the budget, half of it (`recent`), or more, to
            draw from a larger neighbourhood (`random`).
        hops: Depth of the search.
        fanout: Children of one row that are looked at.
        is_shuffled: Whether children come in random order.
    """

    strategy: int
    budget: int
    reach: int
    hops: int
    fanout: int
    is_shuffled: bool


class Scratch(NamedTuple):
    """Working memory of one thread: nothing here is as large as the graph.

    Attributes:
        newest: (t,) the newest unused row of each table.
        blocks: (AHEAD + 1,) where the parents of some rows lie.
        is_drawn: (reach,) which rows `random` keeps.
        entries: Slots of the hash set; a power of two, at least twice the reach.
        positions: Positions in the sample of the nodes in the slots.
    """

    newest: NDArray[np.int64]
    blocks: NDArray[np.int64]
    is_drawn: NDArray[np.bool_]
    entries: NDArray[np.int64]
    positions: NDArray[np.int32]


class Query(NamedTuple):
    """The search of one seed, whose rows go to the positions from `start` up to `end`."""

    seed: int
    limit: int
    reference: int
    key: int
    start: int
    end: int


class Visited(NamedTuple):
    """The hash set of the rows in one subgraph; entries under another stamp count as free."""

    entries: NDArray[np.int64]
    positions: NDArray[np.int32]
    stamp: int


class Children(NamedTuple):
    """The children of one row that its seed may see: `size` of them from `start` on, of which the
    first `shown` are looked at, in list order or in an order that `key` gives."""

    start: int
    size: int
    shown: int
    is_shuffled: bool
    key: Any


def graph_arrays(graph: Graph, has_newest: bool = False) -> GraphArrays:
    """The arrays of a graph, and what follows from its tables and relations; `by_time` where
    somebody asks for the newest rows of a table."""
    children = [[r.child for r in graph.relations if r.parent == t] for t in graph.tables]
    parents = {r.parent for r in graph.relations}
    has_leaves = [parents.isdisjoint(c) and len(set(c)) == len(c) for c in children]
    first_times = {
        table: graph.node_time[first]
        for table, first, last in zip(graph.tables, graph.offsets, graph.offsets[1:])
        if first < last
    }
    is_timeless = [first_times.get(r.parent) == TIMELESS for r in graph.relations]
    relation_start = np.concatenate([[0], np.cumsum(graph.num_keys)[:-1]])
    lists = (graph.indptr, graph.indices, graph.list_time)
    available = available_memory()
    if available is not None and sum(array.nbytes for array in lists) > available:
        read_at_random(*lists)
    return GraphArrays(
        indptr=graph.indptr,
        indices=graph.indices,
        list_time=graph.list_time,
        node_time=graph.node_time,
        parents=graph.parents,
        offsets=graph.offsets,
        parent_start=graph.parent_start,
        num_keys=graph.num_keys,
        relation_start=relation_start.astype(np.int64),
        has_children=np.array([t in parents for t in graph.tables], np.bool_),
        has_leaves=np.array(has_leaves, np.bool_),
        is_timeless=np.array(is_timeless, np.bool_),
        guide=table_guide(graph.offsets),
        by_time=nodes_by_time(graph) if has_newest else np.zeros(0, np.int64),
    )


def nodes_by_time(graph: Graph) -> NDArray[np.int64]:
    """`GraphArrays.by_time`. Tables with a time column are numbered by it; one that is dated by the
    rows that it refers to is not."""
    tables = [graph.node_time[first:stop] for first, stop in pairwise(graph.offsets.tolist())]
    if all(np.all(times[1:] >= times[:-1]) for times in tables):
        return np.zeros(0, np.int64)
    orders = [np.argsort(times, kind="stable") for times in tables]
    return np.concatenate([first + order for first, order in zip(graph.offsets, orders)])


def table_guide(offsets: NDArray[np.int64]) -> NDArray[np.int16]:
    """The table of the first node of each stretch of 2^shift nodes, and last the shift: where to
    start looking for a node's table."""
    shift = max(0, int(offsets[-1]).bit_length() - STRETCHES.bit_length() + 1)
    firsts = np.arange(0, max(int(offsets[-1]), 1), 1 << shift)
    return np.append(np.searchsorted(offsets[1:-1], firsts, side="right"), shift).astype(np.int16)
