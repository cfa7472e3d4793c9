"""The user's own keys as row numbers of the entity table."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gelgt.errors import GelgtError, TaskError, some
from gelgt.sources.database import Database
from gelgt.tasks.keys import key_names, row_numbers


def find_rows(db: Database, table: str, entities: Any) -> NDArray[np.int64]:
    """Row numbers of the user's keys, in their order; a key may come several times.

    Raises:
        GelgtError: ``unknown_keys``, with a list of them.
    """
    names = key_names(db, table)
    parts = _key_parts(entities, names, table)
    keys = db.key_schema(table)
    types = [pa.int64()] if keys is None else list(keys.types)
    columns = [_key_column(values, kind, table) for values, kind in zip(parts, types)]
    try:
        return row_numbers(db, table, columns)
    except TaskError as error:
        raise unknown_keys(error) from None


def _key_parts(entities: Any, names: list[str], table: str) -> list[list[Any]]:
    """The values of each part of some keys."""
    if isinstance(entities, (str, bytes, Mapping)) or not isinstance(entities, Iterable):
        entities = [entities]  # one key
    values = (
        entities.to_pylist()
        if isinstance(entities, (pa.Array, pa.ChunkedArray))
        else list(entities)
    )
    if not values:
        raise GelgtError(
            "no_entities",
            "The list of entities is empty.",
            hint=f"Give keys of '{table}', or ask for all of them.",
        )
    if len(names) == 1:
        return [[_single(value, names[0]) for value in values]]
    columns: list[list[Any]] = [[] for _ in names]
    for value in values:
        parts = [value.get(name) for name in names] if isinstance(value, Mapping) else value
        if (
            isinstance(parts, (str, bytes))
            or not isinstance(parts, Sequence)
            or len(parts) != len(names)
        ):
            raise GelgtError(
                "bad_key",
                f"{value!r} is no key of '{table}', whose keys have {len(names)} parts: "
                f"{', '.join(names)}.",
                hint="Give tuples in this order, or mappings with these names.",
            )
        for column, part in zip(columns, parts):
            column.append(_plain(part))
    return columns


def _single(value: Any, name: str) -> Any:
    value = value.get(name) if isinstance(value, Mapping) else value
    return _plain(value[0] if isinstance(value, tuple) and len(value) == 1 else value)


def _plain(value: Any) -> Any:
    """A Python value instead of a NumPy scalar."""
    return (
        value.item()
        if isinstance(value, np.generic) and not isinstance(value, np.datetime64)
        else value
    )


def _key_column(values: list[Any], kind: pa.DataType, table: str) -> pa.ChunkedArray:
    """Keys in the type of the table's own; a command line brings numbers as text."""
    if pa.types.is_integer(kind):
        numbers = [_whole(value) for value in values]
        bad = [value for value, number in zip(values, numbers) if number is None]
        if bad:
            count, shown = (
                f"{len(bad):,} {'key is' if len(bad) == 1 else 'keys are'}",
                some(dict.fromkeys(map(str, bad))),
            )
            raise GelgtError(
                "unknown_keys",
                f"{count} not in the table '{table}': {shown}.",
                hint="Its keys are whole numbers.",
            )
        return pa.chunked_array([pa.array(numbers, pa.int64())])
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pa.chunked_array([pa.array([None if v is None else str(v) for v in values], kind)])
    try:
        return pa.chunked_array([pa.array(values)])
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.chunked_array([pa.array([str(v) for v in values])])


def _whole(value: Any) -> int | None:
    try:
        number = int(value) if not isinstance(value, float) or value.is_integer() else None
    except (TypeError, ValueError, OverflowError):
        return None
    return (
        number
        if number is not None and -(2**63) <= number < 2**63 and not isinstance(value, bool)
        else None
    )


def unknown_keys(error: TaskError) -> GelgtError:
    if error.code != "unknown_key":
        return error
    return GelgtError(
        "unknown_keys",
        error.message,
        hint="Check the keys; rows that are new have to be in the source that is predicted on.",
    )
