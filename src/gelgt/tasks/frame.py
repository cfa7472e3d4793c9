"""Label rows from the user's own frame of (entity, time, target), with the user's own keys.

With a `timedelta` the label at t is about (t, t + timedelta], so RelBench's rules for forecasts
hold:

    train   t <= val - timedelta
    val     val <= t <= test - timedelta
    test    t >= test

Rows between would let a model see behind a split; they are left out and counted. Without a
`timedelta` a label is taken as known at its own time, as in an autocomplete task: train t <= val <
t <= test < t.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gelgt.errors import GelgtError, SourceError, TaskError, did_you_mean, some
from gelgt.sources.canonical import TIME, canonical_array
from gelgt.sources.text_types import TextProfile
from gelgt.tasks.keys import key_names, row_numbers
from gelgt.tasks.labels import Raw, sort_rows
from gelgt.tasks.sampling import key_codes, sample
from gelgt.tasks.split import Split

if TYPE_CHECKING:
    import pandas as pd

    from gelgt.sources.database import Database


@dataclass(frozen=True)
class FrameRows:
    """A frame in gelgt's terms: its columns found, its keys translated, its times in UTC."""

    rows: pa.Table  # time, entity, target
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
    """Find the columns of a frame and translate its keys and times."""
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
    times = _times(data.column(time_col), time_col)
    rows = pa.table(
        {
            "time": times,
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
    if name is None:
        found = [
            f.name
            for f in data.schema
            if f.name not in keys and (pa.types.is_timestamp(f.type) or pa.types.is_date(f.type))
        ]
        if not found:  # a CSV file brings its times as text
            found = [
                f.name
                for f in data.schema
                if f.name not in keys and _reads_as_times(data.column(f.name), f.name)
            ]
        if len(found) != 1:
            raise TaskError(
                "unknown_column",
                f"The frame has {len(found)} columns with "
                f"times{': ' + ', '.join(found) if found else ''}.",
                hint="Name the one with the seed times: time_col='…'.",
            )
        return str(found[0])
    if name not in data.column_names:
        raise TaskError(
            "unknown_column",
            f"The frame has no column '{name}' (time).",
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
    if name is None:
        rest = [c for c in data.column_names if c not in others]
        if len(rest) != 1:
            raise TaskError(
                "unknown_column",
                f"The frame has {len(rest)} columns that could be the target: {', '.join(rest)}.",
                hint="Name it: target_col='…'.",
            )
        return str(rest[0])
    if name not in data.column_names:
        raise TaskError(
            "unknown_column",
            f"The frame has no column '{name}' (target).",
            hint=did_you_mean(name, data.column_names),
        )
    return name


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


def split_frame(
    db: Database,
    table: str,
    frame: FrameRows,
    split: Split,
    timedelta: pd.Timedelta | None,
    existing: int,
    max_rows: int,
) -> dict[str, Raw]:
    """The frame's rows by split.

    Args:
        db: The database.
        table: The entity table.
        frame: The rows.
        split: The split times.
        timedelta: How far a label looks ahead, or None.
        existing: Rows of the entity table that exist at the test time; labels of later ones are
            dropped, as in RelBench.
        max_rows: At most so many training rows.
    """
    times = frame.rows.column("time").to_numpy()
    val, test = np.datetime64(split.val, "us"), np.datetime64(split.test, "us")
    gaps = {}
    if timedelta is None:
        parts = {
            "train": times <= val,
            "val": (times > val) & (times <= test),
            "test": times > test,
        }
    else:
        step = np.timedelta64(timedelta, "us")
        parts = {
            "train": times <= val - step,
            "val": (times >= val) & (times <= test - step),
            "test": times >= test,
        }
        gaps = {
            "train": (times > val - step) & (times < val),
            "val": (times > np.maximum(test - step, val)) & (times < test),
        }
    exists = frame.rows.column("entity").to_numpy() < existing
    found = {}
    for name, inside in parts.items():
        rows = frame.rows.filter(pa.array(inside & exists))
        dropped = {
            "whose entity does not exist at the test time": int(np.count_nonzero(inside & ~exists))
        }
        if name in gaps:
            before = "validation" if name == "train" else "test"
            dropped[f"in the gap before {before} (their windows reach over the split)"] = int(
                np.count_nonzero(gaps[name])
            )
        if name == "train":
            dropped["without a target (in all splits)"] = frame.without_target
        total = rows.num_rows
        if name == "train" and total > max_rows:
            rows = sort_rows(
                sample(rows.to_batches(), rows.schema, key_codes(db, table), total, max_rows)
            )
        found[name] = Raw(rows, total, dropped)
    return found


def duplicate_notice(frame: FrameRows) -> list[str]:
    """A notice where several labels share an entity and a time."""
    seeds = frame.rows.select(["time", "entity"]).group_by(["time", "entity"]).aggregate([])
    extra = frame.rows.num_rows - seeds.num_rows
    return [f"{extra:,} rows repeat the entity and time of another row"] if extra else []


def fitting_split(times: np.ndarray[Any, Any], split: Split, window: Any) -> Split:
    """Guessed split times give way where they would leave a split without labels: 10 % of the
    labels' own range each.

    They are then times of labels themselves: labels at the first of each month leave no other time
    a window of 30 days to validate.
    """
    import pandas as pd

    step = pd.Timedelta(0) if window is None else window
    first, last = pd.Timestamp(times.min()), pd.Timestamp(times.max())
    if (
        first <= split.val - step
        and last >= split.test
        and np.any(
            (times >= np.datetime64(split.val)) & (times <= np.datetime64(split.test - step))
        )
    ):
        return split
    part = max((last - first) * 0.1, step)
    test = _latest(times, last - part)
    return Split(_latest(times, test - part), test, True)


def _latest(times: np.ndarray[Any, Any], limit: Any) -> Any:
    """The latest of some times that is not after a limit; the limit itself where there is none."""
    import pandas as pd

    known = times[times <= np.datetime64(limit)]
    return pd.Timestamp(known.max() if len(known) else limit).as_unit("us")
