"""Fits statistics on the training period: rows that exist up to `until`, and all rows of a table
that is always visible.

One pass over each table. Rows are selected by their time, never by their position, so a later row
cannot contribute even if a file is not ordered; and sums run over blocks of selected values, so
neither rows that were left out nor the layout of the file change a single bit of the result.
Dates after `until` are not known yet, and neither is what is filled along with them.
"""

from collections.abc import Iterator
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gelgt.features.categories import CategoryCounter
from gelgt.features.statistics import (
    CategoricalStatistics,
    ColumnStatistics,
    EventDateStatistics,
    FeatureStatistics,
    MulticategoricalStatistics,
    NumericalStatistics,
    TextStatistics,
    TimestampStatistics,
)
from gelgt.features.text import TextEmbedder
from gelgt.features.values import MISSING_TIME, Column, as_numbers, as_parts, as_seconds
from gelgt.features.versions import as_known
from gelgt.meter import Work
from gelgt.schema.model import ColumnKind, TableSchema
from gelgt.sources.database import Database
from gelgt.sources.row_times import NEVER, STRAY_TIMES, RowTimes, seen_since

# quantiles come from at most this many rows, evenly spaced; up to here they are exact
SAMPLE_ROWS = 1 << 20
BLOCK = 1 << 16


class Fitter(Protocol):
    """Collects one column of the selected rows."""

    def add(self, values: pa.Array) -> None: ...

    def result(self) -> ColumnStatistics: ...


def fit_statistics(db: Database, until: int | None, embedder: TextEmbedder) -> FeatureStatistics:
    """Statistics of all feature columns from rows up to `until` (microseconds; None: all rows that
    have a time)."""
    times = RowTimes(db)
    tables = {
        name: _fit_table(db, table, times, until, embedder)
        for name, table in db.schema.tables.items()
    }
    dates = {
        name: _fit_dates(db, table, times, until)
        for name, table in db.schema.tables.items()
        if table.event_dates
    }
    fit_until = None if until is None else str(np.datetime64(until, "us"))
    return FeatureStatistics(fit_until, embedder.spec(), tables, dates)


def _fit_dates(
    db: Database, table: TableSchema, times: RowTimes, until: int | None
) -> tuple[EventDateStatistics, ...]:
    """The event dates of a table: which of them lay after their rows, and had happened."""
    limit = NEVER - 1 if until is None else until
    own = seen_since(times, table.name, limit, STRAY_TIMES)
    dates = table.event_dates or ()
    is_late, start = np.zeros(len(dates), np.bool_), 0
    for batch in db.batches(table.name, [date.column for date in dates]):
        since = own[start : start + batch.num_rows]
        start += batch.num_rows
        for place in range(len(dates)):
            values = batch.column(place).cast(pa.int64()).fill_null(NEVER)
            moments = values.to_numpy(zero_copy_only=False)
            is_late[place] |= bool(np.any((moments <= limit) & (moments > since)))
    return tuple(
        EventDateStatistics(date.column, dict(date.filled), bool(late))
        for date, late in zip(dates, is_late)
    )


def _fit_table(
    db: Database, table: TableSchema, times: RowTimes, until: int | None, embedder: TextEmbedder
) -> dict[str, ColumnStatistics]:
    kinds = {
        c: table.kinds[c]
        for c in table.columns
        if c in table.kinds and table.kinds[c].kind != "ignored"
    }
    in_period = _in_period(times, table, until)
    total = db.num_rows(table.name) if in_period is None else int(np.count_nonzero(in_period))
    fitters = {
        c: _fitter(Column(table.name, c), kind, total)
        for c, kind in kinds.items()
        if kind.kind != "text"
    }
    if fitters:
        for batch in _selected(db, table, list(fitters), in_period, until):
            for c, fitter in fitters.items():
                fitter.add(batch.column(c))
    return {c: fitters[c].result() if c in fitters else TextStatistics(embedder.dim) for c in kinds}


def _selected(
    db: Database,
    table: TableSchema,
    columns: list[str],
    in_period: NDArray[np.bool_] | None,
    until: int | None,
) -> Iterator[pa.RecordBatch]:
    """The rows of the training period, in order, as they were at its end."""
    dates = table.event_dates or () if until is not None else ()
    columns = list(dict.fromkeys([*columns, *(date.column for date in dates)]))
    start, work = 0, Work(f"statistics of {table.name}", db.num_rows(table.name))
    for batch in db.batches(table.name, columns):
        count = batch.num_rows
        part = None if in_period is None else in_period[start : start + count]
        start += count
        batch = batch if part is None or part.all() else batch.filter(pa.array(part))
        yield batch if until is None else as_known(batch, dates, until, table.name)
        work(count)


def _in_period(times: RowTimes, table: TableSchema, until: int | None) -> NDArray[np.bool_] | None:
    """(rows,) which rows are of the training period; None where all are, because the table has no
    time."""
    if not table.has_time:
        return None
    parts = [
        moments <= until if until is not None else moments != NEVER
        for moments in times.blocks(table.name)
    ]
    return np.concatenate(parts) if parts else np.zeros(0, np.bool_)


def _fitter(column: Column, kind: ColumnKind, rows: int) -> Fitter:
    if kind.kind == "numerical":
        return _Numerical(column, rows)
    if kind.kind == "timestamp":
        return _Timestamp(column, rows)
    if kind.kind == "multicategorical":
        return _Multicategorical(column, kind.separator)
    return _Categorical(column)


class _Sample:
    """Every k-th value of a stream of `rows` values."""

    def __init__(self, rows: int) -> None:
        self.step = max(1, -(-rows // SAMPLE_ROWS))
        self.seen = 0
        self.parts: list[NDArray[np.float64] | NDArray[np.int64]] = []

    def add(self, values: NDArray[np.float64] | NDArray[np.int64]) -> None:
        self.parts.append(values[-self.seen % self.step :: self.step].copy())
        self.seen += len(values)


class _Numerical:
    def __init__(self, column: Column, rows: int) -> None:
        self.column, self.sample = column, _Sample(rows)
        # squares: of the deviations from the mean
        self.count, self.mean, self.squares = 0, 0.0, 0.0
        self.low, self.high = np.inf, -np.inf
        self._waiting = np.zeros(0)

    def add(self, values: pa.Array) -> None:
        numbers = as_numbers(values, self.column).values
        self.sample.add(numbers)
        self._waiting = np.concatenate([self._waiting, numbers[~np.isnan(numbers)]])
        while len(self._waiting) >= BLOCK:
            self._merge(self._waiting[:BLOCK])
            self._waiting = self._waiting[BLOCK:]

    def _merge(self, block: NDArray[np.float64]) -> None:
        """Add a block's moments (Chan, Golub and LeVeque): exact enough for any offset, unlike Σx²
        - n·mean²."""
        mean = float(block.mean())
        total = self.count + len(block)
        delta = mean - self.mean
        inside = float(np.square(block - mean).sum())
        self.squares += inside + delta * delta * self.count * len(block) / total
        self.mean += delta * len(block) / total
        self.count = total
        self.low, self.high = min(self.low, float(block.min())), max(self.high, float(block.max()))

    def result(self) -> NumericalStatistics:
        if len(self._waiting):
            self._merge(self._waiting)
        if not self.count:
            return NumericalStatistics()
        sampled = np.concatenate(self.sample.parts)
        sampled = sampled[~np.isnan(sampled)]
        quartiles = [self.mean] * 3
        if len(sampled):
            quartiles = np.quantile(sampled, [0.25, 0.5, 0.75]).tolist()
        std = float(np.sqrt(self.squares / self.count))
        return NumericalStatistics(self.count, self.mean, std, (self.low, *quartiles, self.high))


class _Timestamp:
    def __init__(self, column: Column, rows: int) -> None:
        self.column, self.sample = column, _Sample(rows)
        self.count, self.oldest, self.newest = 0, np.iinfo(np.int64).max, MISSING_TIME

    def add(self, values: pa.Array) -> None:
        seconds = as_seconds(values, self.column)
        self.sample.add(seconds)
        filled = seconds[seconds != MISSING_TIME]
        if len(filled):
            self.count += len(filled)
            self.oldest = min(self.oldest, int(filled.min()))
            self.newest = max(self.newest, int(filled.max()))

    def result(self) -> TimestampStatistics:
        if not self.count:
            return TimestampStatistics()
        sampled = np.sort(np.concatenate(self.sample.parts))
        sampled = sampled[sampled != MISSING_TIME]
        median = int(sampled[len(sampled) // 2]) if len(sampled) else self.oldest
        return TimestampStatistics(self.count, self.oldest, median, self.newest)


class _Categorical:
    def __init__(self, column: Column) -> None:
        self.counter = CategoryCounter(column)

    def add(self, values: pa.Array) -> None:
        self.counter.add(values)

    def result(self) -> CategoricalStatistics:
        return CategoricalStatistics(*self.counter.result())


class _Multicategorical:
    def __init__(self, column: Column, separator: str | None) -> None:
        self.column, self.separator, self.counter = column, separator, CategoryCounter(column)

    def add(self, values: pa.Array) -> None:
        self.counter.add(as_parts(values, self.separator, self.column)[0])

    def result(self) -> MulticategoricalStatistics:
        return MulticategoricalStatistics(*self.counter.result(), separator=self.separator)
