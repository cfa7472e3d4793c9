"""The compiled sampler: subgraphs of many seeds, one after the other, into one set of arrays. One
seed is one breadth-first search with a small hash set; nothing is as large as the graph.

Invariants, each with a property test against a plain Python reference
(tests/sampling/reference.py):
- the first K rows in breadth-first order, a row's neighbours being its parents in key order, then
  its children newest first;
- no row with a time at or after the seed's limit; the children in a list are sorted by time, so one
  bisection finds the first that may be seen;
- each foreign key with both ends in the sample appears once, from the child's parent pointers,
  whatever the degree of a hub.

Imported when seeds are sampled, because importing numba takes longer than opening a graph.
"""

from typing import Any

import numpy as np

from gelgt.compiled import allocation_free, inlined
from gelgt.sampling.arrays import (
    AHEAD,
    RANDOM,
    RECENT,
    GraphArrays,
    Options,
    Query,
    Scratch,
    SeedArrays,
    Visited,
)
from gelgt.sampling.sample import Sample
from gelgt.sampling.search import (
    TIMELESS,
    mix,
    parent_block,
    permuted,
    search,
    table_of,
    write_edge,
    write_row,
)
from gelgt.sampling.visited import enter, enter_rows, is_free, slot_of


@inlined
def induce(
    graph: GraphArrays, sample: Sample, visited: Visited, blocks: Any,
    first: int, count: int, edge: int,
) -> int:  # fmt: skip
    """Write tables and keys of the rows from `first` to `count`; returns where the edges end."""
    for start in range(first, count, AHEAD):
        stop = min(start + AHEAD, count)
        total = 0
        for i in range(start, stop):
            table = table_of(sample.node[i], graph)
            sample.table[i] = table
            blocks[i - start] = parent_block(sample.node[i], table, graph)
            if graph.num_keys[table]:
                # in a graph that no cache holds, the waits of these loads overlap
                total += graph.parents[blocks[i - start]]
        blocks[AHEAD] = total  # or the compiler would drop them
        for i in range(start, stop):
            table = sample.table[i]
            for j in range(graph.num_keys[table]):
                other = np.int64(graph.parents[blocks[i - start] + j])
                if other >= 0:
                    slot = slot_of(other, visited)
                    if not is_free(slot, visited):
                        relation = graph.relation_start[table] + j
                        write_edge(sample, edge, i, visited.positions[slot], relation)
                        edge += 1
    return edge


@inlined
def draw_rows(
    sample: Sample, visited: Visited, is_drawn: Any, start: int, count: int, budget: int, key: Any
) -> int:
    """Keep the seed and `budget - 1` other rows, drawn without replacement, in the order of the
    search, under a new stamp; returns where the rows end."""
    size = count - start
    is_drawn[:size] = size <= budget
    is_drawn[0] = True
    for c in range(budget - 1 if size > budget else 0):
        is_drawn[1 + permuted(c, size - 1, key)] = True
    end = start
    for i in range(start, count):
        if is_drawn[i - start]:
            sample.node[end], sample.hop[end] = sample.node[i], sample.hop[i]
            sample.age[end], sample.has_time[end] = sample.age[i], sample.has_time[i]
            end += 1
    enter_rows(start, end, sample, visited)
    return end


@inlined
def add_newest(
    graph: GraphArrays, query: Query, sample: Sample, visited: Visited, newest: Any,
    hop: int, count: int, end: int,
) -> int:  # fmt: skip
    """Fill up to position `end` with the newest rows of any table before the seed's limit, linked
    or not. `newest` holds the place of the newest row of each table that is left, in the order of
    their times. Returns where the rows end."""
    tables, is_numbered = graph.offsets.shape[0] - 1, graph.by_time.shape[0] == 0
    for t in range(tables):
        low, high = graph.offsets[t], graph.offsets[t + 1]
        if low == high or graph.node_time[low] == TIMELESS:
            high = low
        while low < high:
            middle = (low + high) >> 1
            node = middle if is_numbered else graph.by_time[middle]
            if graph.node_time[node] < query.limit:
                low = middle + 1
            else:
                high = middle
        newest[t] = low - 1
    while count < end:
        best, other = -1, -1
        for t in range(tables):
            if newest[t] >= graph.offsets[t]:
                node = newest[t] if is_numbered else graph.by_time[newest[t]]
                if best < 0 or graph.node_time[node] > graph.node_time[other]:
                    best, other = t, node
        if best < 0:
            break
        newest[best] -= 1
        slot = slot_of(other, visited)
        if is_free(slot, visited):
            enter(other, count, slot, visited)
            write_row(sample, count, other, hop, graph.node_time[other], query.reference)
            count += 1
    return count


@allocation_free
def sample_seeds(
    graph: GraphArrays,
    seeds: SeedArrays,
    options: Options,
    sample: Sample,
    scratch: Scratch,
    stamp: int,
) -> int:
    """Sample seeds one after the other into the arrays of `sample`; returns the last stamp."""
    for b in range(seeds.node.shape[0]):
        row, edge = sample.offsets[b], sample.edge_offsets[b]
        query = Query(
            seeds.node[b], seeds.limit[b], seeds.reference[b], seeds.key[b],
            row, row + options.reach,
        )  # fmt: skip
        stamp += 1
        visited = Visited(scratch.entries, scratch.positions, stamp)
        end, edge_end, expanded, is_cut = search(graph, query, options, sample, visited, edge)
        if options.strategy == RECENT:
            end = add_newest(
                graph, query, sample, visited, scratch.newest,
                options.hops + 1, end, row + options.budget,
            )  # fmt: skip
            # a row that only time brought may be the parent of an earlier one
            edge_end, expanded = edge, row
        if options.strategy == RANDOM:
            stamp += 1
            visited = Visited(scratch.entries, scratch.positions, stamp)
            key = mix(query.key ^ np.uint64(0x5DEECE66D))
            end = draw_rows(sample, visited, scratch.is_drawn, row, end, options.budget, key)
            edge_end, expanded = edge, row
        sample.edge_offsets[b + 1] = induce(
            graph, sample, visited, scratch.blocks, expanded, end, edge_end
        )
        sample.offsets[b + 1], sample.is_cut[b] = end, is_cut
    return stamp
