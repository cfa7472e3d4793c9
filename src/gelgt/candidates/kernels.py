"""The walk from seeds along paths of foreign keys to destination rows, compiled.

Every row on a walk is visible to its seed. A list of children is newest first, so that what is
bounded is always the newest. Destinations of one seed are gathered in a small hash table.
"""

from typing import Any

import numpy as np

from gelgt.compiled import compiled
from gelgt.sampling.arrays import GraphArrays
from gelgt.sampling.search import first_before

TIMELESS = np.iinfo(np.int64).min
NONE = np.int64(-1)


@compiled
def place_of(row: Any, rows: Any, slots: Any, seed: Any, count: Any) -> Any:
    """Where a destination stands among those of its seed, entered if it is new; -1 where there is
    no room. A slot (2,) holds the seed that it was filled for, and the place."""
    mask = len(slots) - 1
    at = (row * np.int64(0x9E3779B1)) & mask
    while slots[at, 0] == seed:
        if rows[slots[at, 1]] == row:
            return np.int64(slots[at, 1])
        at = (at + 1) & mask
    if count[0] >= len(rows):
        return NONE
    slots[at, 0], slots[at, 1], rows[count[0]] = seed, count[0], row
    count[0] += 1
    return np.int64(count[0] - 1)


@compiled
def one_walk(
    graph: GraphArrays,
    steps: Any,
    seed: Any,
    limit: Any,
    fanout: Any,
    nodes: Any,
    times: Any,
) -> Any:
    """Follow one path from one seed. Gives how many ends it has; they stand, with the newest time
    of their walk, in the half of `nodes` and `times` (2, W) that an even number of steps ends in:
    ``len(steps) % 2``."""
    nodes[0, 0], times[0, 0] = seed, TIMELESS
    count = 1
    for level in range(len(steps)):
        here, there = level % 2, (level + 1) % 2
        is_down, table, key = steps[level, 0] == 1, steps[level, 1], steps[level, 2]
        keys, first = graph.num_keys[table], graph.offsets[table]
        block, after = graph.parent_start[table], graph.offsets[table + 1]
        is_end, new = level + 1 == len(steps), 0
        for i in range(count):
            node, time = nodes[here, i], times[here, i]
            if not is_down:
                parent = np.int64(graph.parents[block + (node - first) * keys + key])
                if parent < 0:
                    continue
                seen = graph.node_time[parent]
                if seen >= limit:
                    continue
                nodes[there, new] = parent
                times[there, new] = time if is_end else max(time, seen)
                new += 1
                continue
            stop, taken = graph.indptr[node + 1], 0
            at = first_before_children(graph, node, stop, limit)
            while at < stop and taken < fanout and new < nodes.shape[1]:
                child = np.int64(graph.indices[at])
                if (
                    first <= child < after
                    and graph.parents[block + (child - first) * keys + key] == node
                ):
                    nodes[there, new] = child
                    times[there, new] = time if is_end else max(time, graph.list_time[at])
                    new, taken = new + 1, taken + 1
                at += 1
        count = new
    return count


@compiled
def first_before_children(graph: GraphArrays, node: Any, stop: Any, limit: Any) -> Any:
    """Where the visible children of a node begin: behind its parents, which stand first."""
    table = 0
    while node >= graph.offsets[table + 1]:
        table += 1
    keys = graph.num_keys[table]
    begin = graph.parent_start[table] + (node - graph.offsets[table]) * keys
    filled = 0
    for key in range(keys):
        filled += graph.parents[begin + key] >= 0
    return first_before(graph.list_time, graph.indptr[node] + filled, stop, limit)


@compiled
def walk_paths(
    graph: GraphArrays,
    steps: Any,
    lengths: Any,
    first: Any,
    seeds: Any,
    limits: Any,
    fanout: Any,
    width: Any,
    extra: Any,
    extra_start: Any,
    rows: Any,
    counts: Any,
    newest: Any,
    found: Any,
) -> None:
    """Candidates of S seeds along P paths.

    Args:
        steps: (P, L, 3) the paths, as `Path.codes` gives them.
        lengths: (P,) steps of each path.
        first: First node of the destination table.
        seeds: (S,) nodes.
        limits: (S,) the first second that each seed may not see.
        fanout: Most children of a row.
        width: Most rows of a level.
        extra: Destination rows that are candidates without a path.
        extra_start: (S, 2) which of them each seed gets: from, to.
        rows: (S, M) out: destination rows, -1 behind the last.
        counts: (S, M, P) out: walks that end there.
        newest: (S, M, P) out: the newest time of those walks.
        found: (S,) out: how many candidates paths reached; those behind are extra.
    """
    size = 1
    while size < 2 * rows.shape[1] + 2:
        size *= 2
    slots = np.full((size, 2), NONE)
    nodes = np.empty((2, width), np.int64)
    times = np.empty((2, width), np.int64)
    count = np.zeros(1, np.int64)
    for s in range(len(seeds)):
        count[0] = 0
        for p in range(len(lengths)):
            ends = one_walk(
                graph, steps[p, : lengths[p]], seeds[s], limits[s], fanout, nodes, times
            )
            half = lengths[p] % 2
            for i in range(ends):
                at = place_of(nodes[half, i] - first, rows[s], slots, s, count)
                if at >= 0:
                    counts[s, at, p] += 1
                    newest[s, at, p] = max(newest[s, at, p], times[half, i])
        found[s] = count[0]
        for i in range(extra_start[s, 0], extra_start[s, 1]):
            place_of(extra[i], rows[s], slots, s, count)


@compiled
def popularity(row: Any, time: Any, limit: Any, reference: Any, window: Any, weights: Any) -> None:
    """Add up the links of each destination before a limit, each with the weight 1 / (1 + age in
    windows).

    Args:
        row: (N,) destinations of links, by time.
        time: (N,) their times, ascending.
        weights: (D,) out.
    """
    for i in range(len(row)):
        if time[i] >= limit:
            break
        age = max(0.0, (reference - time[i]) / window)
        weights[row[i]] += 1.0 / (1.0 + age)


@compiled
def shared_values(
    start: Any,
    values: Any,
    times: Any,
    rows: Any,
    had: Any,
    limits: Any,
    tally: Any,
    out: Any,
) -> None:
    """Of what each seed has had, how much has the values of each candidate.

    Args:
        start: (D + 1,) where the values of each destination begin.
        values: (N,) numbers from 0; -1 for a missing one.
        times: (V,) from when on each value can be seen.
        rows: (S, M) candidates; -1 behind the last.
        had: (S, M) how often the seed has had each.
        limits: (S,) the first second that each seed may not see.
        tally: zeros, one for each value; zeros again behind it.
        out: (S, M, 2) the share, and the logarithm of the count; kept where nothing is known.
    """
    for s in range(len(rows)):
        total = 0
        for m in range(rows.shape[1]):
            row = rows[s, m]
            if row >= 0 and had[s, m] > 0:
                total += had[s, m]
                for i in range(start[row], start[row + 1]):
                    if values[i] >= 0 and times[values[i]] < limits[s]:
                        tally[values[i]] += had[s, m]
        if total == 0:
            continue
        for m in range(rows.shape[1]):
            row, known, count = rows[s, m], 0, 0.0
            if row < 0:
                continue
            for i in range(start[row], start[row + 1]):
                if values[i] >= 0 and times[values[i]] < limits[s]:
                    known, count = known + 1, count + tally[values[i]]
            if known > 0:
                out[s, m, 0] = count / known / total
                out[s, m, 1] = np.log1p(count / known)
        for m in range(rows.shape[1]):
            row = rows[s, m]
            if row >= 0 and had[s, m] > 0:
                for i in range(start[row], start[row + 1]):
                    if values[i] >= 0 and times[values[i]] < limits[s]:
                        tally[values[i]] = 0.0
