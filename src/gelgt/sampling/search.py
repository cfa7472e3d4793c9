"""Breadth-first search from one seed, compiled.

What makes it fast: each row is read once. Its time stands beside it in the list that leads to it,
its parents and its edges come from one look at its keys, tables that no key refers to have no list
to open, and results are written where they stay. Rows that no key refers to ("leaves") are not
entered in the set until a second list is opened that could contain them again: the events of a seed
are copied, not hashed.

`i`, `count` and `edge` are positions in the arrays of the sample.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from gelgt.compiled import allocation_free, inlined
from gelgt.hashing import splitmix64
from gelgt.sampling.arrays import RECENT, Children, GraphArrays, Options, Query, Visited
from gelgt.sampling.sample import Sample
from gelgt.sampling.visited import enter, enter_rows, is_free, slot_of

mix: Callable[[Any], Any] = inlined(splitmix64)

TIMELESS = np.iinfo(np.int64).min
DAY = 86_400.0


@inlined
def table_of(node: Any, graph: GraphArrays) -> Any:
    """The table of a node, from the guide; few stretches of nodes hold more than one table."""
    table = np.int64(graph.guide[node >> graph.guide[-1]])
    while node >= graph.offsets[table + 1]:
        table += 1
    return table


@inlined
def parent_block(node: Any, table: Any, graph: GraphArrays) -> Any:
    """Where the parents of a node begin in `graph.parents`."""
    return graph.parent_start[table] + (node - graph.offsets[table]) * graph.num_keys[table]


@inlined
def first_before(list_time: Any, start: Any, stop: Any, limit: int) -> Any:
    """First position in a newest-first list whose time lies before `limit`."""
    if start == stop or list_time[start] < limit:  # most lists, most of the time
        return start
    low, high = start, stop
    while low < high:
        middle = (low + high) >> 1
        if list_time[middle] < limit:
            high = middle
        else:
            low = middle + 1
    return low


@inlined
def write_row(sample: Sample, at: Any, node: Any, hop: Any, time: Any, reference: Any) -> None:
    """Write a row; its age is in days before the reference time, 0 for rows without a time."""
    has_time = time != TIMELESS
    sample.node[at], sample.hop[at], sample.has_time[at] = node, hop, has_time
    sample.age[at] = np.float32(max(reference - time, 0) / DAY) if has_time else np.float32(0.0)


@inlined
def write_edge(sample: Sample, at: Any, source: Any, target: Any, relation: Any) -> None:
    """Write a foreign key whose two ends are in the sample."""
    sample.edge_source[at], sample.edge_target[at] = source, target
    sample.edge_relation[at] = relation


@allocation_free
def permuted(index: int, size: int, key: Any) -> Any:
    """Where a keyed permutation of 0…size-1 sends `index`: a four-round Feistel network over the
    next power of four, walked until inside.

    A million neighbours in random order cost nothing but those that are looked at.
    """
    half = 1
    while (np.int64(1) << np.int64(2 * half)) < size:
        half += 1
    mask = np.uint64((np.int64(1) << np.int64(half)) - 1)
    value = np.uint64(index)
    while True:
        left, right = value >> np.uint64(half), value & mask
        for turn in range(4):
            left, right = right, left ^ (mix(mix(np.uint64(key) + np.uint64(turn)) ^ right) & mask)
        value = (left << np.uint64(half)) | right
        if value < np.uint64(size):
            return np.int64(value)


@inlined
def child_at(children: Children, c: Any) -> Any:
    """Where the child that is looked at as number `c` stands in the lists of neighbours."""
    turn = permuted(c, children.size, children.key) if children.is_shuffled else c
    return children.start + turn


@inlined
def visible_children(
    i: Any, filled: Any, graph: GraphArrays, query: Query, options: Options, sample: Sample
) -> Any:
    """The children of row `i` of the sample; its list begins with its `filled` parents."""
    node = sample.node[i]
    stop = graph.indptr[node + 1]
    start = first_before(graph.list_time, graph.indptr[node] + filled, stop, query.limit)
    size = stop - start
    key = np.uint64(0)
    if options.is_shuffled:
        key = mix(np.uint64(query.key) ^ mix(np.uint64(i - query.start)))
    return Children(start, size, min(size, options.fanout), options.is_shuffled, key)


@inlined
def add_parents(
    graph: GraphArrays, query: Query, sample: Sample, visited: Visited,
    i: Any, depth: int, count: Any, edge: Any,
) -> Any:  # fmt: skip
    """Add the parents of row `i` that are not in the sample yet, and the edges to all of them.

    Returns:
        Where rows and edges end, how many keys are filled, and whether there was no room.
    """
    table = sample.table[i]
    block, filled = parent_block(sample.node[i], table, graph), 0
    for j in range(graph.num_keys[table]):
        other = np.int64(graph.parents[block + j])
        if other < 0:
            continue
        filled += 1
        position, relation = np.int64(query.start), graph.relation_start[table] + j
        if other != query.seed:  # the most common parent of first-hop rows
            slot = slot_of(other, visited)
            if is_free(slot, visited):
                time = TIMELESS if graph.is_timeless[relation] else graph.node_time[other]
                if time >= query.limit:
                    continue
                if count == query.end:
                    return count, edge, filled, True
                enter(other, count, slot, visited)
                write_row(sample, count, other, depth, time, query.reference)
                count += 1
            position = np.int64(visited.positions[slot])
        write_edge(sample, edge, i, position, relation)
        edge += 1
    return count, edge, filled, False


@inlined
def add_children(
    graph: GraphArrays, query: Query, sample: Sample, visited: Visited,
    children: Children, depth: int, count: Any,
) -> Any:  # fmt: skip
    """Add children that are not in the sample yet.

    Returns:
        Where the rows end, and whether there was no room.
    """
    for c in range(children.shown):
        at = child_at(children, c)
        other = np.int64(graph.indices[at])
        slot = slot_of(other, visited)
        if is_free(slot, visited):
            if count == query.end:
                return count, True
            enter(other, count, slot, visited)
            write_row(sample, count, other, depth, graph.list_time[at], query.reference)
            count += 1
    return count, False


@inlined
def copy_leaves(
    graph: GraphArrays, query: Query, sample: Sample, children: Children, depth: int, count: Any
) -> Any:
    """Add the children of a seed without entering them in the set; returns where the rows end."""
    fitting = min(children.shown, query.end - count)
    for c in range(fitting):
        at = child_at(children, c)
        write_row(sample, count + c, graph.indices[at], depth, graph.list_time[at], query.reference)
    return count + fitting


@inlined
def search(
    graph: GraphArrays, query: Query, options: Options, sample: Sample, visited: Visited, edge: int
) -> tuple[int, int, int, bool]:
    """Breadth-first search from one seed; writes rows and, from position `edge` on, the edges of
    the rows that it expands.

    Returns:
        Where the rows end, where the edges end, where the expanded rows end (whose tables and edges
        are written), and whether the budget cut it.
    """
    enter(query.seed, query.start, slot_of(query.seed, visited), visited)
    sample.node[query.start], sample.hop[query.start] = query.seed, 0
    sample.age[query.start], sample.has_time[query.start] = np.float32(0.0), True
    count, first = query.start + 1, query.start
    # `recent` asks of any row whether it is there, so its leaves must be in the set
    is_lazy = options.strategy != RECENT
    leaf, last_leaf = 0, 0  # positions of the leaves that are not in the set yet
    for depth in range(1, options.hops + 1):
        last = count
        for i in range(first, last):
            table = table_of(sample.node[i], graph)
            sample.table[i] = table
            count, edge_end, filled, is_full = add_parents(
                graph, query, sample, visited, i, depth, count, edge
            )
            if is_full:
                return count, edge, i, True
            edge = edge_end
            if not graph.has_children[table]:
                continue
            children = visible_children(i, filled, graph, query, options, sample)
            if is_lazy and depth == 1 and graph.has_leaves[table]:
                leaf = count
                count = copy_leaves(graph, query, sample, children, depth, count)
                last_leaf = count
                is_full = children.shown > last_leaf - leaf
            else:
                if children.size > 0:
                    enter_rows(leaf, last_leaf, sample, visited)
                    leaf = last_leaf
                count, is_full = add_children(graph, query, sample, visited, children, depth, count)
            if is_full:
                return count, edge, i + 1, True
        first = last
        if count == last:
            break
    return count, edge, first, False
