"""Columns of strings get a type only if every value fits, and a nearly-time column is an error, not
text."""

from datetime import datetime

import pyarrow as pa
import pytest

from gelgt.errors import SourceError
from gelgt.sources.canonical import TIME
from gelgt.sources.text_types import TextProfile, parse_text


def profile(*values: str | None, numbers: bool = True, batch: int = 1000) -> TextProfile:
    profiled = TextProfile("t", "c", numbers)
    for start in range(0, len(values), batch):
        profiled.add(pa.array(values[start : start + batch], pa.string()))
    return profiled


def settle(*values: str | None) -> list[object]:
    """The values in their type."""
    return parse_text(
        pa.array(values, pa.string()), profile(*values).verdict(), "t", "c"
    ).to_pylist()  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("values", "arrow"),
    [
        (["1", "-2", "+3", "0", None], pa.int64()),
        (["1", "2.5"], pa.float64()),
        (["1e3", ".5", "5.", "-0.1"], pa.float64()),
        (["1", "nan", "inf"], pa.float64()),
        (["true", "FALSE", "True", None], pa.bool_()),
        (["2024-01-31", "2024-02-01"], TIME),
        (["2024-01-31 17:04", "2024-01-31T17:04:05.123Z"], None),
        (["2024-01-31T17:04:05+02:00", "2024-01-31 17:04:05Z"], TIME),
        (["007", "12"], pa.string()),
        (["1.", "01.5"], pa.string()),
        (["1", ""], pa.string()),
        (["1,5", "2"], pa.string()),
        (["9223372036854775808", "1"], pa.float64()),
        (["true", "1"], pa.string()),
        (["31.01.2024", "1.2.2024", "01.02.2024 17:04"], TIME),
        (["2024/01/31", "2024/02/01 17:04:05"], TIME),
        (["31/01/2024", "01/02/2024"], pa.string()),
        (["1.5", "N/A", "NULL", "-"], pa.float64()),
        (["2024-01-31", "\\N"], TIME),
        (["N/A", "N/A"], pa.string()),
        (["NA", "DE", "FR"], pa.string()),
        (["2024", "2025"], pa.int64()),
        ([None, None], pa.string()),
        ([], pa.string()),
    ],
)
def test_verdict(values: list[str | None], arrow: pa.DataType | None) -> None:
    profiled = profile(*values)
    if arrow is None:
        with pytest.raises(SourceError) as caught:
            profiled.verdict()
        assert caught.value.code == "mixed_time_zones"
    else:
        assert profiled.verdict() == arrow


def test_a_misfit_in_a_later_batch_counts() -> None:
    assert profile("1", "2", "x", batch=2).verdict() == pa.string()
    assert profile("1", "2", "2.5", batch=2).verdict() == pa.float64()
    assert profile("true", "false", "maybe", batch=2).verdict() == pa.string()


def test_sources_with_types_of_their_own_keep_text_that_looks_like_numbers() -> None:
    assert profile("1", "2", numbers=False).verdict() == pa.string()
    assert profile("2024-01-31", numbers=False).verdict() == TIME


def test_values() -> None:
    assert settle("+7", "-7", None) == [7, -7, None]
    assert settle("+0.5", "2", None) == [0.5, 2.0, None]
    assert settle("TRUE", "false", None) == [True, False, None]
    assert settle("2024-01-31", None) == [datetime(2024, 1, 31), None]
    assert settle("2024-01-31T17:04:05+02:00", "2024-01-31 17:04:05-0130") == [
        datetime(2024, 1, 31, 15, 4, 5),
        datetime(2024, 1, 31, 18, 34, 5),
    ]


def test_a_time_is_never_rounded_into_the_future() -> None:
    assert settle("2024-01-31 23:59:59.999999999") == [datetime(2024, 1, 31, 23, 59, 59, 999999)]


def test_a_nearly_time_column_is_an_error() -> None:
    days = [f"2024-01-{day:02}" for day in range(1, 20)]
    with pytest.raises(SourceError) as caught:
        profile(*days, "soon").verdict()
    assert caught.value.code == "unparseable_date"
    assert "'t.c': 1 of 20 values are no ISO dates: 'soon'." in caught.value.message
    assert "t: {kinds: {c: text}}" in caught.value.hint
    assert profile(*days[:8], "soon", "later").verdict() == pa.string()


def test_a_declared_time_column_holds_nothing_else() -> None:
    for values in (["soon"], ["2024-01-01", "2024-01-02", "soon"], ["a", "b", "c"]):
        with pytest.raises(SourceError) as caught:
            profile(*values, numbers=False).verdict(declared_time=True)
        assert caught.value.code == "unparseable_date"
    assert profile(None, numbers=False).verdict(declared_time=True) == TIME


def test_dates_that_are_no_days() -> None:
    values = ["2024-02-30", "2024-02-28"]
    assert profile(*values).verdict() == TIME
    with pytest.raises(
        SourceError, match=r"'t.c': 1 values look like times but are none: '2024-02-30'"
    ):
        parse_text(pa.array(values), TIME, "t", "c")


def test_mixed_zones_across_batches() -> None:
    with pytest.raises(SourceError, match="mixes times with a zone"):
        profile("2024-01-31 10:00:00Z", "2024-01-31 10:00:00", batch=1).verdict()


def test_dates_that_can_be_read_in_one_way_are_and_words_for_missing_values_are_null() -> None:
    assert settle("31.01.2024", "1.2.2024", "N/A") == [
        datetime(2024, 1, 31),
        datetime(2024, 2, 1),
        None,
    ]
    assert settle("2024/01/31", "2024/02/01 17:04:05") == [
        datetime(2024, 1, 31),
        datetime(2024, 2, 1, 17, 4, 5),
    ]
    assert settle("1", "?", "3") == [1, None, 3]
    assert settle("NA", "DE") == ["NA", "DE"]


@pytest.mark.parametrize(
    ("values", "code"),
    [
        (["01/02/2024", "31/01/2024"], "text_dates"),
        (["1-2-24", "12-31-24"], "text_dates"),
        (["1.234,50", "12,00"], "text_numbers"),
        (["1,234.5", "2.0"], "text_numbers"),
        ([*map(str, range(50)), "free"], "text_numbers"),
        (["007", "012"], None),
        (["10.0.0.1", "10.0.0.2"], None),
        (["a", "b"], None),
    ],
)
def test_doubts_about_text(values: list[str], code: str | None) -> None:
    profiled = profile(*values)
    assert profiled.verdict() == pa.string()
    doubt = profiled.doubts()
    assert (doubt and doubt[0]) == code


def test_an_empty_text_that_is_stated_to_be_a_number_is_missing() -> None:
    import pandas as pd

    import gelgt

    frames = {"things": pd.DataFrame({"id": [1, 2], "size": ["", ""]})}
    db = gelgt.open(frames, schema={"things": {"pkey": "id", "kinds": {"size": "numerical"}}})
    assert db.read("things", ["size"]).column(0).to_pylist() == [None, None]
