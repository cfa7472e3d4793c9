"""Event lists: the rows that belong to an owner, sorted by time. A seed sees the beginning of its
owner's list, up to its limit.

A path of foreign keys leads from an owner to rows of some table; `>` follows a key to the parent
row, `<` leads to the child rows:

    < results.driverId                      the results of a driver
    < results.driverId > raceId             the races of those results
    < orders.customer_id < items.order_id   the items of a customer's orders

An event has the newest time on its path, so that it is visible once every row of the path is. A
row without a time in a timed table is never visible, and one of a timeless table always, as in the
sampler.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gelgt.graph import NEVER, Graph


@dataclass(frozen=True)
class Key:
    """A foreign key: `column` of `child`, the place of the column among its keys, and the table it
    refers to."""

    child: str
    column: str
    place: int
    parent: str


def keys_of(graph: Graph, hidden: frozenset[tuple[str, str]]) -> list[Key]:
    """Every foreign key that a task may see."""
    places = {t: [r.column for r in graph.relations if r.child == t] for t in graph.tables}
    every = [
        Key(r.child, r.column, places[r.child].index(r.column), r.parent) for r in graph.relations
    ]
    return [key for key in every if (key.child, key.column) not in hidden]


def row_times(graph: Graph, table: str) -> NDArray[np.int64]:
    """The times of a table's rows; TIMELESS and NEVER as in the graph."""
    number = graph.table_number(table)
    return graph.node_time[graph.offsets[number] : graph.offsets[number + 1]]


def parent_rows(graph: Graph, key: Key) -> NDArray[np.int64]:
    """For each row of the child, the row of the parent or -1."""
    nodes = graph.table_parents(key.child)[:, key.place]
    rows: NDArray[np.int64] = nodes.astype(np.int64)
    rows -= graph.offsets[graph.table_number(key.parent)]  # in place: tables may have many rows
    rows[nodes < 0] = -1
    return rows


@dataclass(frozen=True)
class Events:
    """N events of one path, by (owner, time, row).

    Attributes:
        row: (N,) rows of the path's last table.
        time: (N,) seconds.
        starts: (owners + 1,) where each owner's events begin.
    """

    row: NDArray[np.int64]
    time: NDArray[np.int64]
    starts: NDArray[np.int64]

    @classmethod
    def of(
        cls,
        owner: NDArray[np.int64],
        time: NDArray[np.int64],
        row: NDArray[np.int64],
        is_owner: NDArray[np.bool_],
    ) -> "Events":
        """Sort events; left out are those without an owner, of owners that no seed asks about, and
        of rows without a time.

        Args:
            owner: (n,) the owner of each event, -1 for none.
            time: (n,) seconds.
            row: (n,) rows of the path's last table.
            is_owner: (owners,) which rows of the owner table some seed asks about.
        """
        from gelgt.history.kernels import by_owner

        if len(is_owner):
            used = np.flatnonzero((owner >= 0) & (time != NEVER) & is_owner[owner])
        else:
            used = np.zeros(0, np.int64)
        owner, time, row = owner[used], time[used], row[used]
        if np.any(time[1:] < time[:-1]):  # the rows of most tables lie in the order of their times
            order = np.argsort(time, kind="stable")
            owner, time, row = owner[order], time[order], row[order]
        counts = np.bincount(owner, minlength=len(is_owner))
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        order = by_owner(owner, starts)
        return cls(row[order], time[order], starts)

    def view(self, owners: NDArray[np.int64], limits: NDArray[np.int64]) -> "View":
        """What each seed sees: the events of its owner (-1 for none) before its limit."""
        from gelgt.history.kernels import first_from

        if len(self.starts) == 1:  # the owner table has no rows
            zeros = np.zeros(len(owners), np.int64)
            return View(self, zeros, zeros, np.arange(len(owners)))
        any_owner = np.maximum(owners, 0)
        first = self.starts[any_owner]
        end = np.where(owners >= 0, self.starts[any_owner + 1], first)
        last = first_from(self.time, first, end, limits)
        return View(self, first, last, np.lexsort((last, first)))


@dataclass(frozen=True)
class View:
    """The events of S seeds.

    Attributes:
        events: Where they lie.
        first: (S,) where each seed's events begin.
        last: (S,) where they end.
        order: The seeds by (first, last).
    """

    events: Events
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    order: NDArray[np.int64]

    @property
    def is_empty(self) -> NDArray[np.bool_]:
        return np.equal(self.last, self.first)

    def first_from(self, moments: NDArray[np.int64]) -> NDArray[np.int64]:
        """(S,) the first of each seed's events that is not before its moment; `last` for none."""
        from gelgt.history.kernels import first_from

        return first_from(self.events.time, self.first, self.last, moments)

    def newest(self, values: NDArray[np.int64], missing: int) -> NDArray[np.int64]:
        """(S,) the value of each seed's newest event, from values by row; `missing` where there is
        no event."""
        if not len(self.events.row):
            return np.full(len(self.first), missing, np.int64)
        rows = self.events.row[np.maximum(self.last - 1, 0)]
        return np.where(self.is_empty, missing, values[rows])


def children(graph: Graph, key: Key, is_owner: NDArray[np.bool_]) -> Events:
    """`< key`: the rows that name an owner."""
    owner = parent_rows(graph, key)
    return Events.of(owner, row_times(graph, key.child), np.arange(len(owner)), is_owner)


def other_parents(graph: Graph, key: Key, other: Key, is_owner: NDArray[np.bool_]) -> Events:
    """`< key > other`: the other parents of an owner's children, once for each child."""
    owner, parent = parent_rows(graph, key), parent_rows(graph, other)
    child_times, parent_times = row_times(graph, key.child), row_times(graph, other.parent)
    filled = np.flatnonzero(parent >= 0)
    time = np.maximum(child_times[filled], parent_times[parent[filled]])
    return Events.of(owner[filled], time, parent[filled], is_owner)


def grandchildren(graph: Graph, key: Key, below: Key, is_owner: NDArray[np.bool_]) -> Events:
    """`< key < below`: the rows that name an owner's children."""
    middle = parent_rows(graph, below)
    filled = np.flatnonzero(middle >= 0)
    owner = parent_rows(graph, key)[middle[filled]]
    time = np.maximum(
        row_times(graph, below.child)[filled], row_times(graph, key.child)[middle[filled]]
    )
    return Events.of(owner, time, filled, is_owner)
