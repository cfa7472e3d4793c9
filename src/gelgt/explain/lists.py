"""`VariantLists`: the history of one seed, followed without the rows that a variant lacks. An event
is there if every row on its path is; what lies behind an absent row is cut off with it.

What lies on a path is read once for a seed (`PathReader`), and variants that see the same of it
share one list (`SharedView`).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gelgt.explain.neighbourhood import DAY, Neighbourhood, Rest, age_group
from gelgt.explain.paths import Path
from gelgt.explain.stand_ins import ABSENT, StandIns
from gelgt.graph import TIMELESS, Graph
from gelgt.history.events import Events, View, parents_of, row_times, rows_below
from gelgt.history.keys import Key
from gelgt.history.lists import Lists, Rows


@dataclass(frozen=True)
class Listed:
    """The events of one path behind O owners, owner after owner, by time, before the limit of the
    seed.

    Attributes:
        row: (n,) rows of the path's last table.
        time: (n,) seconds.
        units: (2, n) the unit of each event's own row, and of the row on the way to it; -1 for
            none.
        starts: (O + 1,) where the events of each owner begin.
    """

    row: NDArray[np.int64]
    time: NDArray[np.int64]
    units: NDArray[np.int64]
    starts: NDArray[np.int64]

    @cached_property
    def known(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The units of each owner's events, each once, and (O + 1,) where those of each begin."""
        owner = np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))
        size = int(self.units.max(initial=0)) + 1
        pairs = np.unique((owner * size + self.units)[self.units >= 0])
        starts = np.searchsorted(pairs, np.arange(len(self.starts)) * size)
        return pairs % size, starts

    def joined(self, more: "Listed") -> "Listed":
        """With the events of further owners behind."""
        return Listed(
            np.concatenate([self.row, more.row]),
            np.concatenate([self.time, more.time]),
            np.concatenate([self.units, more.units], 1),
            np.concatenate([self.starts, self.starts[-1] + more.starts[1:]]),
        )


def children_before(
    graph: Graph, key: Key, owners: NDArray[np.int64], limit: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The rows that name some rows, before a limit, by (owner, time): rows, times, and where those
    of each owner begin."""
    from gelgt.explain.list_kernels import GraphLists, KeyLists, read_children

    first_child, first_parent = (
        int(graph.offsets[graph.table_number(table)]) for table in (key.child, key.parent)
    )
    named = KeyLists(graph.table_parents(key.child), key.place, first_child, first_parent)
    lists = GraphLists(graph.indptr, graph.indices, graph.node_time)
    read: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]] = read_children(
        lists, named, owners, limit
    )
    return read


class PathReader:
    """Reads what lies on the paths around one seed, each once.

    Args:
        hood: The rows around the seed.
        limit: The first second that the seed may not see.
    """

    def __init__(self, hood: Neighbourhood, limit: int) -> None:
        self.hood, self.graph, self.limit = hood, hood.graph, limit
        self.seed_row = hood.row_numbers[:1]
        self._read: dict[str, Listed] = {}
        self._owners: dict[str, dict[int, int]] = {}

    def children(self, path: str, key: Key, owners: list[int]) -> tuple[Listed, list[int]]:
        """The rows that name some rows, and the place of each of these among the owners."""
        places = self._owners.setdefault(path, {})
        missing = sorted(set(owners) - set(places))
        if missing or path not in self._read:
            row, time, starts = children_before(
                self.graph, key, np.array(missing, np.int64), self.limit
            )
            units = self.units(path, key.child, row)
            more = Listed(row, time, np.stack([units, np.full_like(units, -1)]), starts)
            before = self._read.get(path)
            self._read[path] = more if before is None else before.joined(more)
            places.update({owner: len(places) + place for place, owner in enumerate(missing)})
        return self._read[path], [places[owner] for owner in owners]

    def other_parents(self, path: str, key: Key, other: Key) -> Listed:
        """The other parents of the seed's children."""
        if path not in self._read:
            _, via = rows_below(self.graph, key, self.seed_row, np.zeros(1, np.int64))
            row = parents_of(self.graph, other, via)
            pair = via[row >= 0], row[row >= 0]
            self._read[path] = self._beyond(path, key, *pair, other.parent)
        return self._read[path]

    def grandchildren(self, path: str, key: Key, below: Key) -> Listed:
        """The rows that name the seed's children."""
        if path not in self._read:
            _, child = rows_below(self.graph, key, self.seed_row, np.zeros(1, np.int64))
            _, row = rows_below(self.graph, below, child, np.zeros(len(child), np.int64))
            via = parents_of(self.graph, below, row.astype(np.int64))
            self._read[path] = self._beyond(path, key, via, row, below.child)
        return self._read[path]

    def units(self, path: str, table: str, rows: NDArray[Any]) -> NDArray[np.int64]:
        """(n,) the units of rows of a table, -1 for none, and for the row -1."""
        nodes = self.graph.nodes(table, rows)
        return np.where(rows >= 0, self.hood.units(path, nodes), -1)

    def _beyond(
        self, path: str, key: Key, via: NDArray[Any], row: NDArray[Any], table: str
    ) -> Listed:
        """Events of two steps, over rows of the key's child."""
        time = np.maximum(
            row_times(self.graph, key.child)[via], row_times(self.graph, table)[row]
        )  # (n,)
        order = np.argsort(time, kind="stable")
        order = order[time[order] < self.limit]
        first = f"< {key.child}.{key.column}"
        units = [
            self.units(path, table, row[order]),
            self.units(first, key.child, via[order]),
        ]
        starts = np.array([0, len(order)])
        return Listed(row[order].astype(np.int64), time[order], np.stack(units), starts)


@dataclass(frozen=True)
class SharedView(View):
    """The m distinct lists of events that V variants see. What a variant sees is that of its list,
    so `first`, `last` and `order` are those of the lists.

    Attributes:
        which: (V,) the list of each variant.
    """

    which: NDArray[np.int64]

    @property
    def newest(self) -> NDArray[np.int64]:
        """(V,) the row of each variant's newest event, -1 where there is none."""
        return self._newest(self.events.row)[self.which]

    @property
    def newest_of_lists(self) -> NDArray[np.int64]:
        """(m,) the row whose columns are read for the newest event of each list."""
        return self._newest(self.events.read)


class VariantLists(Lists):
    """Follows foreign keys for V variants of one seed.

    Args:
        reader: Of the paths around it.
        state: (V, U) of its units in each variant.
        stand_ins: What states beyond ITSELF mean.
    """

    def __init__(self, reader: PathReader, state: NDArray[np.int64], stand_ins: StandIns) -> None:
        rows = np.full(len(state), reader.seed_row[0], np.int64)
        super().__init__(reader.graph, rows, np.full(len(state), reader.limit, np.int64))
        self.reader, self.state, self.stand_ins = reader, state, stand_ins
        self.every, self.alone = np.arange(len(state)), np.zeros(len(state), np.int64)
        self.numbers = stand_ins.row_numbers

    def parents(self, path: str, key: Key, rows: Rows) -> Rows:
        named = super().parents(path, key, rows)
        units = self.reader.units(path, key.parent, named)
        is_absent = (units >= 0) & (self.state[self.every, units] == ABSENT)
        return np.where(is_absent, -1, named)

    def children(self, path: str, key: Key) -> View:
        listed, _ = self.reader.children(path, key, [int(self.reader.seed_row[0])])
        return self._view(listed, self.alone)

    def children_of(self, path: str, key: Key, rows: Rows) -> View:
        distinct, which = np.unique(rows, return_inverse=True)
        owners = [row for row in distinct.tolist() if row >= 0]
        listed, places = self.reader.children(path, key, owners)
        owner = np.array([-1] * (len(distinct) - len(owners)) + places, np.int64)
        return self._view(listed, owner[which])

    def other_parents(self, path: str, key: Key, other: Key) -> View:
        return self._view(self.reader.other_parents(path, key, other), self.alone)

    def grandchildren(self, path: str, key: Key, below: Key) -> View:
        return self._view(self.reader.grandchildren(path, key, below), self.alone)

    def read_rows(self, table: str, rows: Rows) -> Rows:
        units = self.reader.units("", table, rows)
        states = np.where(units >= 0, self.state[self.every, units], 0)
        return self.stand_ins.numbers(states, rows)

    def _view(self, listed: Listed, owner: NDArray[np.int64]) -> View:
        """What each variant sees of the events of its owner, a place in the list or -1."""
        from gelgt.explain.list_kernels import seen_lists, shared_lists

        which, first = shared_lists(self.state, owner, *listed.known)
        row, time, read, bounds = seen_lists(
            self.state, owner, first, listed.row, listed.time, listed.units, listed.starts,
            self.numbers,
        )  # fmt: skip
        events = Events(first, row, time, bounds, read)
        return SharedView(events, bounds[:-1], bounds[1:], first, which)


class Survey(Lists):
    """Follows foreign keys for one seed and remembers, path by path, the rows outside its sample.

    Args:
        hood: The sampled rows.
        limits: (1,) the first second that the seed may not see.
        reference: The time from which ages are measured.
    """

    def __init__(self, hood: Neighbourhood, limits: NDArray[np.int64], reference: int) -> None:
        super().__init__(hood.graph, hood.row_numbers[:1], limits)
        self.hood, self.reference = hood, reference
        self.found: dict[str, tuple[str, list[NDArray[np.int64]]]] = {}

    def parents(self, path: str, key: Key, rows: Rows) -> Rows:
        named = super().parents(path, key, rows)
        self._remember(path, key.parent, named[named >= 0])
        return named

    def children(self, path: str, key: Key) -> View:
        return self.children_of(path, key, self.rows)

    def children_of(self, path: str, key: Key, rows: Rows) -> View:
        owners = rows[rows >= 0]
        row, time, starts = children_before(self.graph, key, owners, int(self.limits[0]))
        ends = np.zeros(1, np.int64), np.array([len(row)])
        events = Events(owners, row, time, starts)
        return self._seen(path, key.child, View(events, *ends, np.zeros(1, np.int64)))

    def other_parents(self, path: str, key: Key, other: Key) -> View:
        return self._seen(path, other.parent, super().other_parents(path, key, other))

    def grandchildren(self, path: str, key: Key, below: Key) -> View:
        return self._seen(path, below.child, super().grandchildren(path, key, below))

    def rests(self) -> tuple[Rest, ...]:
        """What was found outside the sample, by path and age; each row at the shortest path to
        it."""
        rests, taken = list[Rest](), dict[str, NDArray[np.int64]]()
        for name in sorted(self.found, key=lambda name: (len(name.split()), name)):
            table, found = self.found[name]
            rows = np.unique(np.concatenate(found))
            rows = rows[~np.isin(rows, taken.get(table, rows[:0]))]
            taken[table] = np.concatenate([taken.get(table, rows[:0]), rows])
            times = row_times(self.graph, table)[rows]
            days = (self.reference - np.where(times == TIMELESS, 0, times)) / DAY
            ages = np.where(times == TIMELESS, np.nan, days)
            group = age_group(ages)
            rests += [Rest(name, rows[group == g], ages[group == g]) for g in np.unique(group)]
        return tuple(rests)

    def _seen(self, path: str, table: str, view: View) -> View:
        self._remember(path, table, view.events.row[view.first[0] : view.last[0]])
        return view

    def _remember(self, path: str, table: str, rows: NDArray[Any]) -> None:
        outside = rows[self.hood.units("", self.graph.nodes(table, rows)) < 0]
        if len(outside):
            name = Path.name_of(path)
            self.found.setdefault(name, (table, []))[1].append(outside.astype(np.int64))
