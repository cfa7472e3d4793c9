"""What a history is made of: the task's database as a model reads it, and which columns are asked
for."""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gelgt.config import SamplingConfig
from gelgt.features import Features
from gelgt.features.encode import columns_of
from gelgt.features.statistics import CategoricalStatistics, EventDateStatistics
from gelgt.graph import Graph
from gelgt.history.events import row_times
from gelgt.sources.database import Database
from gelgt.tasks.task import Definition

TOP_OF_ROW = 8  # categories of one row that have a column each

Values = NDArray[Any]  # of a column, by row


@dataclass(frozen=True)
class Choice:
    """Which columns are computed: those of some names, or all."""

    names: frozenset[str] | None = None

    def has(self, name: str) -> bool:
        return self.names is None or name in self.names

    def begins(self, path: str) -> bool:
        """Whether a column's name begins so, so that its path is worth following."""
        if self.names is None:
            return True
        place = bisect_left(self._sorted, path)  # before the first name that begins so
        return place < len(self._sorted) and self._sorted[place].startswith(path)

    @cached_property
    def _sorted(self) -> list[str]:
        return sorted(self.names or ())


EVERY_COLUMN = Choice()


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

    def columns(self, table: str, kind: str) -> Iterator[tuple[str, Values]]:
        """The columns of a kind in a table, by row, without those that the task must not see."""
        arrays = self.features.arrays(table)
        for place, name in enumerate(columns_of(self.features.statistics.tables[table], kind)):
            if (table, name) not in self.hidden:
                yield name, arrays[kind][:, place]

    def event_columns(
        self, table: str, kind: str, date: str | None = None
    ) -> Iterator[tuple[str, Values]]:
        """The columns of events of a table: those that no late date changes, or, of such a date,
        those that are filled along with it."""
        dates = {d.column: d.masked for d in self.late_dates(table)}
        changed = {column for masked in dates.values() for column in masked}
        for name, values in self.columns(table, kind):
            if name in dates[date] if date is not None else name not in changed:
                yield name, values

    def late_dates(self, table: str) -> list[EventDateStatistics]:
        """The dates of a table that are events of their own: that a model learned of after their
        rows, and that the task may see."""
        dates = [name for name, _ in self.columns(table, "timestamp")]
        every = self.features.statistics.event_dates.get(table, ())
        return [date for date in every if date.is_late and date.column in dates]

    def dates(self, table: str, date: str) -> Values:
        """(rows,) a date of each row, in seconds."""
        names = columns_of(self.features.statistics.tables[table], "timestamp")
        values: Values = self.features.arrays(table)["timestamp"][:, names.index(date)]
        return values

    def has_later_dates(self, table: str) -> bool:
        """Whether rows of a table have dates that lie after them."""
        known = self._later
        if table not in known:
            versions = self.features.versions(table)
            known[table] = versions is not None and bool(
                np.any(versions.until > row_times(self.graph, table)[versions.row])
            )
        return known[table]

    @cached_property
    def _later(self) -> dict[str, bool]:
        return {}

    def categories(self, table: str, column: str) -> tuple[str, ...]:
        """The categories of a column; they are coded by falling frequency."""
        statistics = self.features.statistics.tables[table][column]
        assert isinstance(statistics, CategoricalStatistics)
        return statistics.categories

    def category_columns(self, table: str, column: str) -> tuple[str, ...]:
        """What is made of the category of one row: its code, and for each of the most frequent
        whether it is that one; of two, one says it all."""
        categories = self.categories(table, column)
        told = categories[:1] if len(categories) == 2 else categories[:TOP_OF_ROW]
        return (column, *(f"{column} is {category}" for category in told))
