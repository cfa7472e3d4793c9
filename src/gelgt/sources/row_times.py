"""When each row of a table becomes visible, in microseconds since 1970.

    a time column       the row's value; NEVER where it is null, because a row that is always
                        visible would be seen before it happened
    dated by its keys   the newest of the rows that it names (`Dating`); NEVER where it names none,
                        or lacks a key that is required, for the same reason
    named               the first row with a time that names it; NEVER where none does
    unknown             NEVER: the table is left out
    neither             TIMELESS: always visible

Labels, graph, feature statistics and eligible entities all use these times.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gelgt.errors import SchemaError
from gelgt.schema.model import ForeignKey, TableSchema
from gelgt.sources.database import Database
from gelgt.sources.times import microseconds

TIMELESS: int = int(np.iinfo(np.int64).min)  # visible at every time
NEVER: int = int(np.iinfo(np.int64).max)  # visible at none
STRAY_TIMES = 0.01  # share of the rows of a table that may have wrong times
_DAY = 86_400 * 10**6  # µs

Times = NDArray[np.int64]
_BLOCK = 1 << 20


class RowTimes:
    """Times of the rows of a database, table by table; those that date other tables are read once.

    Args:
        db: The database; its schema says what dates a table.
    """

    def __init__(self, db: Database) -> None:
        self.db = db
        self._dating = {fk.table for table in db.schema.tables.values() for fk in table.dating_keys}
        self._cache: dict[str, Times] = {}

    def of(self, table: str) -> Times:
        """(rows,) the time of each row, `TIMELESS` or `NEVER`."""
        if table in self._cache:
            return self._cache[table]
        schema = self.db.table(table)
        rows = self.db.num_rows(table)
        if schema.time_col is not None:
            times = _joined(self._read(schema), rows)
        elif schema.is_left_out:
            times = np.full(rows, NEVER, np.int64)
        elif schema.is_named_first:
            times = self.first_naming(table)
        else:
            times = self._by_keys(schema)
        if table in self._dating:
            self._cache[table] = times
        return times

    def blocks(self, table: str) -> Iterator[Times]:
        """The same in consecutive blocks; a table that dates no other is not held in memory."""
        schema = self.db.table(table)
        if schema.time_col is not None and table not in self._dating:
            yield from self._read(schema)
            return
        times = self.of(table)
        for start in range(0, len(times), _BLOCK):
            yield times[start : start + _BLOCK]

    def first_naming(self, table: str) -> Times:
        """(rows,) when a row with a time column first named each row; NEVER where none does."""
        first = np.full(self.db.num_rows(table), NEVER, np.int64)
        for other in self.db.schema.tables.values():
            keys = [fk for fk in other.foreign_keys if fk.table == table]
            if other.time_col is None or other.name == table or not keys:
                continue
            times = self.of(other.name)
            for fk in keys:
                parents = self.parents(other, fk)
                is_named = parents >= 0
                np.minimum.at(first, parents[is_named], times[is_named])
        return first

    def _by_keys(self, table: TableSchema) -> Times:
        times = self.newest_parent(table, table.dating_keys)
        for group in table.dating.required if table.dating is not None else ():
            keys = [fk for fk in table.foreign_keys if fk.column in group]
            names_none = np.all([self.parents(table, fk) < 0 for fk in keys], axis=0)
            times[names_none] = NEVER
        return times

    def newest_parent(self, table: TableSchema, keys: tuple[ForeignKey, ...]) -> Times:
        """(rows,) the newest time among the rows that each row names by some keys; NEVER where it
        names none."""
        rows = self.db.num_rows(table.name)
        if not keys:
            return np.full(rows, TIMELESS, np.int64)
        newest = np.full(rows, TIMELESS, np.int64)
        for fk in keys:
            parents, times = self.parents(table, fk), self.of(fk.table)
            named = parents >= 0
            newest[named] = np.maximum(newest[named], times[parents[named]])
        newest[newest == TIMELESS] = NEVER
        return newest

    def parents(self, table: TableSchema, fk: ForeignKey) -> NDArray[np.int64]:
        """(rows,) the row that each row names by a key, -1 for none."""
        count = self.db.num_rows(fk.table)
        parts = (
            parent_rows(batch.column(0), count, table, fk)[0]
            for batch in self.db.batches(table.name, [fk.column])
        )
        return _joined(parts, self.db.num_rows(table.name))

    def _read(self, table: TableSchema) -> Iterator[Times]:
        assert table.time_col is not None
        for batch in self.db.batches(table.name, [table.time_col]):
            values, is_filled = microseconds(batch.column(0), table)
            yield np.where(is_filled, values, NEVER)


def _joined(parts: Iterable[NDArray[np.int64]], rows: int) -> NDArray[np.int64]:
    """Consecutive parts as one array, without a second copy of all of them."""
    whole, start = np.empty(rows, np.int64), 0
    for part in parts:
        whole[start : start + len(part)] = part
        start += len(part)
    return whole


def parent_rows(
    column: pa.Array, count: int, table: TableSchema, fk: ForeignKey
) -> tuple[NDArray[np.int64], int]:
    """Row numbers of the parents (-1 for none), and how many values name none of the parent's
    `count` rows."""
    if column.null_count == len(column):
        return np.full(len(column), -1, np.int64), 0
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        raise SchemaError(
            "bad_key",
            f"The foreign key '{table.name}.{fk.column}' holds {column.type} values, not row "
            f"numbers of '{fk.table}'.",
            hint="Import the database with `gelgt import`, which numbers the rows.",
        )
    missing = column.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
    values = pc.fill_null(column, -1).to_numpy(zero_copy_only=False)
    with np.errstate(invalid="ignore"):
        is_row = (values >= 0) & (values < count) & ~missing
        if values.dtype.kind == "f":
            is_row &= values == np.floor(values)
    rows = np.full(len(values), -1, np.int64)
    rows[is_row] = values[is_row].astype(np.int64)
    return rows, int(len(values) - np.count_nonzero(missing) - np.count_nonzero(is_row))


def instant(time: Any) -> int:
    """A time as microseconds since 1970."""
    return int(np.datetime64(time, "us").astype(np.int64))


def is_there(
    table: TableSchema, created: NDArray[np.int64], times: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Whether rows exist at some times. One that exists from the first row that names it is also
    there where none does: it has been asked for."""
    exists: NDArray[np.bool_] = created <= times
    return exists | (created == NEVER) if table.is_named_first else exists


def text_of(micros: int) -> str:
    """Microseconds since 1970 as ISO text."""
    return str(np.datetime64(micros, "us")).replace("T", " ")


def seen_since(times: RowTimes, table: str, until: int, share: float = 0.0) -> NDArray[np.int64]:
    """(rows,) since when a model may see each row: its own time, and in a table that is always
    visible the first time of the database, before which there are no seeds. A birthday before it
    hides nothing.

    Args:
        until: Microseconds since 1970; only rows up to it count as the first.
        share: Of the rows of each table, those that may come before the first: a few wrong dates.
    """
    own = times.of(table)
    if not np.any(own == TIMELESS):
        return own
    first = NEVER
    for name, schema in times.db.schema.tables.items():
        if schema.has_time:
            moments = times.of(name)
            known = moments[(moments != TIMELESS) & (moments <= until)]
            if len(known):
                place = int(share * len(known))
                first = min(first, int(np.partition(known, place)[place]))
    return np.where(own == TIMELESS, first, own)


def for_long(low: int, high: int) -> int:
    """From how many microseconds on a row counts as named for long, in a database that spans some
    time: a tenth of it; two weeks where that is more, but never above a quarter."""
    span = max(high - low, 0)
    return max(1, min(max(span // 10, 14 * _DAY), span // 4))
