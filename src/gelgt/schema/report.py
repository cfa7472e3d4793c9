"""`gelgt inspect` as data: tables, keys, kinds, time ranges and findings in one dictionary."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gelgt.schema.findings import Rows, find, statistics
from gelgt.schema.model import (
    ColumnKind,
    Dating,
    ForeignKey,
    PrimaryKey,
    TableSchema,
    TimeColumn,
    dated_text,
)


def inspect(db: Rows) -> dict[str, Any]:
    """What `gelgt inspect --json` prints."""
    schema = db.schema
    return {
        "name": schema.name,
        "source": getattr(db, "source", schema.name),
        "val_timestamp": schema.val_timestamp,
        "test_timestamp": schema.test_timestamp,
        "split_origin": schema.split_origin,
        "tables": {name: _table(db, table) for name, table in schema.tables.items()},
        "findings": [finding.to_dict() for finding in find(db)],
    }


def _table(db: Rows, table: TableSchema) -> dict[str, Any]:
    key, time = table.primary_key, table.time_column
    return {
        "rows": db.num_rows(table.name),
        "primary_key": key and {"columns": list(key.columns), **_origin(key)},
        "time_column": time and {"column": time.column, **_origin(time)},
        "dated_by": _dated_by(db, table),
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
