"""Adds new rows to an older import of a source instead of reading and sorting all rows again.

    appended    which rows are new: as the source tells (new files of a table, PostgreSQL's
                transactions), else all rows are read and the first ones compared by their digests
    as before   new rows are read as the older ones were: same columns, types and ways of writing
    written     the new rows are sorted, linked and put in place (grown_tables.py)

The import that comes out holds the rows that a whole import with the same keys and times would
hold, in the same order. Whatever that cannot be said of is read whole: rows that were changed or
removed, a row that gives a missing row to an older key, columns whose type the new rows change,
and statements that leave keys or times to be inferred.
"""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from gelgt.errors import GelgtError
from gelgt.schema.manifest import MANIFEST, dump_yaml, load_yaml, parse_event_dates
from gelgt.schema.model import DatabaseSchema, Dating, Finding, TableSchema
from gelgt.sources.as_read import TableRead, as_before, read_as_read, write_as_read
from gelgt.sources.canonical import canonical_array, canonical_type
from gelgt.sources.check import referred_columns
from gelgt.sources.database import Database
from gelgt.sources.digest import DifferentRowsError, rows_after
from gelgt.sources.duckdb_engine import connect
from gelgt.sources.event_dates import date_columns, known_ahead
from gelgt.sources.grown_places import NewRows
from gelgt.sources.grown_tables import GrownTables
from gelgt.sources.probe import StagedTypes
from gelgt.sources.raw import RawTable, Source
from gelgt.sources.reading import Appended, Reading
from gelgt.sources.relbench_folder import read_folder
from gelgt.sources.resolve import Stated, resolve, stated_kinds
from gelgt.sources.stage import StagedTable, stage_table
from gelgt.sources.unchanged import Kept

_STATED = ("pkey", "time_col", "fkeys")


@dataclass(frozen=True)
class Base:
    """An older import that new rows can be added to.

    Attributes:
        db: It as a database.
        read: How its rows were read.
        mark: What the source remembered (see `Appended`).
    """

    db: Database
    read: Mapping[str, TableRead]
    mark: Any = None


def base_import(kept: Kept, source: Source, stated: Stated, only: list[str] | None) -> Base | None:
    """An older import, if it is what the same statements would make of its rows."""
    read = read_as_read(kept.folder)
    if read is None or only is None or set(only) != set(read):
        return None
    db = read_folder(kept.folder, source.address)
    is_same = db.follows_contract and _same_splits(db.schema, source)
    return Base(db, read, kept.mark) if is_same and _same_schema(db.schema, read, stated) else None


def _same_splits(schema: DatabaseSchema, source: Source) -> bool:
    times = None if source.splits is None else source.splits.times
    return (times or (None, None)) == (schema.val_timestamp, schema.test_timestamp)


def _same_schema(schema: DatabaseSchema, read: Mapping[str, TableRead], stated: Stated) -> bool:
    """Whether a statement names the keys and times that an import has, all of them, and the kinds
    that it was made with."""
    if any(word not in stated.get(name, {}) for name in read for word in _STATED):
        return False
    for name, table in read.items():
        kinds = stated_kinds(stated, name)
        if any(
            c.stated != (kinds[n].kind if n in kinds else None) for n, c in table.columns.items()
        ):
            return False  # its columns may have been read otherwise
    nobody: Any = None  # nothing is left to be looked up in the rows
    staged = {name: table.staged(name) for name, table in read.items()}
    tables, _ = resolve(staged, stated, nobody)
    return all(
        _is_same(table, schema.tables[name], schema)
        and _same_dates(schema.tables[name], stated.get(name, {}))
        for name, table in tables.items()
    )


def _same_dates(known: TableSchema, stated: Mapping[str, Any]) -> bool:
    """Whether a statement leaves the event dates of an import as they are."""
    dates = known.event_dates or ()
    if "event_dates" in stated:
        given = parse_event_dates(known.name, stated["event_dates"], known.columns, "schema")
        return {d.column: dict(d.filled) for d in given} == {
            d.column: dict(d.filled) for d in dates
        }
    expected = date_columns(known, known_ahead(stated))
    return expected == tuple(d.column for d in dates)


def _is_same(stated: TableSchema, known: TableSchema, schema: DatabaseSchema) -> bool:
    def keys(table: TableSchema) -> list[Any]:
        return [
            (fk.columns, fk.table, fk.column, referred_columns(fk, schema.tables[fk.table]))
            for fk in table.foreign_keys
        ]

    def dating(table: TableSchema) -> Any:
        known = table.dating or Dating()
        return set(known.keys), set(known.pointers), set(known.required), known.rule

    needs_dating = known.time_column is None and bool(known.foreign_keys)
    return (
        (stated.primary_key and stated.primary_key.columns)
        == (known.primary_key and known.primary_key.columns)
        and stated.time_col == known.time_col
        and keys(stated) == keys(known)
        and (dating(stated) == dating(known) or not (needs_dating or stated.dating))
        and all(
            (kind.kind, kind.separator) == (known.kinds[c].kind, known.kinds[c].separator)
            for c, kind in stated.kinds.items()
            if c in known.kinds
        )
    )


def read_new(
    base: Base, source: Source, raw: Mapping[str, RawTable], work: Path, stated: Stated
) -> dict[str, StagedTable]:
    """The new rows of each table, staged as its older ones were.

    Raises:
        DifferentRowsError: older rows have changed, or would be read otherwise beside the new ones.
    """
    if set(raw) != set(base.read):
        raise DifferentRowsError
    appended: Mapping[str, RawTable] = {}
    if base.mark is not None and isinstance(source, Appended):
        appended = source.appended(raw, base.mark)
    staged = {}
    for number, (name, table) in enumerate(raw.items()):
        before = base.read[name]
        if table.is_view or _delivered(table) != before.delivered:
            raise DifferentRowsError
        new = appended.get(name) or replace(table, batches=_NewRows(table, before))
        try:
            forced = {c: k.kind for c, k in stated_kinds(stated, name).items()}
            texts = {c: "text" for c, column in before.columns.items() if column.type == "string"}
            staged[name] = as_before(stage_table(new, work, number, texts | forced), before)
        except GelgtError:  # the whole import says it better
            raise DifferentRowsError from None
    return staged


def _delivered(table: RawTable) -> dict[str, str]:
    return {name: str(t) for name, t in table.columns.items() if canonical_type(t) is not None}


@dataclass(frozen=True)
class _NewRows:
    """The rows of a table that come after those of an older import, which are compared."""

    table: RawTable
    before: TableRead

    def __call__(self) -> Iterator[pa.RecordBatch]:
        names = list(self.before.columns)
        batches = (
            [canonical_array(batch.column(c), self.table.name, c) for c in names]
            for batch in self.table.batches()
        )
        for arrays in rows_after(batches, self.before.digests):
            yield pa.RecordBatch.from_arrays(arrays, names=names)


def write_grown(
    folder: Path,
    base: Base,
    reading: Reading,
    source: Source,
    work: Path,
) -> None:
    """Write an import of the older and the new rows into an existing, empty folder.

    Raises:
        DifferentRowsError: the new rows do not leave the older ones as they are.
    """
    staged = reading.tables
    read = {name: before.plus(TableRead.of(staged[name])) for name, before in base.read.items()}
    types = StagedTypes({name: table.staged(name) for name, table in read.items()})
    _check_key_types(base, types)
    with connect(work / "spill") as connection:
        tables = GrownTables(NewRows(base.db, staged, types, connection), folder)
        growth = tables.write()
    growth.save(folder)
    write_as_read(folder, read)
    content = copy.deepcopy(load_yaml(base.db.folder / MANIFEST))
    content["gelgt"] |= {
        "source": source.address,
        "content_hash": None,  # its folder is not found by content
        "findings": _findings(content, staged, tables.findings),
    }
    dump_yaml(content, folder / MANIFEST)


def _check_key_types(base: Base, types: StagedTypes) -> None:
    """Keys must be compared in the types in which they were: whole floats count as integers."""
    before = StagedTypes({name: table.staged(name) for name, table in base.read.items()})
    for name, table in base.read.items():
        if any(before.key_type(name, c) != types.key_type(name, c) for c in table.columns):
            raise DifferentRowsError


def _findings(
    content: Mapping[str, Any], staged: Mapping[str, StagedTable], new: list[Finding]
) -> list[dict[str, Any]]:
    """The findings of the older import with those of the new rows: counts of the same add up."""
    findings = [Finding(**entry) for entry in content["gelgt"].get("findings") or []]
    for finding in [*(f for t in staged.values() for f in t.findings), *new]:
        about = (finding.code, finding.table, finding.column)
        same = [i for i, f in enumerate(findings) if (f.code, f.table, f.column) == about]
        if not same:
            findings.append(finding)
        elif finding.count is not None:
            known = findings[same[0]]
            findings[same[0]] = replace(known, count=(known.count or 0) + finding.count)
    return [finding.to_dict() for finding in findings]
