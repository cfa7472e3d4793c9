"""Canonical types: every Arrow type has its place, values keep their meaning, and nothing is
wrapped."""

import uuid
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from gelgt.errors import SourceError
from gelgt.sources.canonical import (
    ARROW_TYPES,
    STRINGS,
    TIME,
    canonical_array,
    canonical_name,
    canonical_type,
)

WHEN = datetime(2024, 1, 31, 17, 4, 5)


@pytest.mark.parametrize(
    ("array", "arrow", "values"),
    [
        (pa.array([1, None], pa.uint8()), pa.int64(), [1, None]),
        (pa.array([2**63 - 1], pa.uint64()), pa.int64(), [2**63 - 1]),
        (pa.array([1.5, None], pa.float32()), pa.float64(), [1.5, None]),
        (pa.array([Decimal("1.25"), None]), pa.float64(), [1.25, None]),
        (pa.array(["a", None], pa.large_string()), pa.string(), ["a", None]),
        (pa.array(["a", "b", "a"]).dictionary_encode(), pa.string(), ["a", "b", "a"]),
        (pa.array([date(2024, 1, 31), None]), TIME, [datetime(2024, 1, 31), None]),
        (pa.array([WHEN], pa.timestamp("s")), TIME, [WHEN]),
        (pa.array([WHEN], pa.timestamp("ms", "UTC")), TIME, [WHEN]),
        (
            pa.array([timedelta(minutes=1, milliseconds=500)], pa.duration("ms")),
            pa.float64(),
            [60.5],
        ),
        (pa.array([time(17, 4, 5)], pa.time32("s")), pa.string(), ["17:04:05"]),
        (pa.array([["a", None, "b"], [], None]), STRINGS, [["a", "b"], [], None]),
        (pa.array([[1, 2]], pa.large_list(pa.int32())), STRINGS, [["1", "2"]]),
        (pa.array([{"b": 1, "a": None}, None]), pa.string(), ['{"a": null, "b": 1}', None]),
        (pa.nulls(2), pa.string(), [None, None]),
        (pa.array([True, None]), pa.bool_(), [True, None]),
    ],
)
def test_values_keep_their_meaning(array: pa.Array, arrow: pa.DataType, values: list[Any]) -> None:
    cast = canonical_array(array, "t", "c")
    assert cast.type == arrow == canonical_type(array.type)
    assert cast.to_pylist() == values


def test_zoned_times_are_instants() -> None:
    zoned = pa.array([1_706_720_645], pa.int64()).cast(pa.timestamp("s", "Asia/Tokyo"))
    assert canonical_array(zoned, "t", "c").to_pylist() == [WHEN]


@pytest.mark.parametrize("nanoseconds", [999, 1_999, -1, -1_001])
def test_nanoseconds_are_cut_towards_the_past(nanoseconds: int) -> None:
    micros = canonical_array(pa.array([nanoseconds], pa.timestamp("ns")), "t", "c").cast(pa.int64())
    assert micros.to_pylist() == [nanoseconds // 1000]


def test_uuids_are_text() -> None:
    value = uuid.uuid4()
    array = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([value.bytes, None], pa.binary(16)))
    assert canonical_array(array, "t", "c").to_pylist() == [str(value), None]


def test_binary_data_has_no_place() -> None:
    assert canonical_type(pa.binary()) is None
    with pytest.raises(SourceError) as caught:
        canonical_array(pa.array([b"x"]), "photos", "data")
    assert caught.value.code == "binary_column"
    assert "'photos.data'" in caught.value.message


@pytest.mark.parametrize(
    "array",
    [
        pa.array([2**63], pa.uint64()),
        pa.array([2**62], pa.int64()).cast(pa.timestamp("s")),
        pa.array([253_402_300_800], pa.int64()).cast(pa.timestamp("s")),  # the year 10000
        pa.array([2**62], pa.int64()).cast(TIME),
        pa.array([-(2**62)], pa.int64()).cast(TIME),
    ],
)
def test_values_outside_a_type_are_errors(array: pa.Array) -> None:
    with pytest.raises(SourceError) as caught:
        canonical_array(array, "t", "c")
    assert caught.value.code == "bad_value"
    assert "'t.c'" in caught.value.message


def test_the_last_moment_that_fits() -> None:
    last = pa.array([datetime(9999, 12, 31, 23, 59, 59, 999999), datetime(1, 1, 1)], TIME)
    assert canonical_array(last, "t", "c").equals(last)


def test_canonical_arrays_pass_untouched() -> None:
    array = pa.array([1, 2])
    assert canonical_array(array, "t", "c") is array


def test_names() -> None:
    assert {name: canonical_name(arrow) for name, arrow in ARROW_TYPES.items()} == {
        name: name for name in ARROW_TYPES
    }
