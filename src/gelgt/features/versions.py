"""Versions of rows: what a row held before the dates in it.

`orders.cancelled_at` is unknown before it happens, and so is what was filled along with it
(`schema.model.EventDate`). A row whose dates are not earlier than the row itself has one version
for each of them, behind the rows of its table in the arrays of `features/encode.py`. (A row that is
always visible has none for dates before the first time of the database: there are no seeds then.)

    row 7: placed on day 1, shipped on day 3, delivered on day 5

    limit          up to day 3     up to day 5     later
    read           version 0       version 1       the row
    shipped_at     missing         day 3           day 3
    delivered_at   missing         missing         day 5

The limit of a seed is the first second that it may not see, as in the sampler: a date at the limit
or after it is missing. Features are read by the number of a version, so a masked
row is a row like any other.

    version-row.npy      (V,) the row of each version; versions of one row lie together
    version-until.npy    (V,) its last limit in seconds, ascending within a row
    version-starts.npy   (rows + 1,) where the versions of each row begin

The array of texts, which is by far the largest, holds versions only where a date changes one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gelgt.errors import SchemaError
from gelgt.features.encode import DTYPES, TableEncoder, columns_of
from gelgt.features.statistics import ColumnStatistics, EventDateStatistics
from gelgt.features.text import TextEmbedder
from gelgt.features.values import MISSING_TIME, Column, as_seconds
from gelgt.graph.arrays import ArrayWriter, RowWriter, load_array
from gelgt.schema.model import EventDate, Rest
from gelgt.sources.canonical import ARROW_TYPES
from gelgt.sources.database import Database
from gelgt.sources.row_times import NEVER, RowTimes, seen_since

Seconds = NDArray[np.int64]
BLOCK = 1 << 16  # rows that are written at a time
_MICROSECONDS = 1_000_000


@dataclass(frozen=True)
class Versions:
    """The versions of the rows of one table.

    Attributes:
        row: (V,) the row of each.
        until: (V,) its last limit.
        starts: (rows + 1,) where those of each row begin.
    """

    row: Seconds
    until: Seconds
    starts: Seconds

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]]) -> "Versions | None":
        """Those among the arrays of a table; None where it has none."""
        if "version-row" not in arrays:
            return None
        return cls(*(arrays[f"version-{name}"] for name in ("row", "until", "starts")))

    @property
    def rows(self) -> int:
        """Rows of the table."""
        return len(self.starts) - 1

    def at(self, rows: NDArray[Any], limits: Seconds | int) -> Seconds:
        """(n,) what is read of some rows at some limits; -1 stays -1."""
        there = np.maximum(rows, 0)
        place, end = self.starts[there], self.starts[there + 1]
        while True:
            until = self.until[np.minimum(place, len(self.until) - 1)]
            is_over = (place < end) & (until < limits)
            if not is_over.any():
                return np.where((rows >= 0) & (place < end), self.rows + place, rows)
            place = place + is_over

    def source(self, rows: Seconds) -> Seconds:
        """(n,) the rows of some rows or versions."""
        version = np.maximum(rows - self.rows, 0)
        return np.where(rows >= self.rows, self.row[version], rows)


def as_known(batch: pa.RecordBatch, dates: Sequence[EventDate], until: int, table: str) -> Any:
    """Rows as they were at an instant (microseconds): dates after it, and what they fill, as
    before."""
    for date in dates:
        is_ahead = pc.fill_null(
            pc.greater(batch.column(date.column).cast(pa.int64()), until), False
        )
        if not pc.any(is_ahead).as_py():
            continue
        for column, rest in date.masked.items():
            place = batch.schema.get_field_index(column)
            if place >= 0:
                values = batch.column(place)
                before = typed(Column(table, column), [rest], values.type)[0]
                masked = pc.if_else(is_ahead, before, values)
                batch = batch.set_column(place, batch.schema.field(place), masked)
    return batch


def typed(column: Column, values: list[Rest], arrow: pa.DataType) -> pa.Array:
    """Values of a column before a date, in its type."""
    try:
        return pa.array(values, arrow)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        shown = next(value for value in values if value is not None)
        raise SchemaError(
            "bad_event_date",
            f"'{column.table}.{column.name}' holds {arrow} values and cannot be {shown!r} before a "
            "date.",
            hint="State another value under 'event_dates', or null.",
        ) from None


def write_versions(
    folder: Path,
    db: Database,
    table: str,
    columns: Mapping[str, ColumnStatistics],
    dates: Sequence[EventDateStatistics],
    embedder: TextEmbedder,
) -> None:
    """Put the versions of a table's rows behind the rows, whose arrays are in a folder."""
    masked = [{c: rest for c, rest in date.masked.items() if c in columns} for date in dates]
    if not any(masked):
        return
    own = seen_since(RowTimes(db), table, NEVER - 1) // _MICROSECONDS
    seconds = [_seconds(db, table, date.column) for date in dates]
    row, until = _late(own, seconds)
    if not len(row):
        return
    counts = np.bincount(row, minlength=len(own))
    arrays = {
        "row": row,
        "until": until,
        "starts": np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
    }
    for name, array in arrays.items():
        np.save(folder / f"version-{name}.npy", array)
    # (dates, V) which dates lie ahead; MISSING_TIME is the smallest number
    is_ahead = np.stack([of_date[row] >= until for of_date in seconds])
    with TemporaryDirectory(dir=folder) as work:
        rests = _encoded_rests(Path(work), db, table, columns, masked, embedder)
        _Writer(folder, columns, row, is_ahead, masked, rests).write(embedder.dim)


def _seconds(db: Database, table: str, column: str) -> Seconds:
    """(rows,) the dates of a column, `MISSING_TIME` for none."""
    parts = [as_seconds(b.column(0), Column(table, column)) for b in db.batches(table, [column])]
    return np.concatenate([np.zeros(0, np.int64), *parts])


def _late(own: Seconds, seconds: Sequence[Seconds]) -> tuple[Seconds, Seconds]:
    """Rows and dates that are not earlier than the rows, each pair once, in order. A row that is
    never visible has a time after all dates."""
    late = [np.flatnonzero((s >= own) & (s != MISSING_TIME)) for s in seconds]
    row = np.concatenate(late)
    until = np.concatenate([s[places] for s, places in zip(seconds, late)])
    order = np.lexsort((until, row))
    row, until = row[order], until[order]
    is_new = np.ones(len(row), np.bool_)
    is_new[1:] = (np.diff(row) != 0) | (np.diff(until) != 0)
    return row[is_new], until[is_new]


def _encoded_rests(
    work: Path,
    db: Database,
    table: str,
    columns: Mapping[str, ColumnStatistics],
    masked: Sequence[Mapping[str, Rest]],
    embedder: TextEmbedder,
) -> dict[str, NDArray[Any]]:
    """The arrays of one row for each date, which holds what the date's columns are before it."""
    types = db.table(table).columns
    values = [
        typed(Column(table, c), [of_date.get(c) for of_date in masked], ARROW_TYPES[types[c]])
        for c in columns
    ]
    with TableEncoder(work, table, len(masked), columns, embedder) as encoder:
        batch = pa.RecordBatch.from_arrays(values, names=list(columns))
        encoder.append(encoder.encode(0, batch))
    return {path.stem: np.array(load_array(path)) for path in work.glob("*.npy")}


@dataclass(frozen=True)
class _Writer:
    """Writes arrays again with the versions behind the rows."""

    folder: Path
    columns: Mapping[str, ColumnStatistics]
    row: Seconds
    is_ahead: NDArray[np.bool_]
    masked: Sequence[Mapping[str, Rest]]
    rests: Mapping[str, NDArray[Any]]

    def write(self, dim: int) -> None:
        changed = {c for of_date in self.masked for c in of_date}
        for kind in DTYPES:
            names = columns_of(self.columns, kind)
            if names and (kind != "text" or changed & set(names)):
                width = dim if kind == "text" else 1
                places = {n: slice(j * width, (j + 1) * width) for j, n in enumerate(names)}
                self._rewrite(kind, places)
        for place, name in enumerate(columns_of(self.columns, "multicategorical")):
            self._rewrite_parts(f"multicategorical-{place}", name)

    def _rewrite(self, kind: str, places: Mapping[str, slice]) -> None:
        path, whole = self.folder / f"{kind}.npy", self.folder / f"{kind}.whole"
        array, rest = load_array(path), self.rests[kind]
        shape = len(array) + len(self.row), array.shape[1]
        with RowWriter(whole, *shape, array.dtype) as writer:
            for start in range(0, len(array), BLOCK):
                writer.write(start, array[start : start + BLOCK])
            for start in range(0, len(self.row), BLOCK):
                some = slice(start, start + BLOCK)
                block = array[self.row[some]]
                for date, of_date in enumerate(self.masked):
                    ahead = np.flatnonzero(self.is_ahead[date, some])
                    for name in of_date:
                        if name in places:
                            block[ahead, places[name]] = rest[date, places[name]]
                writer.write(len(array) + start, block)
        whole.replace(path)

    def _rewrite_parts(self, stem: str, name: str) -> None:
        offsets, parts = (
            np.array(load_array(self.folder / f"{stem}-{what}.npy"))
            for what in ("offsets", "places")
        )
        starts, ends, source = offsets[self.row], offsets[self.row + 1], parts
        for date, of_date in enumerate(self.masked):
            if name in of_date:
                begin, end = self.rests[f"{stem}-offsets"][date : date + 2]
                ahead = self.is_ahead[date]
                starts[ahead], ends[ahead] = len(source), len(source) + end - begin
                source = np.concatenate([source, self.rests[f"{stem}-places"][begin:end]])
        lengths = ends - starts
        total = np.cumsum(lengths)
        at = np.arange(lengths.sum()) + np.repeat(starts - (total - lengths), lengths)
        np.save(self.folder / f"{stem}-offsets.npy", np.concatenate([offsets, offsets[-1] + total]))
        with ArrayWriter(self.folder / f"{stem}-places.npy", parts.dtype) as writer:
            writer.append(parts)
            writer.append(source[at])
