"""Event lists: the rows that belong to an owner, sorted by time. A seed sees the beginning of its
owner's list, up to its limit.

A path of foreign keys leads from an owner to rows of some table; `>` follows a key to the parent
row, `<` leads to the child rows:

    < results.driverId                      the results of a driver
    < results.driverId > raceId             the races of those results
    < orders.customer_id < items.order_id   the items of a customer's orders
    < orders.customer_id @cancelled_at      the cancellations of a customer's orders

An event has the newest time on its path, so that it is visible once every row of the path is. A
row without a time in a timed table is never visible, and one of a timeless table always, as in the
sampler. A date inside a row, which is unknown before it happens, is an event of its own: it is not
older than the row, and brings with it what was filled in along with it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gelgt.features.values import MISSING_TIME
from gelgt.graph import NEVER, Graph
from gelgt.history.keys import Key

Numbers = NDArray[Any]  # of rows or places, in the type of the graph's nodes: 4 bytes mostly
CHUNK = 1 << 22  # rows of a table that are looked through at a time
WINDOW = 1 << 26  # bytes of a file from which values are taken at a time
# Lists of neighbours lie scattered, rows one behind the other: so many neighbours take as long to
# look at as one row.
SCATTERED = 8


def row_times(graph: Graph, table: str) -> NDArray[np.int64]:
    """The times of a table's rows; TIMELESS and NEVER as in the graph."""
    number = graph.table_number(table)
    return graph.node_time[graph.offsets[number] : graph.offsets[number + 1]]


def parents_of(graph: Graph, key: Key, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """The row of the parent that each row of the child names; -1 for none, and for the row -1."""
    block = graph.table_parents(key.child)
    if not len(block):
        return np.full(len(rows), -1, np.int64)
    nodes = np.where(rows >= 0, block[np.maximum(rows, 0), key.place], -1)
    first = graph.offsets[graph.table_number(key.parent)]
    return np.where(nodes >= 0, nodes - first, -1).astype(np.int64)


@dataclass(frozen=True)
class Events:
    """N events of one path, by (owner, time, row).

    Attributes:
        owners: (O,) the rows of the owner table that seeds ask about, ascending.
        row: (N,) rows of the path's last table.
        time: (N,) seconds.
        starts: (O + 1,) where each owner's events begin.
        version: (N,) what is read of those rows (`features/versions.py`); None for the rows.
    """

    owners: NDArray[np.int64]
    row: Numbers
    time: NDArray[np.int64]
    starts: NDArray[np.int64]
    version: Numbers | None = None

    @property
    def read(self) -> Numbers:
        """(N,) the rows or versions whose columns are read."""
        return self.row if self.version is None else self.version

    @classmethod
    def of(
        cls,
        owners: NDArray[np.int64],
        place: Numbers,
        time: NDArray[np.int64],
        row: Numbers,
    ) -> "Events":
        """Sort events by time, in place; left out are those without one.

        Args:
            owners: (O,) the owners.
            place: (n,) the place of each event's owner among them, ascending; events of one owner
                and time keep their order.
            time: (n,) seconds.
            row: (n,) rows of the path's last table.
        """
        from gelgt.history.event_kernels import sort_by_time

        if np.any(is_never := time == NEVER):
            place, time, row = place[~is_never], time[~is_never], row[~is_never]
        starts = _starts(place, len(owners))
        sort_by_time(time, row, starts)
        return cls(owners, row, time, starts)

    def view(self, owners: NDArray[np.int64], limits: NDArray[np.int64]) -> "View":
        """What each seed sees: the events of its owner (-1 for none) before its limit."""
        if not len(self.owners):
            return self._seen(np.full(len(owners), -1), limits)
        place = np.searchsorted(self.owners, np.maximum(owners, self.owners[0]))
        return self._seen(np.where(owners >= 0, place, -1), limits)

    def _seen(self, place: NDArray[np.int64], limits: NDArray[np.int64]) -> "View":
        from gelgt.history.event_kernels import first_from

        first = self.starts[np.maximum(place, 0)]
        end = np.where(place >= 0, self.starts[place + 1], first)
        last = first_from(self.time, first, end, limits)
        return View(self, first, last, np.lexsort((last, first)), place, limits)

    def at_dates(self, dates: NDArray[np.int64]) -> "Events":
        """The dates (rows,) of the events' rows as events, where there are some."""
        own = taken(dates, self.row, MISSING_TIME)
        is_there = own != MISSING_TIME
        place = np.repeat(np.arange(len(self.owners), dtype=self.row.dtype), np.diff(self.starts))
        times = np.maximum(self.time, own)[is_there]
        return Events.of(self.owners, place[is_there], times, self.row[is_there])


@dataclass(frozen=True)
class View:
    """The events of S seeds.

    Attributes:
        events: Where they lie.
        first: (S,) where each seed's events begin.
        last: (S,) where they end.
        order: The seeds by (first, last).
        place: (S,) the owner of each seed among those of the events, -1 for none.
        limits: (S,) the first second that each seed may not see.
    """

    events: Events
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    order: NDArray[np.int64]
    place: NDArray[np.int64]
    limits: NDArray[np.int64]
    _kept: dict[str, NDArray[np.int64]] = field(default_factory=dict, compare=False, repr=False)
    _lock: Lock = field(default_factory=Lock, compare=False, repr=False)

    def kept(self, name: str, make: Callable[[], NDArray[np.int64]]) -> NDArray[np.int64]:
        """What was made the first time under a name, for columns that are computed in different
        threads."""
        with self._lock:
            if name not in self._kept:
                self._kept[name] = make()
        return self._kept[name]

    @property
    def is_empty(self) -> NDArray[np.bool_]:
        return np.equal(self.last, self.first)

    def first_from(self, moments: NDArray[np.int64]) -> NDArray[np.int64]:
        """(S,) the first of each seed's events that is not before its moment; `last` for none."""
        from gelgt.history.event_kernels import first_from

        return first_from(self.events.time, self.first, self.last, moments)

    def by_day(self) -> "View":
        """The same of the first events of each owner's days: the lines of an order, or all clicks
        of a visit, are one of them."""
        from gelgt.history.event_kernels import first_of_days

        events = self.events
        kept = first_of_days(events.time, events.starts)
        of_days = Events(
            events.owners,
            events.row[kept],
            events.time[kept],
            np.searchsorted(kept, events.starts),
        )
        first, last = np.searchsorted(kept, self.first), np.searchsorted(kept, self.last)
        return View(of_days, first, last, self.order, self.place, self.limits)

    def at_dates(self, dates: NDArray[np.int64]) -> "View":
        """What the seeds see of the dates (rows,) in the rows of these events."""
        return self.events.at_dates(dates)._seen(self.place, self.limits)

    @property
    def newest(self) -> NDArray[np.int64]:
        """(S,) the row of each seed's newest event, -1 where there is none."""
        return self._newest(self.events.row)

    @property
    def newest_read(self) -> NDArray[np.int64]:
        """(S,) the row or version of a row whose columns are read of it."""
        return self._newest(self.events.read)

    def _newest(self, rows: Numbers) -> NDArray[np.int64]:
        if not len(rows):
            return np.full(len(self.first), -1, np.int64)
        return np.where(self.is_empty, -1, rows[np.maximum(self.last - 1, 0)])


def children(graph: Graph, key: Key, owners: NDArray[np.int64]) -> Events:
    """`< key`: the rows that name an owner."""
    place, row = rows_below(graph, key, owners, np.arange(len(owners)))
    return Events.of(owners, place, _taken(row_times(graph, key.child), row), row)


def other_parents(graph: Graph, key: Key, other: Key, owners: NDArray[np.int64]) -> Events:
    """`< key > other`: the other parents of an owner's children, once for each child."""
    place, row = rows_below(graph, key, owners, np.arange(len(owners)))
    parent = _parents(graph, other, row)
    filled = parent >= 0
    place, row, parent = place[filled], row[filled], parent[filled]
    time = _taken(row_times(graph, key.child), row)
    _raise_to(time, row_times(graph, other.parent), parent)
    return Events.of(owners, place, time, parent)


def grandchildren(graph: Graph, key: Key, below: Key, owners: NDArray[np.int64]) -> Events:
    """`< key < below`: the rows that name an owner's children."""
    child_place, child = rows_below(graph, key, owners, np.arange(len(owners)))
    place, row = rows_below(graph, below, child, child_place)
    time = _taken(row_times(graph, below.child), row)
    _raise_to(time, row_times(graph, key.child), _parents(graph, below, row))
    return Events.of(owners, place, time, row)


def _parents(graph: Graph, key: Key, row: Numbers) -> Numbers:
    """`parents_of` in the type of the rows."""
    parents = taken(graph.table_parents(key.child)[:, key.place], row, -1)
    first = graph.offsets[graph.table_number(key.parent)]
    parents[parents >= 0] -= parents.dtype.type(first)
    return parents


def _taken(values: NDArray[np.int64], row: Numbers) -> NDArray[np.int64]:
    """The times of some rows."""
    times: NDArray[np.int64] = taken(values, row, NEVER)
    return times


def taken(values: NDArray[Any], rows: Numbers, missing: float) -> NDArray[Any]:
    """The values of some rows; `missing` for the row -1, and where there are no values.

    NumPy would make an index of 8 bytes a row of all rows at once, and read the values in the order
    of the rows.
    """
    from gelgt.history.event_kernels import gather

    out = np.full(len(rows), missing, values.dtype)
    window = max(1, WINDOW // max(1, abs(values.strides[0])))
    if len(rows) > CHUNK and len(values) > window:
        gather(values, rows, window, int(rows.max()), out)
        return out
    for part in chunks(len(rows) if len(values) else 0):
        some = rows[part]
        if some.min(initial=0) >= 0:
            out[part] = values[some]
        else:
            filled = some >= 0
            out[part][filled] = values[some[filled]]
    return out


def _raise_to(times: NDArray[np.int64], values: NDArray[np.int64], row: Numbers) -> None:
    """Replace times by the values of some rows where these are later."""
    np.maximum(times, _taken(values, row), out=times)


def chunks(count: int) -> Iterator[slice]:
    """Slices of so many rows: what NumPy makes on the way then stays small."""
    return (slice(start, start + CHUNK) for start in range(0, count, CHUNK))


def rows_below(
    graph: Graph, key: Key, parents: Numbers, places: Numbers
) -> tuple[Numbers, Numbers]:
    """The rows that name some parents by a key, by (place of the parent's owner, row): places (n,)
    and rows (n,).

    A few parents are looked up in their lists of neighbours, so that this takes as long as they
    have neighbours; for many the rows are looked through.

    Args:
        parents: (m,) rows of the parent table, each once.
        places: (m,) the place of the owner that each of them belongs to, ascending.
    """
    from gelgt.history.event_kernels import by_owner, listed_rows

    block = graph.table_parents(key.child)
    if _have_few_neighbours(graph, key.parent, parents, len(block)):
        nodes = graph.nodes(key.parent, parents)
        first_child = graph.offsets[graph.table_number(key.child)]
        lists = (graph.indptr, graph.indices, block[:, key.place])
        listed: tuple[Numbers, Numbers] = listed_rows(*lists, nodes, places, first_child)
        return listed
    place, row = _rows_among(graph, key, parents, places)
    sorted_: tuple[Numbers, Numbers] = by_owner(
        place, row, _starts(place, 1 + int(places.max(initial=-1)))
    )
    return sorted_


def _have_few_neighbours(graph: Graph, table: str, rows: Numbers, others: int) -> bool:
    """Whether it takes less to look at all neighbours of some rows than at so many other rows."""
    count = 0
    for part in chunks(len(rows)):
        nodes = graph.nodes(table, rows[part])
        count += int((graph.indptr[nodes + 1] - graph.indptr[nodes]).sum())
        if SCATTERED * count >= others:
            return False
    return SCATTERED * count < others


def _starts(place: Numbers, count: int) -> NDArray[np.int64]:
    """(count + 1,) where the events of each owner begin, by the places of their owners."""
    number = np.zeros(count, np.int64)
    for part in chunks(len(place)):
        number += np.bincount(place[part], minlength=count)
    return np.concatenate([[0], np.cumsum(number)]).astype(np.int64)


def _rows_among(
    graph: Graph, key: Key, parents: Numbers, places: Numbers
) -> tuple[Numbers, Numbers]:
    """The same by looking at every row of the child, in the order of rows."""
    number = graph.table_number(key.parent)
    first, size = graph.offsets[number], graph.offsets[number + 1] - graph.offsets[number]
    kind = graph.parents.dtype
    owner = np.full(size + 1, -1, kind)  # of each parent; the last one stands for none
    owner[parents] = places
    column, all_places, all_rows = graph.table_parents(key.child)[:, key.place], [], []
    for start in range(0, len(column), CHUNK):
        named = column[start : start + CHUNK]
        place = owner[np.where(named >= 0, named - first, size)]
        used = np.flatnonzero(place >= 0)
        all_places.append(place[used])
        all_rows.append((used + start).astype(kind))
    none = np.zeros(0, kind)
    place = np.concatenate([none, *all_places])
    all_places.clear()
    return place, np.concatenate([none, *all_rows])
