"""`open_for`: a source as a trained model knows it.

A model reads the tables, columns, keys, times and kinds of `schema.json` and nothing else. What is
missing or has become something else is an error that names it; what is new is left out, with a
notice, so that it cannot change a prediction. Table and relation ids follow the order of the run's
schema. Sources that declare or infer their schema (SQL, files, frames) are opened with the run's
own keys and times, so that nothing is guessed again from newer rows, and tables that the model does
not know are not read.
"""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gelgt.errors import GelgtError, did_you_mean, some
from gelgt.features.values import Column, as_numbers
from gelgt.schema.model import DatabaseSchema, TableSchema
from gelgt.sources import open
from gelgt.sources.address import HUB, absolute_source
from gelgt.sources.database import Database
from gelgt.sources.hub import is_hub_address
from gelgt.sources.registry import OPENERS
from gelgt.sources.relbench_folder import is_relbench_folder
from gelgt.training import Run

# Types that a kind reads alike: 3, 3.0 and "3" are one category, and a list of words is what a text
# with separators becomes.
_ALIKE = {
    "numerical": ("int64", "float64", "bool", "string"),
    "categorical": ("int64", "float64", "string"),
    "multicategorical": ("string", "list"),
}


@dataclass(frozen=True)
class Opened:
    """A database restricted to what a run knows, and what there is to say about the rest."""

    db: Database
    notices: tuple[str, ...] = ()


def open_for(run: Run, source: Any, *, namespace: str | None = None) -> Opened:
    """Open a source for the predictions of a run.

    Args:
        run: The run.
        source: A `Database`, or anything that `gelgt.open` takes; None is where the run was
            trained.
        namespace: The schema of a SQL database.

    Raises:
        GelgtError: ``missing_table``, ``missing_column``, ``changed_type``, ``changed_key``, or the
            source cannot be read.
    """
    if source is None:
        return _open_own(run, namespace)
    if isinstance(source, Opened):
        return source
    if isinstance(source, Database):
        return restrict(run.schema, source)
    if _is_folder(source):
        return restrict(run.schema, open(source))
    new = [name for name in _table_names(source, namespace) if name not in run.schema.tables]
    try:
        db = open(
            source, schema=stated(run.schema), tables=list(run.schema.tables), namespace=namespace
        )
    except GelgtError as error:
        raise _missing(error) from None
    opened = restrict(run.schema, db)
    return Opened(opened.db, (*_about_tables(new), *opened.notices))


def default_source(run: Run) -> str:
    """The address that a run was trained on.

    Raises:
        GelgtError: it was trained on frames in memory.
    """
    address = run.record.data.source
    if not address or address == "frames":
        raise GelgtError(
            "no_source",
            "The run was trained on frames in memory.",
            hint="Give them again, or another source.",
        )
    return address


def _open_own(run: Run, namespace: str | None) -> Opened:
    """The source that a run was trained on; where that fails, what to do about it."""
    kept = default_source(run)
    place = str(absolute_source(kept))
    try:
        opened = open_for(run, place, namespace=namespace)
    except GelgtError as error:
        if error.code not in ("cannot_open", "not_found", "unknown_file", "not_cached"):
            raise
        hint = "This is where the run was trained; give its place now (--source)."
        if error.code == "cannot_open":
            hint = (
                "A run does not keep passwords: give the address with its password (--source), "
                "or set PGPASSWORD for PostgreSQL."
            )
        raise GelgtError(error.code, error.message, hint=hint) from None
    if place in (kept, HUB + kept):
        return opened
    notice = (
        f"The run kept the source as '{kept}', which from this folder is {place}; if it is "
        "another, give its place (--source)."
    )
    return Opened(opened.db, (notice, *opened.notices))


def restrict(schema: DatabaseSchema, db: Database) -> Opened:
    """A database with the tables and columns of a schema, in its order; the database itself where
    it has no others.

    Raises:
        GelgtError: see `open_for`.
    """
    there = {name: tuple(table.columns) for name, table in db.schema.tables.items()}
    new = [name for name in there if name not in schema.tables]
    tables, notices = {}, _about_tables(new)
    for name, known in schema.tables.items():
        notices += _check_there(known, there, new)
        now = db.schema.tables[name]
        _check_keys(known, now)
        notices += [text for column in now.columns if (text := _check_type(db, known, now, column))]
        columns = {c: now.columns[c] for c in known.columns if c in now.columns}
        tables[name] = replace(
            known, columns=columns, kinds={c: k for c, k in known.kinds.items() if c in columns}
        )
        more = [c for c in now.columns if c not in known.columns and c not in now.key_columns]
        if more:
            notices.append(
                f"Columns of '{name}' that the model does not know are left out: {', '.join(more)}."
            )
    restricted = replace(schema, tables=tables)
    view = (
        db
        if restricted == db.schema
        else Database(db.folder, restricted, db.source, db.import_findings)
    )
    return Opened(view, tuple(notices))


def stated(schema: DatabaseSchema) -> dict[str, Any]:
    """A schema in the form of `gelgt.open(schema=…)`.

    Kinds that were inferred stay out: they would change how text columns are read, and `restrict`
    puts the run's in place anyway.
    """
    tables: dict[str, Any] = {}
    for name, table in schema.tables.items():
        entry: dict[str, Any] = {
            "pkey": list(table.primary_key.columns) if table.primary_key else None,
            "time_col": table.time_col,
        }
        fkeys = _stated_fkeys(table, schema)
        if fkeys is not None:
            entry["fkeys"] = fkeys
            if table.dating is not None:
                entry["dated_by"] = {
                    "keys": list(table.dating.keys),
                    "pointers": list(table.dating.pointers),
                }
        chosen = {
            c: k for c, k in table.kinds.items() if k.origin == "manifest" and k.kind != "ignored"
        }
        entry["kinds"] = {
            c: {"kind": k.kind, "separator": k.separator} if k.separator else k.kind
            for c, k in chosen.items()
        }
        tables[name] = entry
    if schema.val_timestamp is None or schema.test_timestamp is None:
        return tables
    return {
        "val_timestamp": schema.val_timestamp,
        "test_timestamp": schema.test_timestamp,
        "tables": tables,
    }


def _stated_fkeys(table: TableSchema, schema: DatabaseSchema) -> dict[str, str] | None:
    """Foreign keys as a statement; None where they cannot be put so (two keys of one column), and
    the source has to declare them."""
    found: dict[str, str] = {}
    for fk in table.foreign_keys:
        parent = schema.tables[fk.table].primary_key
        column, target = "+".join(fk.columns), fk.table
        if fk.referred and (parent is None or fk.referred != parent.columns):
            if len(fk.referred) > 1 or "." in fk.referred[0]:
                return None
            target = f"{fk.table}.{fk.referred[0]}"
        if column in found:
            return None
        found[column] = target
    return found


def _is_folder(source: Any) -> bool:
    """Whether a source is a RelBench folder, whose manifest states its keys."""
    if not isinstance(source, (str, Path)):
        return False
    path = Path(source).expanduser()
    return (
        is_relbench_folder(path)
        if "://" not in str(source) and path.exists()
        else is_hub_address(str(source))
    )


def _table_names(source: Any, namespace: str | None) -> list[str]:
    """The tables of a source, without their rows; none where that fails, since it serves a notice
    alone."""
    opener = next((o for o in OPENERS if o.accepts(source)), None)
    if opener is None:
        return []
    try:
        with opener.open(source, namespace) as opened:
            url: Any = getattr(opened, "url", None)
            database = url and url.get_backend_name() == "sqlite" and url.database
            return (
                _sqlite_names(Path(database))
                if database
                else [table.name for table in opened.tables()]
            )
    except GelgtError:
        return []


def _sqlite_names(path: Path) -> list[str]:
    """From the catalogue: SQLite's types lie in the rows, so that its source would scan every
    column to describe a table."""
    query = (
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%' "
        "ORDER BY name"
    )
    try:
        with closing(
            sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        ) as connection:
            return [name for (name,) in connection.execute(query)]
    except (sqlite3.Error, OSError):
        return []


def _about_tables(new: list[str]) -> list[str]:
    return [f"Tables that the model does not know are left out: {', '.join(new)}."] if new else []


def _missing(error: GelgtError) -> GelgtError:
    """What the import says about a table or column that the run states, in terms of the run."""
    codes = {"unknown_table": "missing_table", "unknown_column": "missing_column"}
    if error.code not in codes:
        return error
    what = error.message.removeprefix("schema: ")
    return GelgtError(
        codes[error.code],
        f"{what[0].upper()}{what[1:]} The model was trained with it.",
        hint=f"{error.hint} Rename it back, or train again.",
    )


def _check_there(
    table: TableSchema, there: Mapping[str, tuple[str, ...]], new: list[str]
) -> list[str]:
    """Whether a table and its columns are there; a notice for columns that are gone and were
    ignored anyway."""
    if table.name not in there:
        raise GelgtError(
            "missing_table",
            f"The source has no table '{table.name}', which the model was trained with.",
            hint=f"{did_you_mean(table.name, new or there)} Rename it back, or train again.",
        )
    notices = []
    for column in table.columns:
        if column in there[table.name]:
            continue
        kind = table.kinds.get(column)
        if kind is not None and kind.kind == "ignored":
            notices.append(f"The column '{table.name}.{column}' is gone; the model did not use it.")
            continue
        unknown = [c for c in there[table.name] if c not in table.columns]
        raise GelgtError(
            "missing_column",
            f"The table '{table.name}' has no column '{column}', which the model was trained with.",
            hint=f"{did_you_mean(column, unknown or there[table.name])} Rename it back, or train "
            "again.",
        )
    return notices


def _check_keys(known: TableSchema, now: TableSchema) -> None:
    """Whether rows are numbered and linked as the model knows them."""

    def changed(what: str, before: Any, after: Any) -> GelgtError:
        return GelgtError(
            "changed_key",
            f"{what} of '{known.name}' was {before or 'none'} when the model was trained, and is "
            f"{after or 'none'} now.",
            hint="Give the address of the source instead of an opened database, repair its "
            "manifest, or train again.",
        )

    if known.pkey != now.pkey:
        raise changed("The primary key", known.pkey, now.pkey)
    if known.time_col != now.time_col:
        raise changed("The time column", known.time_col, now.time_col)
    before, after = ({fk.column: fk.table for fk in table.foreign_keys} for table in (known, now))
    for column in known.columns:
        if before.get(column) != after.get(column):
            raise changed(
                f"The table that the foreign key '{column}'", before.get(column), after.get(column)
            )


def _check_type(db: Database, known: TableSchema, now: TableSchema, column: str) -> str | None:
    """Whether a column can still be read as the model reads it; maybe a notice about what is
    lost."""
    kind = known.kinds.get(column)
    before, after = known.columns.get(column), now.columns[column]
    if kind is None or before is None or before == after or kind.kind in ("ignored", "text"):
        return None
    alike = _ALIKE.get(kind.kind, ())
    if before in alike and after in alike and not (kind.kind == "numerical" and after == "string"):
        return None
    values = _values(db, known.name, column)
    if not values:
        return None  # a column of nulls has no type
    if kind.kind == "numerical" and after == "string" and any(np.isfinite(v) for v in values):
        return f"'{known.name}.{column}' holds text now; what is no number counts as missing."
    raise GelgtError(
        "changed_type",
        f"'{known.name}.{column}' held {before} values ({kind.kind}) when the model was trained, "
        f"and holds {after} values now.",
        hint=f"First values: {some(_first(db, known.name, column))}. Convert the column back, or "
        "train again.",
    )


def _values(db: Database, table: str, column: str) -> list[float]:
    """A few values that are not null, as numbers: NaN where they are none."""
    found: list[float] = []
    for batch in db.batches(table, [column]):
        known = batch.column(0).drop_null()
        if len(known) and known.type == "string":
            numbers = as_numbers(known, Column(table, column)).values
            found += (
                [float(numbers[np.isfinite(numbers)][0])]
                if np.isfinite(numbers).any()
                else [float("nan")]
            )
        elif len(known):
            found.append(float("nan"))
        if found and np.isfinite(found[-1]):
            break
    return found


def _first(db: Database, table: str, column: str) -> list[Any]:
    for batch in db.batches(table, [column]):
        if len(known := batch.column(0).drop_null()):
            return list(known.slice(0, 3).to_pylist())
    return []
