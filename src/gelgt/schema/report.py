"""`gelgt inspect` as data: tables, keys, kinds, time ranges and findings in one dictionary."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gelgt.schema.findings import Rows, find, statistics
from gelgt.schema.model import TableSchema, dated_text


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
        "primary_key": {
            "columns": list(key.columns),
            "origin": key.origin,
            "evidence": key.evidence,
        }
        if key
        else None,
        "time_column": {"column": time.column, "origin": time.origin, "evidence": time.evidence}
        if time
        else None,
        "dated_by": _dated_by(db, table),
        "time_range": _time_range(db, table),
        "foreign_keys": [
            {
                "column": fk.column,
                "columns": list(fk.columns),
                "table": fk.table,
                "origin": fk.origin,
                "evidence": fk.evidence,
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
    dating = table.dating
    text = dated_text(db.schema, table)
    return {
        "keys": list(dating.keys),
        "times": text,
        "origin": dating.origin,
        "evidence": dating.evidence,
    }


def _kind(table: TableSchema, column: str) -> dict[str, Any]:
    if column in table.key_columns:
        return {"kind": "key", "origin": None, "evidence": ""}
    kind = table.kinds[column]
    return {"kind": kind.kind, "origin": kind.origin, "evidence": kind.evidence}


def _time_range(db: Rows, table: TableSchema) -> list[str] | None:
    if table.time_col is None or db.num_rows(table.name) == 0:
        return None
    _, low, high = statistics(db.path(table.name)).get(table.time_col, (None, None, None))
    if low is None:
        ends = [pc.min_max(batch.column(0)) for batch in db.batches(table.name, [table.time_col])]
        known = pa.array(
            [end[side].as_py() for end in ends for side in ("min", "max") if end[side].is_valid],
            pa.timestamp("us"),
        )
        if len(known) == 0:
            return None
        low, high = pc.min(known).as_py(), pc.max(known).as_py()
    return [_iso(low), _iso(high)]


def _iso(moment: Any) -> str:
    return str(moment)[:19].removesuffix(" 00:00:00")
