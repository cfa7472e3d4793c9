"""From the user's key values to row numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gelgt.errors import GelgtError, TaskError, some
from gelgt.sources.canonical import canonical_array

if TYPE_CHECKING:
    from gelgt.sources.database import Database

Rows = np.ndarray[Any, np.dtype[np.int64]]
FEW = 8  # values are few if there are so many times more keys


def key_names(db: Database, table: str) -> list[str]:
    """The columns of the user's key; the row number column where there is no other key."""
    keys = db.key_schema(table)
    if keys is not None:
        return list(keys.names)
    return [db.table(table).pkey or "row"]


def row_numbers(
    db: Database, table: str, columns: Sequence[pa.ChunkedArray], referred: tuple[str, ...] = ()
) -> Rows:
    """The row of each key.

    Args:
        db: The database.
        table: The table that the keys belong to.
        columns: The key values, one column for each part of the key.
        referred: The columns that the values are from, where a foreign key refers to others than
            the primary key.

    Raises:
        TaskError: some keys are unknown; the message lists them.
    """
    keys = _key_table(db, table, referred)
    if keys is None:
        return _as_row_numbers(db, table, columns)
    if len(columns) != keys.num_columns:
        raise TaskError(
            "bad_key",
            f"The key of '{table}' has {keys.num_columns} parts ({', '.join(keys.column_names)}), "
            f"but {len(columns)} were given.",
            hint="Give all of them.",
        )
    values = [_cast(column, keys.schema.field(i).type, table) for i, column in enumerate(columns)]
    candidates: Rows | None = None
    if len(values[0]) < keys.num_rows // FEW:
        candidates = _candidates(keys, values)
        keys = keys.take(pa.array(candidates))
    if len(values) == 1:
        places = pc.index_in(values[0], value_set=keys.column(0).combine_chunks(), skip_nulls=True)
        rows: Rows = pc.fill_null(places, -1).to_numpy().astype(np.int64)
    else:
        place = {key: row for row, key in enumerate(zip(*(c.to_pylist() for c in keys.columns)))}
        rows = np.array(
            [place.get(key, -1) for key in zip(*(c.to_pylist() for c in values))], dtype=np.int64
        )
    if candidates is not None and len(candidates):
        rows = np.where(rows >= 0, candidates[rows], -1)
    _check_found(rows, columns, table)
    return rows


def _candidates(keys: pa.Table, values: Sequence[pa.ChunkedArray]) -> Rows:
    """Rows, in order, each part of whose key is among the values: to look for a few values takes
    less than to make an index of all keys."""
    is_candidate = np.ones(keys.num_rows, bool)
    for column, wanted in zip(keys.columns, values):
        if not pa.types.is_floating(column.type):  # whose equality is Python's below: 0.0 is -0.0
            is_here = pc.is_in(column, value_set=wanted.combine_chunks())
            is_candidate &= is_here.to_numpy()
    return np.flatnonzero(is_candidate).astype(np.int64)


def _key_table(db: Database, table: str, referred: tuple[str, ...]) -> pa.Table | None:
    schema = db.table(table)
    if (
        referred
        and schema.primary_key
        and referred != schema.primary_key.columns
        and set(referred) <= set(schema.columns)
    ):
        return db.read(table, referred)
    return db.keys(table)


def _as_row_numbers(db: Database, table: str, columns: Sequence[pa.ChunkedArray]) -> Rows:
    if len(columns) != 1:
        raise TaskError(
            "bad_key",
            f"The rows of '{table}' are identified by one number, but {len(columns)} key columns "
            "were given.",
            hint="Give one key column.",
        )
    values = _cast(columns[0], pa.int64(), table)
    rows: Rows = pc.fill_null(values, -1).to_numpy().astype(np.int64)
    rows = np.where((rows >= 0) & (rows < db.num_rows(table)), rows, -1)
    _check_found(rows, columns, table)
    return rows


def _cast(column: pa.ChunkedArray, target: pa.DataType, table: str) -> pa.ChunkedArray:
    if column.type == target:
        return column
    try:
        arrays = [canonical_array(chunk, table, "key") for chunk in column.chunks]
        return pa.chunked_array([a.cast(target) for a in arrays], target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, GelgtError):
        raise TaskError(
            "unknown_key",
            f"The keys of '{table}' are {target}, but {some(column.slice(0, 3).to_pylist())} were "
            "given.",
            hint="Give key values of the table.",
        ) from None


def _check_found(rows: Rows, columns: Sequence[pa.ChunkedArray], table: str) -> None:
    missing = np.flatnonzero(rows < 0)
    if len(missing) == 0:
        return
    values = [tuple(c[int(i)].as_py() for c in columns) for i in missing[:1000]]
    shown = dict.fromkeys(v[0] if len(v) == 1 else v for v in values)
    raise TaskError(
        "unknown_key",
        f"{len(missing):,} {'key is' if len(missing) == 1 else 'keys are'} not in the table "
        f"'{table}': {some(shown)}.",
        hint="Leave these rows out, or import the database again.",
    )
