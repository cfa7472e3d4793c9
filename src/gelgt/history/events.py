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

CHUNK = 1 << 22  # rows of a table that are looked through at a time
# Lists of neighbours lie scattered, rows one behind the other: so many neighbours take as long to
# look at as one row.
SCATTERED = 8


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
    """

    owners: NDArray[np.int64]
    row: NDArray[np.int64]
    time: NDArray[np.int64]
    starts: NDArray[np.int64]

    @classmethod
    def of(
        cls,
        owners: NDArray[np.int64],
        place: NDArray[np.int64],
        time: NDArray[np.int64],
        row: NDArray[np.int64],
    ) -> "Events":
        """Sort events by time; left out are those without one.

        Args:
            owners: (O,) the owners.
            place: (n,) the place of each event's owner among them, ascending; events of one owner
                and time keep their order.
            time: (n,) seconds.
            row: (n,) rows of the path's last table.
        """
        if np.any(is_never := time == NEVER):
            used = np.flatnonzero(~is_never)
            place, time, row = place[used], time[used], row[used]
        # the rows of most tables lie in the order of their times
        if np.any((time[1:] < time[:-1]) & (place[1:] == place[:-1])):
            order = np.lexsort((time, place))
            time, row = time[order], row[order]
        return cls(owners, row, time, _starts(place, len(owners)))

    def view(self, owners: NDArray[np.int64], limits: NDArray[np.int64]) -> "View":
        """What each seed sees: the events of its owner (-1 for none) before its limit."""
        from gelgt.history.kernels import first_from

        if not len(self.owners):
            zeros = np.zeros(len(owners), np.int64)
            return View(self, zeros, zeros, np.arange(len(owners)))
        place = np.searchsorted(self.owners, np.maximum(owners, self.owners[0]))
        first = self.starts[place]
        end = np.where(owners >= 0, self.starts[place + 1], first)
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

    @property
    def newest(self) -> NDArray[np.int64]:
        """(S,) the row of each seed's newest event, -1 where there is none."""
        if not len(self.events.row):
            return np.full(len(self.first), -1, np.int64)
        return np.where(self.is_empty, -1, self.events.row[np.maximum(self.last - 1, 0)])


def children(graph: Graph, key: Key, owners: NDArray[np.int64]) -> Events:
    """`< key`: the rows that name an owner."""
    place, row = _rows_below(graph, key, owners, np.arange(len(owners)))
    return Events.of(owners, place, row_times(graph, key.child)[row], row)


def other_parents(graph: Graph, key: Key, other: Key, owners: NDArray[np.int64]) -> Events:
    """`< key > other`: the other parents of an owner's children, once for each child."""
    place, row = _rows_below(graph, key, owners, np.arange(len(owners)))
    parent = parents_of(graph, other, row)
    filled = np.flatnonzero(parent >= 0)
    place, row, parent = place[filled], row[filled], parent[filled]
    time = np.maximum(row_times(graph, key.child)[row], row_times(graph, other.parent)[parent])
    return Events.of(owners, place, time, parent)


def grandchildren(graph: Graph, key: Key, below: Key, owners: NDArray[np.int64]) -> Events:
    """`< key < below`: the rows that name an owner's children."""
    child_place, child = _rows_below(graph, key, owners, np.arange(len(owners)))
    place, row = _rows_below(graph, below, child, child_place)
    middle = parents_of(graph, below, row)
    time = np.maximum(row_times(graph, below.child)[row], row_times(graph, key.child)[middle])
    return Events.of(owners, place, time, row)


def _rows_below(
    graph: Graph, key: Key, parents: NDArray[np.int64], places: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows that name some parents by a key, by (place of the parent's owner, row): places (n,)
    and rows (n,).

    A few parents are looked up in their lists of neighbours, so that this takes as long as they
    have neighbours; for many the rows are looked through.

    Args:
        parents: (m,) rows of the parent table, each once.
        places: (m,) the place of the owner that each of them belongs to, ascending.
    """
    from gelgt.history.kernels import by_owner, listed_rows

    nodes, block = graph.nodes(key.parent, parents), graph.table_parents(key.child)
    neighbours = int((graph.indptr[nodes + 1] - graph.indptr[nodes]).sum())
    if SCATTERED * neighbours < len(block):
        first_child = graph.offsets[graph.table_number(key.child)]
        lists = (graph.indptr, graph.indices, block[:, key.place])
        place, row = listed_rows(*lists, nodes, places, first_child)
        return place, row
    place, row = _rows_among(graph, key, parents, places)
    order = by_owner(place, _starts(place, 1 + int(places.max(initial=-1))))
    return place[order], row[order]


def _starts(place: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """(count + 1,) where the events of each owner begin, by the places of their owners."""
    return np.concatenate([[0], np.cumsum(np.bincount(place, minlength=count))]).astype(np.int64)


def _rows_among(
    graph: Graph, key: Key, parents: NDArray[np.int64], places: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The same by looking at every row of the child, in the order of rows."""
    number = graph.table_number(key.parent)
    first, size = graph.offsets[number], graph.offsets[number + 1] - graph.offsets[number]
    owner = np.full(size + 1, -1, np.int64)  # of each parent; the last one stands for none
    owner[parents] = places
    column, all_places, all_rows = graph.table_parents(key.child)[:, key.place], [], []
    for start in range(0, len(column), CHUNK):
        named = column[start : start + CHUNK]
        place = owner[np.where(named >= 0, named - first, size)]
        used = np.flatnonzero(place >= 0)
        all_places.append(place[used])
        all_rows.append(used + start)
    none = np.zeros(0, np.int64)
    return np.concatenate([none, *all_places]), np.concatenate([none, *all_rows])
