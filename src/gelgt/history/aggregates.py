"""Causal aggregates of seeds: what a tabular model may know of an entity at a time.

    hops = 1    the columns of the entity's row and of its parent rows, and over its child rows:
                their number, how many in the last window and in the last three, days since the
                newest, mean gap, and for each column mean, minimum, maximum, mean of the newest
                five and the newest (numbers), or the shares of the most frequent categories and
                the newest (categories)
    hops = 2    also the same over the other parents and over the children of the child rows, and
                around the entity's parents and the newest child's parents: their parent and child
                rows at the seed's time

    siblings    over the rows that share a parent with the entity's newest child, such as all
                results of the team that a driver drove for last: the mean of each number, and that
                of the newest five. Part of hops = 2 already.

A row counts if it lies before the seed's limit, and ages are measured from its reference time; both
come from the sampler, so that the columns show what the network may see. Texts and lists of
categories are left out. Column names spell the path (`history/events.py`): `< results.driverId:
points mean`.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gelgt.history.columns import NUMBERS, Column, SeedColumns, TaskData
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


def aggregates(
    data: TaskData,
    rows: NDArray[np.int64],
    times: NDArray[np.int64],
    *,
    hops: int = 1,
    siblings: bool = False,
) -> Aggregates:
    """The columns of some seeds.

    Args:
        data: What the seeds may see.
        rows: (S,) rows of the entity table.
        times: (S,) seed times in seconds since 1970.
        hops: 1 or 2.
        siblings: Whether hops = 1 also looks at the siblings of the newest child.
    """
    paths = _Paths(data, np.asarray(rows, np.int64), np.asarray(times, np.int64))
    columns = list(paths.columns(hops, siblings))
    names = tuple(name for name, _ in columns)
    values = np.empty((len(rows), len(columns)), np.float32)
    # from the back, so that each column is freed once it has been copied
    for place in reversed(range(len(names))):
        values[:, place] = columns.pop()[1]
    is_code = np.array([name in paths.seeds.codes for name in names], np.bool_)
    return Aggregates(names, values, is_code)


class _Paths:
    """Follows the foreign keys around the entity table, one list of events at a time, so that
    memory holds one of them besides the result."""

    def __init__(self, data: TaskData, rows: NDArray[np.int64], times: NDArray[np.int64]) -> None:
        self.data, self.graph = data, data.graph
        self.rows, self.times = rows, times
        self.seeds = SeedColumns(data, times)
        self.keys = keys_of(self.graph, data.hidden)

    def columns(self, hops: int, siblings: bool) -> Iterator[Column]:
        entity = self.data.task.entity_table
        # an entity that does not exist yet at its seed time has no columns
        exists = row_times(self.graph, entity)[self.rows] <= self.times
        yield from self.seeds.of_rows("", entity, np.where(exists, self.rows, -1))
        for key in self.keys:
            if key.child == entity:
                parents = np.where(exists, parent_rows(self.graph, key)[self.rows], -1)
                rows = self.seeds.visible(key.parent, parents)
                yield from self.seeds.of_rows(f"> {key.column}: ", key.parent, rows)
                if hops > 1:
                    yield from self._around(f"> {key.column} ", key.parent, rows)
        is_owner = self._is_among(entity, self.rows)
        for key in self.keys:
            if key.parent == entity:
                path, is_timed = f"< {key.child}.{key.column}", self.data.is_timed(key.child)
                view = children(self.graph, key, is_owner).view(self.rows, self.seeds.limits)
                yield from self.seeds.of_events(path, view, key.child, is_timed)
                if hops > 1:
                    yield from self._second_hop(path, key, view, is_owner)
                elif siblings and is_timed:
                    yield from self._siblings(path, key, view)

    def _siblings(self, path: str, key: Key, view: View) -> Iterator[Column]:
        for other in self._other_keys(key):
            newest = self._newest_parents(other, view)
            is_owner = self._is_among(other.parent, newest)
            siblings = children(self.graph, other, is_owner).view(newest, self.seeds.limits)
            sibling_path = f"{path} > newest {other.column} < {other.child}.{other.column}"
            for name, values in self.data.columns(key.child, "numerical"):
                numbers = self.seeds.numbers(values, siblings)
                for statistic in ("mean", "recent mean"):
                    column = numbers[:, NUMBERS.index(statistic)]
                    yield f"{sibling_path}: {name} {statistic}", column

    def _second_hop(
        self, path: str, key: Key, view: View, is_owner: NDArray[np.bool_]
    ) -> Iterator[Column]:
        for other in self.keys:
            is_timed = self.data.is_timed(key.child)
            if other.child == key.child and other.column != key.column:
                events = other_parents(self.graph, key, other, is_owner)
                yield from self.seeds.of_event_rows(
                    f"{path} > {other.column}",
                    events.view(self.rows, self.seeds.limits),
                    other.parent,
                    is_timed or self.data.is_timed(other.parent),
                )
                if is_timed:
                    newest = self._newest_parents(other, view)
                    yield from self._around(
                        f"{path} > newest {other.column} ", other.parent, newest, parents=False
                    )
            if other.parent == key.child:
                events = grandchildren(self.graph, key, other, is_owner)
                yield from self.seeds.of_events(
                    f"{path} < {other.child}.{other.column}",
                    events.view(self.rows, self.seeds.limits),
                    other.child,
                    is_timed or self.data.is_timed(other.child),
                )

    def _around(
        self, path: str, table: str, rows: NDArray[np.int64], parents: bool = True
    ) -> Iterator[Column]:
        """The parent rows and child rows of rows other than the entity, at the seed's limit."""
        is_owner = self._is_among(table, rows)
        for key in self.keys:
            if parents and key.child == table and len(is_owner):
                named = np.where(rows >= 0, parent_rows(self.graph, key)[np.maximum(rows, 0)], -1)
                visible = self.seeds.visible(key.parent, named)
                yield from self.seeds.of_rows(f"{path}> {key.column}: ", key.parent, visible)
            if key.parent == table:
                view = children(self.graph, key, is_owner).view(rows, self.seeds.limits)
                yield from self.seeds.of_events(
                    f"{path}< {key.child}.{key.column}",
                    view,
                    key.child,
                    self.data.is_timed(key.child),
                )

    def _other_keys(self, key: Key) -> list[Key]:
        return [k for k in self.keys if k.child == key.child and k.column != key.column]

    def _newest_parents(self, key: Key, view: View) -> NDArray[np.int64]:
        """(S,) the row that each seed's newest child names by a key, -1 where it is not visible."""
        return self.seeds.visible(key.parent, view.newest(parent_rows(self.graph, key), -1))

    def _is_among(self, table: str, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which rows of a table are among `rows`, so that no other lists are built."""
        is_among = np.zeros(len(row_times(self.graph, table)), np.bool_)
        is_among[rows[rows >= 0]] = True
        return is_among
