"""Times and durations as users write them, and the time range of a database.

Inside, a time is `datetime64[us]` in UTC without a zone, whatever unit or zone it came in.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from gelgt.errors import TaskError
from gelgt.sources.row_times import NEVER, TIMELESS, RowTimes

if TYPE_CHECKING:
    import pandas as pd

    from gelgt.sources.database import Database


def timestamp(value: Any, role: str) -> pd.Timestamp:
    """A user's time in UTC without a zone.

    Example:
        >>> timestamp("2024-01-01T02:00:00+02:00", "validation time")
        Timestamp('2024-01-01 00:00:00')
    """
    import pandas as pd

    stamp: pd.Timestamp | None
    try:
        if isinstance(value, bool | int | float):
            raise ValueError("a bare number")
        if isinstance(value, str) and not re.search(r"\d{4}", value):
            raise ValueError("no year")  # pandas would take the day or the year of today
        stamp = pd.Timestamp(value)
    except (ValueError, TypeError, OverflowError):
        stamp = None
    if stamp is None or pd.isna(stamp):
        raise TaskError(
            "bad_time",
            f"The {role} must be a time, got {value!r}.",
            hint="Write it like '2025-09-01' or '2025-09-01T12:00:00'.",
        )
    stamp = stamp.tz_convert("UTC").tz_localize(None) if stamp.tzinfo else stamp
    return stamp.as_unit("us")


def duration(value: Any) -> pd.Timedelta:
    """A positive duration: '30 days', a timedelta, a pandas Timedelta."""
    import pandas as pd

    delta: pd.Timedelta | None
    try:
        if isinstance(value, bool | int | float):
            raise ValueError("a bare number")
        delta = pd.Timedelta(value)
    except (ValueError, TypeError, OverflowError):
        delta = None
    if delta is None or pd.isna(delta) or delta <= pd.Timedelta(0):
        raise TaskError(
            "bad_timedelta",
            f"timedelta must be a positive duration, got {value!r}.",
            hint="Write it like '30 days' or '12 hours'.",
        )
    return delta


def duration_text(delta: pd.Timedelta) -> str:
    """A duration as a manifest writes it: days where it is whole days.

    Example:
        >>> import pandas as pd
        >>> duration_text(pd.Timedelta(days=7)), duration_text(pd.Timedelta(hours=36))
        ('7 days', '1 days 12:00:00')
    """
    return f"{delta.days} days" if not delta.seconds and not delta.microseconds else str(delta)


def time_text(value: Any) -> str:
    """A time as a manifest writes it: the date alone at midnight."""
    import pandas as pd

    stamp = pd.Timestamp(value)
    return str(stamp.date()) if stamp == stamp.normalize() else str(stamp)


@dataclass(frozen=True)
class TimeRange:
    """Earliest and latest row of a database, and how many rows (`strays`) lie so far after the
    latest that their times cannot be real."""

    earliest: pd.Timestamp
    latest: pd.Timestamp
    strays: int = 0

    @property
    def length(self) -> pd.Timedelta:
        return self.latest - self.earliest


def time_range(db: Database, until: Any = None, tables: Sequence[str] | None = None) -> TimeRange:
    """The time range over all timed tables, or over `tables`; of rows up to `until` if it is given.

    A few rows may hold a time that stands for "never" (9999-12-31). Windows up to there would hold
    no events, so the range ends before a jump that is longer than everything before it, if at most
    one row in 200 comes after it.
    """
    timed = [name for name in db.table_names if db.table(name).time_col]
    whole = _time_range(db, timed, until, sum(db.num_rows(name) for name in db.table_names))
    if tables is None:
        return whole
    part = _time_range(db, tables, whole.latest, sum(db.num_rows(name) for name in tables))
    return TimeRange(part.earliest, part.latest, whole.strays + part.strays)


def _time_range(db: Database, tables: Sequence[str], until: Any, rows: int) -> TimeRange:
    limit = np.iinfo(np.int64).max
    if until is not None:
        limit = int(np.datetime64(until, "us").astype(np.int64))
    few = rows // 200
    low: list[int] = []
    newest = [np.zeros(0, np.int64)]
    for name in tables:
        earliest, tail = _ends(db, name, limit, few + 1)
        low += [earliest] if len(tail) else []
        newest.append(tail)
    if not low:
        when = "" if until is None else f" up to {time_text(until)}"
        where = f"No table of '{db.schema.name}'"
        if tables:
            where = f"None of the tables {', '.join(tables)}"
        raise TaskError(
            "no_time",
            f"{where} has a row with a time{when}.",
            hint="Name a time column in a --schema file: TABLE: {time_col: COLUMN}.",
        )
    ends = np.sort(np.concatenate(newest))[-few - 1 :]
    jumps = np.flatnonzero(np.diff(ends) > np.maximum(ends[:-1] - min(low), 1))
    last = int(jumps[0]) if len(jumps) else len(ends) - 1
    return TimeRange(_stamp(min(low)), _stamp(ends[last]), len(ends) - 1 - last)


def _ends(
    db: Database, table: str, limit: int, count: int
) -> tuple[int, np.ndarray[Any, np.dtype[np.int64]]]:
    """The earliest time of a table's rows up to a limit, and the latest `count` in order.

    Rows are ordered by their time column, so the middle of a long table is not read.
    """
    column = db.table(table).time_col
    if column is None:
        times = np.sort(np.concatenate([np.zeros(0, np.int64), *row_times(db, table)]))
        past = times[times <= limit]
        return int(past[0]) if len(past) else limit, past[-count:]
    earliest, tail = limit, np.zeros(0, np.int64)
    for part in db.column_from_end(table, column):
        times = _filled(part)
        past = times[times <= limit]
        tail = np.concatenate([past, tail])[-count:]
        if len(tail) == count:
            break
    for batch in db.batches(table, [column]) if len(tail) else ():
        if len(first := _filled(batch.column(0))):
            earliest = int(first[0])
            break
    return earliest, tail


def row_times(db: Database, table: str) -> Iterator[np.ndarray[Any, np.dtype[np.int64]]]:
    """The times of a table's rows in microseconds, batch by batch: from its time column, or from
    the rows that date it.

    Rows without a time are left out.
    """
    schema = db.table(table)
    if schema.time_col is None and schema.dating_keys:
        times = RowTimes(db).of(table)
        yield times[(times != NEVER) & (times != TIMELESS)]
    for batch in db.batches(table, [schema.time_col]) if schema.time_col is not None else ():
        yield _filled(batch.column(0))


def _filled(times: pa.Array) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Times in microseconds, without nulls."""
    return np.asarray(times.drop_null().cast(pa.int64()).to_numpy(zero_copy_only=False))


def _stamp(micros: int) -> pd.Timestamp:
    import pandas as pd

    return pd.Timestamp(np.datetime64(int(micros), "us")).as_unit("us")


def seconds(moment: Any) -> int:
    """A moment as whole seconds since 1970."""
    return int(np.datetime64(moment, "s").astype(np.int64))
