"""The history columns of variants of one seed.

Most variants see the same events on most paths: one row is absent, and all other paths are as they
were. So what lies on a path is read once for a seed, each column is computed once for each distinct
list of events, all columns of a table in one compiled loop, and every variant takes those of its
list. The numbers are those of `history/columns.py`, to the bit.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from gelgt.explain.lists import PathReader, SharedView, Survey, VariantLists
from gelgt.explain.neighbourhood import Neighbourhood, Rest
from gelgt.explain.stand_ins import StandInData, StandIns
from gelgt.features.encode import columns_of
from gelgt.features.values import MISSING_TIME
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
from gelgt.history.events import View
from gelgt.history.patched import Patched
from gelgt.history.seed_history import calendar
from gelgt.sampling import Seeds
from gelgt.scoring.seed_data import SeedData

PROGRAM = "_explained_program"
MOST_EVENTS = 1 << 21  # rows on the paths of all variants that are in hand at once
LEAST_VARIANTS = 8
WORKERS = 4  # paths whose columns are computed at once
Numbers = NDArray[np.int64]
_BACK = np.array([1, *BACK.values()])  # the newest events whose ages are columns
_MEANS, _COUNTS = np.array(MEAN_WINDOWS), np.array(COUNT_WINDOWS)


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


@cache
def _workers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(min(WORKERS, os.cpu_count() or 1), "gelgt-history")


class Program:
    """What a plan asks for, the same for all seeds of a scorer: its columns, where each stands, and
    the blocks of its paths."""

    def __init__(self, data: SeedData, names: tuple[str, ...]) -> None:
        self.choice, self.size = Choice(frozenset(names)), len(names)
        self.places = {name: place for place, name in enumerate(names)}
        self._blocks: dict[tuple[str, str, bool, bool], Block] = {}

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


def _all_names(data: SeedData, seed: Seeds) -> tuple[str, ...]:
    plan = data.plan
    if not plan.hops or plan.columns is not None:
        return ()
    row = seed.node - data.graph.offsets[data.graph.table_number(data.task.entity_table)]
    every = aggregates(data.task_data, row, seed.time, hops=plan.hops, siblings=plan.has_siblings)
    return tuple(name for name, is_code in zip(every.names, every.is_code) if not is_code)


class SharedColumns(SeedColumns):
    """Writes the columns of V variants, computed once for each list that some of them share.

    Args:
        data: The task's database, with stand-ins.
        seed: The one seed.
        program: Which columns, and where they stand.
        out: (V, F) is written.
    """

    def __init__(
        self, data: StandInData, seed: Seeds, program: Program, out: NDArray[np.float32]
    ) -> None:
        super().__init__(data, seed.time, program.choice)
        self.of, self.program, self.out = data, program, out
        self.started: list[Future[None]] = []

    def of_rows(self, path: str, table: str, rows: Numbers, read: Numbers) -> Iterator[Column]:
        for name, values in super().of_rows(path, table, rows, read):
            self.out[:, self.program.places[name]] = values
        return iter(())

    def of_events(self, path: str, view: View, table: str, is_timed: bool) -> Iterator[Column]:
        return self._write(path, view, table, is_timed, has_events=True)

    def of_event_rows(self, path: str, view: View, table: str, is_timed: bool) -> Iterator[Column]:
        return self._write(path, view, table, is_timed, has_events=False)

    def numbers(
        self, path: str, values: Values, view: View, statistics: Sequence[str]
    ) -> Iterator[Column]:
        assert isinstance(view, SharedView)
        for name, made in super().numbers(path, values, view, statistics):
            self.out[:, self.program.places[name]] = made[view.which]
        return iter(())

    def _write(
        self, path: str, view: View, table: str, is_timed: bool, has_events: bool
    ) -> Iterator[Column]:
        from gelgt.explain.list_kernels import Lists, Times, fill_path

        assert isinstance(view, SharedView)
        block = self.program.block(self.data, path, table, is_timed, has_events)
        lists = Lists(view.events.time, view.events.read, view.events.starts, view.which)
        means = _MEANS if is_timed else _MEANS[:0]
        times = Times(int(self.references[0]), self._window, means, _COUNTS, _BACK)
        numbers = self.of.table(table, "numerical", block.numbers, block.number_places)
        codes = self.of.table(table, "categorical", block.codes, block.code_places)
        given = (lists, times, numbers, codes, block.tops, block.event_places, self.out)
        # without the interpreter's lock; each path has columns of its own
        self.started.append(_workers().submit(fill_path, *given))
        for column, place in block.times:
            values = self.data.features.arrays(table)["timestamp"][:, column]
            further = self.of.stand_ins.shown(table, "timestamp")[:, column]
            made = self._age(Patched(values, further).taken(view.newest_of_lists, MISSING_TIME))
            self.out[:, place] = made[view.which]
        return iter(())


class VariantHistory:
    """The history columns of variants of one seed.

    Args:
        data: The model's database and plan.
        hood: The rows around the seed.
        stand_ins: What states beyond ITSELF mean.
    """

    def __init__(self, data: SeedData, hood: Neighbourhood, stand_ins: StandIns) -> None:
        self.data, self.hood, self.stand_ins = data, hood, stand_ins
        self.reader = PathReader(hood, int(data.sampler.limits(hood.seed.time)[0]))

    def columns(self, states: NDArray[np.int64]) -> NDArray[np.float32] | None:
        """(V, U) states → (V, F) columns; None where no model asks for them."""
        plan, seed = self.data.plan, self.hood.seed
        if not plan:
            return None
        program = Program.of(self.data, seed)
        own = np.full((len(states), program.size), np.nan, np.float32)
        step = max(LEAST_VARIANTS, MOST_EVENTS // int(self.hood.sizes.sum()))
        for start in range(0, len(states) if plan.hops else 0, step):
            self._fill(program, states[start : start + step], own[start : start + step])
        if not plan.has_calendar:
            return own
        return np.concatenate([own, np.repeat(self._calendar, len(states), 0)], 1)

    def _fill(self, program: Program, states: NDArray[np.int64], out: NDArray[np.float32]) -> None:
        base, plan, seed = self.data.task_data, self.data.plan, self.hood.seed
        parts = (base.db, base.graph, base.features, base.task, base.sampling)
        columns = SharedColumns(StandInData(*parts, self.stand_ins), seed, program, out)
        lists = VariantLists(self.reader, states, self.stand_ins)
        paths = PathColumns(columns, lists.rows, seed.time.repeat(len(states)), lists)
        for _ in paths.columns(plan.hops, plan.has_siblings):
            raise AssertionError("columns of variants are written, not yielded")
        for started in columns.started:
            started.result()

    @cached_property
    def _calendar(self) -> NDArray[np.float32]:
        return calendar(self.data.graph, self.data.sampling, self.hood.seed)


class _NoColumns(SeedColumns):
    """Makes nothing of what paths lead to: the paths themselves are looked at."""

    def of_rows(self, path: str, table: str, rows: Numbers, read: Numbers) -> Iterator[Column]:
        return iter(())

    def of_events(self, path: str, view: View, table: str, is_timed: bool) -> Iterator[Column]:
        return iter(())

    def of_event_rows(self, path: str, view: View, table: str, is_timed: bool) -> Iterator[Column]:
        return iter(())

    def numbers(
        self, path: str, values: Values, view: View, statistics: Sequence[str]
    ) -> Iterator[Column]:
        return iter(())


def surveyed(data: SeedData, hood: Neighbourhood) -> tuple[Rest, ...]:
    """The rows outside the sample that the history columns of a seed read."""
    seed, plan = hood.seed, data.plan
    columns = _NoColumns(data.task_data, seed.time, Program.of(data, seed).choice)
    survey = Survey(hood, columns.limits, int(columns.references[0]))
    paths = PathColumns(columns, hood.row_numbers[:1], seed.time, survey)
    for _ in paths.columns(plan.hops, plan.has_siblings):
        raise AssertionError("a survey makes no columns")
    return survey.rests()
