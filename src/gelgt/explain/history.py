"""The history columns of variants of one seed.

Most variants see the same events on most paths: one row is absent, and all other paths are as they
were. So what lies on a path is read once for a seed, each column is computed once for each distinct
list of events, all columns of a path in one compiled loop, and every variant takes those of its
list. The numbers are those of `history/columns.py`, to the bit.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gelgt.explain.history_plan import Made, Numbers, Program, Step
from gelgt.explain.lists import PathReader, SharedView, Survey, VariantLists
from gelgt.explain.neighbourhood import Neighbourhood, Rest
from gelgt.explain.stand_ins import StandInData, StandIns
from gelgt.features.values import MISSING_TIME
from gelgt.history.columns import (
    BACK,
    COUNT_WINDOWS,
    MEAN_WINDOWS,
    SeedColumns,
)
from gelgt.history.events import View
from gelgt.history.lists import Lists
from gelgt.history.patched import Patched
from gelgt.history.seed_history import calendar
from gelgt.sampling import Seeds
from gelgt.scoring.seed_data import SeedData

MOST_EVENTS = 1 << 21  # rows on the paths of all variants that are in hand at once
LEAST_VARIANTS = 8
WORKERS = 4  # paths whose columns are computed at once
_BACK = np.array([1, *BACK.values()])  # the newest events whose ages are columns
_MEANS, _COUNTS = np.array(MEAN_WINDOWS), np.array(COUNT_WINDOWS)


@cache
def _workers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(min(WORKERS, os.cpu_count() or 1), "gelgt-history")


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
        self.waiting: list[tuple[Any, ...]] = []

    def write_rows(self, path: str, table: str, rows: Numbers, read: Numbers) -> None:
        """The columns of one row for each variant."""
        for name, values in self.of_rows(path, table, rows, read):
            self.out[:, self.program.places[name]] = values

    def write(self, path: str, view: View, table: str, is_timed: bool, has_events: bool) -> None:
        """The columns of events, which are there once all are `done`."""
        from gelgt.explain.column_kernels import Lists as EventLists
        from gelgt.explain.column_kernels import Times

        assert isinstance(view, SharedView)
        block = self.program.block(self.data, path, table, is_timed, has_events)
        lists = EventLists(view.events.time, view.events.read, view.events.starts, view.which)
        means = _MEANS if is_timed else _MEANS[:0]
        times = Times(int(self.references[0]), self._window, means, _COUNTS, _BACK)
        numbers = self.of.table(table, "numerical", block.numbers, block.number_places)
        codes = self.of.table(table, "categorical", block.codes, block.code_places)
        given = (lists, times, numbers, codes, block.tops, block.event_places, self.out)
        self.waiting.append(given)
        for column, place in block.times:
            values = self.data.features.arrays(table)["timestamp"][:, column]
            further = self.of.stand_ins.shown(table, "timestamp")[:, column]
            made = self._age(Patched(values, further).taken(view.newest_of_lists, MISSING_TIME))
            self.out[:, place] = made[view.which]

    def done(self) -> None:
        """Compute what waits, side by side: the loops do not need the interpreter, and each path
        has columns of its own."""
        ordered = sorted(self.waiting, key=lambda given: -len(given[0].read))
        count = min(WORKERS, os.cpu_count() or 1)
        started = [_workers().submit(_fill_paths, ordered[n::count]) for n in range(1, count)]
        _fill_paths(ordered[::count])
        for each in started:
            each.result()


def _fill_paths(some: Sequence[tuple[Any, ...]]) -> None:
    from gelgt.explain.column_kernels import fill_path

    for given in some:
        fill_path(*given)


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
        base, seed = self.data.task_data, self.hood.seed
        parts = (base.db, base.graph, base.features, base.task, base.sampling)
        columns = SharedColumns(StandInData(*parts, self.stand_ins), seed, program, out)
        lists = VariantLists(self.reader, states, self.stand_ins)
        own = lists.rows if self.data.exists(seed)[0] else np.full_like(lists.rows, -1)
        followed(program.steps(self.data, seed), lists, own, columns)
        columns.done()

    @cached_property
    def _calendar(self) -> NDArray[np.float32]:
        return calendar(self.data.graph, self.data.sampling, self.hood.seed)


def followed(
    steps: Sequence[Step], lists: Lists, own: Numbers, columns: SharedColumns | None = None
) -> None:
    """Take steps along foreign keys.

    Args:
        lists: Follows them.
        own: The rows of the seeds.
        columns: Writes columns of what they lead to; None for none.
    """
    made: list[Any] = []

    def now(given: Any) -> Any:
        if not isinstance(given, Made):
            return own if isinstance(given, np.ndarray) else given
        return made[given.step].newest if given.is_newest else made[given.step]

    for what, given in steps:
        if what not in ("rows", "events"):
            made.append(getattr(lists, what)(*map(now, given)))
            continue
        made.append(None)
        if columns is not None and what == "rows":
            path, table, rows = map(now, given)
            columns.write_rows(path, table, rows, lists.read_rows(table, rows))
        elif columns is not None:
            columns.write(*map(now, given))


def surveyed(data: SeedData, hood: Neighbourhood) -> tuple[Rest, ...]:
    """The rows outside the sample that the history columns of a seed read."""
    seed, own = hood.seed, hood.row_numbers[:1]
    limits, reference = data.sampler.limits(seed.time), data.sampler.references(seed.time)
    survey = Survey(hood, limits, int(reference[0]))
    own = own if data.exists(seed)[0] else np.full_like(own, -1)
    followed(Program.of(data, seed).steps(data, seed), survey, own)
    return survey.rests()
