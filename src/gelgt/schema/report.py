"""`gelgt inspect` as data: tables, keys, kinds, time ranges and findings in one dictionary."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gelgt.schema.findings import Rows, dates_of, find, statement, statistics
from gelgt.schema.model import (
    ColumnKind,
    DatabaseSchema,
    Dating,
    Finding,
    ForeignKey,
    PrimaryKey,
    TableSchema,
    TimeColumn,
    dated_text,
)

_NEVER = np.iinfo(np.int64).max  # the time of a row that is never visible


def inspect(db: Rows, findings: Sequence[Finding] | None = None) -> dict[str, Any]:
    """What `gelgt inspect --json` prints; findings are computed unless they are given."""
    schema = db.schema
    findings = find(db) if findings is None else findings
    return {
        "name": schema.name,
        "source": getattr(db, "source", schema.name),
        "val_timestamp": schema.val_timestamp,
        "test_timestamp": schema.test_timestamp,
        "split_origin": schema.split_origin,
        "tables": {name: _table(db, table) for name, table in schema.tables.items()},
        "findings": [finding.to_dict() for finding in findings],
    }


def _table(db: Rows, table: TableSchema) -> dict[str, Any]:
    key, time = table.primary_key, table.time_column
    return {
        "rows": db.num_rows(table.name),
        "primary_key": key and {"columns": list(key.columns), **_origin(key)},
        "time_column": time and {"column": time.column, **_origin(time)},
        "dated_by": _dated_by(db, table),
        "never_visible": _never_visible(db, table),
        "readings": list(_readings(db, table)),
        "time_range": _time_range(db, table),
        "foreign_keys": [
            {
                "column": fk.column,
                "columns": list(fk.columns),
                "table": fk.table,
                **_origin(fk),
            }
            for fk in table.foreign_keys
        ],
        "columns": {c: {"type": t, **_kind(table, c)} for c, t in table.columns.items()},
    }


def _dated_by(db: Rows, table: TableSchema) -> dict[str, Any] | None:
    """What dates the rows of a table without a time column; None for a time column, and where
    nothing does."""
    if not table.dating_keys or table.dating is None:
        return None
    times = dated_text(db.schema, table)
    return {"keys": list(table.dating.keys), "times": times, **_origin(table.dating)}


def _never_visible(db: Rows, table: TableSchema) -> int:
    """Rows that no model ever sees, because nothing says when they came."""
    if table.time_col is not None:
        return statistics(db.paths(table.name)).get(table.time_col, (0, None, None))[0] or 0
    if not table.is_dated:
        return 0
    return int(np.count_nonzero(db.row_times(table.name) == _NEVER))


def _readings(db: Rows, table: TableSchema) -> Iterator[dict[str, Any]]:
    """What could say since when the rows of a table without a time column exist, the reading in
    use first, each with what a `--schema` file states for it."""
    if table.time_column is not None:
        return
    words, keys = _reading_words(db.schema, table), [fk.column for fk in table.dating_keys]
    is_inferred = table.is_left_out or table.is_named_first
    stated = None if is_inferred else _dated_statement(table.name, keys)
    yield _reading(words, _never_visible(db, table), stated, is_used=True)
    empty = statistics(db.paths(table.name))
    for fk in table.foreign_keys:
        parent = db.schema.tables[fk.table]
        if parent.has_time and fk.table != table.name and keys != [fk.column]:
            nulls = empty.get(fk.column, (0, None, None))[0] or 0
            words = f"as new as the row of '{fk.table}' that '{fk.column}' names"
            yield _reading(words, nulls, _dated_statement(table.name, [fk.column]))
    if table.is_dated:
        yield _reading("always visible", 0, statement(table.name, dated_by=None))
    for column in dates_of(table):
        nulls = empty.get(column, (0, None, None))[0] or 0
        words = f"'{column}' is the time of the row"
        yield _reading(words, nulls, statement(table.name, time_col=column))
    for column in sorted(table.pointers):
        stated = statement(table.name, follows=[column])
        yield _reading(f"'{column}' never changes: a model follows it", None, stated)


def _reading_words(schema: DatabaseSchema, table: TableSchema) -> str:
    if table.is_left_out:
        return "left out: nothing says since when its rows exist"
    if table.is_named_first:
        return "known from the first timed row that names it"
    if table.dating_keys:
        keys = ", ".join(fk.column for fk in table.dating_keys)
        return f"as new as {dated_text(schema, table)} (through {keys})"
    return "always visible"


def _dated_statement(table: str, keys: list[str]) -> dict[str, Any]:
    dated_by: str | list[str] | None = keys[0] if len(keys) == 1 else keys or None
    return statement(table, dated_by=dated_by)


def _reading(
    words: str, never_visible: int | None, stated: dict[str, Any] | None, is_used: bool = False
) -> dict[str, Any]:
    entry = {"reading": words, "is_used": is_used, "never_visible": never_visible}
    return {**entry, "schema": stated}


def _origin(part: PrimaryKey | TimeColumn | ForeignKey | Dating | ColumnKind) -> dict[str, str]:
    return {"origin": part.origin, "evidence": part.evidence}


def _kind(table: TableSchema, column: str) -> dict[str, Any]:
    if column in table.key_columns:
        return {"kind": "key", "origin": None, "evidence": ""}
    return {"kind": table.kinds[column].kind, **_origin(table.kinds[column])}


def _time_range(db: Rows, table: TableSchema) -> list[str] | None:
    if table.time_col is None or db.num_rows(table.name) == 0:
        return None
    _, low, high = statistics(db.paths(table.name)).get(table.time_col, (None, None, None))
    if low is None:
        ends = [pc.min_max(batch.column(0)) for batch in db.batches(table.name, [table.time_col])]
        sides = [end[side] for end in ends for side in ("min", "max")]
        times = pa.array([side.as_py() for side in sides if side.is_valid], pa.timestamp("us"))
        if len(times) == 0:
            return None
        low, high = pc.min(times).as_py(), pc.max(times).as_py()
    return [_iso(low), _iso(high)]


def _iso(moment: Any) -> str:
    return str(moment)[:19].removesuffix(" 00:00:00")
