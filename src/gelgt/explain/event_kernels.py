"""Compiled loops over lists of events that variants of a seed share: when the events happened. The
numbers are those of `SeedColumns.of_events`."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gelgt.compiled import compiled
from gelgt.graph import NEVER, TIMELESS
from gelgt.history.event_kernels import first_of_days
from gelgt.history.kernels import ACTIVE, counts_of_windows

DAY = 86_400


class EventLists(NamedTuple):
    """m lists over the n events of a path.

    Attributes:
        row: (n,) rows of the events.
        time: (n,) their times.
        event: (N,) the events of each list, list after list.
        read: (N,) whose columns are read: an event's own, or n plus a stand-in of the table.
        bounds: (m + 1,) where each list begins.
        which: (V,) the list of each variant.
    """

    row: Any
    time: Any
    event: Any
    read: Any
    bounds: Any
    which: Any


class Times(NamedTuple):
    """The time from which ages are measured, seconds of a window, and over how many windows, in
    ascending order, means are taken, events are counted and medians are taken of windows; which of
    the newest events have an age."""

    reference: Any
    window: Any
    mean_windows: Any
    count_windows: Any
    median_windows: Any
    back: Any


@compiled
def fill_events(
    lists: EventLists, times: Times, places: NDArray[np.int64], out: NDArray[np.float32]
) -> None:
    """Write the number, windows, ages and gaps of the events of one path for all variants; places
    (22,) as in `Block.own`."""
    count = np.diff(lists.bounds)
    made, since = np.empty((len(count), len(places)), np.float32), np.empty(len(count), np.int64)
    made[:, 0] = count
    at = 1
    for w in range(len(times.count_windows)):
        if places[at] >= 0:
            first_since(lists, times, times.count_windows[w], since)
            made[:, at] = lists.bounds[1:] - since
        at += 1
    of_windows = len(times.median_windows) + 3
    if places[at : at + of_windows].max() >= 0:
        whole, windows = windows_of(lists, times)
        found = counts_of_windows(windows, lists.bounds[1:], whole, times.median_windows)
        made[:, at : at + of_windows] = found.T
    at += of_windows
    for m in range(len(count)):
        last = lists.bounds[m + 1]
        for b in range(len(times.back)):
            back = times.back[b]
            made[m, at + b] = np.nan
            if count[m] >= back:
                made[m, at + b] = age_of(lists.time[lists.event[last - back]], times.reference)
        gaps = at + len(times.back)  # mean gap, last gap, overdue
        made[m, gaps:] = np.nan
        if count[m] > 1:
            newest = lists.time[lists.event[last - 1]]
            mean_gap = (newest - lists.time[lists.event[lists.bounds[m]]]) / DAY / (count[m] - 1)
            made[m, gaps] = mean_gap
            made[m, gaps + 1] = (newest - lists.time[lists.event[last - 2]]) / DAY
            if mean_gap > 0:
                made[m, gaps + 2] = np.float32(age_of(newest, times.reference)) / mean_gap
    give(made, lists.which, places, out)


@compiled
def of_days(lists: EventLists) -> EventLists:
    """The first events of the days of each list: as `View.by_day`."""
    kept = first_of_days(lists.time[lists.event], lists.bounds)
    event, bounds = lists.event[kept], np.searchsorted(kept, lists.bounds)
    return EventLists(lists.row, lists.time, event, event, bounds, lists.which)


@compiled
def first_since(lists: EventLists, times: Times, windows: int, out: NDArray[np.int64]) -> None:
    """Write (m,) the first event of each list in the last windows, where it ends if there is
    none."""
    moment = times.reference - windows * times.window
    for m in range(len(out)):
        low, high = lists.bounds[m], lists.bounds[m + 1]
        while low < high:
            middle = (low + high) // 2
            if lists.time[lists.event[middle]] < moment:
                low = middle + 1
            else:
                high = middle
        out[m] = low


@compiled
def windows_of(lists: EventLists, times: Times) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(m,) whole windows since the first event of each list, at most W, and (W + `ACTIVE`, m) the
    first event in its last 1, 2 … windows: as in `SeedColumns`."""
    most, count = times.median_windows.max(), len(lists.bounds) - 1
    whole, since = np.zeros(count, np.int64), np.empty((most + ACTIVE, count), np.int64)
    for w in range(len(since)):
        first_since(lists, times, w + 1, since[w])
    for m in range(count):
        if lists.bounds[m + 1] > lists.bounds[m]:
            oldest = lists.time[lists.event[lists.bounds[m]]]
            whole[m] = min(max((times.reference - oldest) // times.window, 1), most)
    return whole, since


@compiled
def give(
    made: NDArray[np.float32],
    which: NDArray[np.int64],
    places: NDArray[np.int64],
    out: NDArray[np.float32],
) -> None:
    """Give every variant the values (m, S) of its list, where they have a place."""
    for v in range(len(which)):
        for s in range(len(places)):
            if places[s] >= 0:
                out[v, places[s]] = made[which[v], s]


@compiled
def age_of(time: int, reference: int) -> float:
    return np.nan if time in (NEVER, TIMELESS) else (reference - time) / DAY
