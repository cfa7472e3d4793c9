"""Columns that may tell the future: their values were not yet known at the time of the row.

Signs: a date later than the row's time; a column that is empty in the newest rows and full in older
ones; a column that is empty exactly where such a date is; a number that equals how many child rows
there are today; a foreign key to rows that are newer than its own. They are signs, not proofs: the
user decides, and sets the kind of the column to `ignored` in a `--schema` file.

Columns are read batch by batch, and only counts are kept.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gelgt.schema.model import DatabaseSchema, Finding, TableSchema, dated_text

MIN_ROWS = 50  # below this, shares say nothing


class LeakRows(Protocol):
    """What leak detection needs of a database."""

    schema: DatabaseSchema

    def num_rows(self, table: str) -> int: ...

    def batches(
        self, table: str, columns: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]: ...

    def row_times(self, table: str) -> np.ndarray[Any, np.dtype[np.int64]]: ...


def find_leaks(db: LeakRows) -> list[Finding]:
    """Suspected leaks of all tables."""
    findings = []
    for table in db.schema.tables.values():
        if db.num_rows(table.name) < MIN_ROWS:
            continue
        if table.time_col is not None:
            findings += _after_the_fact(db, table)
            findings += _newer_parents(db, table)
        elif table.dating_keys:
            findings += _after_the_date(db, table)
        findings += _counters(db, table)
    return findings


def _suspect(table: TableSchema, column: str, count: int, evidence: str) -> Finding:
    """A column whose values are hidden from the model if the user says so."""
    repair = {"tables": {table.name: {"kinds": {column: "ignored"}}}}
    return Finding("suspected_leak", table.name, column, count, evidence, repair=repair)


def _read(table: TableSchema) -> list[str]:
    """Columns whose values a model reads at the time of the row, the time column aside."""
    masked = {c for date in table.event_dates or () for c in (date.column, *date.filled)}
    return [
        c
        for c, kind in table.kinds.items()
        if c != table.time_col and kind.kind != "ignored" and c not in masked
    ]


def _after_the_fact(db: LeakRows, table: TableSchema) -> list[Finding]:
    """Dates later than the row's time, and columns that are filled after it."""
    columns = _read(table)
    scan = _Scan.of(db, table, columns, [c for c in columns if table.columns[c] == "timestamp"])
    late = [
        c for c, filled in scan.filled.items() if filled >= MIN_ROWS and scan.later[c] >= filled / 2
    ]
    findings: list[Finding] = []
    for c in late:
        share = scan.later[c] / scan.filled[c]
        message = (
            f"later than '{table.time_col}' in {share:.0%} of its rows: a row would tell its own "
            "future"
        )
        findings.append(_suspect(table, c, scan.later[c], message))
    for c in columns:
        message = "" if c in late else _filled_later(scan, c, late, str(table.time_col))
        if message:
            findings.append(_suspect(table, c, scan.rows - scan.nulls[c], message))
    return findings


def _filled_later(scan: "_Scan", column: str, late: Sequence[str], time_col: str) -> str:
    """Why a column seems to be filled after its row came to be; empty where it does not.

    Args:
        scan: Where columns are null.
        column: The column.
        late: Columns with dates later than the row's time.
        time_col: The time column.
    """
    for name in late:
        is_partly_null = 0.02 < scan.nulls[name] / scan.rows < 0.98
        if is_partly_null and scan.alike[name, column] > 0.99 * scan.rows:
            return f"filled exactly where '{name}' is, which is later than '{time_col}'"
    recent, before = scan.recent(column)
    if recent >= 0.5 and recent - before >= 0.4:
        return (
            f"missing in {recent:.0%} of the newest rows but in {before:.0%} of older ones: filled "
            "after the fact"
        )
    return ""


def _after_the_date(db: LeakRows, table: TableSchema) -> list[Finding]:
    """Dates of a table without a time column that lie after the rows that date it: its rows may
    have come to be then."""
    columns = [c for c in _read(table) if table.columns[c] == "timestamp"]
    row_times = db.row_times(table.name) if columns else np.zeros(0, np.int64)
    findings = []
    for column in columns:
        later, filled, start = 0, 0, 0
        for batch in db.batches(table.name, [column]):
            is_filled = batch.column(0).is_valid().to_numpy(zero_copy_only=False)
            values = batch.column(0).cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
            part = row_times[start : start + batch.num_rows]
            both = is_filled & (part != np.iinfo(np.int64).max)
            later += int(np.count_nonzero(values[both] > part[both]))
            filled += int(np.count_nonzero(both))
            start += batch.num_rows
        if filled >= MIN_ROWS and later >= filled / 2:
            message = (
                f"later than {dated_text(db.schema, table)}, which dates its rows, in "
                f"{later / filled:.0%} of them; if rows come to be then, it is their time_col"
            )
            findings.append(_suspect(table, column, later, message))
    return findings


def _newer_parents(db: LeakRows, table: TableSchema) -> list[Finding]:
    """Foreign keys that mostly name newer rows which themselves name the row, such as
    `users.last_order_id`."""
    findings = []
    for fk in table.foreign_keys:
        target = db.schema.tables[fk.table]
        is_named_back = any(back.table == table.name for back in target.foreign_keys)
        is_other = fk.table != table.name and fk.column not in table.pointers
        if target.time_col is None or not is_other or not is_named_back:
            continue
        newer, filled = _count_newer(db, table, fk.column, (fk.table, target.time_col))
        if filled >= MIN_ROWS and newer >= filled / 2:
            message = (
                f"names rows of '{fk.table}' that are newer than the row itself in "
                f"{newer / filled:.0%} of its rows: filled or updated later"
            )
            pointers = sorted({*table.pointers, fk.column})
            repair = {"tables": {table.name: {"dated_by": {"pointers": pointers}}}}
            leak = Finding("suspected_leak", table.name, fk.column, newer, message, repair=repair)
            findings.append(leak)
    return findings


def _count_newer(
    db: LeakRows, table: TableSchema, column: str, parent: tuple[str, str]
) -> tuple[int, int]:
    """How many rows name a newer row by a key, and how many name a row at all; `parent` is the
    table and its time column."""
    assert table.time_col is not None
    batches = db.batches(parent[0], [parent[1]])
    parts = [_floats(batch.column(0).cast(pa.int64())) for batch in batches]
    parent_times = np.concatenate(parts or [np.zeros(0)])
    newer, filled = 0, 0
    for batch in db.batches(table.name, [table.time_col, column]):
        times = _floats(batch.column(0).cast(pa.int64()))
        parents = _floats(batch.column(1).cast(pa.float64()))
        is_row = ~np.isnan(times) & (parents >= 0) & (parents < len(parent_times))
        named = parent_times[parents[is_row].astype(np.int64)]
        newer += int(np.count_nonzero(named > times[is_row]))
        filled += int(np.count_nonzero(is_row))
    return newer, filled


@dataclass
class _Scan:
    """Where the columns of a table are null, in time order, and which dates lie after the row's
    time.

    Attributes:
        rows: Of the table.
        nulls: Null values of each column.
        newest: Those among the newest rows (at least 30, at most 5 %).
        middle: Those in the middle half.
        alike: For each date and column, in how many rows both are null or neither is.
        later: Dates after the row's time.
        filled: Dates of rows that have a time.
    """

    rows: int
    nulls: dict[str, int]
    newest: dict[str, int]
    middle: dict[str, int]
    alike: dict[tuple[str, str], int]
    later: dict[str, int]
    filled: dict[str, int]
    _seen: int = field(default=0)

    @classmethod
    def of(cls, db: LeakRows, table: TableSchema, columns: list[str], dates: list[str]) -> "_Scan":
        """The scan of some columns; `dates` are those of them that hold dates."""
        assert table.time_col is not None
        none, pairs = dict.fromkeys(columns, 0), [(d, c) for d in dates for c in columns]
        scan = cls(
            db.num_rows(table.name),
            dict(none),
            dict(none),
            dict(none),
            dict.fromkeys(pairs, 0),
            dict.fromkeys(dates, 0),
            dict.fromkeys(dates, 0),
        )
        for batch in db.batches(table.name, [table.time_col, *columns]):
            scan._add(batch, dict(zip(columns, batch.columns[1:])))
        return scan

    def _add(self, batch: pa.RecordBatch, values: Mapping[str, pa.Array]) -> None:
        is_null = {c: v.is_null().to_numpy(zero_copy_only=False) for c, v in values.items()}
        place = self._seen + np.arange(batch.num_rows)
        is_newest = place >= self.rows - self._newest_rows
        is_middle = (place >= self.rows // 4) & (place < 3 * self.rows // 4)
        for c, nulls in is_null.items():
            self.nulls[c] += int(np.count_nonzero(nulls))
            self.newest[c] += int(np.count_nonzero(nulls & is_newest))
            self.middle[c] += int(np.count_nonzero(nulls & is_middle))
        for date, c in self.alike:
            self.alike[date, c] += int(np.count_nonzero(is_null[date] == is_null[c]))
        for date in self.later:
            after = pc.greater(values[date], batch.column(0))
            self.later[date] += pc.sum(after.cast(pa.int64())).as_py() or 0
            self.filled[date] += len(after) - after.null_count
        self._seen += batch.num_rows

    @property
    def _newest_rows(self) -> int:
        return max(30, self.rows // 20)

    def recent(self, column: str) -> tuple[float, float]:
        """Share of nulls in the newest rows and in the middle half."""
        half = 3 * self.rows // 4 - self.rows // 4
        return self.newest[column] / self._newest_rows, self.middle[column] / half


def _counters(db: LeakRows, table: TableSchema) -> list[Finding]:
    """Whole-number columns that equal today's number of child rows."""
    numbers = [c for c in _read(table) if table.kinds[c].kind == "numerical"]
    counted = _child_counts(db, table) if numbers else {}
    if not counted:
        return []
    equal = {(child, c): 0 for child in counted for c in numbers}
    start = 0
    for batch in db.batches(table.name, numbers):
        values = {c: _floats(column) for c, column in zip(numbers, batch.columns)}
        for child, counts in counted.items():
            part = counts[start : start + batch.num_rows]
            for c in numbers:
                same = (values[c] == part) & (part > 0)
                equal[child, c] += int(np.count_nonzero(same))
        start += batch.num_rows
    findings = []
    for (child, c), count in equal.items():
        parents = int(np.count_nonzero(counted[child]))
        if count >= 0.9 * parents:
            message = (
                f"equals today's number of '{child[0]}' rows in {count / parents:.0%} of the "
                "rows: it counts the future too"
            )
            findings.append(_suspect(table, c, parents, message))
    return findings


def _child_counts(
    db: LeakRows, table: TableSchema
) -> dict[tuple[str, str], np.ndarray[Any, np.dtype[np.int64]]]:
    """By child table and its key, how many of its rows name each row, where this differs enough
    between rows to be recognised."""
    rows = db.num_rows(table.name)
    counted = {}
    for other in db.schema.tables.values():
        for fk in other.foreign_keys:
            if fk.table != table.name or not other.has_time:
                continue
            counts = np.zeros(rows, dtype=np.int64)
            for batch in db.batches(other.name, [fk.column]):
                parents = batch.column(0).drop_null().to_numpy(zero_copy_only=False)
                parents = parents.astype(np.int64)
                parents = parents[(parents >= 0) & (parents < rows)]
                counts += np.bincount(parents, minlength=rows)
            has_child = counts > 0
            if has_child.sum() >= MIN_ROWS and np.unique(counts[has_child]).size >= 3:
                counted[other.name, fk.column] = counts
    return counted


def _floats(values: pa.Array) -> np.ndarray[Any, Any]:
    return np.asarray(values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))
