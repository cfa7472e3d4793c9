"""Compiled loops of the sampler. One seed is one breadth-first search over a small hash set;
nothing is as large as the graph.

Invariants, each with a property test against a plain Python reference
(tests/sampling/reference.py):
- the first K rows in breadth-first order, a row's neighbours being its parents in key order, then its children newest first;
- no row with a time at or after `limit`; a list's children are sorted by time, so one bisection finds the first that may be seen;
- each foreign key with both ends in the sample is found once, from the child's own parent pointers, whatever the degree of a hub.

What makes it fast: a row is touched once. Its time comes with the list that names it, its parents
are looked up while it is expanded and give its edges in the same breath, tables that nobody refers
to have no list to open, and results are written where they stay. Rows that nobody refers to
("leaves") are not even entered in the set until a second list is opened that could name them again:
a seed's own events are copied, not hashed. Nothing is allocated here, so no reference need be
counted (`_nrt=False`): numba would count one for most arguments at each seed, atomically.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np

Function = TypeVar("Function", bound=Callable[..., Any])
compiled: Callable[[Function], Function] = numba.njit(cache=True, nogil=True, _nrt=False)
inlined: Callable[[Function], Function] = numba.njit(
    cache=True, nogil=True, _nrt=False, inline="always"
)

TIMELESS = np.iinfo(np.int64).min
NODE_BITS = 40  # an entry of the hash set is stamp · 2^40 + node: a new stamp empties the set
MAX_STAMP = 1 << 22
DAY = 86_400.0


@inlined
def table_of(node: Any, offsets: Any, guide: Any) -> Any:
    """The table of a node. `guide` holds the table of the first node of each of its equal
    stretches; few stretches hold a border."""
    table = np.int64(guide[node >> guide[-1]])
    while node >= offsets[table + 1]:
        table += 1
    return table


@inlined
def first_before(list_time: Any, start: Any, stop: Any, limit: int) -> Any:
    """First place in a newest-first list whose time lies before `limit`."""
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
def place(node: Any, entries: Any, stamp: int) -> Any:
    """The slot that holds a node, or the free one where it belongs. Fibonacci hashing spreads
    neighbouring numbers.

    It is unsigned, or each access would ask whether it counts from the end.
    """
    mask = np.uint64(entries.shape[0] - 1)
    slot = ((np.uint64(node) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40)) & mask
    tagged = (stamp << NODE_BITS) | node
    entry = entries[slot]
    while entry != tagged and (entry >> NODE_BITS) == stamp:
        slot = (slot + np.uint64(1)) & mask
        entry = entries[slot]
    return slot


@inlined
def is_free(slot: Any, entries: Any, stamp: int) -> Any:
    """Whether nothing was entered there under this stamp."""
    return (entries[slot] >> NODE_BITS) != stamp


@inlined
def enter(node: Any, at: Any, slot: Any, entries: Any, places: Any, stamp: int) -> None:
    """Let the slot hold a node that stands at place `at` of the sample."""
    entries[slot], places[slot] = (stamp << NODE_BITS) | node, at


@inlined
def age_of(time: int, reference: int) -> Any:
    """Days before the reference time; 0 for rows without a time."""
    return np.float32(max(reference - time, 0) / DAY) if time != TIMELESS else np.float32(0.0)


@inlined
def mix(value: Any) -> Any:
    """SplitMix64's finaliser: a counter in, 64 well-mixed bits out."""
    z = np.uint64(value) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@compiled
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


@compiled
def search(
    indptr: Any, indices: Any, list_time: Any, node_time: Any, parents: Any,
    offsets: Any, parent_start: Any, num_keys: Any, relation_start: Any, has_children: Any, has_leaves: Any, is_timeless: Any, guide: Any,
    seed: int, limit: int, reference: int, budget: int, hops: int, fanout: int, shuffle: bool, key: int, is_lazy: bool, row: int, edge: int,
    node: Any, hop: Any, table: Any, age: Any, has_time: Any, source: Any, target: Any, relation: Any,
    entries: Any, places: Any, stamp: int,
) -> tuple[int, int, int, bool]:  # fmt: skip
    """Breadth-first search from one seed; writes up to `budget` rows from place `row` on and the
    edges found on the way from `edge` on.

    Args:
        has_leaves: Of each table, whether the lists of its rows hold only rows that nobody refers
            to, each once.
        fanout: Children of one row that are looked at.
        is_lazy: Whether leaves of the seed may stay out of the set while nothing can look them up.

    Returns:
        Where the rows end, where the edges end, where the expanded rows end (whose tables and edges
        are done), whether the budget cut it.
    """
    slot = place(seed, entries, stamp)
    enter(seed, row, slot, entries, places, stamp)
    # the seed is always now
    node[row], hop[row], age[row], has_time[row] = seed, 0, np.float32(0.0), True
    count, end, first = row + 1, row + budget, row
    late, late_end = 0, 0  # places of the leaves that are not in the set yet
    for depth in range(1, hops + 1):
        last = count
        for i in range(first, last):
            own = node[i]
            t = table_of(own, offsets, guide)
            table[i] = t
            width = num_keys[t]
            block = parent_start[t] + (own - offsets[t]) * width
            before, filled = edge, 0
            for j in range(width):
                other = np.int64(parents[block + j])
                if other < 0:
                    continue
                filled += 1
                at = np.int64(row)
                if other != seed:  # the most common parent of first-hop rows
                    slot = place(other, entries, stamp)
                    if is_free(slot, entries, stamp):
                        time = TIMELESS if is_timeless[relation_start[t] + j] else node_time[other]
                        if time >= limit:
                            continue
                        if count == end:
                            return count, before, i, True
                        enter(other, count, slot, entries, places, stamp)
                        node[count], hop[count], age[count], has_time[count] = (
                            other,
                            depth,
                            age_of(time, reference),
                            time != TIMELESS,
                        )
                        count += 1
                    at = np.int64(places[slot])
                source[edge], target[edge], relation[edge] = i, at, relation_start[t] + j
                edge += 1
            if not has_children[t]:
                continue
            stop = indptr[own + 1]
            # the list begins with the parents
            start = first_before(list_time, indptr[own] + filled, stop, limit)
            size = stop - start
            shown = min(size, fanout)
            order = mix(np.uint64(key) ^ mix(np.uint64(i - row))) if shuffle else np.uint64(0)
            if is_lazy and depth == 1 and has_leaves[t]:
                late, late_end = count, min(count + shown, end)
                for c in range(late_end - late):
                    at = start + (permuted(c, size, order) if shuffle else c)
                    time, count = list_time[at], late + c
                    node[count], hop[count], age[count], has_time[count] = (
                        indices[at],
                        depth,
                        age_of(time, reference),
                        time != TIMELESS,
                    )
                count = late_end
                if shown > late_end - late:
                    return count, edge, i + 1, True
                continue
            if size > 0:
                for c in range(late, late_end):
                    slot = place(node[c], entries, stamp)
                    enter(node[c], c, slot, entries, places, stamp)
                late = late_end
            for c in range(shown):
                at = start + (permuted(c, size, order) if shuffle else c)
                other = np.int64(indices[at])
                slot = place(other, entries, stamp)
                if is_free(slot, entries, stamp):
                    if count == end:
                        return count, edge, i + 1, True
                    time = list_time[at]
                    enter(other, count, slot, entries, places, stamp)
                    node[count], hop[count], age[count], has_time[count] = (
                        other,
                        depth,
                        age_of(time, reference),
                        time != TIMELESS,
                    )
                    count += 1
        first = last
        if count == last:
            break
    return count, edge, first, False


AHEAD = 16  # rows whose parents are asked for together


@compiled
def induce(
    parents: Any, offsets: Any, parent_start: Any, num_keys: Any, relation_start: Any, guide: Any,
    node: Any, table: Any, first: int, count: int, edge: int, source: Any, target: Any, relation: Any,
    entries: Any, places: Any, stamp: int, blocks: Any,
) -> int:  # fmt: skip
    """Tables and foreign keys of the rows from `first` on, child → parent, by places in the sample;
    returns where the edges end."""
    for start in range(first, count, AHEAD):
        stop = min(start + AHEAD, count)
        total = 0
        for i in range(start, stop):
            own = node[i]
            t = table_of(own, offsets, guide)
            table[i] = t
            blocks[i - start] = parent_start[t] + (own - offsets[t]) * num_keys[t]
            if num_keys[t]:
                # in a graph that no cache holds, the waits of these loads overlap
                total += parents[blocks[i - start]]
        blocks[AHEAD] = total  # or the compiler would drop them
        for i in range(start, stop):
            t = table[i]
            for j in range(num_keys[t]):
                other = np.int64(parents[blocks[i - start] + j])
                if other >= 0:
                    slot = place(other, entries, stamp)
                    if not is_free(slot, entries, stamp):
                        source[edge], target[edge], relation[edge] = (
                            i,
                            places[slot],
                            relation_start[t] + j,
                        )
                        edge += 1
    return edge


@compiled
def thin(
    node: Any, hop: Any, age: Any, has_time: Any, row: int, count: int, budget: int, key: int,
    chosen: Any, entries: Any, places: Any, stamp: int,
) -> int:  # fmt: skip
    """Keep the seed and `budget - 1` other rows, drawn without replacement, in the order in which
    they were found, under a new stamp."""
    size = count - row
    chosen[:size] = size <= budget
    chosen[0] = True
    for c in range(budget - 1 if size > budget else 0):
        chosen[1 + permuted(c, size - 1, key)] = True
    kept = row
    for i in range(row, count):
        if chosen[i - row]:
            node[kept], hop[kept], age[kept], has_time[kept] = node[i], hop[i], age[i], has_time[i]
            slot = place(node[kept], entries, stamp)
            enter(node[kept], kept, slot, entries, places, stamp)
            kept += 1
    return kept


@compiled
def add_newest(
    node_time: Any, offsets: Any, limit: int, reference: int, end: int, depth: int,
    node: Any, hop: Any, age: Any, has_time: Any, count: int, entries: Any, places: Any, stamp: int, heads: Any,
) -> int:  # fmt: skip
    """Fill up to place `end` with the newest rows of any table before `limit`, linked or not;
    tables are sorted by time."""
    tables = offsets.shape[0] - 1
    for t in range(tables):
        low, high = offsets[t], offsets[t + 1]
        if low == high or node_time[low] == TIMELESS:
            high = low
        while low < high:
            middle = (low + high) >> 1
            if node_time[middle] < limit:
                low = middle + 1
            else:
                high = middle
        heads[t] = low - 1
    while count < end:
        best = -1
        for t in range(tables):
            if heads[t] >= offsets[t] and (
                best < 0 or node_time[heads[t]] > node_time[heads[best]]
            ):
                best = t
        if best < 0:
            break
        other = heads[best]
        heads[best] -= 1
        slot = place(other, entries, stamp)
        if is_free(slot, entries, stamp):
            enter(other, count, slot, entries, places, stamp)
            node[count], hop[count], age[count], has_time[count] = (
                other,
                depth,
                age_of(node_time[other], reference),
                True,
            )
            count += 1
    return count


BFS, RANDOM, RECENT = 0, 1, 2


@compiled
def sample_seeds(
    indptr: Any, indices: Any, list_time: Any, node_time: Any, parents: Any,
    offsets: Any, parent_start: Any, num_keys: Any, relation_start: Any, has_children: Any, has_leaves: Any, is_timeless: Any, guide: Any,
    seeds: Any, limits: Any, references: Any, keys: Any, strategy: int, budget: int, part: int, hops: int, fanout: int, shuffle: bool,
    node: Any, hop: Any, table: Any, age: Any, has_time: Any, source: Any, target: Any, relation: Any, ends: Any, edge_ends: Any, cut: Any,
    heads: Any, blocks: Any, chosen: Any, entries: Any, places: Any, stamp: int,
) -> int:  # fmt: skip
    """Sample seeds behind each other into the row arrays and the edge arrays; returns the last
    stamp.

    Args:
        part: How far the search goes: the budget, half of it (`recent`), or more, to draw from a
            larger neighbourhood (`random`).
        ends: (seeds,) where each subgraph's rows end; `edge_ends` likewise. Edges hold places in
            the row arrays.
        heads: (tables,) scratch, as are `blocks` (AHEAD + 1,) and, for `random`, `chosen` (part,).
    """
    row, edge, is_mixed = 0, 0, shuffle or strategy == RANDOM
    is_lazy = strategy != RECENT  # which asks of any row whether it is there
    for b in range(seeds.shape[0]):
        stamp += 1
        end, edge_end, done, cut[b] = search(
            indptr, indices, list_time, node_time, parents,
            offsets, parent_start, num_keys, relation_start, has_children, has_leaves, is_timeless, guide,
            seeds[b], limits[b], references[b], part, hops, fanout, is_mixed, keys[b], is_lazy, row, edge,
            node, hop, table, age, has_time, source, target, relation, entries, places, stamp,
        )  # fmt: skip
        if strategy == RECENT:
            end = add_newest(
                node_time, offsets, limits[b], references[b], row + budget, hops + 1,
                node, hop, age, has_time, end, entries, places, stamp, heads,
            )  # fmt: skip
            # a row that only time brought may be the parent of an earlier one
            edge_end, done = edge, row
        if strategy == RANDOM:
            stamp += 1
            drawn = mix(np.uint64(keys[b]) ^ np.uint64(0x5DEECE66D))
            end = thin(
                node, hop, age, has_time, row, end, budget, drawn, chosen, entries, places, stamp
            )
            edge_end, done = edge, row
        edge = induce(
            parents, offsets, parent_start, num_keys, relation_start, guide,
            node, table, done, end, edge_end, source, target, relation, entries, places, stamp, blocks,
        )  # fmt: skip
        row = end
        ends[b], edge_ends[b] = row, edge
    return stamp
