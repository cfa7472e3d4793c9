"""What a plan of history columns asks for, in a form that all seeds and variants of a run share:
the columns of each path (`explain/blocks.py`), and the steps along the foreign keys, written down
once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gelgt.explain.blocks import Block, event_block, row_block
from gelgt.history.aggregates import PathColumns, aggregates
from gelgt.history.columns import Columns, SeedColumns
from gelgt.history.keys import Key
from gelgt.history.lists import EventTimes, Lists
from gelgt.history.task_data import Choice, TaskData, Values
from gelgt.sampling import Seeds
from gelgt.scoring.seed_data import SeedData

PROGRAM = "_explained_program"
Numbers = NDArray[np.int64]


class Program:
    """What a plan asks for, the same for all seeds of a scorer: its columns, where each stands, and
    the blocks of its paths."""

    def __init__(self, data: SeedData, names: tuple[str, ...]) -> None:
        self.choice, self.size = Choice(frozenset(names)), len(names)
        self.places = {name: place for place, name in enumerate(names)}
        self._blocks: dict[tuple[str, str, bool, bool], Block] = {}
        self._row_blocks: dict[tuple[str, str], Block] = {}
        self._steps: list[Step] | None = None

    @classmethod
    def of(cls, data: SeedData, seed: Seeds) -> "Program":
        """That of some data, made once; a plan without names has all columns that any seed has."""
        made = data.__dict__.get(PROGRAM)
        if made is None:
            made = data.__dict__[PROGRAM] = cls(data, data.plan.columns or _all_names(data, seed))
        assert isinstance(made, cls)
        return made

    def event_block(
        self, data: TaskData, path: str, table: str, is_timed: bool, has_events: bool
    ) -> Block:
        """Of the events on a path."""
        key = path, table, is_timed, has_events
        if key not in self._blocks:
            self._blocks[key] = event_block(data, self.places, *key)
        return self._blocks[key]

    def row_block(self, data: TaskData, path: str, table: str) -> Block:
        """Of a row at the end of a path."""
        key = path, table
        if key not in self._row_blocks:
            self._row_blocks[key] = row_block(data, self.places, *key)
        return self._row_blocks[key]

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

    def at_date(self, path: str, view: Any, date: EventTimes) -> Any:
        return self._add("at_date", path, view, date)

    def other_parents(self, path: str, key: Key, other: Key) -> Any:
        return self._add("other_parents", path, key, other)

    def grandchildren(self, path: str, key: Key, below: Key) -> Any:
        return self._add("grandchildren", path, key, below)


class _WrittenColumns(SeedColumns):
    """Writes down which columns are made of what paths lead to."""

    def __init__(self, data: TaskData, times: Numbers, choice: Choice, steps: list[Step]) -> None:
        super().__init__(data, times, choice)
        self.steps = steps

    def of_rows(self, path: str, table: str, rows: Any) -> Iterator[Columns]:
        self.steps.append(Step("rows", (path, table, rows)))
        return iter(())

    def of_events(
        self, path: str, view: Any, table: str, is_timed: bool, date: str | None = None
    ) -> Iterator[Columns]:
        self.steps.append(Step("events", (path, view, table, is_timed, True)))
        return iter(())

    def of_event_rows(
        self,
        path: str,
        view: Any,
        table: str,
        is_timed: bool,
        are_events: bool = False,
        date: str | None = None,
    ) -> Iterator[Columns]:
        self.steps.append(Step("events", (path, view, table, is_timed, False)))
        return iter(())

    def known(self, view: Any, table: str) -> Any:
        return view

    def numbers(
        self,
        path: str,
        values: Values,
        view: Any,
        statistics: Sequence[str],
        windows: Sequence[int] = (),
        sums: Sequence[str] = (),
    ) -> Iterator[Columns]:
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
