"""Compiled loops over the sampled rows of one seed, of which each variant lacks some."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gelgt.compiled import compiled


@compiled
def reach(
    starts: NDArray[np.int64],
    neighbours: NDArray[np.int64],
    state: NDArray[np.int64],
    is_loose: NDArray[np.bool_],
    hop: NDArray[np.int64],
    hops: int,
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Breadth-first search from the seed over the rows that a variant has, in the sampler's order.

    Args:
        starts: (K + 1,) where the neighbours of each row begin.
        neighbours: Rows, in the order in which the sampler looks at them.
        state: (V, U) of the units, rows first; 0 where a variant lacks one.
        is_loose: (K,) rows that no key links to the seed within the hops: they need no path.
        hop: (K,) distance at which the sampler found each row; where it looks at few children of
            a row, that is more than the keys say.
        hops: Depth of the search.

    Returns:
        (T,) rows, their distances and states, variant after variant, and (V + 1,) where each
        begins.
    """
    variants, count_of = len(state), len(hop)
    rows = np.empty(variants * count_of, np.int64)
    depth = np.empty(variants * count_of, np.int64)
    offsets = np.zeros(variants + 1, np.int64)
    is_found = np.empty(count_of, np.bool_)
    count = 0
    for v in range(variants):
        is_found[:] = False
        place = count
        rows[count], depth[count], is_found[0] = 0, 0, True
        count += 1
        while place < count:
            if depth[place] < hops:
                for e in range(starts[rows[place]], starts[rows[place] + 1]):
                    other = neighbours[e]
                    if not is_found[other] and not is_loose[other] and state[v, other] != 0:
                        rows[count] = other
                        depth[count] = max(depth[place] + 1, hop[other])
                        is_found[other] = True
                        count += 1
            place += 1
        for other in range(count_of):
            if is_loose[other] and state[v, other] != 0:
                rows[count], depth[count] = other, hop[other]
                count += 1
        offsets[v + 1] = count
    seen = np.empty(count, np.int64)
    for v in range(variants):
        for t in range(offsets[v], offsets[v + 1]):
            seen[t] = state[v, rows[t]]
    return rows[:count], depth[:count], seen, offsets


@compiled
def link(
    rows: NDArray[np.int64],
    offsets: NDArray[np.int64],
    starts: NDArray[np.int64],
    parents: NDArray[np.int64],
    relations: NDArray[np.int64],
) -> tuple[NDArray[Any], NDArray[Any]]:
    """The foreign keys among the rows of each variant.

    Args:
        rows: (T,) rows of the variants.
        offsets: (V + 1,) where each variant begins.
        starts: (K + 1,) where the keys of each row begin.
        parents: The row that each key refers to.
        relations: Its relation.

    Returns:
        (2, E) places of child and parent in `rows`, and (E,) relations.
    """
    most = 0
    for t in range(len(rows)):
        most += starts[rows[t] + 1] - starts[rows[t]]
    edges, kinds = np.empty((2, most), np.int64), np.empty(most, np.int64)
    place = np.empty(len(starts) - 1, np.int64)
    count = 0
    for v in range(len(offsets) - 1):
        place[:] = -1
        for t in range(offsets[v], offsets[v + 1]):
            place[rows[t]] = t
        for t in range(offsets[v], offsets[v + 1]):
            for e in range(starts[rows[t]], starts[rows[t] + 1]):
                if place[parents[e]] >= 0:
                    edges[0, count], edges[1, count] = t, place[parents[e]]
                    kinds[count] = relations[e]
                    count += 1
    return edges[:, :count], kinds[:count]


@compiled
def weights(count: int, start: int) -> NDArray[np.uint64]:
    """So many random odd numbers of 64 bits (splitmix64), the same each time."""
    made, value = np.empty(count, np.uint64), np.uint64(start)
    for k in range(count):
        value += np.uint64(0x9E3779B97F4A7C15)
        mixed = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        made[k] = (mixed ^ (mixed >> np.uint64(31))) | np.uint64(1)
    return made


@compiled
def fingerprints(
    rows: NDArray[np.int64],
    seen: NDArray[np.int64],
    offsets: NDArray[np.int64],
    words: NDArray[np.int32],
) -> NDArray[np.uint64]:
    """A number of 64 bits for each variant, the same for those that a model cannot tell apart: a
    sum with random weights, so that two others share one less often than memory fails.

    Args:
        rows: (T,) rows of the variants.
        seen: (T,) their states.
        offsets: (V + 1,) where each variant begins.
        words: (V, F) the bits of their history columns.
    """
    prints = np.zeros(len(offsets) - 1, np.uint64)
    most = 0
    for v in range(len(prints)):
        most = max(most, offsets[v + 1] - offsets[v])
    of_row, of_state, of_word = weights(most, 1), weights(most, 2), weights(words.shape[1], 3)
    for v in range(len(prints)):
        value = np.uint64(offsets[v + 1] - offsets[v])
        for t in range(offsets[v], offsets[v + 1]):
            k = t - offsets[v]
            value += np.uint64(rows[t]) * of_row[k] + np.uint64(seen[t]) * of_state[k]
        for f in range(words.shape[1]):
            value += np.uint64(np.uint32(words[v, f])) * of_word[f]
        prints[v] = value ^ (value >> np.uint64(32))
    return prints


@compiled
def row_prints(kinds: NDArray[np.int64]) -> NDArray[np.uint64]:
    """A number of 64 bits for each row (n, K), the same for equal rows, as `fingerprints`."""
    prints, weight = np.zeros(len(kinds), np.uint64), weights(kinds.shape[1], 4)
    for v in range(len(kinds)):
        value = np.uint64(0)
        for k in range(kinds.shape[1]):
            value += np.uint64(kinds[v, k]) * weight[k]
        prints[v] = value ^ (value >> np.uint64(32))
    return prints


@compiled
def place_keys(
    keys: NDArray[np.uint64], slots: NDArray[np.uint64], numbers: NDArray[np.int64], count: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Look keys up in a hash table, and number those that are new.

    Args:
        keys: (n,) what is looked for.
        slots: (S,) the table's keys, where numbers are not negative; S is a power of 2. Written.
        numbers: (S,) of the keys, -1 for free. Written.
        count: Numbers that are given away already.

    Returns:
        (n,) the number of each key, and the places of the new ones, each once.
    """
    found, new = np.empty(len(keys), np.int64), np.empty(len(keys), np.int64)
    added, last = 0, np.uint64(len(slots) - 1)
    for k in range(len(keys)):
        slot = np.int64(keys[k] & last)
        while numbers[slot] >= 0 and slots[slot] != keys[k]:
            slot = (slot + 1) & np.int64(last)
        if numbers[slot] < 0:
            slots[slot], numbers[slot] = keys[k], count + added
            new[added] = k
            added += 1
        found[k] = numbers[slot]
    return found, new[:added].copy()
