"""Times and durations as users write them, and the time range of a database.

Inside, a time is `datetime64[us]` in UTC without a zone, whatever unit or zone it came in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gelgt.errors import TaskError

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
        stamp = pd.Timestamp(value)
    except (ValueError, TypeError):
        stamp = None
    if stamp is None or pd.isna(stamp):
        raise TaskError("bad_time", f"The {role} {value!r} is no time.", hint="Write it like '2025-09-01' or '2025-09-01T12:00:00'.")
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
    except (ValueError, TypeError):
        delta = None
    if delta is None or pd.isna(delta) or delta <= pd.Timedelta(0):
        raise TaskError("bad_timedelta", f"The timedelta {value!r} is no positive duration.", hint="Write it like '30 days' or '12 hours'.")
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
    """Earliest and latest row of a database, and the latest that is not after the test time."""

    earliest: pd.Timestamp
    latest: pd.Timestamp

    @property
    def length(self) -> pd.Timedelta:
        return self.latest - self.earliest


def time_range(db: Database, until: Any = None) -> TimeRange:
    """The time range over all timed tables, of rows up to `until` if it is given."""
    import pandas as pd

    limit = None if until is None else pa.scalar(np.datetime64(until, "us"))
    low: list[Any] = []
    high: list[Any] = []
    for name in db.table_names:
        column = db.table(name).time_col
        if column is None:
            continue
        for batch in db.batches(name, [column]):
            times = batch.column(0)
            if limit is not None:
                times = times.filter(pc.less_equal(times, limit))
            found = pc.min_max(times).as_py()
            if found["min"] is not None:
                low.append(found["min"])
                high.append(found["max"])
    if not low:
        when = "" if until is None else f" up to {time_text(until)}"
        raise TaskError(
            "no_time", f"No table of '{db.schema.name}' has a row with a time{when}.", hint="Name a time column in the manifest."
        )
    return TimeRange(pd.Timestamp(min(low)).as_unit("us"), pd.Timestamp(max(high)).as_unit("us"))
