"""`VariantLists`: the history of one seed, followed without the rows that a variant lacks. An event
is there if every row on its path is; what lies behind an absent row is cut off with it."""

from collections.abc import Sequence
from dataclasses import dataclass
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
class _Listed:
    """n events that some variants see: rows of a table by time, and the units on their paths, the
    last of which is their own."""

    variants: NDArray[np.int64]
    row: NDArray[Any]
    time: NDArray[np.int64]
    units: Sequence[NDArray[np.int64]]


class VariantLists(Lists):
    """Follows foreign keys for V variants of one seed.

    Args:
        hood: The rows around the seed.
        state: (V, U) of its units in each variant.
        limit: The first second that the seed may not see.
        stand_ins: What states beyond ITSELF mean.
    """

    def __init__(
        self, hood: Neighbourhood, state: NDArray[np.int64], limit: int, stand_ins: StandIns
    ) -> None:
        rows = np.full(len(state), hood.row_numbers[0], np.int64)
        super().__init__(hood.graph, rows, np.full(len(state), limit, np.int64))
        self.hood, self.state, self.limit, self.stand_ins = hood, state, limit, stand_ins
        self.every = np.arange(len(state))

    def parents(self, path: str, key: Key, rows: Rows) -> Rows:
        named = super().parents(path, key, rows)
        units = self._units(path, key.parent, named)
        is_absent = (units >= 0) & (self.state[self.every, units] == ABSENT)
        return np.where(is_absent, -1, named)

    def children(self, path: str, key: Key) -> View:
        return self.children_of(path, key, self.rows)

    def children_of(self, path: str, key: Key, rows: Rows) -> View:
        listed = []
        for owner in np.unique(rows[rows >= 0]):
            events = self._before(children(self.graph, key, np.array([owner])))
            units = [self._units(path, key.child, events.row)]
            listed.append(_Listed(np.flatnonzero(rows == owner), events.row, events.time, units))
        return self._view(listed)

    def other_parents(self, path: str, key: Key, other: Key) -> View:
        _, via = rows_below(self.graph, key, self.owners, np.zeros(1, np.int64))
        row = parents_of(self.graph, other, via)
        return self._beyond(path, key, via[row >= 0], row[row >= 0], other.parent)

    def grandchildren(self, path: str, key: Key, below: Key) -> View:
        _, child = rows_below(self.graph, key, self.owners, np.zeros(1, np.int64))
        _, row = rows_below(self.graph, below, child, np.zeros(len(child), np.int64))
        via = parents_of(self.graph, below, row.astype(np.int64))
        return self._beyond(path, key, via, row, below.child)

    def read_rows(self, table: str, rows: Rows) -> Rows:
        units = self._units("", table, rows)
        states = np.where(units >= 0, self.state[self.every, units], 0)
        return self.stand_ins.numbers(states, rows)

    def _beyond(
        self, path: str, key: Key, via: NDArray[Any], row: NDArray[Any], table: str
    ) -> View:
        """Events of two steps, over rows of the key's child."""
        time = np.maximum(
            row_times(self.graph, key.child)[via], row_times(self.graph, table)[row]
        )  # (n,)
        order = np.argsort(time, kind="stable")
        order = order[time[order] < self.limit]
        first = f"< {key.child}.{key.column}"
        units = [
            self._units(first, key.child, via[order]),
            self._units(path, table, row[order]),
        ]
        return self._view([_Listed(self.every, row[order], time[order], units)])

    def _before(self, events: Events) -> Events:
        count = int(np.searchsorted(events.time, self.limit))
        return Events(events.owners, events.row[:count], events.time[:count], events.starts)

    def _units(self, path: str, table: str, rows: NDArray[Any]) -> NDArray[np.int64]:
        """(n,) the units of rows of a table, -1 for none, and for the row -1."""
        nodes = self.graph.nodes(table, rows)
        return np.where(rows >= 0, self.hood.units(path, nodes), -1)

    def _view(self, listed: Sequence[_Listed]) -> View:
        """What each variant sees of some events; variants that see the same share a list."""
        first = np.zeros(len(self.state), np.int64)
        last = first.copy()
        parts: list[tuple[NDArray[Any], ...]] = []
        starts, begin = [np.zeros(1, np.int64)], 0
        for part in listed:
            row, time, read, ends, which = self._expand(part)
            first[part.variants] = begin + ends[which]
            last[part.variants] = begin + ends[which + 1]
            parts.append((row, time, read))
            starts.append(begin + ends[1:])
            begin += int(ends[-1])
        row, time, read = (
            (np.concatenate(arrays) for arrays in zip(*parts))
            if parts
            else (np.zeros(0, np.int64) for _ in range(3))
        )
        bounds = np.concatenate(starts)
        events = Events(np.arange(len(bounds) - 1), row, time, bounds, read)
        return View(events, first, last, np.lexsort((last, first)))

    def _expand(self, part: _Listed) -> tuple[NDArray[Any], ...]:
        """Rows, times and read rows of the distinct lists, (m + 1,) where each begins, and the list
        of each variant."""
        known = np.unique(np.concatenate([units[units >= 0] for units in part.units]))
        kinds, which = np.unique(
            self.state[np.ix_(part.variants, known)], axis=0, return_inverse=True
        )
        which = which.reshape(-1)
        is_there = np.ones((len(kinds), len(part.row)), np.bool_)
        for units in part.units:
            named = units >= 0
            is_there[:, named] &= kinds[:, np.searchsorted(known, units[named])] != ABSENT
        lists, events = np.nonzero(is_there)
        own, states = part.units[-1][events], np.zeros(len(events), np.int64)
        named = own >= 0
        states[named] = kinds[lists[named], np.searchsorted(known, own[named])]
        row = part.row[events].astype(np.int64)
        ends = np.concatenate([[0], np.cumsum(is_there.sum(1))]).astype(np.int64)
        return row, part.time[events], self.stand_ins.numbers(states, row), ends, which


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
