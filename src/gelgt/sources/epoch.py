"""Numbers that are times, in a column that is named or declared like one: they count from 1970, if
all of them lie in the years 1990 to 2100 in one unit, or are days written as 20240531, whatever the
source stores them as.

0 and -1 stand for a missing time, as does a word such as NA.
"""

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gelgt.schema.names import words
from gelgt.sources.canonical import TIME
from gelgt.sources.text_types import parse_all_numbers

_FROM, _TO = 631_152_000, 4_102_444_800  # 1990 and 2100, in seconds
_UNITS = {"seconds": 1, "milliseconds": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}
DIGITS = "days as YYYYMMDD"
_FIRST_DAY, _LAST_DAY = 1900_01_01, 2100_12_31
_UNSET = pa.array([0.0, -1.0])
# Words at the end of a name that say how a time is counted: `created_utc`, `time_ms`.
_COUNTED = frozenset(
    {"unix", "epoch", "utc", "gmt", "s", "sec", "second", "ms", "msec", "milli", "millis"}
    | {"millisecond", "us", "micro", "micros", "microsecond", "ns", "nano", "nanos", "nanosecond"}
)
_TIMES = frozenset(
    {"ts", "time", "timestamp", "date", "datetime", "dt", "epoch", "at", "on", "when", "since"}
    | {"until", "moment", "utc", "start", "begin", "end", "expire", "expiry"}
    | {"created", "updated", "modified", "deleted", "changed", "edited", "posted", "published"}
    | {"opened", "closed", "started", "ended", "finished", "completed", "registered", "joined"}
    | {"visited", "seen", "login"}
)
# Written as one word: `hiredate`, `createdtime`, `createdat`, `eventts`, `dateadded`, `epochms`.
_GLUED = re.compile(
    r"time_?stamp|epoch|datetime|^date|(?<!candi)(?<!man)date$|(?<!life)(?<!run)(?<!up)time$"
    r"|ed(at|on)$|(event|log|unix)ts$|(time|date|ts)(utc|secs?|ms|us|ns|millis)$"
)
# What may be as large as a time, however its name ends: `ip_start`, `amount_posted`.
_QUANTITIES = frozenset(
    {"id", "key", "code", "no", "nr", "number", "num", "count", "amount", "price", "cost", "total"}
    | {"sum", "size", "byte", "balance", "revenue", "value", "budget", "ip", "phone", "hash"}
    | {"duration", "zone", "timezone", "position", "pos", "offset", "block", "address"}
)


def is_timelike(name: str) -> bool:
    """Whether numbers in a column of this name may be times.

    >>> [is_timelike(n) for n in ("createdAt", "hiredate", "time_ms", "event_id", "candidate")]
    [True, True, True, False, False]
    """
    parts = [w for w in words(name) if not w.isdigit()]
    if _QUANTITIES & set(parts):
        return False
    if _GLUED.search(name.lower().rstrip("0123456789")):
        return True
    while len(parts) > 1 and parts[-1] in _COUNTED:
        parts.pop()
    return bool(parts) and parts[-1] in _TIMES


class EpochProfile:
    """The units in which the values of a column may be times, batch by batch."""

    def __init__(self) -> None:
        self._units = [DIGITS, *_UNITS]
        self._has_values = False

    @property
    def unit(self) -> str | None:
        """The one unit that fits all values, if there is one."""
        return self._units[0] if self._has_values and len(self._units) == 1 else None

    def add(self, values: pa.Array) -> None:
        numbers = _numbers(values) if self._units else None
        if numbers is None:
            self._units = []
            return
        extremes = pc.min_max(numbers)
        low, high = extremes["min"].as_py(), extremes["max"].as_py()
        if low is not None:
            self._has_values = True
            self._units = [u for u in self._units if _fits(numbers, low, high, u)]


def _fits(numbers: pa.Array, low: float, high: float, unit: str) -> bool:
    if unit == DIGITS:
        is_day = low >= _FIRST_DAY and high <= _LAST_DAY
        return is_day and bool(np.all(_as_digits(_days(numbers)) == _filled(numbers)))
    return _FROM * _UNITS[unit] <= low and high < _TO * _UNITS[unit]


def _filled(numbers: pa.Array) -> NDArray[np.float64]:
    filled: NDArray[np.float64] = numbers.drop_null().to_numpy(zero_copy_only=False)
    return filled.astype(np.float64)


def _days(numbers: pa.Array) -> NDArray[np.datetime64]:
    """Days from numbers such as 20240531; without those that are missing."""
    digits = _filled(numbers).astype(np.int64)
    months = (digits // 10_000 - 1970) * 12 + digits // 100 % 100 - 1
    days: NDArray[np.datetime64] = months.astype("M8[M]").astype("M8[D]")
    days += (digits % 100 - 1).astype("m8[D]")
    return days


def _as_digits(days: NDArray[np.datetime64]) -> NDArray[np.int64]:
    """Numbers such as 20240531: another one than what a day was made of shows that it is none."""
    months = days.astype("M8[M]")
    count = months.astype(np.int64)
    day = (days - months.astype("M8[D]")).astype(np.int64) + 1
    digits: NDArray[np.int64] = (1970 + count // 12) * 10_000 + (count % 12 + 1) * 100 + day
    return digits


def _numbers(values: pa.Array) -> pa.Array | None:
    """Values as numbers, null where a time is missing; None where one is no number."""
    numbers = parse_all_numbers(values) if values.type == pa.string() else values
    if numbers is None or numbers.type not in (pa.int64(), pa.float64()):
        return None
    is_set = pc.invert(pc.is_in(numbers, value_set=_UNSET.cast(numbers.type)))
    if numbers.type == pa.float64():
        is_set = pc.and_(is_set, pc.is_finite(numbers))
    return pc.if_else(is_set, numbers, pa.scalar(None, numbers.type))


def from_epoch(values: pa.Array, unit: str) -> pa.Array:
    """Times from numbers or texts of numbers; what is finer than a microsecond is cut."""
    numbers = _numbers(values)
    assert numbers is not None
    if unit == DIGITS:
        filled = _days(numbers).astype("M8[us]")
        out = np.full(len(numbers), np.datetime64("NaT"), "M8[us]")
        out[numbers.is_valid().to_numpy(zero_copy_only=False)] = filled
        return pa.array(out, TIME)
    scale = _UNITS[unit]
    if scale > 10**6:
        numbers = pc.divide(numbers, scale // 10**6)
    else:
        numbers = pc.multiply(numbers, 10**6 // scale)
    if numbers.type == pa.float64():
        numbers = pc.floor(numbers).cast(pa.int64())
    return numbers.cast(TIME)
