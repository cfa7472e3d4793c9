"""Blocks: the columns that a plan reads of the rows or events at the end of one path, as places in
one table, the same for all seeds of a run."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gelgt.explain.stand_ins import KINDS, cells_of
from gelgt.features.encode import columns_of
from gelgt.history.columns import (
    BACK,
    COUNT_WINDOWS,
    MEAN_WINDOWS,
    NUMBERS,
    OF_WINDOWS,
    TIMELESS_NUMBERS,
    TOP,
    by_day,
    window_name,
)
from gelgt.history.task_data import TOP_OF_ROW, TaskData

if TYPE_CHECKING:
    from gelgt.explain.column_kernels import Tables

Numbers = NDArray[np.int64]


class Read(NamedTuple):
    """The columns of one kind that are read of a table.

    Attributes:
        array: (R, …) of the table.
        columns: (C,) those of it that are read.
        places: (C, S) where each thing that is made of each stands in the plan, -1 for none.
    """

    array: NDArray[Any]
    columns: Numbers
    places: Numbers

    @classmethod
    def of(
        cls, data: TaskData, table: str, kind: str, places: Mapping[int, list[int]], width: int
    ) -> "Read":
        """Those of which something has a place."""
        read = {column: there for column, there in places.items() if max(there) >= 0}
        return cls(
            cells_of(data.features, table, kind),
            np.array(list(read), np.int64),
            np.array(list(read.values()), np.int64).reshape(-1, width),
        )


@dataclass(frozen=True)
class Block:
    """What is read at the end of one path: of one row the columns, or of events statistics of them.

    Attributes:
        table: Whose rows they are.
        numbers: One place for each column; of events, one for each of 15 statistics.
        codes: Of a row, for the code, then for each of eight categories whether it is that one; of
            events, for the shares of five categories, and last the newest category.
        times: One, for the age; of events, that of the newest.
        tops: (K,) how many categories of each of the codes are counted.
        own: Places of what no column says: the age of the row; of events (22,) number, times and
            gaps.
        days: The same (22,) of the events of one day counted once; of a row none.
    """

    table: str
    numbers: Read
    codes: Read
    times: Read
    tops: Numbers
    own: Numbers
    days: Numbers

    def tables(self, shown: Sequence[NDArray[Any]]) -> "Tables":
        """As compiled loops read them, with what stand-ins show, by kind."""
        from gelgt.explain.column_kernels import Table, Tables

        number, code, time = self.numbers, self.codes, self.times
        return Tables(
            Table(number.array, shown[0], number.columns, number.places),
            Table(code.array, shown[1], code.columns, code.places),
            Table(time.array, shown[2], time.columns, time.places),
            self.tops,
        )


def row_block(data: TaskData, plan: Mapping[str, int], path: str, table: str) -> Block:
    """The block of a row at the end of a path.

    Args:
        plan: The place of each column that is read.
    """
    time_col = data.db.table(table).time_col
    reads = []
    for kind in KINDS:
        is_category = kind == "categorical"
        width = 1 + TOP_OF_ROW if is_category else 1
        suffix = " age" if kind == "timestamp" else ""
        places = {}
        for column, name in _columns(data, table, kind):
            if kind == "timestamp" and name == time_col:
                continue
            made = data.category_columns(table, name) if is_category else (f"{name}{suffix}",)
            there = [plan.get(f"{path}{each}", -1) for each in made]
            places[column] = there + [-1] * (width - len(there))
        reads.append(Read.of(data, table, kind, places, width))
    has_age = data.is_timed(table) and (table, time_col) not in data.hidden
    age = plan.get(f"{path}age", -1) if has_age else -1
    none = np.zeros(0, np.int64)
    return Block(table, reads[0], reads[1], reads[2], none, np.array([age]), none)


def event_block(
    data: TaskData,
    plan: Mapping[str, int],
    path: str,
    table: str,
    is_timed: bool,
    has_events: bool,
) -> Block:
    """The block of a path whose events are rows of a table.

    Args:
        plan: The place of each column that is read.
        has_events: Whether the events themselves have columns, beside those of their rows.
    """

    def place(name: str, is_given: bool = True) -> int:
        return plan.get(f"{path}: {name}", -1) if is_given else -1

    given = NUMBERS[: len(NUMBERS) if is_timed else TIMELESS_NUMBERS]
    numbers, codes, tops = {}, {}, {}
    for column, name in _columns(data, table, "numerical"):
        places = [place(f"{name} {s}", s in given) for s in NUMBERS]
        means = (f"{name} mean in {window_name(w)}" for w in MEAN_WINDOWS)
        sums = [place(f"{name} {what}", is_timed and has_events) for what in OF_WINDOWS["sum"]]
        numbers[column] = places + [place(mean, is_timed) for mean in means] + sums
    for column, name in _columns(data, table, "categorical"):
        top = data.categories(table, name)[:TOP]
        shares = [place(f"{name} share of {category}") for category in top]
        rest = [-1] * (TOP - len(top))
        codes[column] = [*shares, *rest, place(f"{name} last", is_timed)]
        tops[column] = len(top)
    time_col = data.db.table(table).time_col
    times = {
        column: [place(f"{name} last age", is_timed and name != time_col)]
        for column, name in _columns(data, table, "timestamp")
    }
    widths = (len(NUMBERS) + len(MEAN_WINDOWS) + len(OF_WINDOWS["sum"]), TOP + 1, 1)
    reads = [
        Read.of(data, table, kind, places, width)
        for kind, places, width in zip(KINDS, (numbers, codes, times), widths)
    ]
    counted = np.array([tops[column] for column in reads[1].columns.tolist()], np.int64)
    own = [place("count", has_events)] + [place(n, has_events and is_timed) for n in _EVENTS]
    names = (f"{by_day(path)}: {name}" for name in ("count", *_EVENTS))
    days = [plan.get(name, -1) if has_events and is_timed else -1 for name in names]
    places_of = np.array(own, np.int64), np.array(days, np.int64)
    return Block(table, reads[0], reads[1], reads[2], counted, *places_of)


_EVENTS = (
    *(f"count in {window_name(w)}" for w in COUNT_WINDOWS),
    *OF_WINDOWS["count"],
    "days since",
    *(f"days since {word} last" for word in BACK),
    "mean gap",
    "last gap",
    "overdue",
)


def _columns(data: TaskData, table: str, kind: str) -> Iterator[tuple[int, str]]:
    names = columns_of(data.features.statistics.tables[table], kind)
    return ((c, name) for c, name in enumerate(names) if (table, name) not in data.hidden)
