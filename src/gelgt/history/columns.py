"""Columns of seeds over single rows and over lists of events, one value for each seed."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gelgt.config import SamplingConfig
from gelgt.features import Features
from gelgt.features.encode import columns_of
from gelgt.features.statistics import CategoricalStatistics
from gelgt.features.values import MISSING_TIME
from gelgt.graph import NEVER, TIMELESS, Graph
from gelgt.history.events import View, row_times
from gelgt.sampling.sampler import Sampler
from gelgt.sources.database import Database
from gelgt.tasks.task import Definition

DAY = 86_400
WINDOW = 30 * DAY  # where the task has none
TOP = 5  # categories whose shares are counted
NUMBERS = ("mean", "min", "max", "recent mean", "last")  # what `sweep_numbers` gives

Column = tuple[str, NDArray[np.float32]]


@dataclass(frozen=True)
class TaskData:
    """A task's database as a model reads it.

    Attributes:
        db: The database.
        graph: Its graph.
        features: Its features.
        task: Gives the entity table, the window and the columns to hide.
        sampling: Causality, visibility and horizon: the rows that a seed may see.
    """

    db: Database
    graph: Graph
    features: Features
    task: Definition
    sampling: SamplingConfig

    def is_timed(self, table: str) -> bool:
        return self.db.table(table).has_time

    @cached_property
    def hidden(self) -> frozenset[tuple[str, str]]:
        return frozenset((table, column) for table, column in self.task.remove_columns)

    def columns(self, table: str, kind: str) -> Iterator[tuple[str, NDArray[Any]]]:
        """The columns of a kind in a table, by row, without those that the task must not see."""
        arrays = self.features.arrays(table)
        for place, name in enumerate(columns_of(self.features.statistics.tables[table], kind)):
            if (table, name) not in self.hidden:
                yield name, arrays[kind][:, place]

    def categories(self, table: str, column: str) -> tuple[str, ...]:
        """The categories of a column; they are coded by falling frequency."""
        statistics = self.features.statistics.tables[table][column]
        assert isinstance(statistics, CategoricalStatistics)
        return statistics.categories


class SeedColumns:
    """The columns of S seeds.

    Args:
        data: What the seeds may see.
        times: (S,) seed times in seconds since 1970.

    Attributes:
        limits: (S,) the first second that each seed may not see.
        references: (S,) the time from which its ages are measured.
        codes: Names of the columns that number categories, so far.
    """

    def __init__(self, data: TaskData, times: NDArray[np.int64]) -> None:
        sampler = Sampler(data.graph, data.sampling)
        self.data = data
        self.limits, self.references = sampler.limits(times), sampler.references(times)
        self.codes: set[str] = set()
        seconds = 0 if data.task.timedelta is None else int(data.task.timedelta.total_seconds())
        self._window = seconds or WINDOW

    def visible(self, table: str, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """(S,) the rows before their seed's limit, -1 instead of the others."""
        times = row_times(self.data.graph, table)
        if not len(times):
            return np.full_like(rows, -1)
        return np.where((rows >= 0) & (times[np.maximum(rows, 0)] < self.limits), rows, -1)

    def of_rows(self, path: str, table: str, rows: NDArray[np.int64]) -> Iterator[Column]:
        """The columns of one row for each seed: numbers, category codes, ages in days; -1 is no
        row."""
        time_col = self.data.db.table(table).time_col
        if self.data.is_timed(table) and (table, time_col) not in self.data.hidden:
            yield f"{path}age", self._age(take(row_times(self.data.graph, table), rows, NEVER))
        for name, values in self.data.columns(table, "numerical"):
            yield f"{path}{name}", take(values, rows, np.nan).astype(np.float32)
        for name, values in self.data.columns(table, "categorical"):
            codes = take(values, rows, -1)
            self.codes.add(f"{path}{name}")
            yield f"{path}{name}", np.where(codes >= 0, codes, np.nan).astype(np.float32)
        for name, values in self.data.columns(table, "timestamp"):
            if name != time_col:
                yield f"{path}{name} age", self._age(take(values, rows, MISSING_TIME))

    def of_events(self, path: str, view: View, table: str, is_timed: bool) -> Iterator[Column]:
        """Number and times of events, then their columns."""
        count = view.last - view.first
        yield f"{path}: count", count.astype(np.float32)
        if is_timed:
            for windows in (1, 3):
                recent = view.since(self.references - windows * self._window)
                name = f"{path}: count in {windows} window{'s' * (windows > 1)}"
                yield name, recent.astype(np.float32)
            newest, oldest = (
                take(view.events.time, np.where(view.is_empty, -1, place), NEVER)
                for place in (view.last - 1, view.first)
            )
            yield f"{path}: days since", self._age(newest)
            span = np.where(count > 1, (newest - oldest) / DAY, np.nan)
            yield f"{path}: mean gap", (span / np.maximum(count - 1, 1)).astype(np.float32)
        yield from self.of_event_rows(path, view, table, is_timed)

    def of_event_rows(self, path: str, view: View, table: str, is_timed: bool) -> Iterator[Column]:
        """The columns of the rows of events; without times there is no newest."""
        from gelgt.history.kernels import sweep_codes

        for name, values in self.data.columns(table, "numerical"):
            numbers = self.numbers(values, view)
            for place, statistic in enumerate(NUMBERS[: 5 if is_timed else 3]):
                yield f"{path}: {name} {statistic}", numbers[:, place]
        for name, values in self.data.columns(table, "categorical"):
            categories = self.data.categories(table, name)[:TOP]
            out = np.empty((len(view.first), len(categories) + 1), np.float32)
            sweep_codes(take(values, view.events.row, -1), view.first, view.last, view.order, out)
            for code, category in enumerate(categories):
                yield f"{path}: {name} share of {category}", out[:, code]
            if is_timed:
                self.codes.add(f"{path}: {name} last")
                yield f"{path}: {name} last", out[:, -1]
        for name, values in self.data.columns(table, "timestamp"):
            if is_timed and name != self.data.db.table(table).time_col:
                yield f"{path}: {name} last age", self._age(view.newest(values, MISSING_TIME))

    def numbers(self, values: NDArray[Any], view: View) -> NDArray[np.float32]:
        """(S, 5) the statistics `NUMBERS` of a numerical column over events."""
        from gelgt.history.kernels import sweep_numbers

        out = np.empty((len(view.first), len(NUMBERS)), np.float32)
        sweep_numbers(take(values, view.events.row, np.nan), view.first, view.last, view.order, out)
        return out

    def _age(self, times: NDArray[np.int64]) -> NDArray[np.float32]:
        has_time = (times != NEVER) & (times != TIMELESS)
        days = (self.references - np.where(has_time, times, 0)) / DAY
        return np.where(has_time, days, np.nan).astype(np.float32)


def take(values: NDArray[Any], rows: NDArray[np.int64], missing: float) -> NDArray[Any]:
    """`values` at some rows; -1 gives `missing`."""
    if not len(values):
        return np.full(len(rows), missing, values.dtype)
    return np.where(rows >= 0, values[np.maximum(rows, 0)], missing)
