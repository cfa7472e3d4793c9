"""Imports any source into a RelBench v3 folder, the format that gelgt works on.

    stage      rows stream to Arrow files in canonical types                         (stage.py)
    resolve    keys and times: stated, declared or inferred                          (resolve.py)
    check      primary keys are unique and filled, referred columns are unique       (check.py)
    order      rows by (time, key, all columns), foreign keys become row numbers: one DuckDB query
               a table, on disk where memory is short                                (order.py)
    describe   split times, column kinds, what dates tables without a time, which dates are unknown
               ahead (event_dates.py), findings, manifest

The folder is built under a temporary name and renamed when whole. Memory is bounded by a batch and
DuckDB's limit.
"""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gelgt.memory import check_memory, too_little_memory
from gelgt.schema.manifest import MANIFEST, dump_yaml, schema_to_dict
from gelgt.schema.model import DatabaseSchema
from gelgt.sources.as_read import TableRead, write_as_read
from gelgt.sources.cache import (
    build_folder,
    build_new,
    cache_root,
    check_new,
    scratch_folder,
    sweep,
    text_key,
)
from gelgt.sources.check import check_keys
from gelgt.sources.column_kinds import inferred_kinds
from gelgt.sources.database import Database
from gelgt.sources.dating import with_dating
from gelgt.sources.digest import DifferentRowsError
from gelgt.sources.duckdb_engine import LEAST_MEMORY, connect
from gelgt.sources.event_dates import with_event_dates
from gelgt.sources.order import Writing
from gelgt.sources.probe import StagedProbe
from gelgt.sources.processes import Processes
from gelgt.sources.raw import Source, Splits
from gelgt.sources.reading import Reading, read_source, stage_tables, unread_tables
from gelgt.sources.resolve import Stated, as_tuple, resolve, stated_kinds
from gelgt.sources.row_times import NEVER, RowTimes, text_of
from gelgt.sources.splits import split_times
from gelgt.sources.stage import StagedTable
from gelgt.sources.state import SourceState
from gelgt.sources.table_file import batch_rows
from gelgt.sources.time_columns import Times
from gelgt.sources.unchanged import Import, Kept, Records, Watch, content_hash
from gelgt.sources.write_tables import write_tables

FORMAT = 8  # raise it when an import of the same rows would come out differently


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
    sweep(out.resolve().parent, "gelgt-import")
    check_new(out)
    with scratch_folder(out.resolve().parent, "gelgt-import") as work, Processes(work) as processes:
        watch = Watch(source, source.state())
        reading = _read(source, watch, only, stated, processes)
        build_new(out, lambda folder: _write_whole(folder, reading, stated, source, processes))
    return Import(out, reading.unread)


def _import_to_cache(source: Source, stated: Stated, only: list[str] | None, fresh: bool) -> Import:
    imports, options = cache_root() / "imports", _options(stated, only, source.splits)
    records, state = Records(source, options), source.state()
    if not fresh and (imported := records.find(state)) is not None:
        return imported
    if not fresh:
        kept = records.last() or Records(source, None).last()
        imported = None if kept is None else _grow(source, state, kept, records, stated, only)
        if imported is not None:
            return imported
    watch, content = Watch(source, state), source.content_key()
    if content is not None and not fresh:
        target = imports / text_key(f"{content} {options}")
        if records.is_whole(target) and watch.confirm():
            imported = Import(target, unread_tables(source, only))
            records.add(imported, state, watch.content)
            return imported
    with scratch_folder(imports, "gelgt-import") as work, Processes(work) as processes:
        reading = _read(source, watch, only, stated, processes)
        target = imports / text_key(f"{content or _staged_key(reading.tables)} {options}")
        if target.exists() and not records.is_whole(target):
            shutil.rmtree(target)
        build_folder(
            target, lambda folder: _write_whole(folder, reading, stated, source, processes)
        )
    imported = Import(target, reading.unread)
    records.add(imported, reading.state, watch.content, reading.census, reading.mark)
    return imported


def _read(
    source: Source, watch: Watch, only: list[str] | None, stated: Stated, processes: Processes
) -> Reading:
    """All rows of a source on disk."""
    return read_source(
        source,
        watch,
        only,
        lambda raw: stage_tables(raw, processes.folder, stated, processes),
        processes,
    )


def recorded_import(source: Source) -> Import | None:
    """The last import of what a source holds now, whatever its options, where the cache has it;
    nothing is read."""
    return Records(source, None).find(source.state())


def _options(stated: Stated, only: list[str] | None, splits: Splits | None) -> str:
    return f"{FORMAT} {sorted(only) if only else 'all'} {_frozen(stated)} {splits}"


def _grow(
    source: Source,
    state: SourceState | None,
    kept: Kept,
    records: Records,
    stated: Stated,
    only: list[str] | None,
) -> Import | None:
    """The import of a source that has new rows since an older one, by adding these; None where that
    cannot be done."""
    from gelgt.sources.grow import base_import, read_new, write_grown
    from gelgt.sources.growth import is_whole_growth

    base = base_import(kept, source, stated, only)
    if base is None:
        return None
    watch, imports = Watch(source, state), cache_root() / "imports"
    try:
        with scratch_folder(imports, "gelgt-import") as work:
            reading = read_source(
                source, watch, only, lambda raw: read_new(base, source, raw, work, stated)
            )
            target = base.db.folder
            if any(table.rows for table in reading.tables.values()):
                target = imports / text_key(f"{target.name} {_staged_key(reading.tables)}")
                if target.exists() and not is_whole_growth(target):
                    shutil.rmtree(target)
                build_folder(
                    target,
                    lambda folder: _write(
                        reading, lambda: write_grown(folder, base, reading, source, work)
                    ),
                )
    except DifferentRowsError:
        return None
    imported = Import(target, reading.unread)
    records.add(imported, reading.state, watch.content, reading.census, reading.mark)
    return imported


def _with_dating(
    db: Database, stated: Stated, chosen: Times, lost: Mapping[tuple[str, str], int]
) -> DatabaseSchema:
    """The schema with what dates tables that have no time, and with the dates that a model must not
    know ahead. The kinds of dated tables then come from rows up to the validation time too."""
    follows = {
        (name, column)
        for name, entry in stated.items()
        for column in as_tuple(entry.get("follows"))
    }
    schema = with_dating(db, chosen.until, lost, follows, chosen.vetoed)
    dated = Database(db.folder, schema, db.source)
    times, tables = RowTimes(dated), dict(schema.tables)
    for name, table in schema.tables.items():
        if table.is_dated:
            columns = [c for c in table.kinds if c not in stated_kinds(stated, name)]
            kinds = inferred_kinds(dated, name, columns, db.val_timestamp, times)
            tables[name] = replace(table, kinds={**table.kinds, **kinds})
    dated = Database(db.folder, replace(schema, tables=tables), db.source)
    return with_event_dates(dated, stated, NEVER - 1 if chosen.until is None else chosen.until)


def _frozen(value: Any) -> str:
    """A text of a statement, for a cache key; the order of its keys does not matter."""
    if not isinstance(value, Mapping):
        return repr(value)
    items = sorted(value.items(), key=lambda item: str(item[0]))
    return "{" + ", ".join(f"{k!r}: {_frozen(v)}" for k, v in items) + "}"


def _staged_key(staged: Mapping[str, StagedTable]) -> str:
    """The content key of a source that has none before it is read: of its rows and keys."""
    tables = [
        (name, list(t.columns), t.primary_key, t.foreign_keys, t.digests)
        for name, t in staged.items()
    ]
    return text_key(repr(tables))


def _write(reading: Reading, write: Callable[[], None]) -> None:
    """Write a folder; DuckDB's errors about disk and memory become gelgt's."""
    import duckdb

    check_memory(_needed_memory(reading.tables), "Importing these tables")
    try:
        write()
    except duckdb.OutOfMemoryException as error:
        raise too_little_memory("Importing these tables", str(error)) from error
    except duckdb.IOException as error:
        raise OSError(str(error)) from error


def _write_whole(folder: Path, reading: Reading, *arguments: Any) -> None:
    _write(reading, lambda: _write_folder(folder, reading, *arguments))


def _needed_memory(staged: Mapping[str, StagedTable]) -> int:
    """Bytes: libraries, DuckDB's least share, and a few batches of the widest table, whatever the
    number of rows; an estimate, below what docs/benchmarks.md measured."""
    sizes = [(len(table.columns), table.rows) for table in staged.values()]
    widest = max(width * min(rows, batch_rows(width)) for width, rows in sizes)
    return (256 << 20) + LEAST_MEMORY + 6 * 16 * widest


def _write_folder(
    folder: Path, reading: Reading, stated: Stated, source: Source, processes: Processes
) -> None:
    staged, work = reading.tables, processes.folder
    with connect(work / "spill") as connection:
        probe = StagedProbe(connection, staged)
        splits = source.splits or Splits(None, "inferred")
        tables, times = resolve(staged, stated, probe, splits.inferred_until)
        check_keys(tables, probe)
        val, test = splits.times or split_times(tables, probe)
        written = write_tables(Writing(tables, folder, work, val), probe, processes)
    findings = reading.left_out + [f for t in staged.values() for f in t.findings]
    findings += times.findings + [f for _, noticed in written.values() for f in noticed]
    schema = DatabaseSchema(
        source.name,
        {name: table for name, (table, _) in written.items()},
        val,
        test,
        split_origin=splits.origin if splits.times else "inferred",
        inferred_until=None if times.until is None else text_of(times.until),
    )
    lost = {(f.table, str(f.column)): f.count or 0 for f in findings if f.code == "dangling_key"}
    schema = _with_dating(Database(folder, schema, source.address), stated, times, lost)
    content = schema_to_dict(schema)
    content["gelgt"] |= {
        "format": FORMAT,
        "source": source.address,
        "content_hash": content_hash(folder),
        "findings": [f.to_dict() for f in findings],
    }
    write_as_read(folder, {name: TableRead.of(table) for name, table in staged.items()})
    dump_yaml(content, folder / MANIFEST)
