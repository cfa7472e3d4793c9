"""Columns of seeds over single rows and over lists of events, one value for each seed.

Explanations compute the same for a seed without some of its rows (`explain/history_plan.py`);
`tests/explain/test_history.py` compares both.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from gelgt.features.values import MISSING_TIME
from gelgt.graph import NEVER, TIMELESS
from gelgt.history.events import View, row_times, taken
from gelgt.history.pieces import Piece
from gelgt.history.task_data import EVERY_COLUMN, Choice, TaskData, Values
from gelgt.sampling.sampler import Sampler

DAY = 86_400
WINDOW = 30 * DAY  # where the task has none
TOP = 5  # categories whose shares are counted
# what `sweep_numbers` gives; without times, the first `TIMELESS_NUMBERS`
NUMBERS = (
    "mean",
    "min",
    "max",
    "deviation",
    "recent mean",
    "longer mean",
    "last",
    "second last",
    "third last",
)
TIMELESS_NUMBERS = 4
COUNT_WINDOWS = (1, 2, 3, 4, 8, 12, 16, 32, 64)  # windows before the seed whose events are counted
MEAN_WINDOWS = (1, 3, 4, 16)  # windows whose values are averaged
MEDIAN_WINDOWS = (8, 16)  # windows over whose counts and sums medians are taken
OF_WINDOWS = {
    what: (
        *(f"median {what} of {windows} windows" for windows in MEDIAN_WINDOWS),
        f"median {what} of active windows",
        f"mean {what} of active windows",
    )
    for what in ("count", "sum")
}
OF_WINDOWS["count"] += ("active windows",)
FEWEST_DAYS = 2  # of a window where days with events are counted
BACK = {"second": 2, "fifth": 5, "tenth": 10}  # events whose age is a column, besides the newest

Column = tuple[str, NDArray[np.float32]]
Columns = Piece[Iterable[Column]]  # that are computed when their turn comes


class SeedColumns:
    """The columns of S seeds.

    Args:
        data: What the seeds may see.
        times: (S,) seed times in seconds since 1970.
        choice: Which columns are computed.

    Attributes:
        limits: (S,) the first second that each seed may not see.
        references: (S,) the time from which its ages are measured.
        codes: Names of the columns that number categories, so far.
    """

    def __init__(
        self, data: TaskData, times: NDArray[np.int64], choice: Choice = EVERY_COLUMN
    ) -> None:
        sampler = Sampler(data.graph, data.sampling)
        self.data, self.choice = data, choice
        self.limits, self.references = sampler.limits(times), sampler.references(times)
        self.codes: set[str] = set()
        seconds = 0 if data.task.timedelta is None else int(data.task.timedelta.total_seconds())
        self._window = seconds or WINDOW

    def of_rows(self, path: str, table: str, rows: NDArray[np.int64]) -> Iterator[Columns]:
        """The columns of one row for each seed: numbers, categories, ages in days; -1 is no
        row."""
        if self.choice.begins(path):
            yield Piece(lambda: list(self._of_rows(path, table, rows)), len(rows))

    def _of_rows(self, path: str, table: str, rows: NDArray[np.int64]) -> Iterator[Column]:
        read = self.data.features.rows_at(table, rows, self.limits)
        has, time_col = self.choice.has, self.data.db.table(table).time_col
        if (
            self.data.is_timed(table)
            and (table, time_col) not in self.data.hidden
            and has(f"{path}age")
        ):
            yield f"{path}age", self._age(taken(row_times(self.data.graph, table), rows, NEVER))
        for name, values in self.data.columns(table, "numerical"):
            if has(f"{path}{name}"):
                yield f"{path}{name}", taken(values, read, np.nan).astype(np.float32)
        for name, values in self.data.columns(table, "categorical"):
            yield from self._of_category(path, table, name, values, read)
        for name, values in self.data.columns(table, "timestamp"):
            if name != time_col and has(f"{path}{name} age"):
                yield f"{path}{name} age", self._age(taken(values, read, MISSING_TIME))

    def _of_category(
        self, path: str, table: str, name: str, values: Values, rows: NDArray[np.int64]
    ) -> Iterator[Column]:
        """The category of one row as a code, and whether it is each of the most frequent."""
        names = [f"{path}{each}" for each in self.data.category_columns(table, name)]
        wanted = [(place, each) for place, each in enumerate(names) if self.choice.has(each)]
        if not wanted:
            return
        codes = taken(values, rows, -1)
        for place, each in wanted:
            if place == 0:
                self.codes.add(each)
            made = codes if place == 0 else codes == place - 1
            yield each, np.where(codes >= 0, made, np.nan).astype(np.float32)

    def of_events(
        self, path: str, view: View, table: str, is_timed: bool, date: str | None = None
    ) -> Iterator[Columns]:
        """Number and times of events, then their columns.

        Args:
            date: Of the events' rows, which is the time of the events.
        """
        size = max(len(view.first), len(view.events.row))
        yield Piece(lambda: list(self._counts(path, view, is_timed)), len(view.first))
        if is_timed and date is None and self._has_days(path):
            yield Piece(lambda: list(self._counts(by_day(path), view.by_day(), True)), size)
        yield from self.of_event_rows(path, view, table, is_timed, are_events=True, date=date)

    def _has_days(self, path: str) -> bool:
        """Whether something is said of the days with events of a path. It is proposed for the
        entity's own events, and for windows of days."""
        if self.choice.names is not None:
            return self.choice.begins(f"{by_day(path)}: ")
        return _is_own(path) and self._window >= FEWEST_DAYS * DAY

    def _counts(self, path: str, view: View, is_timed: bool) -> Iterator[Column]:
        has, count = self.choice.has, view.last - view.first
        if has(f"{path}: count"):
            yield f"{path}: count", count.astype(np.float32)
        if not is_timed:
            return
        for windows in COUNT_WINDOWS:
            name = f"{path}: count in {window_name(windows)}"
            if has(name):
                yield name, (view.last - self._since(view, windows)).astype(np.float32)
        yield from self._counts_of_windows(path, view)
        yield from self._gaps(path, view, count)

    def _counts_of_windows(self, path: str, view: View) -> Iterator[Column]:
        from gelgt.history.kernels import counts_of_windows

        names = [f"{path}: {name}" for name in self._of_windows("count", path)]
        if any(map(self.choice.has, names)):
            sizes = np.array(MEDIAN_WINDOWS)
            found = counts_of_windows(self._windows(view), view.last, self._whole(view), sizes)
            yield from ((name, c) for name, c in zip(names, found) if self.choice.has(name))

    def _gaps(self, path: str, view: View, count: NDArray[np.int64]) -> Iterator[Column]:
        """How long ago the newest events were, and how that compares with the time between them."""
        has, nth = self.choice.has, partial(self._nth_newest, view)
        if has(f"{path}: days since"):
            yield f"{path}: days since", self._age(nth(1))
        for word, back in BACK.items():
            if has(f"{path}: days since {word} last"):
                yield f"{path}: days since {word} last", self._age(nth(back))
        names = [f"{path}: {what}" for what in ("mean gap", "last gap", "overdue")]
        if not any(map(has, names)):
            return
        newest, oldest = nth(1), taken(view.events.time, np.where(count > 0, view.first, -1), NEVER)
        span = np.where(count > 1, (newest - oldest) / DAY, np.nan)
        mean_gap = span / np.maximum(count - 1, 1)
        last_gap = np.where(count > 1, (newest - nth(2)) / DAY, np.nan)
        with np.errstate(divide="ignore", invalid="ignore"):
            overdue = np.where(mean_gap > 0, self._age(newest) / mean_gap, np.nan)
        for name, values in zip(names, (mean_gap, last_gap, overdue)):
            if has(name):
                yield name, values.astype(np.float32)

    @staticmethod
    def _nth_newest(view: View, back: int) -> NDArray[np.int64]:
        """(S,) the time of each seed's n-th newest event, NEVER where there are fewer."""
        place = view.last - back
        return taken(view.events.time, np.where(place >= view.first, place, -1), NEVER)

    def of_event_rows(
        self,
        path: str,
        view: View,
        table: str,
        is_timed: bool,
        are_events: bool = False,
        date: str | None = None,
    ) -> Iterator[Columns]:
        """The columns of the rows of events; without times there is no newest.

        Args:
            are_events: Whether the rows themselves happened then, not only what names them: then
                sums over windows mean something.
            date: As in `of_events`; only what is filled along with it is said then.
        """
        view = self.known(view, table)
        size = max(len(view.first), len(view.events.row))
        statistics = NUMBERS[: len(NUMBERS) if is_timed else TIMELESS_NUMBERS]
        windows = MEAN_WINDOWS if is_timed else ()
        sums = self._of_windows("sum", path) if is_timed and are_events else ()
        for name, values in self.data.event_columns(table, "numerical", date):
            yield from self.numbers(f"{path}: {name}", values, view, statistics, windows, sums)
        for name, values in self.data.event_columns(table, "categorical", date):
            if self.choice.begins(f"{path}: {name} "):
                yield Piece(partial(self._shares, path, table, name, values, view, is_timed), size)
        for name, values in self.data.event_columns(table, "timestamp", date):
            is_other = name != self.data.db.table(table).time_col
            if is_timed and is_other and self.choice.has(f"{path}: {name} last age"):
                yield Piece(partial(self._last_age, path, name, values, view), len(view.first))

    def known(self, view: View, table: str) -> View:
        """The events as they were at their times, where the rows of a table have later dates."""
        events = view.events
        if not self.data.has_later_dates(table):
            return view
        read = self.data.features.rows_at(table, events.row, events.time + 1)
        return replace(view, events=replace(events, version=read))

    def _last_age(self, path: str, name: str, values: Values, view: View) -> list[Column]:
        return [
            (f"{path}: {name} last age", self._age(taken(values, view.newest_read, MISSING_TIME)))
        ]

    def numbers(
        self,
        path: str,
        values: Values,
        view: View,
        statistics: Sequence[str],
        windows: Sequence[int] = (),
        sums: Sequence[str] = (),
    ) -> Iterator[Columns]:
        """Some of the statistics `NUMBERS` of a numerical column over events, its means in the last
        windows, and what is said of its sums in each of them."""
        has = self.choice.has
        statistics = [s for s in statistics if has(f"{path} {s}")]
        windows = [w for w in windows if has(f"{path} mean in {window_name(w)}")]
        has_sums = any(has(f"{path} {name}") for name in sums)
        if statistics or windows or has_sums:
            size = max(len(view.first), len(view.events.row))
            wanted = statistics, windows, sums if has_sums else ()
            yield Piece(partial(self._numbers, path, values, view, *wanted), size)

    def _numbers(
        self,
        path: str,
        values: Values,
        view: View,
        statistics: Sequence[str],
        windows: Sequence[int],
        sums: Sequence[str],
    ) -> list[Column]:
        from gelgt.history.kernels import block_sums, sums_of_windows, sweep_numbers, window_means

        columns: list[Column] = []
        chosen = taken(values, view.events.read, np.nan)
        if statistics:
            out = np.empty((len(view.first), len(NUMBERS)), np.float32)
            sweep_numbers(chosen, view.first, view.last, view.order, out)
            columns += [(f"{path} {s}", out[:, NUMBERS.index(s)]) for s in statistics]
        if windows or sums:
            chosen = chosen.astype(np.float32, copy=False)
            blocks = block_sums(chosen, view.events.starts)
        if windows:
            which = np.array([MEAN_WINDOWS.index(count) for count in windows])
            since = view.kept(
                "means", lambda: np.stack([self._since(view, w) for w in MEAN_WINDOWS])
            )
            means = window_means(chosen, *blocks, view.first, since, which, view.last)
            columns += [
                (f"{path} mean in {window_name(count)}", means[place])
                for place, count in enumerate(windows)
            ]
        if sums:
            since, sizes = self._windows(view), np.array(MEDIAN_WINDOWS)
            ends = view.first, since, view.last, self._whole(view)
            found = sums_of_windows(chosen, *blocks, *ends, sizes)
            names = [f"{path} {name}" for name in sums]
            columns += [(name, c) for name, c in zip(names, found) if self.choice.has(name)]
        return columns

    def _of_windows(self, what: str, path: str) -> Sequence[str]:
        """Names of what is said of the counts or sums in each of the last windows of the events of
        a path. They are proposed for labels that are numbers: the median of the past is what the
        least absolute error asks for.

        Active windows are proposed for the entity's own events. Something always happens to a
        parent of many, such as a district: how many of its windows are active says how late it is,
        and nothing that is learned of a date holds at a later one."""
        if self.choice.names is not None:  # also those of runs from before
            return OF_WINDOWS[what]
        if self.data.task.task_type != "regression":
            return ()
        return OF_WINDOWS[what] if _is_own(path) else OF_WINDOWS[what][: len(MEDIAN_WINDOWS)]

    def _windows(self, view: View) -> NDArray[np.int64]:
        """(W + `ACTIVE`, S) the first event in each seed's last 1, 2 … windows."""
        from gelgt.history.kernels import ACTIVE

        most = max(MEDIAN_WINDOWS) + ACTIVE
        return view.kept(
            "windows", lambda: np.stack([self._since(view, w + 1) for w in range(most)])
        )

    def _whole(self, view: View) -> NDArray[np.int64]:
        """(S,) whole windows since each seed's first event, at least one and at most W; 0 where
        there is no event."""
        oldest = taken(view.events.time, np.where(view.is_empty, -1, view.first), NEVER)
        count = (self.references - np.where(view.is_empty, self.references, oldest)) // self._window
        return np.where(view.is_empty, 0, np.clip(count, 1, max(MEDIAN_WINDOWS)))

    def _since(self, view: View, windows: int) -> NDArray[np.int64]:
        """(S,) the first of each seed's events in its last windows."""
        return view.first_from(self.references - windows * self._window)

    def _shares(
        self,
        path: str,
        table: str,
        name: str,
        values: Values,
        view: View,
        is_timed: bool,
    ) -> list[Column]:
        """Shares of the most frequent categories among events, and the newest category."""
        from gelgt.history.kernels import sweep_codes

        categories = self.data.categories(table, name)[:TOP]
        out = np.empty((len(view.first), len(categories) + 1), np.float32)
        sweep_codes(taken(values, view.events.read, -1), view.first, view.last, view.order, out)
        names = [f"{path}: {name} share of {category}" for category in categories]
        if is_timed and self.choice.has(f"{path}: {name} last"):
            names.append(f"{path}: {name} last")
            self.codes.add(names[-1])
        return [(each, out[:, k]) for k, each in enumerate(names) if self.choice.has(each)]

    def _age(self, times: NDArray[np.int64]) -> NDArray[np.float32]:
        has_time = (times != NEVER) & (times != TIMELESS)
        days = (self.references - np.where(has_time, times, 0)) / DAY
        return np.where(has_time, days, np.nan).astype(np.float32)


def by_day(path: str) -> str:
    """The events of a path, those of one day counted once."""
    return f"{path} by day"


def at_date(path: str, date: str) -> str:
    """A date in the rows of the events of a path, as events."""
    return f"{path} @{date}"


def _is_own(path: str) -> bool:
    """Whether the events of a path are the entity's own, not those of another row that it is tied
    to."""
    return ">" not in path.rpartition("<")[0]


def window_name(count: int) -> str:
    return "1 window" if count == 1 else f"{count} windows"
