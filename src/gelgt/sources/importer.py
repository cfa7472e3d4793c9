"""Imports any source into a RelBench v3 folder, the format that gelgt works on.

    stage      rows stream to Arrow files in canonical types                         (stage.py)
    resolve    keys and times: stated, declared or inferred                          (resolve.py)
    check      primary keys are unique and filled, referred columns are unique       (check.py)
    order      rows by (time, key, all columns), foreign keys become row numbers: one DuckDB query
               a table, on disk where memory is short                                (order.py)
    describe   split times, column kinds, what dates tables without a time, findings, manifest

The folder is built under a temporary name and renamed when whole. Memory is bounded by a batch and
DuckDB's limit.
"""

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from gelgt.errors import GelgtError, SourceError, did_you_mean
from gelgt.memory import check_memory
from gelgt.schema.manifest import MANIFEST, dump_yaml, schema_to_dict
from gelgt.schema.model import DatabaseSchema, Finding
from gelgt.sources.cache import build_folder, cache_root, hash_files, scratch_folder, text_key
from gelgt.sources.check import check_keys, check_names
from gelgt.sources.column_kinds import inferred_kinds
from gelgt.sources.database import Database
from gelgt.sources.dating import with_dating
from gelgt.sources.duckdb_engine import LEAST_MEMORY, connect
from gelgt.sources.order import TableWriter
from gelgt.sources.probe import StagedProbe
from gelgt.sources.raw import RawTable, Source
from gelgt.sources.resolve import Stated, check_stated, resolve, stated_kinds
from gelgt.sources.row_times import RowTimes
from gelgt.sources.splits import split_times
from gelgt.sources.stage import StagedTable, stage_table
from gelgt.sources.state import SourceState
from gelgt.sources.table_file import batch_rows
from gelgt.sources.unchanged import Counted, Import, Records, Watch, content_hash

_NO_COLUMNS = "it has no columns that can be read: it is left out"
FORMAT = 5  # raise it when an import of the same rows would come out differently


class _Reading(NamedTuple):
    """The rows of a source on disk, before they are ordered."""

    tables: dict[str, StagedTable]
    left_out: list[Finding]  # about tables of which no column can be read
    unread: tuple[str, ...]
    state: SourceState | None  # that they were read in, where it is certain
    census: dict[str, Any] | None


def import_source(
    source: Source,
    out: Path | None = None,
    stated: Stated | None = None,
    only: list[str] | None = None,
    *,
    fresh: bool = False,
) -> Import:
    """Import a source to `out`, or to the cache under a key of its content.

    Args:
        source: A source, not yet entered.
        out: A folder that does not exist or is empty.
        stated: Keys, times and kinds that the user states (see resolve.py).
        only: Names of the tables to import; all by default.
        fresh: Read the source even if the cache holds an import of its present state.

    Raises:
        GelgtError: ``source_changed`` where files changed while they were read, and others.
    """
    stated = stated or {}
    if out is None:
        return _import_to_cache(source, stated, only, fresh)
    _refuse_existing(out)
    with scratch_folder(out.resolve().parent, "gelgt-import") as work:
        reading = _read(source, Watch(source, source.state()), work, stated, only)
        if out.exists():
            out.rmdir()  # it is empty
        build_folder(out, lambda folder: _write(folder, reading, stated, source, work))
    return Import(out, reading.unread)


def _import_to_cache(source: Source, stated: Stated, only: list[str] | None, fresh: bool) -> Import:
    imports, options = cache_root() / "imports", _options(source, stated, only)
    records, state = Records(source, options), source.state()
    if not fresh and (imported := records.find(state)) is not None:
        return imported
    watch, content = Watch(source, state), source.content_key()
    if content is not None and not fresh:
        target = imports / text_key(f"{content} {options}")
        if records.is_whole(target) and watch.confirm():
            imported = Import(target, _unread(source, only))
            records.add(imported, state, watch.content)
            return imported
    with scratch_folder(imports, "gelgt-import") as work:
        reading = _read(source, watch, work, stated, only)
        target = imports / text_key(f"{content or _staged_key(reading.tables)} {options}")
        if target.exists() and not records.is_whole(target):
            shutil.rmtree(target)
        build_folder(target, lambda folder: _write(folder, reading, stated, source, work))
    imported = Import(target, reading.unread)
    records.add(imported, reading.state, watch.content, reading.census)
    return imported


def recorded_import(source: Source) -> Import | None:
    """The import of all that a source holds now, where the cache has it; nothing is read."""
    return Records(source, _options(source, {}, None)).find(source.state())


def _options(source: Source, stated: Stated, only: list[str] | None) -> str:
    return f"{FORMAT} {sorted(only) if only else 'all'} {_frozen(stated)} {source.splits}"


def _read(
    source: Source, watch: Watch, work: Path, stated: Stated, only: list[str] | None
) -> _Reading:
    with source:
        try:
            raw, left_out = _raw_tables(source, only)
            tables = _stage(raw, work, stated)
        except (GelgtError, OSError):
            watch.confirm()
            raise
        state = watch.state if watch.confirm() else None
        unread, census = _unread(source, only), None
        if any(table.is_view for table in raw.values()):
            state = None
        elif isinstance(source, Counted) and (census := source.census(raw)) is not None:
            state = source.state()  # of the transaction that has read the rows
        return _Reading(tables, left_out, unread, state, census)


def _unread(source: Source, only: list[str] | None) -> tuple[str, ...]:
    """The tables of a source that were not asked for."""
    return () if only is None else tuple(n for n in source.table_names() if n not in only)


def _with_dating(db: Database, stated: Stated) -> DatabaseSchema:
    """The schema with what dates tables that have no time; their kinds then come from rows up to
    the validation time too."""
    schema = with_dating(db)
    dated = Database(db.folder, schema, db.source)
    times, tables = RowTimes(dated), dict(schema.tables)
    for name, table in schema.tables.items():
        if table.dating_keys:
            columns = [c for c in table.kinds if c not in stated_kinds(stated, name)]
            kinds = inferred_kinds(dated, name, columns, db.val_timestamp, times)
            tables[name] = replace(table, kinds={**table.kinds, **kinds})
    return replace(schema, tables=tables)


def _refuse_existing(out: Path) -> None:
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise SourceError(
            "exists",
            f"{out} already exists and is not empty.",
            hint="Choose another folder or remove it first.",
        )


def _frozen(value: Any) -> str:
    """A text of a statement, for a cache key; the order of its keys does not matter."""
    if not isinstance(value, Mapping):
        return repr(value)
    items = sorted(value.items(), key=lambda item: str(item[0]))
    return "{" + ", ".join(f"{k!r}: {_frozen(v)}" for k, v in items) + "}"


def _staged_key(staged: Mapping[str, StagedTable]) -> str:
    """The content key of a source that has none before it is read: of its staged rows and keys."""
    declared = [
        (name, list(t.columns), t.primary_key, t.foreign_keys) for name, t in staged.items()
    ]
    return hash_files([t.path for t in staged.values()], extra=repr(declared))


def _raw_tables(
    source: Source, only: list[str] | None
) -> tuple[dict[str, RawTable], list[Finding]]:
    """The tables to read, and findings about those that are left out because none of their columns
    can be read."""
    raw = {table.name: table for table in sorted(source.tables(only), key=lambda t: t.name)}
    if only is not None:
        for name in only:
            if name not in raw:
                raise SourceError(
                    "unknown_table",
                    f"{source.address} has no table '{name}'.",
                    hint=did_you_mean(name, raw),
                )
        raw = {name: table for name, table in raw.items() if name in only}
    left_out = [
        f
        for t in raw.values()
        if not t.columns
        for f in t.findings or (Finding("no_columns", t.name, message=_NO_COLUMNS),)
    ]
    if (only is not None and left_out) or len({f.table for f in left_out}) == len(raw):
        raise SourceError(
            left_out[0].code,
            f"{source.address}: table '{left_out[0].table}': {left_out[0].message}.",
            hint="Read other tables.",
        )
    return {name: table for name, table in raw.items() if table.columns}, left_out


def _stage(raw: Mapping[str, RawTable], work: Path, stated: Stated) -> dict[str, StagedTable]:
    """The tables on disk."""
    check_names({name: table.columns for name, table in raw.items()})
    check_stated(stated, {name: table.columns for name, table in raw.items()})
    kinds = {name: {c: k.kind for c, k in stated_kinds(stated, name).items()} for name in raw}
    return {
        name: stage_table(table, work, i, kinds[name])
        for i, (name, table) in enumerate(raw.items())
    }


def _write(folder: Path, *arguments: Any) -> None:
    """Write the folder; DuckDB's errors about disk and memory become the system's."""
    import duckdb

    check_memory(_needed_memory(arguments[0].tables), "Importing these tables")
    try:
        _write_folder(folder, *arguments)
    except (duckdb.IOException, duckdb.OutOfMemoryException) as error:
        raise OSError(str(error)) from error


def _needed_memory(staged: Mapping[str, StagedTable]) -> int:
    """Bytes: libraries, DuckDB's least share, and a few batches of the widest table, whatever the
    number of rows; an estimate, below what docs/benchmarks.md measured."""
    sizes = [(len(table.columns), table.rows) for table in staged.values()]
    widest = max(width * min(rows, batch_rows(width)) for width, rows in sizes)
    return (256 << 20) + LEAST_MEMORY + 6 * 16 * widest


def _write_folder(
    folder: Path, reading: _Reading, stated: Stated, source: Source, work: Path
) -> None:
    staged = reading.tables
    with connect(work / "spill") as connection:
        probe = StagedProbe(connection, staged)
        tables = resolve(staged, stated, probe)
        check_keys(tables, probe)
        val, test = split_times(tables, probe) if source.splits is None else source.splits.times
        written = TableWriter(tables, probe, folder, work, val).write()
    findings = reading.left_out + [f for t in staged.values() for f in t.findings]
    findings += [f for _, noticed in written.values() for f in noticed]
    schema = DatabaseSchema(
        source.name,
        {name: table for name, (table, _) in written.items()},
        val,
        test,
        split_origin=source.splits.origin if source.splits else "inferred",
    )
    schema = _with_dating(Database(folder, schema, source.address), stated)
    content = schema_to_dict(schema)
    content["gelgt"] |= {
        "format": FORMAT,
        "source": source.address,
        "content_hash": content_hash(folder),
        "findings": [f.to_dict() for f in findings],
    }
    dump_yaml(content, folder / MANIFEST)
