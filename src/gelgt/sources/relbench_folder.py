"""Opens a RelBench v3 folder.

A folder whose rows follow RelBench's contract (primary keys 0…n-1 in row order, rows ordered by
time, foreign keys holding row numbers) is used in place. A folder that does not, or whose manifest
was edited after the import, is imported again from its rows with the keys and times that the
manifest names. Column kinds that it does not name are inferred.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gelgt.errors import SourceError, did_you_mean
from gelgt.schema.manifest import MANIFEST, load_yaml, parse_schema
from gelgt.schema.model import ColumnKind, DatabaseSchema, Dating, Finding, TableSchema
from gelgt.sources.cache import build_folder, cache_root, hash_files
from gelgt.sources.canonical import ARROW_TYPES, canonical_name, canonical_type
from gelgt.sources.column_kinds import inferred_kinds
from gelgt.sources.database import Database
from gelgt.sources.dating import needs_dating, with_dating
from gelgt.sources.raw import RawTable, Splits
from gelgt.sources.row_times import RowTimes

DERIVED = 3  # raise it when what is derived from the same rows would come out differently


def is_relbench_folder(path: Path) -> bool:
    return (path / MANIFEST).is_file() and (path / "db").is_dir()


def read_folder(folder: Path, source: str) -> Database:
    """The database of a folder as its manifest states it; `follows_contract` says whether it can be
    used in place."""
    content = load_yaml(folder / MANIFEST)
    ours: dict[str, Any] = content.get("gelgt") or {}
    findings = [Finding(**entry) for entry in ours.get("findings") or []]
    db = Database(folder, _read_schema(folder, content), source, findings)
    if "format" in ours:
        db.follows_contract = not _is_edited(content)
        has_kinds = all(set(_features(t)) <= set(t.kinds) for t in db.schema.tables.values())
        if db.follows_contract and has_kinds and not needs_dating(db.schema):
            return db
    return _with_derived(db, trusted="format" in ours)


def _read_schema(folder: Path, content: Mapping[str, Any]) -> DatabaseSchema:
    columns = {name: _columns(folder, name) for name in content.get("tables") or {}}
    return parse_schema(content, columns, f"{folder.name}/{MANIFEST}")


def _columns(folder: Path, table: str) -> dict[str, str]:
    path = folder / "db" / f"{table}.parquet"
    if not path.is_file():
        there = [p.stem for p in (folder / "db").glob("*.parquet")]
        raise SourceError(
            "missing_table",
            f"{folder.name}/{MANIFEST} lists the table '{table}', but there is no db/{path.name}.",
            hint=did_you_mean(table, there),
        )
    try:
        schema = pq.read_schema(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise SourceError(
            "unreadable_file",
            f"{path} is not a readable Parquet file: {error}",
            hint="Write it again.",
        ) from None
    types = {field.name: canonical_type(field.type) for field in schema}
    return {name: canonical_name(arrow) for name, arrow in types.items() if arrow is not None}


def _is_edited(content: Mapping[str, Any]) -> bool:
    """Whether keys or times were changed by hand since gelgt numbered the rows by them."""
    for name, spec in content["tables"].items():
        mine = content["gelgt"]["tables"].get(name) or {}
        keys = {
            column: entry["table"] for column, entry in (mine.get("foreign_keys") or {}).items()
        }
        primary = "+".join((mine.get("primary_key") or {}).get("columns", ())) or None
        time = (mine.get("time_column") or {}).get("column")
        if (spec.get("pkey"), spec.get("time_col"), dict(spec.get("fkeys") or {})) != (
            primary,
            time,
            keys,
        ):
            return True
    return False


def _features(table: TableSchema) -> list[str]:
    return [c for c in table.columns if c not in table.key_columns]


def _with_derived(db: Database, trusted: bool) -> Database:
    """Add what a hosted manifest does not say: kinds, what dates tables without a time, and whether
    the rows follow the contract.

    Found once, then kept.
    """
    target = cache_root() / f"derived-v{DERIVED}" / db.cache_dir.name
    build_folder(target, lambda folder: _derive(db, folder))
    derived = json.loads((target / "derived.json").read_text())
    if not trusted and not derived["follows_contract"]:
        db.follows_contract = False
        return db
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
    known = Database(db.folder, replace(db.schema, tables=tables), db.source, db.import_findings)
    known.follows_contract = db.follows_contract
    return known


def _dating(entry: Mapping[str, Any] | None) -> Dating | None:
    return (
        None
        if entry is None
        else Dating(
            tuple(entry["keys"]), tuple(entry["pointers"]), entry["origin"], entry["evidence"]
        )
    )


def _derive(db: Database, folder: Path) -> None:
    contract = all(_follows_contract(db, table) for table in db.schema.tables.values())
    kinds: dict[str, dict[str, Any]] = {}
    schema = with_dating(db) if contract else db.schema
    dated = Database(db.folder, schema, db.source)
    times = RowTimes(dated)
    for name, table in db.schema.tables.items() if contract else ():
        columns = [c for c in _features(table) if c not in table.kinds]
        found = inferred_kinds(dated, name, columns, db.val_timestamp, times)
        kinds[name] = {
            c: {
                "kind": k.kind,
                "origin": k.origin,
                "evidence": k.evidence,
                "separator": k.separator,
            }
            for c, k in found.items()
        }
    dating = {
        name: asdict(table.dating)
        for name, table in schema.tables.items()
        if table.dating is not None
    }
    (folder / "derived.json").write_text(
        json.dumps({"kinds": kinds, "dating": dating, "follows_contract": contract})
    )


def _follows_contract(db: Database, table: TableSchema) -> bool:
    columns = [c for c in (table.pkey, table.time_col) if c]
    is_numbered = all(table.columns[fk.column] in ("int64", "float64") for fk in table.foreign_keys)
    if not is_numbered or (table.time_col and table.columns[table.time_col] != "timestamp"):
        return False
    row, last, ended = 0, None, False
    for batch in db.batches(table.name, columns) if columns else ():
        if table.pkey:
            keys = batch.column(table.pkey)
            if (
                keys.null_count
                or not pa.types.is_integer(keys.type)
                or not np.array_equal(keys.to_numpy(), np.arange(row, row + len(keys)))
            ):
                return False
        if table.time_col:
            times = batch.column(table.time_col)
            known = times.drop_null().cast(pa.int64()).to_numpy(zero_copy_only=False)
            nulls_last = times.null_count == 0 or not times.slice(0, len(known)).null_count
            if (
                (ended and len(known))
                or not nulls_last
                or np.any(np.diff(known) < 0)
                or (last is not None and len(known) and known[0] < last)
            ):
                return False
            ended, last = ended or times.null_count > 0, known[-1] if len(known) else last
        row += batch.num_rows
    return True


class FolderSource:
    """The rows of a RelBench folder with the user's own key values, to be imported anew."""

    def __init__(self, folder: Path, address: str) -> None:
        content = load_yaml(folder / MANIFEST)
        ours = content.get("gelgt") or {}
        before = {
            **content,
            "tables": _numbered_tables(content) if "format" in ours else content["tables"],
        }
        self.address = str(ours.get("source") or address)
        self.name = str(content.get("name") or folder.name)
        self._db = Database(folder, _read_schema(folder, before), self.address)
        self.splits: Splits | None = Splits(
            (self._db.schema.val_timestamp, self._db.schema.test_timestamp),
            self._db.schema.split_origin,
        )
        self.folder = folder
        self._is_numbered = "format" in ours

    def tables(self, only: Sequence[str] | None = None) -> list[RawTable]:
        return [self._table(table) for table in self._db.schema.tables.values()]

    def _table(self, table: TableSchema) -> RawTable:
        originals = self._originals(table) if self._is_numbered else {}
        # Columns that only gelgt needed (composite and shared keys) are dropped; the user's own
        # come back.
        own = {
            fk.stored or ("+".join(fk.columns) if len(fk.columns) > 1 else "")
            for fk in table.foreign_keys
        }
        if table.primary_key and len(table.primary_key.columns) > 1:
            own.add("+".join(table.primary_key.columns))
        columns = {
            c: originals[c].type if c in originals else ARROW_TYPES[t]
            for c, t in table.columns.items()
            if c not in own or not self._is_numbered
        }

        def batches() -> Iterator[pa.RecordBatch]:
            row = 0
            for batch in self._db.batches(table.name, list(columns)):
                arrays = [
                    originals[c].slice(row, batch.num_rows) if c in originals else batch.column(c)
                    for c in columns
                ]
                yield pa.RecordBatch.from_arrays(arrays, names=list(columns))
                row += batch.num_rows

        return RawTable(table.name, columns, batches)

    def _originals(self, table: TableSchema) -> dict[str, pa.Array]:
        found: dict[str, pa.Array] = {}
        keys = self._db.keys(table.name)
        if keys is not None and table.primary_key and len(table.primary_key.columns) == 1:
            found[keys.column_names[0]] = keys.column(0).combine_chunks()
        for fk in table.foreign_keys:
            if fk.stored or len(fk.columns) > 1:
                continue
            parent = self._db.keys(fk.table)
            key = self._db.table(fk.table).primary_key or table.primary_key
            assert key is not None  # a foreign key refers to some key
            if fk.referred and fk.referred != key.columns:
                parent = self._db.read(fk.table, list(fk.referred))
            if parent is not None:
                rows = self._db.read(table.name, [fk.column]).column(0).combine_chunks()
                found[fk.column] = parent.column(0).combine_chunks().take(rows)
        return found

    def content_key(self) -> str | None:
        extra = f"{(self.folder / MANIFEST).read_text(encoding='utf-8')}"
        keys = self.folder / "gelgt" / "keys"
        return hash_files(
            [
                *(self.folder / "db").glob("*.parquet"),
                *(keys.glob("*.parquet") if keys.is_dir() else ()),
            ],
            extra=extra,
        )

    def __enter__(self) -> "FolderSource":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None


def _numbered_tables(content: Mapping[str, Any]) -> dict[str, Any]:
    """The tables as gelgt numbered them, before any edit."""
    tables = {}
    for name in content["tables"]:
        mine = content["gelgt"]["tables"].get(name) or {}
        tables[name] = {
            "pkey": "+".join((mine.get("primary_key") or {}).get("columns", ())) or None,
            "time_col": (mine.get("time_column") or {}).get("column"),
            "fkeys": {
                column: entry["table"] for column, entry in (mine.get("foreign_keys") or {}).items()
            },
        }
    return tables


def folder_source(
    folder: Path,
    address: str,
    stated: Mapping[str, Mapping[str, Any]],
    only: list[str] | None = None,
) -> tuple[FolderSource, dict[str, dict[str, Any]]]:
    """A folder to import anew, with the manifest's keys, times and kinds as the user's statement;
    `stated` goes before them.

    What the manifest says about tables that are not among `only`, where it is given, is left out.
    """
    content = load_yaml(folder / MANIFEST)
    ours = (content.get("gelgt") or {}).get("tables") or {}
    merged: dict[str, dict[str, Any]] = {}
    wanted = {
        name: spec for name, spec in content["tables"].items() if only is None or name in only
    }
    for name, spec in wanted.items():
        kinds = {
            c: k if isinstance(k, str) else k["kind"]
            for c, k in ((ours.get(name) or {}).get("kinds") or {}).items()
        }
        links = {c: table for c, table in (spec.get("fkeys") or {}).items() if table in wanted}
        fkeys = {_user_columns(c, ours.get(name) or {}): table for c, table in links.items()}
        pkey = spec.get("pkey")
        mine = (ours.get(name) or {}).get("primary_key") or {}
        if pkey and "+".join(mine.get("columns", ())) == pkey:
            pkey = list(mine["columns"])
        keyed = {c for key in fkeys for c in key.split("+")} | set(
            pkey if isinstance(pkey, list) else [pkey]
        )
        merged[name] = {
            "pkey": pkey,
            "time_col": spec.get("time_col"),
            "fkeys": fkeys,
            "kinds": {c: k for c, k in kinds.items() if c not in keyed},
        }
        if "dated_by" in (ours.get(name) or {}):
            merged[name]["dated_by"] = ours[name]["dated_by"]
        more = dict(stated.get(name) or {})
        merged[name]["kinds"] |= more.pop("kinds", None) or {}
        merged[name] |= more
    merged |= {name: dict(entry) for name, entry in stated.items() if name not in merged}
    return FolderSource(folder, address), merged


def _user_columns(column: str, mine: Mapping[str, Any]) -> str:
    entry = (mine.get("foreign_keys") or {}).get(column) or {}
    return "+".join(entry.get("columns") or (column,))
