"""`Survey`: the rows that the history columns of one seed read and its sample left out, by path and
age."""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from gelgt.explain.neighbourhood import DAY, Neighbourhood, Rest, age_group
from gelgt.explain.paths import Path
from gelgt.explain.reader import Found, Numbers, PathReader
from gelgt.graph import TIMELESS
from gelgt.history.events import Events, View
from gelgt.history.keys import Key
from gelgt.history.lists import EventTimes, Lists, Rows


class Survey(Lists):
    """Follows foreign keys for one seed and remembers, path by path, the rows that it meets.

    Args:
        reader: Of the paths around the seed.
        reference: The time from which ages are measured.
    """

    def __init__(self, reader: PathReader, reference: int) -> None:
        rows, limits = np.array([reader.row]), np.array([reader.limit])
        super().__init__(reader.graph, rows, limits)
        self.reader, self.reference = reader, reference
        self.met: dict[str, tuple[str, list[Numbers]]] = {}  # table and rows of each path

    def parents(self, path: str, key: Key, rows: Rows) -> Rows:
        if rows[0] < 0:
            return rows
        named = self.reader.lists.parents(key, rows)
        if named[0] >= 0 and self.reader.lists.times(key.parent)[named[0]] >= self.reader.limit:
            return np.full(1, -1, np.int64)
        self._remember(path, key.parent, named[named >= 0])
        return named

    def children(self, path: str, key: Key) -> View:
        return self.children_of(path, key, self.rows)

    def children_of(self, path: str, key: Key, rows: Rows) -> View:
        owners = rows[rows >= 0].tolist()
        found, places = self.reader.children(path, key, owners)
        at = found.starts[places[0] : places[0] + 2] if places else np.zeros(2, np.int64)
        return self._seen(path, key.child, found, at)

    def at_date(self, path: str, view: View, date: EventTimes) -> View:
        """The rows of these events, which were met already."""
        return view

    def other_parents(self, path: str, key: Key, other: Key) -> View:
        found = self.reader.other_parents(path, key, other)
        return self._seen(path, other.parent, found, found.starts)

    def grandchildren(self, path: str, key: Key, below: Key) -> View:
        found = self.reader.grandchildren(path, key, below)
        return self._seen(path, below.child, found, found.starts)

    def rests(self, hood: Neighbourhood) -> tuple[Rest, ...]:
        """What was met outside a sample, by path and age; each row at the shortest path to it."""
        names = sorted(self.met, key=lambda name: (len(name.split()), name))
        if not names:
            return ()
        path, nodes = self._once_each(names, hood)
        table = np.array([self.graph.table_number(self.met[name][0]) for name in names])[path]
        times = self.graph.node_time[nodes]
        days = (self.reference - np.where(times == TIMELESS, 0, times)) / DAY
        ages = np.where(times == TIMELESS, np.nan, days)
        group = age_group(ages)
        order = np.lexsort((nodes, group, path))
        path, group, rows = path[order], group[order], (nodes - self.graph.offsets[table])[order]
        is_new = (np.diff(path) != 0) | (np.diff(group) != 0)
        begins = [0, *(np.flatnonzero(is_new) + 1).tolist(), len(order)]
        ages = ages[order]
        return tuple(
            Rest(names[path[begin]], rows[begin:end], ages[begin:end])
            for begin, end in pairwise(begins)
            if begin < end
        )

    def _once_each(self, names: list[str], hood: Neighbourhood) -> tuple[Numbers, Numbers]:
        """The places of paths and the nodes of the rows outside the sample, each row once, at the
        first path that meets it."""
        every, counts = list[Numbers](), list[int]()
        for name in names:
            table, met = self.met[name]
            first = self.reader.lists.first(table)
            every += [rows + first for rows in met]
            counts.append(sum(map(len, met)))
        nodes, path = np.concatenate(every), np.repeat(np.arange(len(names)), counts)
        is_outside = hood.units("", nodes) < 0
        nodes, path = nodes[is_outside], path[is_outside]
        nodes, first_place = np.unique(nodes, return_index=True)  # the first is on the first path
        return path[first_place], nodes

    def _seen(self, path: str, table: str, found: Found, at: NDArray[np.int64]) -> View:
        first, last = at[:1], at[1:]
        self._remember(path, table, found.row[int(at[0]) : int(at[1])])
        events = Events(self.rows, found.row, found.time, found.starts)
        return View(events, first, last, np.zeros(1, np.int64), np.zeros(1, np.int64), self.limits)

    def _remember(self, path: str, table: str, rows: Numbers) -> None:
        if len(rows):
            self.met.setdefault(Path.name_of(path), (table, []))[1].append(rows)
