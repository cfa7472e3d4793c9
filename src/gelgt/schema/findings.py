"""Findings: what a user should know about the rows before trusting a prediction.

Most of them come from the statistics in Parquet files; only times and suspected leaks (leaks.py)
need the rows.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from gelgt.schema.leaks import find_leaks
from gelgt.schema.model import DatabaseSchema, Finding, TableSchema, dated_text


class Rows(Protocol):
    """What findings need of a database."""

    schema: DatabaseSchema
    import_findings: list[Finding]

    def num_rows(self, table: str) -> int: ...

    def row_times(self, table: str) -> NDArray[np.int64]: ...

    def paths(self, table: str) -> list[Path]: ...

    def batches(
        self, table: str, columns: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]: ...

    def read(self, table: str, columns: Sequence[str] | None = None) -> pa.Table: ...


def find(db: Rows) -> list[Finding]:
    """All findings of a database, those of the import first."""
    findings = list(db.import_findings)
    referred = {fk.table for table in db.schema.tables.values() for fk in table.foreign_keys}
    for table in db.schema.tables.values():
        findings += _table_findings(db, table, table.name in referred)
        if db.num_rows(table.name):
            findings += _column_findings(db, table)
            reported = {(f.table, f.column) for f in findings if f.code == "dangling_key"}
            findings += _dangling(db, table, reported)
            findings += _pointers(table)
            findings += _undated(db, table)
    if all(table.time_column is None for table in db.schema.tables.values()):
        names = ", ".join(db.schema.tables)
        message = f"no table has a time column ({names}): nothing can be predicted ahead of time"
        findings.append(Finding("no_times", next(iter(db.schema.tables)), message=message))
    return findings + find_leaks(db)


def _undated(db: Rows, table: TableSchema) -> list[Finding]:
    if not table.dating_keys:
        return []
    count = int(np.count_nonzero(db.row_times(table.name) == np.iinfo(np.int64).max))
    message = (
        f"rows that name none of those that date them ({dated_text(db.schema, table)}) are never "
        "shown to the model"
    )
    return [Finding("null_time", table.name, None, count, message)] if count else []


def _table_findings(db: Rows, table: TableSchema, is_referred: bool) -> list[Finding]:
    name = table.name
    if db.num_rows(name) == 0:
        return [Finding("empty_table", name, count=0, message="no rows")]
    findings = []
    if not [c for c in table.columns if c not in table.key_columns]:
        message = "only keys: it links rows and has no features of its own"
        findings.append(Finding("key_only_table", name, message=message))
    if not table.foreign_keys and not is_referred and len(db.schema.tables) > 1:
        message = "no key links it to another table: it is never seen from an entity"
        findings.append(Finding("unlinked_table", name, message=message))
    times = [c for c, t in table.columns.items() if t == "timestamp"]
    if table.time_column is None and times:
        rule = "count as always known"
        if table.dating_keys:
            rule = f"count as known with {dated_text(db.schema, table)}"
        message = (
            f"no time column was chosen among {', '.join(times)}: its rows {rule} unless "
            "the manifest sets time_col"
        )
        findings.append(Finding("timeless_table", name, times[0], message=message))
    return findings


def _pointers(table: TableSchema) -> list[Finding]:
    """Foreign keys that are filled or changed after a row is made."""
    names = table.dating.pointers if table.dating is not None else ()
    message = (
        "filled or changed after its row was made, so a model does not follow it; the "
        "manifest can state what dates the rows"
    )
    return [
        Finding("pointer", table.name, column, message=f"{message} (dated_by)") for column in names
    ]


def _column_findings(db: Rows, table: TableSchema) -> list[Finding]:
    findings = []
    name, rows = table.name, db.num_rows(table.name)
    for column, (nulls, low, high) in statistics(db.paths(name)).items():
        if column in table.key_columns or column not in table.columns:
            continue
        if nulls == rows:
            findings.append(Finding("all_null_column", name, column, rows, "no value at all"))
        elif column == table.time_col and nulls:
            message = "rows without a time are never shown to the model"
            findings.append(Finding("null_time", name, column, nulls, message))
        elif nulls == 0 and low is not None and low == high and rows > 1:
            message = f"one value in all rows: {_shown(low)}"
            findings.append(Finding("constant_column", name, column, rows, message))
    return findings


def _shown(value: Any) -> str:
    return str(value) if isinstance(value, datetime) else repr(value)


def statistics(paths: list[Path]) -> dict[str, tuple[int | None, Any, Any]]:
    """Nulls, least and greatest value of each plain column, from the statistics of the files."""
    files = [pq.read_metadata(path) for path in paths]
    columns: dict[str, tuple[int | None, Any, Any]] = {}
    for group in (file.row_group(i) for file in files for i in range(file.num_row_groups)):
        for position in range(group.num_columns):
            chunk = group.column(position)
            stats = chunk.statistics
            if "." in chunk.path_in_schema or stats is None or not stats.has_null_count:
                continue
            nulls, low, high = columns.get(chunk.path_in_schema, (0, None, None))
            if stats.has_min_max:
                low = stats.min if low is None else min(low, stats.min)
                high = stats.max if high is None else max(high, stats.max)
            columns[chunk.path_in_schema] = ((nulls or 0) + stats.null_count, low, high)
    return columns


def _dangling(db: Rows, table: TableSchema, reported: set[tuple[str, str | None]]) -> list[Finding]:
    """Foreign keys beyond the parent's rows, in folders that gelgt did not write."""
    findings = []
    stats = statistics(db.paths(table.name))
    for fk in table.foreign_keys:
        parents = db.num_rows(fk.table)
        _, low, high = stats.get(fk.column, (None, None, None))
        if (table.name, fk.column) in reported or low is None or (low >= 0 and high < parents):
            continue
        outside = 0
        for batch in db.batches(table.name, [fk.column]):
            values = batch.column(0)
            is_outside = pc.or_(pc.less(values, 0), pc.greater_equal(values, parents))
            outside += pc.sum(is_outside.cast(pa.int64())).as_py() or 0
        if outside:
            message = f"no such row in '{fk.table}'; treated as null"
            findings.append(Finding("dangling_key", table.name, fk.column, outside, message))
    return findings
