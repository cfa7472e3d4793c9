"""`open_for`: a source as a trained model knows it.

A model reads the tables, columns, keys, times and kinds of `schema.json` and nothing else. What is missing or has become something else
is an error that names it; what is new is left out, with a notice, so that it cannot change a prediction. Table and relation ids follow
the order of the run's schema. Sources that declare or infer their schema (SQL, files, frames) are opened with the run's own keys and
times, so that nothing is guessed again from newer rows, and tables that the model does not know are not read.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gelgt.errors import GelgtError, did_you_mean, some
from gelgt.features.values import Column, as_numbers
from gelgt.schema.model import DatabaseSchema, TableSchema
from gelgt.sources import open
from gelgt.sources.database import Database
from gelgt.sources.hub import is_hub_address
from gelgt.sources.registry import OPENERS
from gelgt.sources.relbench_folder import is_relbench_folder
from gelgt.training import Run

# Types that a kind reads alike: 3, 3.0 and "3" are one category, and a list of words is what a text with separators becomes.
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
        source: A `Database`, or anything that `gelgt.open` takes.
        namespace: The schema of a SQL database.

    Raises:
        GelgtError: ``missing_table``, ``missing_column``, ``changed_type``, ``changed_key``, or the source cannot be read.
    """
    if isinstance(source, Opened):
        return source
    if isinstance(source, Database):
        return restrict(run.schema, source)
    if _is_folder(source):
        return restrict(run.schema, open(source))
    there = _columns_there(run.schema, source, namespace)
    new = _new_tables(run.schema, there)
    for table in run.schema.tables.values():
        _check_there(table, _own_columns(table), there, new)
    db = open(source, schema=stated(run.schema, there), tables=list(run.schema.tables), namespace=namespace)
    opened = restrict(run.schema, db)
    return Opened(opened.db, (*_about_tables(new), *opened.notices))


def restrict(schema: DatabaseSchema, db: Database) -> Opened:
    """A database with the tables and columns of a schema, in its order; the database itself where it has no others.

    Raises:
        GelgtError: see `open_for`.
    """
    there = {name: tuple(table.columns) for name, table in db.schema.tables.items()}
    new = _new_tables(schema, there)
    tables, notices = {}, _about_tables(new)
    for name, known in schema.tables.items():
        notices += _check_there(known, tuple(known.columns), there, new)
        now = db.schema.tables[name]
        _check_keys(known, now)
        notices += [text for column in now.columns if (text := _check_type(db, known, now, column))]
        columns = {c: now.columns[c] for c in known.columns if c in now.columns}
        tables[name] = replace(known, columns=columns, kinds={c: k for c, k in known.kinds.items() if c in columns})
        more = [c for c in now.columns if c not in known.columns and c not in now.key_columns]
        if more:
            notices.append(f"Columns of '{name}' that the model does not know are left out: {', '.join(more)}.")
    restricted = replace(schema, tables=tables)
    view = db if restricted == db.schema else Database(db.folder, restricted, db.source, db.import_findings)
    return Opened(view, tuple(notices))


def stated(schema: DatabaseSchema, there: Mapping[str, Iterable[str]]) -> dict[str, Any]:
    """A schema in the form of `gelgt.open(schema=…)`.

    Kinds that were inferred stay out: they would change how text columns are read, and `restrict` puts the run's in place anyway.
    """
    tables: dict[str, Any] = {}
    for name, table in schema.tables.items():
        entry: dict[str, Any] = {"pkey": list(table.primary_key.columns) if table.primary_key else None, "time_col": table.time_col}
        fkeys = _stated_fkeys(table, schema)
        if fkeys is not None:
            entry["fkeys"] = fkeys
        own = set(there[name])
        chosen = {c: k for c, k in table.kinds.items() if k.origin == "manifest" and c in own}
        entry["kinds"] = {c: {"kind": k.kind, "separator": k.separator} if k.separator else k.kind for c, k in chosen.items()}
        tables[name] = entry
    if schema.val_timestamp is None or schema.test_timestamp is None:
        return tables
    return {"val_timestamp": schema.val_timestamp, "test_timestamp": schema.test_timestamp, "tables": tables}


def _stated_fkeys(table: TableSchema, schema: DatabaseSchema) -> dict[str, str] | None:
    """Foreign keys as a statement; None where they cannot be put so (two keys of one column), and the source has to declare them."""
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
    return is_relbench_folder(path) if "://" not in str(source) and path.exists() else is_hub_address(str(source))


def _columns_there(schema: DatabaseSchema, source: Any, namespace: str | None) -> dict[str, tuple[str, ...]]:
    """The tables and columns of a source, without its rows."""
    opener = next((o for o in OPENERS if o.accepts(source)), None)
    if opener is None:
        open(source, namespace=namespace)  # says what is wrong with it
        raise AssertionError("a source without an opener was opened")
    with opener.open(source, namespace) as opened:
        raw = opened.tables()
        if not set(schema.tables) <= {t.name for t in raw}:  # views are offered by name alone
            try:
                raw = [*raw, *opened.tables(list(schema.tables))]
            except GelgtError as error:
                if error.code != "unknown_table":
                    raise
    return {table.name: tuple(table.columns) for table in raw}


def _new_tables(schema: DatabaseSchema, there: Iterable[str]) -> list[str]:
    return [name for name in there if name not in schema.tables]


def _about_tables(new: list[str]) -> list[str]:
    return [f"Tables that the model does not know are left out: {', '.join(new)}."] if new else []


def _own_columns(table: TableSchema) -> tuple[str, ...]:
    """The columns that a source has to have: the user's own, not those that the import adds for composite and shared keys."""
    keys = [(fk.column, fk.columns) for fk in table.foreign_keys]
    keys += [(table.pkey or "", table.primary_key.columns)] if table.primary_key else []
    added = {stored for stored, own in keys if (stored,) != own}
    return tuple(dict.fromkeys([*(c for c in table.columns if c not in added), *(c for _, own in keys for c in own)]))


def _check_there(table: TableSchema, columns: tuple[str, ...], there: Mapping[str, tuple[str, ...]], new: list[str]) -> list[str]:
    """Whether a table and its columns are there; a notice for columns that are gone and were ignored anyway."""
    if table.name not in there:
        raise GelgtError(
            "missing_table",
            f"The source has no table '{table.name}', which the model was trained with.",
            hint=f"{did_you_mean(table.name, new or there)} Rename it back, or train again.",
        )
    notices = []
    for column in columns:
        if column in there[table.name]:
            continue
        kind = table.kinds.get(column)
        if kind is not None and kind.kind == "ignored":
            notices.append(f"The column '{table.name}.{column}' is gone; the model did not use it.")
            continue
        unknown = [c for c in there[table.name] if c not in columns]
        raise GelgtError(
            "missing_column",
            f"The table '{table.name}' has no column '{column}', which the model was trained with.",
            hint=f"{did_you_mean(column, unknown or there[table.name])} Rename it back, or train again.",
        )
    return notices


def _check_keys(known: TableSchema, now: TableSchema) -> None:
    """Whether rows are numbered and linked as the model knows them."""

    def changed(what: str, before: Any, after: Any) -> GelgtError:
        return GelgtError(
            "changed_key",
            f"{what} of '{known.name}' was {before or 'none'} when the model was trained, and is {after or 'none'} now.",
            hint="Give the address of the source instead of an opened database, repair its manifest, or train again.",
        )

    if known.pkey != now.pkey:
        raise changed("The primary key", known.pkey, now.pkey)
    if known.time_col != now.time_col:
        raise changed("The time column", known.time_col, now.time_col)
    before, after = ({fk.column: fk.table for fk in table.foreign_keys} for table in (known, now))
    for column in known.columns:
        if before.get(column) != after.get(column):
            raise changed(f"The table that the foreign key '{column}'", before.get(column), after.get(column))


def _check_type(db: Database, known: TableSchema, now: TableSchema, column: str) -> str | None:
    """Whether a column can still be read as the model reads it; maybe a notice about what is lost."""
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
        f"'{known.name}.{column}' held {before} values ({kind.kind}) when the model was trained, and holds {after} values now.",
        hint=f"First values: {some(_first(db, known.name, column))}. Convert the column back, or train again.",
    )


def _values(db: Database, table: str, column: str) -> list[float]:
    """A few values that are not null, as numbers: NaN where they are none."""
    found: list[float] = []
    for batch in db.batches(table, [column]):
        known = batch.column(0).drop_null()
        if len(known) and known.type == "string":
            numbers = as_numbers(known, Column(table, column)).values
            found += [float(numbers[np.isfinite(numbers)][0])] if np.isfinite(numbers).any() else [float("nan")]
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
