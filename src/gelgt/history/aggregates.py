"""Causal aggregates of seeds: what a tabular model may know of an entity at a time.

    hops = 1    the columns of the entity's row and of its parent rows, of a category also whether
                it is each of the eight most frequent, and over its child rows: their number, how
                many in the last 1, 2, 3 … 64 windows, days since the newest, the second, fifth and
                tenth newest, mean gap, last gap, and the days since the newest over the mean gap;
                all of these once more with the events of one day counted once, where windows are
                two days or longer; for each column mean, minimum, maximum, deviation, means of the
                newest five and twenty and of the last 1, 3, 4, 16 windows, and the newest three
                (numbers), or the shares of the most frequent categories and the newest
                (categories). Where labels are numbers, also the median number of child rows in the
                last 8 and 16 windows, and the median of the sum of each number; over rows that are
                the entity's own, median and mean of those of the last 16 that are active, which is
                where a child row lies in the four windows before, and how many these are
    hops = 2    also the same over the other parents and over the children of the child rows, and
                around the entity's parents and the newest child's parents: their parent and child
                rows at the seed's time

    dates       a date inside child rows, such as that of a cancellation, is an event of its own
                where it lies after its row (`< orders.customer_id @cancelled_at`): its number,
                times and gaps, and the columns that are filled along with it, which the child rows
                themselves then do not have

    siblings    over the rows that share a parent with the entity's newest child, such as all
                results of the team that a driver drove for last: the mean of each number, and that
                of the newest five. Part of hops = 2 already.

A row counts if it lies before the seed's limit, and ages are measured from its reference time; both
come from the sampler, so that the columns show what the network may see. Texts and lists of
categories are left out. Column names spell the path (`history/events.py`): `< results.driverId:
points mean`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gelgt.history.columns import Columns, SeedColumns, at_date
from gelgt.history.events import View, row_times
from gelgt.history.keys import Key, keys_of
from gelgt.history.lists import EventTimes, Lists
from gelgt.history.pieces import in_order, lane_count
from gelgt.history.task_data import EVERY_COLUMN, Choice, TaskData
from gelgt.meter import Work
from gelgt.sources.row_times import is_there


@dataclass(frozen=True)
class Aggregates:
    """Columns for S seeds.

    Attributes:
        names: Of the F columns.
        values: (S, F) float32, NaN for missing.
        is_code: (F,) which columns number categories, so that larger is not more.
    """

    names: tuple[str, ...]
    values: NDArray[np.float32]
    is_code: NDArray[np.bool_]

    @property
    def numbers(self) -> NDArray[np.float32]:
        """The columns that do not number categories."""
        return self.values[:, ~self.is_code]


class Proposal(NamedTuple):
    """One column: its values (S,), and whether they number categories."""

    name: str
    values: NDArray[np.float32]
    is_code: bool


def aggregates(
    data: TaskData,
    rows: NDArray[np.int64],
    times: NDArray[np.int64],
    *,
    hops: int = 1,
    siblings: bool = False,
    names: Sequence[str] | None = None,
    lists: Lists | None = None,
    out: NDArray[np.float32] | None = None,
) -> Aggregates:
    """The columns of some seeds.

    Args:
        data: What the seeds may see.
        rows: (S,) rows of the entity table.
        times: (S,) seed times in seconds since 1970.
        hops: 1 or 2.
        siblings: Whether hops = 1 also looks at the siblings of the newest child.
        names: Only these columns, in this order; NaN where the database has no such column.
        lists: Follows foreign keys; by default to every row that the seeds may see.
        out: (S, names) where columns of given names are written, such as a part of a larger table.
    """
    rows, times = np.asarray(rows, np.int64), np.asarray(times, np.int64)
    if names is None:
        columns = list(proposals(data, rows, times, hops, siblings, lists=lists))
        every, codes = [c.name for c in columns], np.array([c.is_code for c in columns], np.bool_)
        values = np.empty((len(rows), len(columns)), np.float32)
        # from the back, so that each column is freed once it has been copied
        for place in reversed(range(len(columns))):
            values[:, place] = columns.pop().values
        return Aggregates(tuple(every), values, codes)
    places = {name: place for place, name in enumerate(names)}
    values = np.empty((len(rows), len(names)), np.float32) if out is None else out
    codes, choice = np.zeros(len(names), np.bool_), Choice(frozenset(names))
    missing = set(names)
    work = Work(f"history of {len(rows):,} seeds", len(names), "columns")
    for column in proposals(data, rows, times, hops, siblings, choice, lists):
        place = places[column.name]
        values[:, place], codes[place] = column.values, column.is_code
        missing.discard(column.name)
        work(1)
    values[:, [places[name] for name in missing]] = np.nan
    return Aggregates(tuple(names), values, codes)


def proposals(
    data: TaskData,
    rows: NDArray[np.int64],
    times: NDArray[np.int64],
    hops: int = 1,
    siblings: bool = False,
    choice: Choice = EVERY_COLUMN,
    lists: Lists | None = None,
) -> Iterator[Proposal]:
    """The columns of `aggregates` one by one."""
    seeds = SeedColumns(data, times, choice)
    paths = PathColumns(seeds, rows, times, lists or Lists(data.graph, rows, seeds.limits))
    for columns in in_order(paths.columns(hops, siblings), lane_count()):
        for name, values in columns:
            yield Proposal(name, values, name in seeds.codes)


class PathColumns:
    """Follows the foreign keys around the entity table, one list of events at a time, so that
    memory holds one of them besides the result.

    Args:
        seeds: Makes columns of what a path leads to.
        rows: (S,) rows of the entity table.
        times: (S,) seed times.
        lists: Follows foreign keys.
    """

    def __init__(
        self,
        seeds: SeedColumns,
        rows: NDArray[np.int64],
        times: NDArray[np.int64],
        lists: Lists,
    ) -> None:
        self.seeds, self.rows, self.times, self.lists = seeds, rows, times, lists
        self.data, self.is_wanted = seeds.data, seeds.choice.begins
        self.keys = keys_of(self.data.graph, self.data.hidden)

    def _of_rows(self, path: str, table: str, rows: NDArray[np.int64]) -> Iterator[Columns]:
        return self.seeds.of_rows(path, table, rows)

    def columns(self, hops: int, siblings: bool) -> Iterator[Columns]:
        entity = self.data.task.entity_table
        # an entity that does not exist yet at its seed time has no columns
        created = row_times(self.data.graph, entity)[self.rows]
        exists = is_there(self.data.db.table(entity), created, self.times)
        own = np.where(exists, self.rows, -1)
        yield from self._of_rows("", entity, own)
        for key in self.keys:
            path = f"> {key.column}"
            if key.child == entity and self.is_wanted(path):
                rows = self.lists.parents(path, key, own)
                yield from self._of_rows(f"{path}: ", key.parent, rows)
                if hops > 1:
                    yield from self._around(f"{path} ", key.parent, rows)
        for key in self.keys:
            path, is_timed = f"< {key.child}.{key.column}", self.data.is_timed(key.child)
            if key.parent == entity and self.is_wanted(path):
                view = self.lists.children(path, key)
                yield from self._of_events(path, view, key.child, is_timed)
                if hops > 1:
                    yield from self._second_hop(path, key, view)
                elif siblings and is_timed:
                    yield from self._siblings(path, key, view)

    def _of_events(self, path: str, view: View, table: str, is_timed: bool) -> Iterator[Columns]:
        """The columns of events, and of the dates in their rows."""
        yield from self.seeds.of_events(path, view, table, is_timed)
        yield from self._of_dates(path, view, table)

    def _of_dates(self, path: str, view: View, table: str) -> Iterator[Columns]:
        """The columns of the dates in the rows of events: a date is an event of its own."""
        for date in self.data.late_dates(table):
            dated = at_date(path, date.column)
            if self.is_wanted(f"{dated}: "):
                times = EventTimes(table, date.column, self.data.dates(table, date.column))
                there = self.lists.at_date(dated, view, times)
                yield from self.seeds.of_events(dated, there, table, True, date.column)

    def _siblings(self, path: str, key: Key, view: View) -> Iterator[Columns]:
        for other in self._other_keys(key):
            newest_path = f"{path} > newest {other.column}"
            sibling_path = f"{newest_path} < {other.child}.{other.column}"
            if not self.is_wanted(sibling_path):
                continue
            newest = self.lists.parents(newest_path, other, view.newest)
            siblings = self.lists.children_of(sibling_path, other, newest)
            siblings = self.seeds.known(siblings, key.child)
            for name, values in self.data.event_columns(key.child, "numerical"):
                prefix = f"{sibling_path}: {name}"
                yield from self.seeds.numbers(prefix, values, siblings, ("mean", "recent mean"))

    def _second_hop(self, path: str, key: Key, view: View) -> Iterator[Columns]:
        for other in self.keys:
            is_timed = self.data.is_timed(key.child)
            if other.child == key.child and other.column != key.column:
                parents, around = f"{path} > {other.column}", f"{path} > newest {other.column} "
                if self.is_wanted(f"{parents}:") or self.is_wanted(at_date(parents, "")):
                    further = self.lists.other_parents(parents, key, other)
                    has_time = is_timed or self.data.is_timed(other.parent)
                    table = other.parent
                    yield from self.seeds.of_event_rows(parents, further, table, has_time)
                    yield from self._of_dates(parents, further, table)
                if is_timed and self.is_wanted(around):
                    newest = self.lists.parents(around.rstrip(), other, view.newest)
                    yield from self._around(around, other.parent, newest, parents=False)
            below = f"{path} < {other.child}.{other.column}"
            if other.parent == key.child and self.is_wanted(below):
                yield from self._of_events(
                    below,
                    self.lists.grandchildren(below, key, other),
                    other.child,
                    is_timed or self.data.is_timed(other.child),
                )

    def _around(
        self, path: str, table: str, rows: NDArray[np.int64], parents: bool = True
    ) -> Iterator[Columns]:
        """The parent rows and child rows of rows other than the entity, at the seed's limit."""
        for key in self.keys:
            above, below = f"{path}> {key.column}", f"{path}< {key.child}.{key.column}"
            if parents and key.child == table and self.is_wanted(f"{above}: "):
                named = self.lists.parents(above, key, rows)
                yield from self._of_rows(f"{above}: ", key.parent, named)
            if key.parent == table and self.is_wanted(below):
                yield from self._of_events(
                    below,
                    self.lists.children_of(below, key, rows),
                    key.child,
                    self.data.is_timed(key.child),
                )

    def _other_keys(self, key: Key) -> list[Key]:
        return [k for k in self.keys if k.child == key.child and k.column != key.column]
