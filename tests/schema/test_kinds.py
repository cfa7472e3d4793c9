"""Column kinds: what values and names say, from the training period alone."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import gelgt
from gelgt.schema import kinds
from gelgt.schema.kinds import infer_kind, is_code, is_identifier, sample_batches

DAYS = pa.array(np.arange("2024-01-01", "2024-01-31", dtype="datetime64[D]")).cast(
    pa.timestamp("us")
)
PROSE = pa.array([f"The parcel number {i} came late and wet" for i in range(30)])


@pytest.mark.parametrize(
    ("name", "values", "kind"),
    [
        ("price", pa.array([0.5 * i for i in range(30)]), "numerical"),
        ("age", pa.array(list(range(30))), "numerical"),
        ("stars", pa.array([1, 2, 3, 4, 5] * 6), "numerical"),
        ("stars_type", pa.array([1, 2, 3, 4, 5] * 6), "categorical"),
        ("statusId", pa.array([1, 2, 3, 4, 5] * 6), "categorical"),
        ("sex", pa.array([1, 2] * 15), "categorical"),
        ("won", pa.array([True, False] * 15), "categorical"),
        ("country", pa.array(["DE", "FR", "SE"] * 10), "categorical"),
        ("note", PROSE, "text"),
        ("tags", pa.array(["red|blue", "blue", "red", "red|green|blue"] * 10), "multicategorical"),
        ("tags", pa.array([["a", "b"], ["b"]] * 15), "multicategorical"),
        ("born", DAYS, "timestamp"),
        ("empty", pa.nulls(30, pa.string()), "ignored"),
        ("same", pa.array(["x"] * 30), "ignored"),
        ("session_id", pa.array(list(range(1000, 1200))), "ignored"),
        ("session_uuid", pa.array([f"{i:08x}" for i in range(200)]), "ignored"),
    ],
)
def test_kind_of_values(name: str, values: pa.Array, kind: str) -> None:
    inferred = infer_kind(name, values)
    assert inferred.kind == kind
    assert inferred.origin == "inferred"
    assert inferred.evidence


def test_the_separator_is_told() -> None:
    for separator in "|;,":
        tags = pa.array(
            [f"red{separator}blue", "blue", "red", f"red{separator} green{separator}blue"] * 10
        )
        assert infer_kind("tags", tags).separator == separator
    assert infer_kind("note", PROSE).separator is None


def test_prose_with_commas_is_no_list() -> None:
    prose = pa.array(
        [
            f"Dear team, the parcel number {i} came late, wet and torn apart, which is a shame"
            for i in range(60)
        ]
    )
    assert infer_kind("note", prose).kind == "text"


def test_a_constant_with_gaps_still_tells_something() -> None:
    assert infer_kind("flag", pa.array(["x", None] * 15)).kind == "categorical"


def test_whole_numbers_as_floats_are_the_same_kind() -> None:
    for name, values in (
        ("type", [1, 2, 3] * 10),
        ("count", list(range(30))),
        ("user_id", list(range(200))),
        ("x", [0, 1] * 20),
    ):
        whole, floats = (
            infer_kind(name, pa.array(values)),
            infer_kind(name, pa.array([float(v) for v in values])),
        )
        assert whole == floats


def test_infinite_values_do_not_count() -> None:
    assert (
        infer_kind("x", pa.array([1.0, 0.0, float("inf"), float("nan")] * 10)).kind == "categorical"
    )
    assert infer_kind("x", pa.array([float("inf"), float("nan")] * 10)).kind == "ignored"


def test_without_rows_the_type_decides() -> None:
    types = {
        pa.int64(): "numerical",
        pa.bool_(): "categorical",
        pa.timestamp("us"): "timestamp",
        pa.string(): "text",
    }
    for arrow, kind in types.items():
        assert infer_kind("x", pa.array([], arrow)).kind == kind
    assert "no row up to the validation time" in infer_kind("x", pa.array([], pa.int64())).evidence


def test_too_many_categories_are_text(monkeypatch: pytest.MonkeyPatch) -> None:
    words = pa.array([f"w{i % 50}" for i in range(500)])
    assert infer_kind("word", words).kind == "categorical"
    monkeypatch.setattr(kinds, "MAX_CATEGORIES", 49)
    assert infer_kind("word", words).kind == "text"


def test_names_that_identify_and_names_that_classify() -> None:
    assert all(map(is_identifier, ("id", "ID", "Id", "user_id", "userId", "UUID", "order key")))
    assert not any(map(is_identifier, ("paid", "android", "hybrid", "monkey", "identity")))
    assert all(map(is_code, ("statusId", "vote_type", "Class", "STATUS", "types")))
    assert not any(map(is_code, ("prototype", "subclass", "estate", "age")))


def batches(rows: int, size: int) -> list[pa.RecordBatch]:
    return pa.table({"x": np.arange(rows)}).to_batches(max_chunksize=size)


@pytest.mark.parametrize("size", [1, 7, 40, 100])
def test_the_sample_is_evenly_spaced_whatever_the_batches(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kinds, "SAMPLE_ROWS", 10)
    sample = sample_batches(batches(100, size), 40).column("x", pa.int64())
    assert sample.to_pylist() == list(range(0, 40, 4))


def test_an_empty_sample_has_the_right_type() -> None:
    assert sample_batches([], 0).column("x", pa.string()).type == pa.string()


def test_rows_after_the_validation_time_change_no_kind() -> None:
    days = pd.date_range("2024-01-01", periods=200)
    events = pd.DataFrame(
        {"id": range(200), "at": days, "word": ["a", "b"] * 100, "size": [0.0, 1.0] * 100}
    )
    late = events.copy()
    late.loc[190:, "word"] = [f"an entirely new sentence of its own, number {i}" for i in range(10)]
    late.loc[190:, "size"] = [0.5 + i for i in range(10)]
    before, after = (
        gelgt.open({"events": events}).table("events"),
        gelgt.open({"events": late}).table("events"),
    )
    assert {c: k.kind for c, k in before.kinds.items()} == {
        c: k.kind for c, k in after.kinds.items()
    }
    assert after.kinds["word"].kind == after.kinds["size"].kind == "categorical"
