"""Column types and values of SQL databases as Arrow takes them."""

from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import sqlalchemy as sa

from gelgt.sources.canonical import STRINGS, TIME

WHOLE_DIGITS = 18  # that an int64 holds


def arrow_type(kind: Any) -> pa.DataType | None:
    """The Arrow type of a SQLAlchemy type; None for binary data."""
    if isinstance(kind, sa.Boolean):
        return pa.bool_()
    if isinstance(kind, sa.Integer):
        return pa.int64()
    if isinstance(kind, (sa.Numeric, sa.Float)):
        # NUMERIC(18, 0) is a whole number, often a key: as floats, large keys would become equal.
        precision = getattr(kind, "precision", None) or 0
        is_whole = getattr(kind, "scale", None) == 0 and 0 < precision <= WHOLE_DIGITS
        return pa.int64() if is_whole else pa.float64()
    if isinstance(kind, (sa.DateTime, sa.Date)):
        return TIME
    if isinstance(kind, sa.LargeBinary):
        return None
    return STRINGS if isinstance(kind, sa.ARRAY) else pa.string()


def plain_value(value: Any, arrow: pa.DataType) -> Any:
    """A driver's Python value as one that Arrow takes for the type."""
    if value is None:
        return None
    if arrow == pa.float64():
        return float(value)
    if arrow == pa.bool_():
        return bool(int.from_bytes(value, "big")) if isinstance(value, bytes) else bool(value)
    if arrow == pa.int64():
        return int(value)
    if arrow == pa.string():
        if isinstance(value, timedelta):  # a time of day, or MySQL's TIME beyond one
            return clock_text(value)
        return value.hex() if isinstance(value, bytes) else str(value)
    if arrow == TIME:
        if isinstance(value, str):
            return datetime.fromisoformat(value)
        is_day = not isinstance(value, datetime)
        return datetime(value.year, value.month, value.day) if is_day else value
    if arrow == STRINGS:
        texts = [str(v) for v in value]
        return sorted(texts) if isinstance(value, (set, frozenset)) else texts
    return value


def clock_text(time: timedelta) -> str:
    """A time as the servers write it.

    Example:
        >>> clock_text(timedelta(hours=9)), clock_text(-timedelta(days=2, seconds=1.5))
        ('09:00:00', '-48:00:01.5')
    """
    seconds, rest = divmod(abs(time), timedelta(seconds=1))
    fraction = f".{rest.microseconds:06}".rstrip("0") if rest else ""
    sign = "-" if time < timedelta(0) else ""
    return f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{fraction}"
