"""Canonical column types, whatever a source delivers.

    int64, float64, bool, string, timestamp[us], list<string>

Times are instants in UTC, stored without a zone: RelBench compares them with zone-free split times,
and interval arithmetic on zoned times would depend on the session's zone. Zoned times are
converted, dates are midnight UTC. Values outside a type (an unsigned integer above 2^63, a time
beyond the year 9999) are errors, never wrapped.
"""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gelgt.errors import SourceError, some

TIME = pa.timestamp("us")
STRINGS = pa.list_(pa.string())

ARROW_TYPES = {
    "int64": pa.int64(),
    "float64": pa.float64(),
    "bool": pa.bool_(),
    "string": pa.string(),
    "timestamp": TIME,
    "list": STRINGS,
}
_YEAR_1, _YEAR_10000 = -62_135_596_800 * 10**6, 253_402_300_800 * 10**6  # µs
_NAMES = {arrow: name for name, arrow in ARROW_TYPES.items()}
_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
_TEXTS = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
    pa.types.is_time,
    pa.types.is_null,
    pa.types.is_struct,
    pa.types.is_map,
)


def canonical_type(arrow: pa.DataType) -> pa.DataType | None:
    """The canonical type for an Arrow type; None for binary data, which gelgt cannot use."""
    if isinstance(arrow, pa.BaseExtensionType):
        is_uuid = pa.types.is_fixed_size_binary(arrow.storage_type)
        return pa.string() if is_uuid else canonical_type(arrow.storage_type)
    if pa.types.is_dictionary(arrow):
        return canonical_type(arrow.value_type)
    if pa.types.is_boolean(arrow):
        return pa.bool_()
    if pa.types.is_integer(arrow):
        return pa.int64()
    if pa.types.is_floating(arrow) or pa.types.is_decimal(arrow):
        return pa.float64()
    if pa.types.is_timestamp(arrow) or pa.types.is_date(arrow):
        return TIME
    if pa.types.is_duration(arrow):
        return pa.float64()
    if any(is_list(arrow) for is_list in _LISTS):
        return STRINGS
    return pa.string() if any(is_text(arrow) for is_text in _TEXTS) else None


def canonical_name(canonical: pa.DataType) -> str:
    """`timestamp[us]` → `timestamp`, as the manifest writes it."""
    return _NAMES[canonical]


def canonical_array(array: pa.Array, table: str, column: str) -> pa.Array:
    """Cast one array to its canonical type.

    Raises:
        SourceError: a value has no place in the canonical type.
    """
    target = canonical_type(array.type)
    if target is None:
        raise SourceError(
            "binary_column",
            f"'{table}.{column}' holds binary data ({array.type}).",
            hint="Leave the column out.",
        )
    try:
        cast = array if array.type == target else _cast(array, target)
        if target == TIME:
            _check_years(cast)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OverflowError) as error:
        raise SourceError(
            "bad_value",
            f"'{table}.{column}': a value of type {array.type} does not fit "
            f"{canonical_name(target)} ({error}).",
            hint=f"First values: {_first(array)}. Repair or leave out the column.",
        ) from None
    return _without_inner_nulls(cast) if target == STRINGS else cast


def _check_years(times: pa.Array) -> None:
    """Python, pandas and Parquet statistics only take the years 1 to 9999."""
    extremes = pc.min_max(times.cast(pa.int64()))
    low, high = extremes["min"].as_py(), extremes["max"].as_py()
    if low is not None and (low < _YEAR_1 or high >= _YEAR_10000):
        raise OverflowError("a time outside the years 1 to 9999")


def _first(array: pa.Array) -> str:
    head = array.drop_null()[:3]
    try:
        return some(head.to_pylist())
    except (OverflowError, ValueError):  # a time that Python cannot hold
        return some(head.cast(pa.int64()).to_pylist())


def _without_inner_nulls(lists: pa.Array) -> pa.Array:
    if lists.flatten().null_count == 0:
        return lists
    return _each(lists, lambda items: [x for x in items if x is not None], STRINGS)


def _cast(array: pa.Array, target: pa.DataType) -> pa.Array:
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    source = array.type
    if source == target:
        return array
    if pa.types.is_fixed_size_binary(source):
        return _each(array, _uuid_text, pa.string())
    if pa.types.is_timestamp(source):
        # A zoned timestamp already counts from the UTC epoch: dropping the zone keeps the instant.
        plain = array.view(pa.timestamp(source.unit)) if source.tz else array
        if source.unit == "ns":
            plain = pc.floor_temporal(plain, unit="microsecond")
        return plain.cast(TIME)
    if pa.types.is_duration(source):
        per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[source.unit]
        return pc.divide(array.cast(pa.int64()).cast(pa.float64()), float(per_second))
    if target == STRINGS:
        return _each(array, lambda items: [str(x) for x in items if x is not None], STRINGS)
    if pa.types.is_struct(source) or pa.types.is_map(source):
        return _each(array, _json_text, pa.string())
    is_lossy = pa.types.is_integer(source) and target == pa.float64()
    return array.cast(target, safe=not is_lossy)


def _each(array: pa.Array, convert: Callable[[Any], Any], target: pa.DataType) -> pa.Array:
    values = [None if v is None else convert(v) for v in array.to_pylist()]
    return pa.array(values, target)


def _uuid_text(value: bytes) -> str:
    import uuid

    return str(uuid.UUID(bytes=value))


def _json_text(value: Any) -> str:
    import json

    return json.dumps(value, default=str, sort_keys=True)
