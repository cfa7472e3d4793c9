"""Event lists: which rows an owner has, since when. The aggregates of the baseline are sums over
their beginnings.

A path of foreign keys leads from an owner to rows of some table; `>` follows a key to its parent,
`<` leads back:

    < results.driverId                      the results of a driver
    < results.driverId > raceId             the races of those results
    < orders.customer_id < items.order_id   the items of a customer's orders

An event exists from the newest time on its path: it is seen where every row of the path is. A row
without a time in a timed table is never seen, and one of a timeless table always, as the sampler
has it.
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
    nodes = graph.table_parents(key.child)[:, key.place].astype(np.int64)
    return np.where(nodes >= 0, nodes - graph.offsets[graph.table_number(key.parent)], -1)


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
        wanted: NDArray[np.bool_],
    ) -> "Events":
        """Sort events; those of nobody, of owners that nobody asks about and of rows without a time
        are left out."""
        from gelgt.history.kernels import by_owner

        keep = (
            np.flatnonzero((owner >= 0) & (time != NEVER) & wanted[owner])
            if len(wanted)
            else np.zeros(0, np.int64)
        )
        owner, time, row = owner[keep], time[keep], row[keep]
        if np.any(time[1:] < time[:-1]):  # the rows of most tables lie in the order of their times
            order = np.argsort(time, kind="stable")
            owner, time, row = owner[order], time[order], row[order]
        starts = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=len(wanted)))]).astype(
            np.int64
        )
        order = by_owner(owner, starts)
        return cls(row[order], time[order], starts)

    def view(self, owners: NDArray[np.int64], limits: NDArray[np.int64]) -> "View":
        """What each seed sees: the events of its owner (-1 for nobody) before its limit."""
        from gelgt.history.kernels import first_from

        if len(self.starts) == 1:  # a table without rows owns nothing
            nothing = np.zeros(len(owners), np.int64)
            return View(self, nothing, nothing, np.arange(len(owners)))
        somebody = np.maximum(owners, 0)
        first = self.starts[somebody]
        last = first_from(
            self.time, first, np.where(owners >= 0, self.starts[somebody + 1], first), limits
        )
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

    def since(self, moments: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many of each seed's events are not before its moment."""
        from gelgt.history.kernels import first_from

        return self.last - first_from(self.events.time, self.first, self.last, moments)

    def newest(self, values: NDArray[np.int64], missing: int) -> NDArray[np.int64]:
        """What the newest event of each seed has (values by row), `missing` where there is no
        event."""
        if not len(self.events.row):
            return np.full(len(self.first), missing, np.int64)
        rows = self.events.row[np.maximum(self.last - 1, 0)]
        return np.where(self.is_empty, missing, values[rows])


def children(graph: Graph, key: Key, wanted: NDArray[np.bool_]) -> Events:
    """`< key`: the rows that name an owner."""
    owner = parent_rows(graph, key)
    return Events.of(owner, row_times(graph, key.child), np.arange(len(owner)), wanted)


def other_parents(graph: Graph, key: Key, other: Key, wanted: NDArray[np.bool_]) -> Events:
    """`< key > other`: what an owner's children name besides, once for each of them."""
    owner, found = parent_rows(graph, key), parent_rows(graph, other)
    own, theirs = row_times(graph, key.child), row_times(graph, other.parent)
    filled = np.flatnonzero(found >= 0)
    time = np.maximum(own[filled], theirs[found[filled]])
    return Events.of(owner[filled], time, found[filled], wanted)


def grandchildren(graph: Graph, key: Key, below: Key, wanted: NDArray[np.bool_]) -> Events:
    """`< key < below`: the rows that name an owner's children."""
    middle = parent_rows(graph, below)
    filled = np.flatnonzero(middle >= 0)
    owner = parent_rows(graph, key)[middle[filled]]
    time = np.maximum(
        row_times(graph, below.child)[filled], row_times(graph, key.child)[middle[filled]]
    )
    return Events.of(owner, time, filled, wanted)
