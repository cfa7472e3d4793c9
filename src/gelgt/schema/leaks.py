"""Columns that may tell the future: what they hold was not yet known at the row's own time.

Signs: a date later than the row's time; a column that is empty in the newest rows and full in older
ones; a column that is empty exactly where such a date is; a number that equals how many child rows
there are today; a foreign key to rows that are newer than its own. They are signs, not proofs: the
user decides, and sets the kind of the column to `ignored` in the manifest.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gelgt.schema.model import DatabaseSchema, Finding, TableSchema, dated_text

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
    found = []
    for table in db.schema.tables.values():
        if db.num_rows(table.name) < MIN_ROWS:
            continue
        if table.time_col is not None:
            found += _after_the_fact(db, table)
            found += _newer_parents(db, table)
        elif table.dating_keys:
            found += _after_the_date(db, table)
        found += _counters(db, table)
    return found


def _after_the_fact(db: LeakRows, table: TableSchema) -> list[Finding]:
    columns = [c for c, k in table.kinds.items() if c != table.time_col and k.kind != "ignored"]
    times = [c for c in columns if table.columns[c] == "timestamp"]
    nulls, later, filled = _scan(db, table, columns, times)
    found: list[Finding] = []
    late = {}
    for c in times:
        share = later[c] / filled[c] if filled[c] else 0.0
        if filled[c] >= MIN_ROWS and share >= 0.5:
            late[c] = nulls[c]
            message = (
                f"later than '{table.time_col}' in {share:.0%} of its rows: a row would "
                f"tell its own future; {_REPAIR}"
            )
            found.append(Finding("suspected_leak", table.name, c, later[c], message))
    for c in columns:
        if c in late:
            continue
        recent, before = _recent_and_before(nulls[c])
        twin = next(
            (
                t
                for t, n in late.items()
                if 0.02 < n.mean() < 0.98 and (n == nulls[c]).mean() > 0.99
            ),
            None,
        )
        if twin is not None:
            message = (
                f"filled exactly where '{twin}' is, which is later than '{table.time_col}'; "
                f"{_REPAIR}"
            )
        elif recent >= 0.5 and recent - before >= 0.4:
            message = (
                f"missing in {recent:.0%} of the newest rows but in {before:.0%} of older "
                f"ones: filled after the fact; {_REPAIR}"
            )
        else:
            continue
        found.append(
            Finding("suspected_leak", table.name, c, int(nulls[c].size - nulls[c].sum()), message)
        )
    return found


def _after_the_date(db: LeakRows, table: TableSchema) -> list[Finding]:
    """Dates of a table without a time column that lie after the rows that date it: they may be when
    its rows came to be."""
    columns = [
        c for c, k in table.kinds.items() if table.columns[c] == "timestamp" and k.kind != "ignored"
    ]
    dates, found = (db.row_times(table.name) if columns else np.zeros(0, np.int64)), []
    for column in columns:
        later, filled, start = 0, 0, 0
        for batch in db.batches(table.name, [column]):
            values, known = (
                batch.column(0).cast(pa.int64()),
                batch.column(0).is_valid().to_numpy(zero_copy_only=False),
            )
            part = dates[start : start + batch.num_rows]
            known &= part != np.iinfo(np.int64).max
            later += int(
                np.count_nonzero(
                    values.fill_null(0).to_numpy(zero_copy_only=False)[known] > part[known]
                )
            )
            filled += int(np.count_nonzero(known))
            start += batch.num_rows
        if filled >= MIN_ROWS and later >= filled / 2:
            message = (
                f"later than {dated_text(db.schema, table)}, which dates its rows, in "
                f"{later / filled:.0%} of them: "
                f"if rows come to be then, name it as their time_col in the manifest; {_REPAIR}"
            )
            found.append(Finding("suspected_leak", table.name, column, later, message))
    return found


def _newer_parents(db: LeakRows, table: TableSchema) -> list[Finding]:
    """Foreign keys that mostly name newer rows which themselves name the row, such as
    `users.last_order_id`."""
    assert table.time_col is not None
    found = []
    for fk in table.foreign_keys:
        target = db.schema.tables[fk.table]
        time = target.time_col
        is_named_back = any(back.table == table.name for back in target.foreign_keys)
        if (
            time is None
            or fk.table == table.name
            or fk.column in table.pointers
            or not is_named_back
        ):
            continue
        parents = np.concatenate(
            [_floats(batch.column(0).cast(pa.int64())) for batch in db.batches(fk.table, [time])]
            or [np.zeros(0)]
        )
        newer, filled = 0, 0
        for batch in db.batches(table.name, [table.time_col, fk.column]):
            own, rows = (
                _floats(batch.column(i).cast(pa.int64() if i == 0 else pa.float64()))
                for i in (0, 1)
            )
            known = ~np.isnan(own) & (rows >= 0) & (rows < len(parents))
            newer += int(np.count_nonzero(parents[rows[known].astype(np.int64)] > own[known]))
            filled += int(np.count_nonzero(known))
        if filled >= MIN_ROWS and newer >= filled / 2:
            message = (
                f"names rows of '{fk.table}' that are newer than the row itself in "
                f"{newer / filled:.0%} of its rows: "
                "filled or updated later; if it is updated, take it out of the table's fkeys in "
                "the manifest and set its kind to 'ignored'"
            )
            found.append(Finding("suspected_leak", table.name, fk.column, newer, message))
    return found


def _scan(
    db: LeakRows, table: TableSchema, columns: list[str], times: list[str]
) -> tuple[dict[str, np.ndarray[Any, Any]], dict[str, int], dict[str, int]]:
    """Where each column is null (row by row, in time order), and how many of its dates lie after
    the row's time."""
    assert table.time_col is not None
    nulls: dict[str, list[np.ndarray[Any, Any]]] = {c: [] for c in columns}
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


def _recent_and_before(nulls: np.ndarray[Any, Any]) -> tuple[float, float]:
    """Share of nulls in the newest rows (at least 30, at most 5 %) and in the middle half."""
    size = nulls.size
    newest = max(30, size // 20)
    return float(nulls[-newest:].mean()), float(nulls[size // 4 : 3 * size // 4].mean())


def _counters(db: LeakRows, table: TableSchema) -> list[Finding]:
    """Whole-number columns that equal the number of child rows of today."""
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
    found = []
    for other, fk in children:
        counts = np.zeros(rows, dtype=np.int64)
        for batch in db.batches(other.name, [fk.column]):
            parents = batch.column(0).drop_null().to_numpy(zero_copy_only=False).astype(np.int64)
            counts += np.bincount(parents[(parents >= 0) & (parents < rows)], minlength=rows)
        some = counts > 0
        if some.sum() < MIN_ROWS or np.unique(counts[some]).size < 3:
            continue
        for c in numbers:
            equal = float((values[c][some] == counts[some]).mean())
            if equal >= 0.9:
                message = (
                    f"equals today's number of '{other.name}' rows in {equal:.0%} of the "
                    f"rows: it counts the future too; {_REPAIR}"
                )
                found.append(Finding("suspected_leak", table.name, c, int(some.sum()), message))
    return found


def _floats(values: pa.Array) -> np.ndarray[Any, Any]:
    return np.asarray(values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))
