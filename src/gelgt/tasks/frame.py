"""Label rows from a user's frame of (entity, time, target), with the user's keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from gelgt.errors import GelgtError, SourceError, TaskError, did_you_mean, some
from gelgt.sources.canonical import TIME, canonical_array
from gelgt.sources.text_types import TextProfile
from gelgt.tasks.keys import key_names, row_numbers
from gelgt.tasks.labels import sort_rows

if TYPE_CHECKING:
    from gelgt.sources.database import Database


@dataclass(frozen=True)
class FrameRows:
    """The labels of a frame, with row numbers for its keys and times in UTC.

    Attributes:
        rows: Columns time, entity, target, without rows that lack a target.
        entity_col: The name of the entity column.
        time_col: The name of the time column.
        target_col: The name of the target column.
        without_target: How many rows lack a target.
    """

    rows: pa.Table
    entity_col: str
    time_col: str
    target_col: str
    without_target: int


def is_frame(value: Any) -> bool:
    """Whether a task definition is a frame."""
    return isinstance(value, pa.Table) or (hasattr(value, "columns") and hasattr(value, "dtypes"))


def read_frame(
    db: Database,
    frame: Any,
    table: str,
    column: str | None,
    time_col: str | None,
    target_col: str | None,
) -> FrameRows:
    """Find the columns of a frame, and translate its keys to row numbers and its times to UTC."""
    data = frame if isinstance(frame, pa.Table) else _from_pandas(frame)
    if data.num_rows == 0:
        raise TaskError(
            "no_labels",
            "The frame of labels is empty.",
            hint="Give rows of (entity, time, target).",
        )
    keys = [column] if column is not None and column in data.column_names else key_names(db, table)
    for name in keys:
        if name not in data.column_names:
            raise TaskError(
                "unknown_column",
                f"The frame has no column '{name}' for the key of '{table}'.",
                hint=did_you_mean(name, data.column_names),
            )
    time_col = _time_column(data, keys, time_col)
    target_col = _target_column(data, [*keys, time_col], target_col)
    rows = pa.table(
        {
            "time": _times(data.column(time_col), time_col),
            "entity": row_numbers(db, table, [data.column(k) for k in keys]),
            "target": _target(data.column(target_col), target_col),
        }
    )
    filled = rows.filter(pc.is_valid(rows.column("target")))
    entity_col = db.table(table).pkey or "+".join(keys)
    return FrameRows(
        sort_rows(filled), entity_col, time_col, target_col, rows.num_rows - filled.num_rows
    )


def _from_pandas(frame: Any) -> pa.Table:
    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise TaskError(
            "bad_frame",
            f"The frame of labels mixes types in a column: {error}.",
            hint="Give every column one type.",
        ) from None


def _time_column(data: pa.Table, keys: list[str], name: str | None) -> str:
    if name is not None:
        return _existing_column(data, name, "time")
    fields = [f for f in data.schema if f.name not in keys]
    names = [f.name for f in fields if pa.types.is_timestamp(f.type) or pa.types.is_date(f.type)]
    if not names:  # a CSV file has its times as text
        names = [f.name for f in fields if _reads_as_times(data.column(f.name), f.name)]
    if len(names) != 1:
        raise TaskError(
            "unknown_column",
            f"The frame must have one column with times, but has {len(names)}"
            f"{': ' + ', '.join(names) if names else ''}.",
            hint="Name the one with the seed times: time_col='…'.",
        )
    return str(names[0])


def _existing_column(data: pa.Table, name: str, role: str) -> str:
    if name not in data.column_names:
        raise TaskError(
            "unknown_column",
            f"The frame has no column '{name}' ({role}).",
            hint=did_you_mean(name, data.column_names),
        )
    return name


def _reads_as_times(column: pa.ChunkedArray, name: str) -> bool:
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return False
    profile = TextProfile("frame", name, numbers=False)
    for chunk in column.chunks:
        profile.add(chunk)
    try:
        return bool(profile.verdict() == TIME)
    except SourceError:  # nearly all are times; `_times` names the others
        return True


def _target_column(data: pa.Table, others: list[str], name: str | None) -> str:
    if name is not None:
        return _existing_column(data, name, "target")
    rest = [c for c in data.column_names if c not in others]
    if len(rest) != 1:
        raise TaskError(
            "unknown_column",
            f"The frame has {len(rest)} columns that could be the target: {', '.join(rest)}.",
            hint="Name it: target_col='…'.",
        )
    return str(rest[0])


def _times(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        column = _parse_times(column, name)
    if not (pa.types.is_timestamp(column.type) or pa.types.is_date(column.type)):
        raise TaskError(
            "bad_time",
            f"The column '{name}' of the frame holds {column.type}, not times.",
            hint="Convert it, for example with pandas.to_datetime.",
        )
    if column.null_count:
        raise TaskError(
            "bad_time",
            f"{column.null_count:,} rows of the frame have no time in '{name}'.",
            hint="Fill or drop these rows.",
        )
    return pa.chunked_array(
        [canonical_array(chunk, "frame", name) for chunk in column.chunks], pa.timestamp("us")
    )


def _parse_times(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    import pandas as pd

    texts = column.to_pandas()
    parsed = pd.to_datetime(texts, utc=True, format="ISO8601", errors="coerce")
    bad = texts[parsed.isna() & texts.notna()].unique().tolist()
    if bad:
        raise TaskError(
            "bad_time",
            f"The column '{name}' of the frame holds texts that are no times: {some(bad)}.",
            hint="Write them like '2025-09-01'.",
        )
    return pa.chunked_array([pa.Array.from_pandas(parsed)])


def _target(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    try:
        values = pa.chunked_array(
            [canonical_array(chunk, "frame", name) for chunk in column.chunks]
        )
    except GelgtError as error:
        raise TaskError("bad_target", error.message, hint=error.hint) from None
    if pa.types.is_timestamp(values.type) or pa.types.is_list(values.type):
        raise TaskError(
            "bad_target",
            f"The target '{name}' is a {values.type}, which cannot be predicted.",
            hint="Make it a number or a text.",
        )
    if pa.types.is_floating(values.type):
        return pc.if_else(pc.is_finite(values), values, pa.scalar(None, values.type))
    return values


def duplicate_notice(frame: FrameRows) -> list[str]:
    """A notice where several labels share an entity and a time."""
    seeds = frame.rows.select(["time", "entity"]).group_by(["time", "entity"]).aggregate([])
    extra = frame.rows.num_rows - seeds.num_rows
    return [f"{extra:,} rows repeat the entity and time of another row"] if extra else []
