"""Columns that may tell the future: their values were not yet known at the time of the row.

Signs: a date later than the row's time; a column that is empty in the newest rows and full in older
ones; a column that is empty exactly where such a date is; a number that equals how many child rows
there are today; a foreign key to rows that are newer than its own. They are signs, not proofs: the
user decides, and sets the kind of the column to `ignored` in the manifest.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gelgt.schema.model import DatabaseSchema, Finding, TableSchema, dated_text

Nulls = np.ndarray[Any, Any]  # (rows,) where a column is null, in time order
MIN_ROWS = 50  # below this, shares say nothing
_REPAIR = "if it is only known later, set its kind to 'ignored' in the manifest"


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


def _after_the_fact(db: LeakRows, table: TableSchema) -> list[Finding]:
    """Dates later than the row's time, and columns that are filled after it."""
    columns = [c for c, k in table.kinds.items() if c != table.time_col and k.kind != "ignored"]
    times = [c for c in columns if table.columns[c] == "timestamp"]
    nulls, later, filled = _scan(db, table, columns, times)
    findings: list[Finding] = []
    late = {}
    for c in times:
        share = later[c] / filled[c] if filled[c] else 0.0
        if filled[c] >= MIN_ROWS and share >= 0.5:
            late[c] = nulls[c]
            message = (
                f"later than '{table.time_col}' in {share:.0%} of its rows: a row would "
                f"tell its own future; {_REPAIR}"
            )
            findings.append(Finding("suspected_leak", table.name, c, later[c], message))
    for c in columns:
        message = "" if c in late else _filled_later(nulls[c], late, str(table.time_col))
        if message:
            count = int(nulls[c].size - nulls[c].sum())
            findings.append(Finding("suspected_leak", table.name, c, count, message))
    return findings


def _filled_later(nulls: Nulls, late: Mapping[str, Nulls], time_col: str) -> str:
    """Why a column seems to be filled after its row came to be; empty where it does not.

    Args:
        nulls: Where the column is null.
        late: The same of the columns with dates later than the row's time.
        time_col: The time column.
    """
    for name, other in late.items():
        if 0.02 < other.mean() < 0.98 and (other == nulls).mean() > 0.99:
            return f"filled exactly where '{name}' is, which is later than '{time_col}'; {_REPAIR}"
    recent, before = _recent_and_before(nulls)
    if recent >= 0.5 and recent - before >= 0.4:
        return (
            f"missing in {recent:.0%} of the newest rows but in {before:.0%} of older "
            f"ones: filled after the fact; {_REPAIR}"
        )
    return ""


def _after_the_date(db: LeakRows, table: TableSchema) -> list[Finding]:
    """Dates of a table without a time column that lie after the rows that date it: its rows may
    have come to be then."""
    columns = [
        c for c, k in table.kinds.items() if table.columns[c] == "timestamp" and k.kind != "ignored"
    ]
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
                f"{later / filled:.0%} of them: "
                f"if rows come to be then, name it as their time_col in the manifest; {_REPAIR}"
            )
            findings.append(Finding("suspected_leak", table.name, column, later, message))
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
                f"{newer / filled:.0%} of its rows: "
                "filled or updated later; if it is updated, take it out of the table's fkeys in "
                "the manifest and set its kind to 'ignored'"
            )
            findings.append(Finding("suspected_leak", table.name, fk.column, newer, message))
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


def _scan(
    db: LeakRows, table: TableSchema, columns: list[str], times: list[str]
) -> tuple[dict[str, Nulls], dict[str, int], dict[str, int]]:
    """Where each column is null (row by row, in time order), and how many of its dates lie after
    the row's time."""
    assert table.time_col is not None
    nulls: dict[str, list[Nulls]] = {c: [] for c in columns}
    later, filled = dict.fromkeys(times, 0), dict.fromkeys(times, 0)
    for batch in db.batches(table.name, [table.time_col, *columns]):
        row_time = batch.column(0)
        for c in columns:
            nulls[c].append(batch.column(c).is_null().to_numpy(zero_copy_only=False))
        for c in times:
            after = pc.greater(batch.column(c), row_time)
            later[c] += pc.sum(after.cast(pa.int64())).as_py() or 0
            filled[c] += len(after) - after.null_count
    return (
        {c: np.concatenate(parts) if parts else np.zeros(0, bool) for c, parts in nulls.items()},
        later,
        filled,
    )


def _recent_and_before(nulls: Nulls) -> tuple[float, float]:
    """Share of nulls in the newest rows (at least 30, at most 5 %) and in the middle half."""
    size = nulls.size
    newest = max(30, size // 20)
    return float(nulls[-newest:].mean()), float(nulls[size // 4 : 3 * size // 4].mean())


def _counters(db: LeakRows, table: TableSchema) -> list[Finding]:
    """Whole-number columns that equal today's number of child rows."""
    numbers = [c for c, k in table.kinds.items() if k.kind == "numerical"]
    children = [
        (other, fk)
        for other in db.schema.tables.values()
        for fk in other.foreign_keys
        if fk.table == table.name and other.has_time
    ]
    if not numbers or not children:
        return []
    rows = db.num_rows(table.name)
    values = {
        c: np.concatenate([_floats(batch.column(c)) for batch in db.batches(table.name, [c])])
        for c in numbers
    }
    findings = []
    for other, fk in children:
        counts = np.zeros(rows, dtype=np.int64)
        for batch in db.batches(other.name, [fk.column]):
            parents = batch.column(0).drop_null().to_numpy(zero_copy_only=False).astype(np.int64)
            counts += np.bincount(parents[(parents >= 0) & (parents < rows)], minlength=rows)
        has_child = counts > 0
        if has_child.sum() < MIN_ROWS or np.unique(counts[has_child]).size < 3:
            continue
        for c in numbers:
            equal = float((values[c][has_child] == counts[has_child]).mean())
            if equal >= 0.9:
                message = (
                    f"equals today's number of '{other.name}' rows in {equal:.0%} of the "
                    f"rows: it counts the future too; {_REPAIR}"
                )
                count = int(has_child.sum())
                findings.append(Finding("suspected_leak", table.name, c, count, message))
    return findings


def _floats(values: pa.Array) -> np.ndarray[Any, Any]:
    return np.asarray(values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))
