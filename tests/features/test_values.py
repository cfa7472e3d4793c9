"""Columns read as their kind wants them."""

from datetime import datetime

import numpy as np
import pyarrow as pa
import pytest

from gelgt.errors import GelgtError
from gelgt.features.values import (
    MISSING_TIME,
    Column,
    as_numbers,
    as_parts,
    as_seconds,
    as_text,
    category_names,
    check_nameable,
)

COLUMN = Column("t", "c")


def test_numbers_from_every_type() -> None:
    assert as_numbers(pa.array([1, None]), COLUMN).values.tolist()[0] == 1
    assert as_numbers(pa.array([True, False]), COLUMN).values.tolist() == [1, 0]
    parsed = as_numbers(pa.array(["1.5", " 2 ", "-1e3", "many", "1_000", None]), COLUMN)
    np.testing.assert_array_equal(parsed.values, [1.5, 2, -1000, np.nan, np.nan, np.nan])
    assert parsed.unparsable == 2


def test_infinite_and_oversized_numbers_are_missing_and_counted() -> None:
    numbers = as_numbers(pa.array([np.inf, -np.inf, 1e39, 3e38, np.nan, None]), COLUMN)
    np.testing.assert_array_equal(np.isnan(numbers.values), [True, True, True, False, True, True])
    assert numbers.non_finite == 3


def test_whole_numbers_have_one_name_whatever_their_type() -> None:
    assert category_names(pa.array([3, -1, 0]), COLUMN).to_pylist() == ["3", "-1", "0"]
    assert category_names(pa.array([3.0, -1.0, -0.0]), COLUMN).to_pylist() == ["3", "-1", "0"]
    assert category_names(pa.array([2.5, np.nan, None, 1e300, np.inf]), COLUMN).to_pylist() == [
        "2.5",
        None,
        None,
        "1e+300",
        "inf",
    ]
    assert category_names(pa.array([True, False]), COLUMN).to_pylist() == ["true", "false"]


def test_seconds_round_down() -> None:
    times = pa.array(
        [datetime(1969, 12, 31, 23, 59, 59, 1), None, datetime(2000, 1, 1)], pa.timestamp("us")
    )
    assert as_seconds(times, COLUMN).tolist() == [-1, MISSING_TIME, 946684800]
    assert as_seconds(pa.nulls(2, pa.string()), COLUMN).tolist() == [MISSING_TIME] * 2


def test_parts_are_trimmed_and_empty_ones_left_out() -> None:
    parts, rows = as_parts(pa.array(["a| b", None, "", "|a|", "c"]), "|", COLUMN)
    assert (parts.to_pylist(), rows.tolist()) == (["a", "b", "a", "c"], [0, 0, 3, 4])
    parts, rows = as_parts(
        pa.array([["x", None, "y"], None, []], pa.list_(pa.string())), None, COLUMN
    )
    assert (parts.to_pylist(), rows.tolist()) == (["x", "y"], [0, 0])


def test_sliced_lists_count_rows_from_the_slice() -> None:
    lists = pa.array([["a"], ["b", "c"], None, ["d"]], pa.list_(pa.string()))[1:]
    parts, rows = as_parts(lists, None, COLUMN)
    assert (parts.to_pylist(), rows.tolist()) == (["b", "c", "d"], [0, 0, 2])


def test_text_from_other_types() -> None:
    assert as_text(pa.array([3.0, None, 2.5]), COLUMN).to_pylist() == ["3", None, "2.5"]
    assert as_text(pa.array([["a", "b"], None], pa.list_(pa.string())), COLUMN).to_pylist() == [
        "a b",
        None,
    ]


@pytest.mark.parametrize(
    ("read", "array", "kind"),
    [
        (as_numbers, pa.array([datetime(2000, 1, 1)], pa.timestamp("us")), "numerical"),
        (as_numbers, pa.array([["a"]]), "numerical"),
        (as_seconds, pa.array([1]), "timestamp"),
        (as_seconds, pa.array(["2000-01-01"]), "timestamp"),
        (lambda a, c: check_nameable(a.type, c), pa.array([["a"]]), "categorical"),
        (lambda a, c: as_parts(a, "|", c), pa.array([1]), "multicategorical"),
    ],
)
def test_a_kind_that_makes_no_sense_names_table_column_and_kind(
    read, array: pa.Array, kind: str
) -> None:
    with pytest.raises(GelgtError, match=rf"'t\.c' holds .* cannot be {kind}") as caught:
        read(array, COLUMN)
    assert caught.value.code == "bad_kind"


@pytest.mark.parametrize(
    "read", [as_numbers, category_names, as_text, lambda a, c: as_parts(a, "|", c)]
)
def test_bytes_that_are_no_text_are_an_error(read) -> None:
    broken = pa.array([b"caf\xe9"], pa.binary()).view(pa.string())
    with pytest.raises(GelgtError, match=r"'t\.c' holds bytes that are not UTF-8") as caught:
        read(broken, COLUMN)
    assert caught.value.code == "not_utf8"
