"""Canonical column types, whatever a source delivers.

    int64, float64, bool, string, timestamp[us], list<string>

Times are instants in UTC, stored without a zone: RelBench compares them with zone-free split times,
and interval arithmetic on zoned times would depend on the session's zone. Zoned times are
converted, dates are midnight UTC. Values outside a type (an unsigned integer above 2^63, a time
beyond the year 9999) are errors, never wrapped.
"""

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


def canonical_type(arrow: pa.DataType) -> pa.DataType | None:
    """The canonical type for an Arrow type; None for binary data, which gelgt cannot use."""
    if isinstance(arrow, pa.BaseExtensionType):
        return (
            canonical_type(arrow.storage_type)
            if not pa.types.is_fixed_size_binary(arrow.storage_type)
            else pa.string()
        )
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
    if (
        pa.types.is_string(arrow)
        or pa.types.is_large_string(arrow)
        or pa.types.is_string_view(arrow)
        or pa.types.is_time(arrow)
    ):
        return pa.string()
    if (
        pa.types.is_list(arrow)
        or pa.types.is_large_list(arrow)
        or pa.types.is_fixed_size_list(arrow)
    ):
        return STRINGS
    if pa.types.is_null(arrow):
        return pa.string()
    if pa.types.is_struct(arrow) or pa.types.is_map(arrow):
        return pa.string()
    return None


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
        found = array if array.type == target else _cast(array, target)
        if target == TIME:
            _check_years(found)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OverflowError) as error:
        raise SourceError(
            "bad_value",
            f"'{table}.{column}': a value of type {array.type} does not fit "
            f"{canonical_name(target)} ({error}).",
            hint=f"First values: {_first(array)}. Repair or leave out the column.",
        ) from None
    return _without_inner_nulls(found) if target == STRINGS else found


def _check_years(times: pa.Array) -> None:
    """Python, pandas and Parquet statistics know the years 1 to 9999 alone."""
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
    return pa.array(
        [None if v is None else [x for x in v if x is not None] for v in lists.to_pylist()], STRINGS
    )


def _cast(array: pa.Array, target: pa.DataType) -> pa.Array:
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if array.type == target:
        return array
    source = array.type
    if pa.types.is_fixed_size_binary(source):  # UUIDs
        import uuid

        return pa.array(
            [None if v is None else str(uuid.UUID(bytes=v)) for v in array.to_pylist()], pa.string()
        )
    if pa.types.is_timestamp(source):
        # A zoned timestamp already counts from the UTC epoch: dropping the zone keeps the instant.
        plain = array.view(pa.timestamp(source.unit)) if source.tz else array
        return (
            pc.floor_temporal(plain, unit="microsecond").cast(TIME)
            if source.unit == "ns"
            else plain.cast(TIME)
        )
    if pa.types.is_duration(source):
        per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[source.unit]
        return pc.divide(array.cast(pa.int64()).cast(pa.float64()), float(per_second))
    if target == STRINGS:
        return pa.array(
            [
                None if v is None else [str(x) for x in v if x is not None]
                for v in array.to_pylist()
            ],
            STRINGS,
        )
    if pa.types.is_struct(source) or pa.types.is_map(source):
        import json

        return pa.array(
            [
                None if v is None else json.dumps(v, default=str, sort_keys=True)
                for v in array.to_pylist()
            ],
            pa.string(),
        )
    if pa.types.is_integer(source) and target == pa.float64():
        return array.cast(target, safe=False)
    if pa.types.is_decimal(source):
        return array.cast(target)
    return array.cast(target)
