"""Causal columns for seeds: what a tabular model may know of an entity at a time.

    hops = 1    the entity's own columns, the columns of the rows it names, and over the rows that
                name it: their number, how many in the last window and in the last three, days since
                the newest, mean gap, and for each column mean, minimum, maximum, mean of the newest
                five and the newest (numbers), or the shares of the most frequent categories and the
                newest (categories)
    hops = 2    the same over the rows that those name and over the rows that name those, and what
                the rows know that the entity names or that its newest child names, at the seed's
                time

    siblings    over the rows that share a key with the entity's newest child, such as all results
                of the team that a driver drove for last: the mean of each number, and that of the
                newest five. Part of hops = 2 already.

A row counts if it lies before the seed's limit, and ages are measured from its reference time; both
come from the sampler, so that the columns show what the model may see. Texts and lists of
categories are left out. Column names spell the path (`history/events.py`):
`< results.driverId: points mean`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gelgt.config import SamplingConfig
from gelgt.features import Features
from gelgt.features.encode import columns_of
from gelgt.features.statistics import CategoricalStatistics
from gelgt.features.values import MISSING_TIME
from gelgt.graph import NEVER, TIMELESS, Graph
from gelgt.history.events import (
    Key,
    View,
    children,
    grandchildren,
    keys_of,
    other_parents,
    parent_rows,
    row_times,
)
from gelgt.sampling.sampler import Sampler
from gelgt.sources.database import Database
from gelgt.tasks.task import Definition

DAY = 86_400
WINDOW = 30 * DAY  # where the task has none
TOP = 5  # categories whose shares are counted

Column = tuple[str, NDArray[np.float32]]


@dataclass(frozen=True)
class Aggregates:
    """Columns for S seeds.

    Attributes:
        names: Of the F columns.
        values: (S, F) float32, NaN for missing.
        is_code: (F,) which columns number categories, so that more is not more.
    """

    names: tuple[str, ...]
    values: NDArray[np.float32]
    is_code: NDArray[np.bool_]


def aggregates(
    db: Database,
    graph: Graph,
    features: Features,
    task: Definition,
    sampling: SamplingConfig,
    rows: NDArray[np.int64],
    times: NDArray[np.int64],
    *,
    hops: int = 1,
    siblings: bool = False,
) -> Aggregates:
    """The columns of some seeds.

    Args:
        db: The database.
        graph: Its graph.
        features: Its features.
        task: Gives the entity table, the window and the columns to hide.
        sampling: Causality, visibility and horizon.
        rows: (S,) rows of the entity table.
        times: (S,) seed times in seconds since 1970.
        hops: 1 or 2.
        siblings: Whether hops = 1 also looks at the company of the newest child.
    """
    maker = _Maker(
        db, graph, features, task, sampling, np.asarray(rows, np.int64), np.asarray(times, np.int64)
    )
    found = list(maker.columns(hops, siblings))
    names = tuple(name for name, _ in found)
    values = np.empty((len(maker.rows), len(found)), np.float32)
    # from the back, so that each column is freed once it has been copied
    for place in reversed(range(len(names))):
        values[:, place] = found.pop()[1]
    return Aggregates(names, values, np.array([name in maker.codes for name in names], np.bool_))


@dataclass
class _Maker:
    """One call of `aggregates`: an event list at a time, so that memory holds one of them besides
    the result."""

    db: Database
    graph: Graph
    features: Features
    task: Definition
    sampling: SamplingConfig
    rows: NDArray[np.int64]
    times: NDArray[np.int64]
    limits: NDArray[np.int64] = field(init=False)
    references: NDArray[np.int64] = field(init=False)
    keys: list[Key] = field(init=False)
    hidden: frozenset[tuple[str, str]] = field(init=False)
    window: int = field(init=False)
    codes: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        sampler = Sampler(self.graph, self.sampling)
        self.limits, self.references = sampler.limits(self.times), sampler.references(self.times)
        self.hidden = frozenset((table, column) for table, column in self.task.remove_columns)
        self.keys = keys_of(self.graph, self.hidden)
        seconds = 0 if self.task.timedelta is None else int(self.task.timedelta.total_seconds())
        self.window = seconds or WINDOW

    def columns(self, hops: int, siblings: bool) -> Iterator[Column]:
        entity = self.task.entity_table
        # A row that does not exist yet at the seed's own time says nothing.
        exists = row_times(self.graph, entity)[self.rows] <= self.times
        yield from self._row("", entity, np.where(exists, self.rows, -1))
        named = [key for key in self.keys if key.child == entity]
        naming = [key for key in self.keys if key.parent == entity]
        for key in named:
            rows = self._admitted(
                key.parent, np.where(exists, parent_rows(self.graph, key)[self.rows], -1)
            )
            yield from self._row(f"> {key.column}: ", key.parent, rows)
            if hops > 1:
                yield from self._around(f"> {key.column} ", key.parent, rows)
        wanted = self._wanted(entity, self.rows)
        for key in naming:
            path = f"< {key.child}.{key.column}"
            view = children(self.graph, key, wanted).view(self.rows, self.limits)
            yield from self._events(path, view, key.child, is_timed=self._is_timed(key.child))
            if hops > 1:
                yield from self._second_hop(path, key, view, wanted)
            elif siblings and self._is_timed(key.child):
                yield from self._siblings(path, key, view)

    def _siblings(self, path: str, key: Key, view: View) -> Iterator[Column]:
        from gelgt.history.kernels import sweep_numbers

        for other in self.keys:
            if other.child != key.child or other.column == key.column:
                continue
            newest = self._admitted(other.parent, view.newest(parent_rows(self.graph, other), -1))
            seen = children(self.graph, other, self._wanted(other.parent, newest)).view(
                newest, self.limits
            )
            for name, values in self._columns(key.child, "numerical"):
                out = np.empty((len(self.rows), 5), np.float32)
                sweep_numbers(
                    take(values, seen.events.row, np.nan), seen.first, seen.last, seen.order, out
                )
                for place, what in ((0, "mean"), (3, "recent mean")):
                    yield (
                        f"{path} > newest {other.column} < {other.child}.{other.column}: {name} "
                        f"{what}",
                        out[:, place],
                    )

    def _second_hop(
        self, path: str, key: Key, view: View, wanted: NDArray[np.bool_]
    ) -> Iterator[Column]:
        for other in self.keys:
            if other.child == key.child and other.column != key.column:
                is_timed = self._is_timed(key.child) or self._is_timed(other.parent)
                seen = other_parents(self.graph, key, other, wanted).view(self.rows, self.limits)
                yield from self._values(f"{path} > {other.column}", seen, other.parent, is_timed)
                if self._is_timed(key.child):
                    newest = self._admitted(
                        other.parent, view.newest(parent_rows(self.graph, other), -1)
                    )
                    yield from self._around(
                        f"{path} > newest {other.column} ", other.parent, newest, columns=False
                    )
            if other.parent == key.child:
                seen = grandchildren(self.graph, key, other, wanted).view(self.rows, self.limits)
                is_timed = self._is_timed(key.child) or self._is_timed(other.child)
                yield from self._events(
                    f"{path} < {other.child}.{other.column}", seen, other.child, is_timed
                )

    def _around(
        self, path: str, table: str, rows: NDArray[np.int64], columns: bool = True
    ) -> Iterator[Column]:
        """What a row other than the entity knows at the seed's limit: the rows it names and the
        rows that name it."""
        wanted = self._wanted(table, rows)
        for key in self.keys:
            if columns and key.child == table and len(wanted):
                found = np.where(rows >= 0, parent_rows(self.graph, key)[np.maximum(rows, 0)], -1)
                yield from self._row(
                    f"{path}> {key.column}: ", key.parent, self._admitted(key.parent, found)
                )
            if key.parent == table:
                view = children(self.graph, key, wanted).view(rows, self.limits)
                yield from self._events(
                    f"{path}< {key.child}.{key.column}", view, key.child, self._is_timed(key.child)
                )

    def _is_timed(self, table: str) -> bool:
        return self.db.table(table).has_time

    def _admitted(self, table: str, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The rows before their seed's limit, -1 instead of the others."""
        times = row_times(self.graph, table)
        return (
            np.where((rows >= 0) & (times[np.maximum(rows, 0)] < self.limits), rows, -1)
            if len(times)
            else np.full_like(rows, -1)
        )

    def _wanted(self, table: str, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        wanted = np.zeros(len(row_times(self.graph, table)), np.bool_)
        wanted[rows[rows >= 0]] = True
        return wanted

    def _row(self, path: str, table: str, rows: NDArray[np.int64]) -> Iterator[Column]:
        """The columns of one row a seed: numbers, category codes, ages in days; -1 is no row."""
        time_col = self.db.table(table).time_col
        if self._is_timed(table) and (table, time_col) not in self.hidden:
            yield f"{path}age", self._age(take(row_times(self.graph, table), rows, NEVER))
        for name, values in self._columns(table, "numerical"):
            yield f"{path}{name}", take(values, rows, np.nan).astype(np.float32)
        for name, values in self._columns(table, "categorical"):
            codes = take(values, rows, -1)
            self.codes.add(f"{path}{name}")
            yield f"{path}{name}", np.where(codes >= 0, codes, np.nan).astype(np.float32)
        for name, values in self._columns(table, "timestamp"):
            if name != time_col:
                yield f"{path}{name} age", self._age(take(values, rows, MISSING_TIME))

    def _age(self, times: NDArray[np.int64]) -> NDArray[np.float32]:
        known = (times != NEVER) & (times != TIMELESS)
        return np.where(known, (self.references - np.where(known, times, 0)) / DAY, np.nan).astype(
            np.float32
        )

    def _columns(self, table: str, kind: str) -> Iterator[tuple[str, NDArray[Any]]]:
        return visible_columns(self.features, table, kind, self.hidden)

    def _events(self, path: str, view: View, table: str, is_timed: bool) -> Iterator[Column]:
        """Number and times of events, then their columns."""
        count = view.last - view.first
        yield f"{path}: count", count.astype(np.float32)
        if is_timed:
            for windows in (1, 3):
                since = view.since(self.references - windows * self.window)
                yield (
                    f"{path}: count in {windows} window{'s' * (windows > 1)}",
                    since.astype(np.float32),
                )
            times = view.events.time
            newest, oldest = (
                take(times, np.where(view.is_empty, -1, place), NEVER)
                for place in (view.last - 1, view.first)
            )
            yield f"{path}: days since", self._age(newest)
            span = np.where(count > 1, (newest - oldest) / DAY, np.nan)
            yield f"{path}: mean gap", (span / np.maximum(count - 1, 1)).astype(np.float32)
        yield from self._values(path, view, table, is_timed)

    def _values(self, path: str, view: View, table: str, is_timed: bool) -> Iterator[Column]:
        """The columns of events; without times there is no newest."""
        from gelgt.history.kernels import sweep_codes, sweep_numbers

        for name, values in self._columns(table, "numerical"):
            out = np.empty((len(self.rows), 5), np.float32)
            sweep_numbers(
                take(values, view.events.row, np.nan), view.first, view.last, view.order, out
            )
            for place, what in enumerate(
                ("mean", "min", "max", "recent mean", "last")[: 5 if is_timed else 3]
            ):
                yield f"{path}: {name} {what}", out[:, place]
        for name, values in self._columns(table, "categorical"):
            categories = _categories(self.features, table, name)
            top = min(TOP, len(categories))  # codes run by falling frequency
            out = np.empty((len(self.rows), top + 1), np.float32)
            sweep_codes(take(values, view.events.row, -1), view.first, view.last, view.order, out)
            for code in range(top):
                yield f"{path}: {name} share of {categories[code]}", out[:, code]
            if is_timed:
                self.codes.add(f"{path}: {name} last")
                yield f"{path}: {name} last", out[:, top]
        for name, values in self._columns(table, "timestamp"):
            if is_timed and name != self.db.table(table).time_col:
                yield f"{path}: {name} last age", self._age(view.newest(values, MISSING_TIME))


def visible_columns(
    features: Features, table: str, kind: str, hidden: frozenset[tuple[str, str]]
) -> Iterator[tuple[str, NDArray[Any]]]:
    """The columns of a kind in a table, by row, but those that a task must not see."""
    arrays = features.arrays(table)
    for place, name in enumerate(columns_of(features.statistics.tables[table], kind)):
        if (table, name) not in hidden:
            yield name, arrays[kind][:, place]


def _categories(features: Features, table: str, column: str) -> tuple[str, ...]:
    statistics = features.statistics.tables[table][column]
    assert isinstance(statistics, CategoricalStatistics)
    return statistics.categories


def take(values: NDArray[Any], rows: NDArray[np.int64], missing: float) -> NDArray[Any]:
    """`values` at some rows; -1 gives `missing`."""
    if not len(values):
        return np.full(len(rows), missing, values.dtype)
    return np.where(rows >= 0, values[np.maximum(rows, 0)], missing)
