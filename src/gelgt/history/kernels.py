"""Compiled loops over lists of events: what columns say of them. Imported when they run, because
importing numba takes longer than opening a graph.

The sweeps add up each owner's events from its first one on, never across owners: the same events
give the same bits, whatever other rows there are.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gelgt.compiled import compiled

RECENT, LONGER = 5, 20  # events that the recent means look at
BLOCK = 64  # events between two stored sums
ACTIVE = 4  # windows before one that is active; in one of them lies an event


@compiled
def sweep_numbers(
    values: NDArray[Any],
    first: NDArray[np.int64],
    last: NDArray[np.int64],
    order: NDArray[np.int64],
    out: NDArray[np.float32],
) -> None:
    """Mean, minimum, maximum and standard deviation of the values `first … last` of each seed, the
    means of the newest `RECENT` and of the newest `LONGER`, and the newest three, NaN for none.

    Args:
        values: Of the events, by owner and time; NaN for missing.
        first: (S,) where each seed's events begin.
        last: (S,) where they end.
        order: The seeds by (first, last), so that each event is visited once.
        out: (S, 9), written.
    """
    start, place, count = -1, 0, 0
    mean, squares, total, low, high = 0.0, 0.0, 0.0, np.inf, -np.inf
    for s in order:
        if first[s] != start:
            start, place, count, total, low, high = first[s], first[s], 0, 0.0, np.inf, -np.inf
            mean, squares = 0.0, 0.0
        while place < last[s]:
            value = values[place]
            if not np.isnan(value):
                count += 1
                total += value
                step = value - mean
                mean += step / count
                squares += step * (value - mean)
                low, high = min(low, value), max(high, value)
            place += 1
        out[s, 0] = total / count if count else np.nan
        out[s, 1] = low if count else np.nan
        out[s, 2] = high if count else np.nan
        out[s, 3] = np.sqrt(squares / (count - 1)) if count > 1 else np.nan
        out[s, 4] = _mean_of_newest(values, first[s], last[s], RECENT)
        out[s, 5] = _mean_of_newest(values, first[s], last[s], LONGER)
        for back in range(3):
            there = last[s] - 1 - back
            out[s, 6 + back] = values[there] if there >= first[s] else np.nan


@compiled
def _mean_of_newest(values: NDArray[Any], first: int, last: int, most: int) -> float:
    total, count = 0.0, 0
    for i in range(max(first, last - most), last):
        if not np.isnan(values[i]):
            total += values[i]
            count += 1
    return total / count if count else np.nan


@compiled
def block_sums(
    values: NDArray[np.float32], starts: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """For every `BLOCK`-th event the sum and the number of its owner's values before it: a sum for
    each event would take three times as much memory as the values."""
    blocks = len(values) // BLOCK + 1
    sums, counts = np.zeros(blocks, np.float64), np.zeros(blocks, np.int64)
    for owner in range(len(starts) - 1):
        total, count = 0.0, 0
        for place in range(starts[owner], starts[owner + 1]):
            if place % BLOCK == 0:
                sums[place // BLOCK], counts[place // BLOCK] = total, count
            if not np.isnan(values[place]):
                total += values[place]
                count += 1
    return sums, counts


@compiled
def _before(
    place: int,
    first: int,
    values: NDArray[np.float32],
    sums: NDArray[np.float64],
    counts: NDArray[np.int64],
) -> tuple[float, int]:
    """The sum and the number of the values `first … place` of an owner whose events begin at
    `first`, added up from the first on, whatever block they lie in."""
    block = (place - 1) // BLOCK  # the event at `place` may be another owner's
    begin, total, count = first, 0.0, 0
    if block * BLOCK > first:
        begin, total, count = block * BLOCK, sums[block], counts[block]
    for i in range(begin, place):
        if not np.isnan(values[i]):
            total += values[i]
            count += 1
    return total, count


@compiled
def window_means(
    values: NDArray[np.float32],
    sums: NDArray[np.float64],
    counts: NDArray[np.int64],
    first: NDArray[np.int64],
    since: NDArray[np.int64],
    which: NDArray[np.int64],
    last: NDArray[np.int64],
) -> NDArray[np.float32]:
    """(W, S) the means of the values `since … last` of each seed, NaN for none, from the sums of
    blocks of events that begin at `first`.

    Args:
        since: (…, S) where windows of different lengths begin.
        which: (W,) those of them that are asked for.
    """
    out = np.full((len(which), len(first)), np.nan, np.float32)
    for s in range(len(first)):
        if last[s] == first[s]:
            continue
        whole, whole_count = _before(last[s], first[s], values, sums, counts)
        for w in range(len(which)):
            total, count, begin = whole, whole_count, since[which[w], s]
            if first[s] < begin < last[s]:
                older, older_count = _before(begin, first[s], values, sums, counts)
                total -= older
                count -= older_count
            if count and begin < last[s]:
                out[w, s] = total / count
    return out


@compiled
def counts_of_windows(
    since: NDArray[np.int64],
    last: NDArray[np.int64],
    whole: NDArray[np.int64],
    sizes: NDArray[np.int64],
) -> NDArray[np.float32]:
    """(M + 3, S) the number of events in each seed's last windows, as `sum_up` says it, and behind
    that how many of its windows are active.

    Args:
        since: (W + `ACTIVE`, S) where each seed's last 1, 2 … windows begin.
        last: (S,) where its events end.
        whole: (S,) its windows that count, at most W, 0 for none.
        sizes: (M,) over how many windows at most medians are taken.
    """
    out = np.full((len(sizes) + 3, len(last)), np.nan, np.float32)
    held, row = np.empty(len(since), np.float64), np.empty(len(sizes) + 2, np.float64)
    for s in range(len(last)):
        if not whole[s]:
            continue
        end = last[s]
        for w in range(whole[s]):
            held[w], end = end - since[w, s], since[w, s]
        out[-1, s] = sum_up(held, since[:, s], whole[s], sizes, row)
        out[:-1, s] = row
    return out


@compiled
def sum_up(
    held: NDArray[np.float64],
    since: NDArray[np.int64],
    whole: int,
    sizes: NDArray[np.int64],
    out: NDArray[np.float64],
) -> int:
    """Write (M + 2,) what the last windows of a seed hold: medians over all of them, then median
    and mean over those that are active, NaN where none is. How many are active.

    A window is active where an event lies in one of the `ACTIVE` windows before it. Entities are
    mostly asked about while something happens to them: their active windows are like those of
    labels.

    Args:
        held: (W + `ACTIVE`,) what each window holds, the newest first.
        since: (W + `ACTIVE`,) where its last 1, 2 … windows begin.
        whole: Windows that count, at least one and at most W.
        sizes: (M,) over how many of them at most medians are taken.
    """
    for m in range(len(sizes)):
        out[m] = np.median(held[: min(whole, sizes[m])])
    active, count = np.empty(whole, np.float64), 0
    for w in range(whole):
        if since[w + ACTIVE] < since[w]:
            active[count] = held[w]
            count += 1
    out[-2] = np.median(active[:count]) if count else np.nan
    out[-1] = active[:count].sum() / count if count else np.nan
    return count


@compiled
def sums_of_windows(
    values: NDArray[np.float32],
    sums: NDArray[np.float64],
    counts: NDArray[np.int64],
    first: NDArray[np.int64],
    since: NDArray[np.int64],
    last: NDArray[np.int64],
    whole: NDArray[np.int64],
    sizes: NDArray[np.int64],
) -> NDArray[np.float32]:
    """(M + 2, S) the sums of the values in each seed's last windows, as `sum_up` says it, from the
    sums of blocks of events that begin at `first`; the others as in `counts_of_windows`. A window
    without values holds 0."""
    out = np.full((len(sizes) + 2, len(last)), np.nan, np.float32)
    held, row = np.empty(len(since), np.float64), np.empty(len(sizes) + 2, np.float64)
    for s in range(len(last)):
        if not whole[s]:
            continue
        total = _before(last[s], first[s], values, sums, counts)[0]
        for w in range(whole[s]):
            older = 0.0
            if since[w, s] > first[s]:
                older = _before(since[w, s], first[s], values, sums, counts)[0]
            held[w], total = total - older, older
        sum_up(held, since[:, s], whole[s], sizes, row)
        out[:, s] = row
    return out


@compiled
def sweep_codes(
    codes: NDArray[Any],
    first: NDArray[np.int64],
    last: NDArray[np.int64],
    order: NDArray[np.int64],
    out: NDArray[np.float32],
) -> None:
    """Shares of the codes 0 … K-1 among the events `first … last` of each seed, then the newest
    code; out is (S, K + 1)."""
    most = out.shape[1] - 1
    counts = np.zeros(most, np.int64)
    start, place = -1, 0
    for s in order:
        if first[s] != start:
            start, place = first[s], first[s]
            counts[:] = 0
        while place < last[s]:
            if 0 <= codes[place] < most:
                counts[codes[place]] += 1
            place += 1
        events = last[s] - first[s]
        for k in range(most):
            out[s, k] = counts[k] / events if events else np.nan
        out[s, most] = codes[last[s] - 1] if events and codes[last[s] - 1] >= 0 else np.nan


@compiled
def prefix_medians(values: NDArray[np.float64], starts: NDArray[np.int64]) -> NDArray[np.float64]:
    """For each value the median of its group up to and with it; group g is
    `starts[g] … starts[g + 1]`.

    A Fenwick tree over the ranks of a group counts what has come so far: O(log n) a value, however
    long the group.
    """
    out = np.empty(len(values), np.float64)
    for g in range(len(starts) - 1):
        group = values[starts[g] : starts[g + 1]]
        order = np.argsort(group)
        rank = np.empty(len(group), np.int64)
        rank[order] = np.arange(len(group))
        tree = np.zeros(len(group) + 1, np.int64)
        top = 1
        while top * 2 <= len(group):
            top *= 2
        for i in range(len(group)):
            node = rank[i] + 1
            while node <= len(group):
                tree[node] += 1
                node += node & -node
            total = 0.0
            # the two middle ones, which are the same for an odd number
            for index in (i // 2, (i + 1) // 2):
                place, rest, step = 0, index, top
                while step:
                    if place + step <= len(group) and tree[place + step] <= rest:
                        place += step
                        rest -= tree[place]
                    step //= 2
                total += group[order[place]]
            out[starts[g] + i] = total / 2
    return out
