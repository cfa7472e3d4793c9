"""Opens a RelBench v3 folder as it is.

A folder whose keys already follow RelBench's contract (primary keys 0…n-1 in row order, foreign keys holding those
numbers, rows ordered by time) is used in place. Column kinds that its manifest does not name are inferred.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gelgt.errors import SourceError, did_you_mean
from gelgt.schema.kinds import infer_kind, sample_batches
from gelgt.schema.manifest import MANIFEST, load_yaml, parse_schema
from gelgt.schema.model import ColumnKind, Finding, TableSchema
from gelgt.sources.cache import build_folder, cache_root
from gelgt.sources.canonical import canonical_name, canonical_type
from gelgt.sources.database import Database


def is_relbench_folder(path: Path) -> bool:
    return (path / MANIFEST).is_file() and (path / "db").is_dir()


def read_folder(folder: Path, source: str) -> Database:
    """The database of a folder, with its schema as the manifest states it."""
    content = load_yaml(folder / MANIFEST)
    columns = {name: _columns(folder, name) for name in content.get("tables") or {}}
    schema = parse_schema(content, columns, f"{folder.name}/{MANIFEST}")
    ours: dict[str, Any] = content.get("gelgt") or {}
    findings = [Finding(**entry) for entry in ours.get("findings") or []]
    return with_kinds(Database(folder, schema, source, findings))


def _columns(folder: Path, table: str) -> dict[str, str]:
    path = folder / "db" / f"{table}.parquet"
    if not path.is_file():
        there = [p.stem for p in (folder / "db").glob("*.parquet")]
        raise SourceError("missing_table", f"{folder.name}/{MANIFEST} lists the table '{table}', but there is no {path.name}.", hint=did_you_mean(table, there))
    try:
        schema = pq.read_schema(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise SourceError("unreadable_file", f"{path} is not a readable Parquet file: {error}", hint="Write it again.") from None
    types = {field.name: canonical_type(field.type) for field in schema}
    return {name: canonical_name(arrow) for name, arrow in types.items() if arrow is not None}


def with_kinds(db: Database) -> Database:
    """Fill in the kinds that the manifest does not name."""
    if all(set(_features(t)) <= set(t.kinds) for t in db.schema.tables.values()):
        return db
    target = cache_root() / "kinds" / db.cache_dir.name
    build_folder(target, lambda folder: _write_kinds(db, folder))
    inferred = json.loads((target / "kinds.json").read_text())
    tables = {
        name: replace(table, kinds={c: table.kinds.get(c) or ColumnKind(**inferred[name][c]) for c in _features(table)})
        for name, table in db.schema.tables.items()
    }
    return Database(db.folder, replace(db.schema, tables=tables), db.source, db.import_findings)


def _features(table: TableSchema) -> list[str]:
    return [c for c in table.columns if c not in table.key_columns]


def _write_kinds(db: Database, folder: Path) -> None:
    found: dict[str, dict[str, Any]] = {}
    for name, table in db.schema.tables.items():
        columns = [c for c in _features(table) if c not in table.kinds]
        sampler = sample_batches(db.batches(name, columns), rows_until(db, name, db.val_timestamp)) if columns else None
        found[name] = {}
        for c in columns:
            assert sampler is not None
            kind = infer_kind(c, sampler.column(c, _arrow_type(table.columns[c])))
            found[name][c] = {"kind": kind.kind, "origin": kind.origin, "evidence": kind.evidence, "separator": kind.separator}
    (folder / "kinds.json").write_text(json.dumps(found))


def _arrow_type(name: str) -> pa.DataType:
    return {"int64": pa.int64(), "float64": pa.float64(), "bool": pa.bool_(), "string": pa.string(), "timestamp": pa.timestamp("us")}.get(
        name, pa.list_(pa.string())
    )


def rows_until(db: Database, table: str, time: Any) -> int:
    """How many leading rows have a time up to `time`: all of a timeless table, or if there is no such time.

    Rows are ordered by time with null times last, so those rows are a prefix.
    """
    column = db.table(table).time_col
    if column is None or time is None:
        return db.num_rows(table)
    limit = np.datetime64(time, "us").astype(np.int64)
    count = 0
    for batch in db.batches(table, [column]):
        known = pc.drop_null(batch.column(0)).cast(pa.int64()).to_numpy(zero_copy_only=False)
        inside = int(np.count_nonzero(known <= limit))
        count += inside
        if inside < batch.num_rows:
            break
    return count
