"""What a plan of history columns asks for, in a form that all seeds and variants of a run share:
the columns of each path as places in one table, and the steps along the foreign keys, written down
once."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gelgt.features.encode import columns_of
from gelgt.history.aggregates import PathColumns, aggregates
from gelgt.history.columns import (
    BACK,
    COUNT_WINDOWS,
    MEAN_WINDOWS,
    NUMBERS,
    TIMELESS_NUMBERS,
    TOP,
    Choice,
    Column,
    SeedColumns,
    TaskData,
    Values,
    window_name,
)
from gelgt.history.keys import Key
from gelgt.history.lists import Lists
from gelgt.sampling import Seeds
from gelgt.scoring.seed_data import SeedData

PROGRAM = "_explained_program"
Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Block:
    """Which columns of the events on one path are read.

    Attributes:
        numbers: (C,) numerical columns of the table.
        number_places: (C, 13) where each statistic of each stands in the plan, -1 for none.
        codes: (K,) categorical columns.
        tops: (K,) how many of their categories are counted.
        code_places: (K, 6) likewise for the shares, and last for the newest category.
        times: Timestamp columns, each with its place.
        event_places: (17,) likewise for number, times and gaps of the events.
    """

    numbers: Numbers
    number_places: Numbers
    codes: Numbers
    tops: Numbers
    code_places: Numbers
    times: tuple[tuple[int, int], ...]
    event_places: Numbers

    @classmethod
    def of(
        cls,
        data: TaskData,
        plan: Mapping[str, int],
        path: str,
        table: str,
        is_timed: bool,
        has_events: bool,
    ) -> "Block":
        """The block of a path whose events are rows of a table.

        Args:
            plan: The place of each column that is read.
            has_events: Whether the events themselves have columns, beside those of their rows.
        """

        def place(name: str, is_given: bool = True) -> int:
            return plan.get(name, -1) if is_given else -1

        given = NUMBERS[: len(NUMBERS) if is_timed else TIMELESS_NUMBERS]
        numbers, codes, tops, times = {}, {}, {}, []
        for column, name in _columns(data, table, "numerical"):
            places = [place(f"{path}: {name} {s}", s in given) for s in NUMBERS]
            means = (f"{path}: {name} mean in {window_name(w)}" for w in MEAN_WINDOWS)
            numbers[column] = places + [place(mean, is_timed) for mean in means]
        for column, name in _columns(data, table, "categorical"):
            top = data.categories(table, name)[:TOP]
            shares = [place(f"{path}: {name} share of {category}") for category in top]
            rest = [-1] * (TOP - len(top))
            codes[column] = [*shares, *rest, place(f"{path}: {name} last", is_timed)]
            tops[column] = len(top)
        time_col = data.db.table(table).time_col
        for column, name in _columns(data, table, "timestamp"):
            there = place(f"{path}: {name} last age", is_timed and name != time_col)
            times += [(column, there)] if there >= 0 else []
        counted = [f"count in {window_name(w)}" for w in COUNT_WINDOWS]
        since = ["days since", *(f"days since {word} last" for word in BACK)]
        events = [place(f"{path}: count", has_events)]
        for what in (*counted, *since, "mean gap", "last gap", "overdue"):
            events.append(place(f"{path}: {what}", has_events and is_timed))
        numbers, codes = ({c: p for c, p in d.items() if max(p) >= 0} for d in (numbers, codes))
        return cls(
            np.array(list(numbers), np.int64),
            np.array(list(numbers.values()), np.int64).reshape(
                -1, len(NUMBERS) + len(MEAN_WINDOWS)
            ),
            np.array(list(codes), np.int64),
            np.array([tops[column] for column in codes], np.int64),
            np.array(list(codes.values()), np.int64).reshape(-1, TOP + 1),
            tuple(times),
            np.array(events, np.int64),
        )


def _columns(data: TaskData, table: str, kind: str) -> Iterator[tuple[int, str]]:
    names = columns_of(data.features.statistics.tables[table], kind)
    return ((c, name) for c, name in enumerate(names) if (table, name) not in data.hidden)


class Program:
    """What a plan asks for, the same for all seeds of a scorer: its columns, where each stands, and
    the blocks of its paths."""

    def __init__(self, data: SeedData, names: tuple[str, ...]) -> None:
        self.choice, self.size = Choice(frozenset(names)), len(names)
        self.places = {name: place for place, name in enumerate(names)}
        self._blocks: dict[tuple[str, str, bool, bool], Block] = {}
        self._steps: list[Step] | None = None

    @classmethod
    def of(cls, data: SeedData, seed: Seeds) -> "Program":
        """That of some data, made once; a plan without names has all columns that any seed has."""
        made = data.__dict__.get(PROGRAM)
        if made is None:
            made = data.__dict__[PROGRAM] = cls(data, data.plan.columns or _all_names(data, seed))
        assert isinstance(made, cls)
        return made

    def block(
        self, data: TaskData, path: str, table: str, is_timed: bool, has_events: bool
    ) -> Block:
        key = path, table, is_timed, has_events
        if key not in self._blocks:
            self._blocks[key] = Block.of(data, self.places, *key)
        return self._blocks[key]

    def steps(self, data: SeedData, seed: Seeds) -> "list[Step]":
        """How the paths are followed, which is the same for all seeds: what `PathColumns` asks for,
        written down once."""
        if self._steps is None:
            self._steps = []
            columns = _WrittenColumns(data.task_data, seed.time, self.choice, self._steps)
            paths = PathColumns(columns, seed.node, seed.time, _WrittenLists(self._steps))
            entity = data.task.entity_table
            paths.rows = seed.node - data.graph.offsets[data.graph.table_number(entity)]
            for _ in paths.columns(data.plan.hops, data.plan.has_siblings):
                raise AssertionError("steps are written, not yielded")
        return self._steps


@dataclass(frozen=True)
class Made:
    """What an earlier step gives: a row for each variant or a view; of a view, the newest rows."""

    step: int
    is_newest: bool = False

    @property
    def newest(self) -> "Made":
        return Made(self.step, is_newest=True)


class Step(NamedTuple):
    """One step along the paths: a method of `Lists`, ``rows`` or ``events``, and what it is given;
    an array stands for the rows of the seed."""

    what: str
    given: tuple[Any, ...]


class _WrittenLists(Lists):
    """Writes down which keys are followed."""

    def __init__(self, steps: list[Step]) -> None:
        self.steps = steps

    def _add(self, what: str, *given: Any) -> Any:
        self.steps.append(Step(what, given))
        return Made(len(self.steps) - 1)

    def parents(self, path: str, key: Key, rows: Any) -> Any:
        return self._add("parents", path, key, rows)

    def children(self, path: str, key: Key) -> Any:
        return self._add("children", path, key)

    def children_of(self, path: str, key: Key, rows: Any) -> Any:
        return self._add("children_of", path, key, rows)

    def other_parents(self, path: str, key: Key, other: Key) -> Any:
        return self._add("other_parents", path, key, other)

    def grandchildren(self, path: str, key: Key, below: Key) -> Any:
        return self._add("grandchildren", path, key, below)

    def read_rows(self, table: str, rows: Any) -> Any:
        return rows


class _WrittenColumns(SeedColumns):
    """Writes down which columns are made of what paths lead to."""

    def __init__(self, data: TaskData, times: Numbers, choice: Choice, steps: list[Step]) -> None:
        super().__init__(data, times, choice)
        self.steps = steps

    def of_rows(self, path: str, table: str, rows: Any, read: Any) -> Iterator[Column]:
        self.steps.append(Step("rows", (path, table, rows)))
        return iter(())

    def of_events(self, path: str, view: Any, table: str, is_timed: bool) -> Iterator[Column]:
        self.steps.append(Step("events", (path, view, table, is_timed, True)))
        return iter(())

    def of_event_rows(self, path: str, view: Any, table: str, is_timed: bool) -> Iterator[Column]:
        self.steps.append(Step("events", (path, view, table, is_timed, False)))
        return iter(())

    def numbers(
        self, path: str, values: Values, view: Any, statistics: Sequence[str]
    ) -> Iterator[Column]:
        """Of siblings: all columns of their table are one step."""
        whole, key, _ = self.steps[view.step].given
        step = Step("events", (whole, view, key.child, True, False))
        if self.steps[-1] != step:
            self.steps.append(step)
        return iter(())


def _all_names(data: SeedData, seed: Seeds) -> tuple[str, ...]:
    plan = data.plan
    if not plan.hops or plan.columns is not None:
        return ()
    row = seed.node - data.graph.offsets[data.graph.table_number(data.task.entity_table)]
    every = aggregates(data.task_data, row, seed.time, hops=plan.hops, siblings=plan.has_siblings)
    return tuple(name for name, is_code in zip(every.names, every.is_code) if not is_code)
