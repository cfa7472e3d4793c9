"""`VariantLists`: the history of one seed, followed without the rows that a variant lacks. An event
is there if every row on its path is; what lies behind an absent row is cut off with it.

What lies on a path is read once for a seed (`PathReader`), and variants that see the same of it
share one list (`SharedView`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gelgt.explain.neighbourhood import DAY, Neighbourhood, Rest, age_group
from gelgt.explain.paths import Path
from gelgt.explain.stand_ins import ABSENT, StandIns
from gelgt.graph import TIMELESS
from gelgt.history.events import Events, View, children, parents_of, row_times, rows_below
from gelgt.history.keys import Key
from gelgt.history.lists import Lists, Rows


@dataclass(frozen=True)
class Listed:
    """n events of one path, by time, before the limit of the seed.

    Attributes:
        row: (n,) rows of the path's last table.
        time: (n,) seconds.
        known: (K,) the units that rows on the path belong to, ascending.
        places: (2, n) the place among them of the unit of each event's own row, and of the row on
            the way to it; -1 for none.
    """

    row: NDArray[np.int64]
    time: NDArray[np.int64]
    known: NDArray[np.int64]
    places: NDArray[np.int64]

    @classmethod
    def of(cls, row: NDArray[Any], time: NDArray[np.int64], units: NDArray[np.int64]) -> "Listed":
        known = np.unique(units)
        known = known[known >= 0]
        places = np.where(units >= 0, np.searchsorted(known, units), -1)
        return cls(row.astype(np.int64), np.ascontiguousarray(time), known, places)


class PathReader:
    """Reads what lies on the paths around one seed, each once.

    Args:
        hood: The rows around the seed.
        limit: The first second that the seed may not see.
    """

    def __init__(self, hood: Neighbourhood, limit: int) -> None:
        self.hood, self.graph, self.limit = hood, hood.graph, limit
        self.seed_row = hood.row_numbers[:1]
        self._read: dict[tuple[str, int], Listed] = {}

    def children(self, path: str, key: Key, owner: int) -> Listed:
        """The rows that name a row."""

        def read() -> Listed:
            events = children(self.graph, key, np.array([owner]))
            count = int(np.searchsorted(events.time, self.limit))
            row = events.row[:count]
            units = self.units(path, key.child, row)
            return Listed.of(row, events.time[:count], np.stack([units, np.full_like(units, -1)]))

        return self._once(path, owner, read)

    def other_parents(self, path: str, key: Key, other: Key) -> Listed:
        """The other parents of the seed's children."""

        def read() -> Listed:
            _, via = rows_below(self.graph, key, self.seed_row, np.zeros(1, np.int64))
            row = parents_of(self.graph, other, via)
            return self._beyond(path, key, via[row >= 0], row[row >= 0], other.parent)

        return self._once(path, -1, read)

    def grandchildren(self, path: str, key: Key, below: Key) -> Listed:
        """The rows that name the seed's children."""

        def read() -> Listed:
            _, child = rows_below(self.graph, key, self.seed_row, np.zeros(1, np.int64))
            _, row = rows_below(self.graph, below, child, np.zeros(len(child), np.int64))
            via = parents_of(self.graph, below, row.astype(np.int64))
            return self._beyond(path, key, via, row, below.child)

        return self._once(path, -1, read)

    def units(self, path: str, table: str, rows: NDArray[Any]) -> NDArray[np.int64]:
        """(n,) the units of rows of a table, -1 for none, and for the row -1."""
        nodes = self.graph.nodes(table, rows)
        return np.where(rows >= 0, self.hood.units(path, nodes), -1)

    def _once(self, path: str, owner: int, read: Callable[[], Listed]) -> Listed:
        if (path, owner) not in self._read:
            self._read[path, owner] = read()
        return self._read[path, owner]

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
        return Listed.of(row[order], time[order], np.stack(units))


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
        self.every = np.arange(len(state))

    def parents(self, path: str, key: Key, rows: Rows) -> Rows:
        named = super().parents(path, key, rows)
        units = self.reader.units(path, key.parent, named)
        is_absent = (units >= 0) & (self.state[self.every, units] == ABSENT)
        return np.where(is_absent, -1, named)

    def children(self, path: str, key: Key) -> View:
        row = int(self.reader.seed_row[0])
        return self._view([(self.every, self.reader.children(path, key, row))])

    def children_of(self, path: str, key: Key, rows: Rows) -> View:
        owners, owner = np.unique(rows, return_inverse=True)
        listed = [
            (np.flatnonzero(owner == place), self.reader.children(path, key, int(row)))
            for place, row in enumerate(owners)
            if row >= 0
        ]
        return self._view(listed)

    def other_parents(self, path: str, key: Key, other: Key) -> View:
        return self._view([(self.every, self.reader.other_parents(path, key, other))])

    def grandchildren(self, path: str, key: Key, below: Key) -> View:
        return self._view([(self.every, self.reader.grandchildren(path, key, below))])

    def read_rows(self, table: str, rows: Rows) -> Rows:
        units = self.reader.units("", table, rows)
        states = np.where(units >= 0, self.state[self.every, units], 0)
        return self.stand_ins.numbers(states, rows)

    def _view(self, listed: Sequence[tuple[NDArray[np.int64], Listed]]) -> View:
        """What variants see of some lists, each of which belongs to some of them."""
        from gelgt.explain.list_kernels import seen_lists

        which = np.zeros(len(self.state), np.int64)  # the first list is that of nobody, and empty
        parts: list[tuple[NDArray[np.int64], ...]] = []
        ends, count = [np.zeros(2, np.int64)], 1
        for variants, part in listed:
            kinds = self.state[:, part.known]
            kinds = kinds if len(variants) == len(kinds) else kinds[variants]
            first, of = distinct_rows(kinds)
            row, time, read, lengths = seen_lists(
                kinds[first], part.places, part.row, part.time, self._numbers
            )
            which[variants] = count + of
            count += len(first)
            parts.append((row, time, read))
            ends.append(ends[-1][-1] + np.cumsum(lengths))
        row, time, read = (
            (np.concatenate(arrays) for arrays in zip(*parts))
            if parts
            else (np.zeros(0, np.int64) for _ in range(3))
        )
        bounds = np.concatenate(ends)
        events = Events(np.arange(count), row, time, bounds, read)
        return SharedView(events, bounds[:-1], bounds[1:], np.arange(count), which)

    @cached_property
    def _numbers(self) -> NDArray[np.int64]:
        """The row that each stand-in is in its table."""
        return self.stand_ins.row_numbers


def distinct_rows(
    kinds: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """A row of each distinct kind (n, K), and which of these each row is."""
    from gelgt.explain.list_kernels import row_prints

    _, first, which = np.unique(row_prints(kinds), return_index=True, return_inverse=True)
    return first, which


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
        self.found: dict[str, tuple[str, set[int]]] = {}

    def parents(self, path: str, key: Key, rows: Rows) -> Rows:
        named = super().parents(path, key, rows)
        self._remember(path, key.parent, named[named >= 0])
        return named

    def children(self, path: str, key: Key) -> View:
        return self._seen(path, key.child, super().children(path, key))

    def children_of(self, path: str, key: Key, rows: Rows) -> View:
        return self._seen(path, key.child, super().children_of(path, key, rows))

    def other_parents(self, path: str, key: Key, other: Key) -> View:
        return self._seen(path, other.parent, super().other_parents(path, key, other))

    def grandchildren(self, path: str, key: Key, below: Key) -> View:
        return self._seen(path, below.child, super().grandchildren(path, key, below))

    def rests(self) -> tuple[Rest, ...]:
        """What was found outside the sample, by path and age; each row at the shortest path to
        it."""
        rests, taken = [], set[tuple[str, int]]()
        for name in sorted(self.found, key=lambda name: (len(name.split()), name)):
            table, found = self.found[name]
            rows = np.array(sorted(r for r in found if (table, r) not in taken), np.int64)
            taken |= {(table, row) for row in found}
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
            self.found.setdefault(name, (table, set()))[1].update(outside.tolist())
