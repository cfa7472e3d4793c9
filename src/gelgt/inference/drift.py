"""Schema drift: what has changed in a database since a model was trained on it.

What is missing or has become something else is an error that names it; what is new is left out,
with a notice, so that it cannot change a prediction.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gelgt.errors import GelgtError, did_you_mean, some
from gelgt.features.values import Column, as_numbers
from gelgt.schema.model import DatabaseSchema, TableSchema
from gelgt.sources.database import Database

# Types that a kind reads alike: 3, 3.0 and "3" are one category, and a list of words is what a text
# with separators becomes.
ALIKE = {
    "numerical": ("int64", "float64", "bool", "string"),
    "categorical": ("int64", "float64", "string"),
    "multicategorical": ("string", "list"),
}


@dataclass(frozen=True)
class Opened:
    """A database restricted to what a run knows, and what there is to say about the rest."""

    db: Database
    notices: tuple[str, ...] = ()


def restrict(schema: DatabaseSchema, db: Database) -> Opened:
    """A database with the tables and columns of a schema, in its order; the database itself where
    it has no others.

    Raises:
        GelgtError: see `open_for`.
    """
    there = {name: tuple(table.columns) for name, table in db.schema.tables.items()}
    new = [name for name in there if name not in schema.tables]
    tables, notices = {}, about_tables(new)
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


def about_tables(new: list[str]) -> list[str]:
    return [f"Tables that the model does not know are left out: {', '.join(new)}."] if new else []


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
    alike = ALIKE.get(kind.kind, ())
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
    numbers: list[float] = []
    for batch in db.batches(table, [column]):
        values = batch.column(0).drop_null()
        if not len(values):
            continue
        finite = np.zeros(0)
        if values.type == "string":
            parsed = as_numbers(values, Column(table, column)).values
            finite = parsed[np.isfinite(parsed)]
        numbers.append(float(finite[0]) if len(finite) else float("nan"))
        if len(finite):
            break
    return numbers


def _first(db: Database, table: str, column: str) -> list[Any]:
    for batch in db.batches(table, [column]):
        if len(known := batch.column(0).drop_null()):
            return list(known.slice(0, 3).to_pylist())
    return []
