"""Columns of odd values, by Arrow type: what real databases hold, at its edges."""

import decimal
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pyarrow as pa

Random = np.random.Generator
NAMES = (
    "user_id", "parent_id", "order", "select", "group", "table", "created_at",
    "date", "time", "timestamp", "name", "value", "a b", 'qu"ote', "it's", "ümläut", "日本", "x.y",
    "100%", "name;", "a\nb", "-", "NULL", "rowid", "entity", "target", "{timedelta}", "🙂", "ﬁ",
    "key+key", "a=b", "C:x", "con", "#", "%s", "$1",
)  # fmt: skip
TEXTS = (
    "",
    "a",
    "b",
    "a|b",
    "7",
    "1e9",
    "2024-01-01",
    "null",
    "NaN",
    "é",
    "日本",
    "\x00",
    "'; --",
    "true",
)


def _number(random: Random) -> float:
    odd = [0.0, -0.0, 1.5, 1e308, -1e308, 5e-324, np.nan, np.inf, -np.inf]
    return float(odd[random.integers(len(odd))] if random.random() < 0.3 else random.normal())


def _moment(random: Random) -> datetime:
    year = int(random.choice([1, 1582, 1677, 1900, 1969, 1970, 2024, 2262, 2263, 9999]))
    if random.random() < 0.7:
        year = 2024
    return datetime(year, int(random.integers(1, 13)), 1) + timedelta(
        hours=int(random.integers(24))
    )


def _text(random: Random) -> str:
    if random.random() < 0.003:
        return "x" * 1_200_000
    return TEXTS[random.integers(len(TEXTS))]


def _zone(random: Random) -> datetime:
    zone = timezone(timedelta(hours=int(random.integers(-11, 12))))
    return _moment(random).replace(year=2024, tzinfo=zone).astimezone(UTC)


_SMALL = [0, 1, 2, 5]
VALUES: dict[str, tuple[pa.DataType, Callable[[Random], Any]]] = {
    "small": (pa.int64(), lambda r: int(r.choice(_SMALL))),
    "int64": (pa.int64(), lambda r: int(r.integers(-(2**63), 2**63 - 1))),
    "int8": (pa.int8(), lambda r: int(r.integers(-128, 128))),
    "uint64": (pa.uint64(), lambda r: int(r.integers(0, 2**64, dtype=np.uint64))),
    "float64": (pa.float64(), _number),
    "float32": (pa.float32(), lambda r: float(np.float32(r.normal()))),
    "decimal": (
        pa.decimal128(30, 2),
        lambda r: decimal.Decimal(int(r.integers(10**15))).scaleb(-2),
    ),
    "huge": (pa.decimal128(38, 0), lambda r: decimal.Decimal(10) ** int(r.integers(0, 38))),
    "bool": (pa.bool_(), lambda r: bool(r.integers(2))),
    "string": (pa.string(), _text),
    "binary": (pa.binary(), lambda r: r.bytes(int(r.integers(5)))),
    "date": (pa.date32(), lambda r: date(int(r.choice([1, 1900, 2024, 9999])), 5, 17)),
    "us": (pa.timestamp("us"), _moment),
    "s": (pa.timestamp("s"), _moment),
    "ns": (pa.timestamp("ns"), lambda r: _moment(r).replace(year=2024)),
    "zoned": (pa.timestamp("us", "Europe/Berlin"), _zone),
    "time": (pa.time64("us"), lambda r: int(r.integers(86_400_000_000))),
    "duration": (pa.duration("s"), lambda r: int(r.integers(10**6))),
    "list": (pa.list_(pa.string()), lambda r: ["a", "b", ""][: r.integers(4)]),
    "struct": (pa.struct([("a", pa.int64())]), lambda r: {"a": 1}),
    "coded": (pa.dictionary(pa.int32(), pa.string()), lambda r: TEXTS[r.integers(5)]),
    "null": (pa.null(), lambda r: None),
}
# Kinds that a SQL file holds as they are.
PLAIN = ("small", "int64", "float64", "bool", "string", "us", "date")


def random_column(kind: str, rows: int, random: Random) -> pa.Array:
    """A column with gaps, of one value, or without any."""
    arrow, draw = VALUES[kind]
    shape = random.random()
    if shape < 0.08:
        return pa.nulls(rows, arrow)
    if shape < 0.18:
        return pa.array([draw(random)] * rows, arrow)
    gaps = 0.0 if random.random() < 0.4 else 0.2
    return pa.array([None if random.random() < gaps else draw(random) for _ in range(rows)], arrow)
