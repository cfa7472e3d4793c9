"""Findings: what a user should know about the rows before trusting a prediction.

Most of them come from the statistics in Parquet files; only times and suspected leaks (leaks.py)
need the rows.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
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
from gelgt.schema.severity import GRAVE_SHARE, rank


class Rows(Protocol):
    """What findings need of a database."""

    schema: DatabaseSchema
    import_findings: list[Finding]

    @property
    def val_timestamp(self) -> Any: ...

    def num_rows(self, table: str) -> int: ...

    def row_times(self, table: str) -> NDArray[np.int64]: ...

    def paths(self, table: str) -> list[Path]: ...

    def batches(
        self, table: str, columns: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]: ...

    def read(self, table: str, columns: Sequence[str] | None = None) -> pa.Table: ...


def find(db: Rows) -> list[Finding]:
    """All findings of a database, the gravest first."""
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
    constant = {(f.table, f.column) for f in findings if f.code == "constant_column"}
    leaks = [f for f in find_leaks(db) if (f.table, f.column) not in constant]
    return ranked(weighed(db, f) for f in [*findings, *_no_times(db.schema), *leaks])


def ranked(findings: Iterable[Finding]) -> list[Finding]:
    """Findings, the gravest first; those of one code stay together, in the order of the tables."""
    return sorted(findings, key=lambda f: rank(f.severity, f.code))


def statement(table: str, **entries: Any) -> dict[str, Any]:
    """What a `--schema` file says of a table."""
    return {"tables": {table: entries}}


def dates_of(table: TableSchema) -> list[str]:
    """Columns that hold dates or times."""
    return [c for c, kind in table.columns.items() if kind == "timestamp"]


def weighed(db: Rows, finding: Finding) -> Finding:
    """The finding with the severity that the share of its rows has."""
    if finding.code not in ("dangling_key", "null_time") or finding.table not in db.schema.tables:
        return finding
    share = (finding.count or 0) / max(1, db.num_rows(finding.table))
    return replace(finding, severity="warning") if share >= GRAVE_SHARE else finding


def _no_times(schema: DatabaseSchema) -> list[Finding]:
    tables = schema.tables
    if any(table.time_column is not None for table in tables.values()):
        return []
    message = f"no table has a time column ({', '.join(tables)}): every row counts as always known"
    dated = [(name, dates_of(table)[0]) for name, table in tables.items() if dates_of(table)]
    repair = statement(dated[0][0], time_col=dated[0][1]) if dated else None
    return [Finding("no_times", next(iter(tables)), message=message, repair=repair)]


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
    if table.is_left_out:
        evidence = table.dating.evidence if table.dating is not None else ""
        message = f"left out of the model: {evidence or 'nothing says since when its rows exist'}"
        keys = [fk.column for fk in table.foreign_keys if db.schema.tables[fk.table].has_time]
        repair = statement(name, dated_by=keys[0]) if keys else None
        findings.append(Finding("left_out_table", name, message=message, repair=repair))
    elif table.time_column is None and dates_of(table):
        findings.append(_timeless(db, table))
    if table.dating is not None and table.dating.doubt:
        message = f"two readings of its time, so no label is about it: {table.dating.doubt}"
        repair = statement(name, dated_by=list(table.dating.keys))
        findings.append(Finding("undecided_time", name, message=message, repair=repair))
    return findings


def _timeless(db: Rows, table: TableSchema) -> Finding:
    """A table with dates, none of which is its time: a risk where rows are visible before their
    date."""
    times = dates_of(table)
    rule, late = "count as always known", {}
    if table.is_named_first:
        rule = "count as known from the first timed row that names them"
    elif table.dating_keys:
        rule = f"count as known with {dated_text(db.schema, table)}"
    else:
        late = _later_than_validation(db, table, times)
    message = f"no time column was chosen among {', '.join(times)}: its rows {rule}"
    if not late:
        return Finding("timeless_table", table.name, times[0], None, message)
    column, count = max(late.items(), key=lambda entry: entry[1])
    message += f", though '{column}' lies after the validation time in {count:,} of them"
    repair = statement(table.name, time_col=column)
    return Finding("timeless_table", table.name, column, count, message, "warning", repair)


def _later_than_validation(db: Rows, table: TableSchema, columns: list[str]) -> dict[str, int]:
    """How many values of some columns lie after the validation time, where any do."""
    if db.val_timestamp is None:
        return {}
    limit = pa.scalar(np.datetime64(db.val_timestamp, "us"))
    late = dict.fromkeys(columns, 0)
    for batch in db.batches(table.name, columns):
        for name, values in zip(columns, batch.columns):
            late[name] += pc.sum(pc.greater(values, limit).cast(pa.int64())).as_py() or 0
    return {name: count for name, count in late.items() if count}


def _pointers(table: TableSchema) -> list[Finding]:
    """Foreign keys that are filled or changed after a row is made."""
    names = table.dating.pointers if table.dating is not None else ()
    message = "filled or changed after its row was made, so a model does not follow it"
    return [Finding("pointer", table.name, column, message=message) for column in names]


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
