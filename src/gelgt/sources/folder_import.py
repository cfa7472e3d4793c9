"""A RelBench folder as a source, to be imported again: with the keys and times that its manifest
names now, and the user's key values instead of row numbers."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from gelgt.schema.manifest import MANIFEST, load_yaml
from gelgt.schema.model import TableSchema
from gelgt.schema.shape import shaped
from gelgt.sources.cache import hash_files
from gelgt.sources.canonical import ARROW_TYPES
from gelgt.sources.database import Database
from gelgt.sources.raw import RawTable, Splits, StaticSource
from gelgt.sources.relbench_folder import imported_tables, read_schema
from gelgt.sources.state import SourceState, files_state


class FolderSource(StaticSource):
    """The rows of a RelBench folder with the user's key values, to be imported again."""

    def __init__(self, folder: Path, address: str) -> None:
        content = load_yaml(folder / MANIFEST)
        extra = content.get("gelgt") or {}
        self._is_imported = "format" in extra
        tables = imported_tables(content) if self._is_imported else content["tables"]
        self.address = str(extra.get("source") or address)
        self.name = str(content.get("name") or folder.name)
        schema = read_schema(folder, {**content, "tables": tables})
        self._db = Database(folder, schema, self.address)
        self.splits = Splits((schema.val_timestamp, schema.test_timestamp), schema.split_origin)
        self.folder = folder

    def table_names(self) -> list[str]:
        return list(self._db.schema.tables)

    def tables(self, only: Sequence[str] | None = None) -> list[RawTable]:
        return [self._table(table) for table in self._db.schema.tables.values()]

    def _table(self, table: TableSchema) -> RawTable:
        originals = self._originals(table) if self._is_imported else {}
        added = _added_columns(table) if self._is_imported else set()
        columns = {
            c: originals[c].type if c in originals else ARROW_TYPES[t]
            for c, t in table.columns.items()
            if c not in added
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
        """The user's values of key columns, which hold row numbers in the folder."""
        originals: dict[str, pa.Array] = {}
        keys = self._db.keys(table.name)
        if keys is not None and table.primary_key and len(table.primary_key.columns) == 1:
            originals[keys.column_names[0]] = keys.column(0).combine_chunks()
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
                originals[fk.column] = parent.column(0).combine_chunks().take(rows)
        return originals

    def state(self) -> SourceState | None:
        return files_state([self.folder / MANIFEST, *self._files()])

    def content_key(self) -> str | None:
        return hash_files(self._files(), extra=(self.folder / MANIFEST).read_text(encoding="utf-8"))

    def _files(self) -> list[Path]:
        keys = self.folder / "gelgt" / "keys"
        return [
            *(self.folder / "db").glob("*.parquet"),
            *(keys.glob("*.parquet") if keys.is_dir() else ()),
        ]


def _added_columns(table: TableSchema) -> set[str]:
    """Columns that gelgt added for composite and shared keys."""
    added = {
        fk.stored or ("+".join(fk.columns) if len(fk.columns) > 1 else "")
        for fk in table.foreign_keys
    }
    if table.primary_key and len(table.primary_key.columns) > 1:
        added.add("+".join(table.primary_key.columns))
    return added


def folder_source(
    folder: Path,
    address: str,
    stated: Mapping[str, Mapping[str, Any]],
    only: list[str] | None = None,
) -> tuple[FolderSource, dict[str, dict[str, Any]]]:
    """A folder to import again, and what to state about its tables: the keys, times and kinds of
    its manifest, and `stated`, which counts more.

    What the manifest says about tables that are not among `only`, where it is given, is left out.
    """
    content = load_yaml(folder / MANIFEST)
    with shaped(str(folder / MANIFEST)):
        extra = (content.get("gelgt") or {}).get("tables") or {}
        specs = {
            name: spec for name, spec in content["tables"].items() if only is None or name in only
        }
        statements = {
            name: _statement(spec, extra.get(name) or {}, specs) for name, spec in specs.items()
        }
    merged: dict[str, dict[str, Any]] = {}
    for name, statement in statements.items():
        merged[name] = statement
        further = dict(stated.get(name) or {})
        merged[name]["kinds"] |= further.pop("kinds", None) or {}
        merged[name] |= further
    merged |= {name: dict(entry) for name, entry in stated.items() if name not in merged}
    return FolderSource(folder, address), merged


def _statement(
    spec: Mapping[str, Any], extra: Mapping[str, Any], tables: Mapping[str, Any]
) -> dict[str, Any]:
    """What a manifest says about a table, in the form of `schema=`; keys to tables that are not
    read are left out."""
    fkeys = {
        _user_columns(column, extra): table
        for column, table in (spec.get("fkeys") or {}).items()
        if table in tables
    }
    pkey, time = spec.get("pkey"), spec.get("time_col")
    if not isinstance(time, str | None):
        raise TypeError(f"{time!r} as the time column")
    imported = (extra.get("primary_key") or {}).get("columns", ())
    if pkey and "+".join(imported) == pkey:
        pkey = list(imported)
    keys = {c for key in fkeys for c in key.split("+")} | set(
        pkey if isinstance(pkey, list) else [pkey]
    )
    kinds = {
        c: kind if isinstance(kind, str) else kind["kind"]
        for c, kind in (extra.get("kinds") or {}).items()
        if c not in keys
    }
    statement = {
        "pkey": pkey,
        "time_col": time,
        "fkeys": fkeys,
        "kinds": kinds,
    }
    return statement | ({"dated_by": extra["dated_by"]} if "dated_by" in extra else {})


def _user_columns(column: str, extra: Mapping[str, Any]) -> str:
    entry = (extra.get("foreign_keys") or {}).get(column) or {}
    return "+".join(entry.get("columns") or (column,))
