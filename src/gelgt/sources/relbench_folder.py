"""Opens a RelBench v3 folder in place.

That needs rows that follow RelBench's contract: primary keys 0…n-1 in row order, rows ordered by
time, foreign keys holding row numbers. A folder that does not follow it, or whose manifest was
edited after the import, is imported again (`folder_import.py`). Column kinds that the manifest does
not name are inferred.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from gelgt.errors import SchemaError, SourceError, did_you_mean
from gelgt.schema.manifest import MANIFEST, load_yaml, parse_schema
from gelgt.schema.model import ColumnKind, DatabaseSchema, Dating, Finding, TableSchema
from gelgt.schema.shape import shaped
from gelgt.sources.cache import build_folder, cache_root
from gelgt.sources.canonical import canonical_name, canonical_type
from gelgt.sources.column_kinds import inferred_kinds
from gelgt.sources.database import Database
from gelgt.sources.dating import needs_dating, with_dating
from gelgt.sources.readable import parquet_schema
from gelgt.sources.row_times import RowTimes

DERIVED = 4  # raise it when what is derived from the same rows would come out differently


def is_relbench_folder(path: Path) -> bool:
    return (path / MANIFEST).is_file() and (path / "db").is_dir()


def read_folder(folder: Path, source: str) -> Database:
    """The database of a folder as its manifest states it; `follows_contract` says whether it can be
    used in place."""
    content = load_yaml(folder / MANIFEST)
    with shaped(str(folder / MANIFEST), kind=SchemaError):
        extra: dict[str, Any] = content.get("gelgt") or {}
        findings = [Finding(**entry) for entry in extra.get("findings") or []]
        db = Database(folder, read_schema(folder, content), source, findings)
        is_imported = "format" in extra
        if is_imported:
            db.follows_contract = not _is_edited(content)
            has_kinds = all(set(_features(t)) <= set(t.kinds) for t in db.schema.tables.values())
            if db.follows_contract and has_kinds and not needs_dating(db.schema):
                return db
    return _with_derived(db, is_imported)


def read_schema(folder: Path, content: Mapping[str, Any]) -> DatabaseSchema:
    """The schema in a manifest, with the columns of the folder's files."""
    columns = {name: _columns(folder, name) for name in content.get("tables") or {}}
    return parse_schema(content, columns, f"{folder.name}/{MANIFEST}")


def _columns(folder: Path, table: str) -> dict[str, str]:
    path = folder / "db" / f"{table}.parquet"
    if not path.is_file():
        stems = [p.stem for p in (folder / "db").glob("*.parquet")]
        raise SourceError(
            "missing_table",
            f"{folder.name}/{MANIFEST} lists the table '{table}', but there is no db/{path.name}.",
            hint=did_you_mean(table, stems),
        )
    schema = parquet_schema(path)
    types = {field.name: canonical_type(field.type) for field in schema}
    return {name: canonical_name(arrow) for name, arrow in types.items() if arrow is not None}


def _is_edited(content: Mapping[str, Any]) -> bool:
    """Whether keys or times were changed by hand since gelgt numbered the rows by them."""
    imported = imported_tables(content)
    return any(
        imported[name]
        != {
            "pkey": spec.get("pkey"),
            "time_col": spec.get("time_col"),
            "fkeys": dict(spec.get("fkeys") or {}),
        }
        for name, spec in content["tables"].items()
    )


def imported_tables(content: Mapping[str, Any]) -> dict[str, Any]:
    """Keys and times of the tables when gelgt imported them, before any edit."""
    tables = {}
    for name in content["tables"]:
        entry = content["gelgt"]["tables"].get(name) or {}
        keys = entry.get("foreign_keys") or {}
        tables[name] = {
            "pkey": "+".join((entry.get("primary_key") or {}).get("columns", ())) or None,
            "time_col": (entry.get("time_column") or {}).get("column"),
            "fkeys": {column: key["table"] for column, key in keys.items()},
        }
    return tables


def _features(table: TableSchema) -> list[str]:
    return [c for c in table.columns if c not in table.key_columns]


def _with_derived(db: Database, is_imported: bool) -> Database:
    """The database with what RelBench's manifest lacks: kinds, and what dates tables without a
    time; and whether the rows follow the contract, which those of an import do.

    Derived once and cached.
    """
    target = cache_root() / f"derived-v{DERIVED}" / db.cache_dir.name
    build_folder(target, lambda folder: _derive(db, folder), is_sealed=True)
    derived = json.loads((target / "derived.json").read_text())
    if not is_imported and not derived["follows_contract"]:
        db.follows_contract = False
        return db
    _check_kinds(db, derived["kinds"])
    tables = {
        name: replace(
            table,
            kinds={
                c: table.kinds.get(c) or ColumnKind(**derived["kinds"][name][c])
                for c in _features(table)
            },
            dating=table.dating or _dating(derived["dating"].get(name)),
        )
        for name, table in db.schema.tables.items()
    }
    complete = Database(db.folder, replace(db.schema, tables=tables), db.source, db.import_findings)
    complete.follows_contract = db.follows_contract
    return complete


def _check_kinds(db: Database, derived: Mapping[str, Mapping[str, Any]]) -> None:
    """An import has the kinds of its columns; one whose manifest was changed may lack some."""
    for name, table in db.schema.tables.items():
        for column in _features(table):
            if column not in table.kinds and column not in derived.get(name, {}):
                raise SourceError(
                    "bad_manifest",
                    f"{db.folder}: manifest.yaml says of '{name}' that its column '{column}' is "
                    "neither key nor time, but not of which kind it is.",
                    hint="Undo the change of manifest.yaml, or import the source again with "
                    "--schema.",
                )


def _dating(entry: Mapping[str, Any] | None) -> Dating | None:
    if entry is None:
        return None
    keys, pointers = tuple(entry["keys"]), tuple(entry["pointers"])
    required = tuple(tuple(group) for group in entry["required"])
    return Dating(keys, pointers, entry["origin"], entry["evidence"], required, entry["rule"])


def _derive(db: Database, folder: Path) -> None:
    contract = all(_follows_contract(db, table) for table in db.schema.tables.values())
    kinds: dict[str, dict[str, Any]] = {}
    schema = with_dating(db, is_relbench=True) if contract else db.schema
    dated = Database(db.folder, schema, db.source)
    times = RowTimes(dated)
    for name, table in db.schema.tables.items() if contract else ():
        columns = [c for c in _features(table) if c not in table.kinds]
        inferred = inferred_kinds(dated, name, columns, db.val_timestamp, times)
        kinds[name] = {c: asdict(kind) for c, kind in inferred.items()}
    dating = {
        name: asdict(table.dating)
        for name, table in schema.tables.items()
        if table.dating is not None
    }
    (folder / "derived.json").write_text(
        json.dumps({"kinds": kinds, "dating": dating, "follows_contract": contract})
    )


def _follows_contract(db: Database, table: TableSchema) -> bool:
    columns = list(dict.fromkeys(c for c in (table.pkey, table.time_col) if c))
    is_numbered = all(table.columns[fk.column] in ("int64", "float64") for fk in table.foreign_keys)
    if not is_numbered or (table.time_col and table.columns[table.time_col] != "timestamp"):
        return False
    row, times = 0, _SortedTimes()
    for batch in db.batches(table.name, columns) if columns else ():
        if table.pkey and not _numbers_rows(batch.column(table.pkey), row):
            return False
        if table.time_col and not times.follows(batch.column(table.time_col)):
            return False
        row += batch.num_rows
    return True


def _numbers_rows(keys: pa.Array, first: int) -> bool:
    """Whether keys are the numbers from `first` on."""
    if keys.null_count or not pa.types.is_integer(keys.type):
        return False
    return bool(np.array_equal(keys.to_numpy(), np.arange(first, first + len(keys))))


class _SortedTimes:
    """Checks, batch by batch, that times ascend and null times come last."""

    def __init__(self) -> None:
        self._latest: int | None = None
        self._has_null = False

    def follows(self, times: pa.Array) -> bool:
        """Whether a batch continues in order."""
        values = times.drop_null().cast(pa.int64()).to_numpy(zero_copy_only=False)
        if len(values):
            is_late = self._latest is None or values[0] >= self._latest
            if self._has_null or not is_late or np.any(np.diff(values) < 0):
                return False
            self._latest = values[-1]
        has_nulls_last = bool(times.slice(0, len(values)).null_count == 0)
        self._has_null = self._has_null or times.null_count > 0
        return has_nulls_last
