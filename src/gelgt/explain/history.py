"""The history columns of variants of one seed.

Most variants see the same events on most paths: one row is absent, and all other paths are as they
were. So what lies on a path is read once for a seed, each column is computed once for each distinct
list of events, all columns of a path in one compiled loop, and every variant takes those of its
list. The numbers are those of `history/columns.py`, to the bit.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gelgt.explain.blocks import Block
from gelgt.explain.history_plan import Made, Numbers, Program, Step
from gelgt.explain.lists import SharedLists, Units, VariantLists
from gelgt.explain.neighbourhood import Neighbourhood
from gelgt.explain.reader import GraphKeys, PathReader
from gelgt.explain.stand_ins import StandIns
from gelgt.explain.survey import Survey
from gelgt.history.columns import BACK, COUNT_WINDOWS, MEAN_WINDOWS, MEDIAN_WINDOWS, SeedColumns
from gelgt.history.seed_history import calendar
from gelgt.history.task_data import TaskData
from gelgt.sampling import Seeds
from gelgt.scoring.seed_data import SeedData

if TYPE_CHECKING:
    from gelgt.explain.column_kernels import Tables

MOST_EVENTS = 1 << 21  # rows on the paths of all variants that are in hand at once
LEAST_VARIANTS = 8
_BACK = np.array([1, *BACK.values()])  # the newest events whose ages are columns
_MEANS, _COUNTS = np.array(MEAN_WINDOWS), np.array(COUNT_WINDOWS)
_MEDIANS = np.array(MEDIAN_WINDOWS)


class SharedColumns(SeedColumns):
    """Writes the columns of variants of one seed, computed once for each list that some of them
    share.

    Args:
        data: The task's database.
        seed: The one seed.
        program: Which columns, and where they stand.
        stand_ins: What rows show in some variants.
    """

    def __init__(self, data: TaskData, seed: Seeds, program: Program, stand_ins: StandIns) -> None:
        from gelgt.explain.event_kernels import Times

        super().__init__(data, seed.time, program.choice)
        self.program, self.stand_ins = program, stand_ins
        self.reference, self.graph_keys = int(self.references[0]), GraphKeys.of(data.graph)
        self._times = {
            is_timed: Times(self.reference, self._window, means, _COUNTS, _MEDIANS, _BACK)
            for is_timed, means in ((True, _MEANS), (False, _MEANS[:0]))
        }
        self._shown: dict[str, tuple[NDArray[Any], ...]] = {}

    def begin(self, out: NDArray[np.float32]) -> None:
        """The columns of V variants are written next, to (V, F)."""
        self.out = out
        self._shown.clear()  # there may be further stand-ins

    def write_rows(self, path: str, table: str, rows: Numbers, read: Numbers) -> None:
        """The columns of one row for each variant."""
        from gelgt.explain.column_kernels import fill_rows

        block, moments = (
            self.program.row_block(self.data, path, table),
            self.graph_keys.times(table),
        )
        fill_rows(rows, read, moments, self.reference, self._tables(block), block.own, self.out)

    def write(
        self, path: str, shared: SharedLists, table: str, is_timed: bool, has_events: bool
    ) -> None:
        """The columns of events."""
        from gelgt.explain.column_kernels import fill_path

        block = self.program.event_block(self.data, path, table, is_timed, has_events)
        places = block.own, block.days
        fill_path(shared.lists, self._times[is_timed], self._tables(block), *places, self.out)

    def _tables(self, block: Block) -> "Tables":
        shown = self._shown.get(block.table)
        if shown is None:
            shown = self._shown[block.table] = self.stand_ins.shown(block.table)
        return block.tables(shown)


class VariantHistory:
    """The history columns of variants of one seed.

    Args:
        data: The model's database and plan.
        hood: The rows around the seed.
        stand_ins: What states beyond ITSELF mean.
    """

    def __init__(self, data: SeedData, hood: Neighbourhood, stand_ins: StandIns) -> None:
        self.data, self.hood, self.stand_ins = data, hood, stand_ins
        self.units = Units(hood, hood.reader or path_reader(data, hood))

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
        seed, columns = self.hood.seed, self._columns
        columns.begin(out)
        lists = VariantLists(self.units, states, self.stand_ins)
        own = lists.rows if self.data.exists(seed)[0] else np.full_like(lists.rows, -1)
        followed(program.steps(self.data, seed), lists, own, columns)

    @cached_property
    def _columns(self) -> SharedColumns:
        program = Program.of(self.data, self.hood.seed)
        return SharedColumns(self.data.task_data, self.hood.seed, program, self.stand_ins)

    @cached_property
    def _calendar(self) -> NDArray[np.float32]:
        return calendar(self.data.graph, self.data.sampling, self.hood.seed)


def followed(
    steps: Sequence[Step],
    lists: Survey | VariantLists,
    own: Numbers,
    columns: SharedColumns | None = None,
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
        if isinstance(lists, Survey) or columns is None:
            continue
        if what == "rows":
            path, table, rows = map(now, given)
            columns.write_rows(path, table, rows, lists.read_rows(table, rows))
        else:
            columns.write(*map(now, given))


def path_reader(data: SeedData, hood: Neighbourhood) -> PathReader:
    """Reads the paths around a seed."""
    limit = int(data.sampler.limits(hood.seed.time)[0])
    return PathReader(hood.graph, int(hood.row_numbers[0]), limit)


def surveyed(data: SeedData, hood: Neighbourhood) -> Neighbourhood:
    """A neighbourhood with the rows outside the sample that the history columns of its seed
    read."""
    seed, reader = hood.seed, path_reader(data, hood)
    survey = Survey(reader, int(data.sampler.references(seed.time)[0]))
    own = survey.rows if data.exists(seed)[0] else np.full_like(survey.rows, -1)
    followed(Program.of(data, seed).steps(data, seed), survey, own)
    return replace(hood, rests=survey.rests(hood), reader=reader)
