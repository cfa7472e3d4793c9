"""The first pass: rows reach a file in canonical types, and what whole columns tell is noted."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gelgt.errors import SourceError
from gelgt.sources.canonical import TIME
from gelgt.sources.raw import RawTable
from gelgt.sources.stage import StagedTable, stage_table
from gelgt.sources.table_file import mapped_table, read_batches


def stage(
    folder: Path,
    columns: dict[str, pa.Array],
    batch: int = 2,
    forced: dict[str, str] | None = None,
    **options: Any,
) -> StagedTable:
    table = pa.table(columns)

    def batches() -> Iterator[pa.RecordBatch]:
        yield from table.to_batches(max_chunksize=batch)

    raw = RawTable("t", {f.name: f.type for f in table.schema}, batches, **options)
    return stage_table(raw, folder, 0, forced or {})


def values(staged: StagedTable) -> dict[str, list[Any]]:
    table = mapped_table(staged.path)
    return {
        name: table.column(column.stored).to_pylist() for name, column in staged.columns.items()
    }


def test_types_are_canonical(tmp_path: Path) -> None:
    columns = {
        "a": pa.array([1, 2, 3], pa.int16()),
        "b": pa.array([1.5, None, 2], pa.float32()),
        "c": pa.array(["x", "y", None]),
    }
    staged = stage(tmp_path, columns)
    assert staged.types() == {"a": "int64", "b": "float64", "c": "string"}
    assert staged.rows == 3
    assert values(staged) == {"a": [1, 2, 3], "b": [1.5, None, 2.0], "c": ["x", "y", None]}
    assert [c.nulls for c in staged.columns.values()] == [0, 1, 1]


def test_text_is_settled_once_the_whole_column_is_known(tmp_path: Path) -> None:
    columns = {
        "n": pa.array(["1", "2", "3"]),
        "x": pa.array(["1", "2", "2.5"]),
        "t": pa.array(["2024-01-01", None, "2024-01-03"]),
    }
    staged = stage(tmp_path, columns, is_text=True)
    assert staged.types() == {"n": "int64", "x": "float64", "t": "timestamp"}
    assert values(staged)["t"] == [datetime(2024, 1, 1), None, datetime(2024, 1, 3)]
    assert staged.columns["t"].nulls == 1
    assert (staged.columns["n"].low, staged.columns["n"].high) == (1, 3)
    assert [p.name for p in tmp_path.iterdir()] == ["0.arrow"]


@pytest.mark.parametrize("scale", [1, 10**3, 10**6, 10**9])
def test_epoch_times(scale: int, tmp_path: Path) -> None:
    seconds = [1_700_000_000, 1_700_000_001, None]
    staged = stage(
        tmp_path, {"created_at": pa.array([None if s is None else s * scale for s in seconds])}
    )
    assert staged.columns["created_at"].type == TIME
    assert values(staged)["created_at"] == [
        datetime(2023, 11, 14, 22, 13, 20),
        datetime(2023, 11, 14, 22, 13, 21),
        None,
    ]
    assert [f.code for f in staged.findings] == ["epoch_time"]


def test_numbers_are_no_times_without_name_and_range(tmp_path: Path) -> None:
    columns = {
        "amount": pa.array([1_700_000_000, 1_700_000_001]),
        "at": pa.array([5, 1_700_000_000]),
        "time": pa.array([0.5, 1.7e9]),
    }
    assert stage(tmp_path, columns).types() == {"amount": "int64", "at": "int64", "time": "float64"}


def test_a_declared_time_of_whole_numbers_needs_no_name(tmp_path: Path) -> None:
    staged = stage(tmp_path, {"x": pa.array([1_700_000_000])}, time_columns=frozenset({"x"}))
    assert staged.columns["x"].type == TIME


def test_forced_kinds_keep_text_as_it_is(tmp_path: Path) -> None:
    columns = {
        "zip": pa.array(["10115", "20095"]),
        "when": pa.array(["2024-01-01", "2024-01-02"]),
        "at": pa.array([1_700_000_000] * 2),
    }
    forced = {"zip": "categorical", "when": "text", "at": "categorical"}
    assert stage(tmp_path, columns, forced=forced).types() == {
        "zip": "string",
        "when": "string",
        "at": "int64",
    }


def test_whole_numbers_kept_as_floats(tmp_path: Path) -> None:
    columns = {
        "key": pa.array([1.0, None, 3.0]),
        "half": pa.array([1.0, 2.5, 3.0]),
        "inf": pa.array([1.0, float("inf"), float("nan")]),
    }
    staged = stage(tmp_path, columns, batch=1)
    assert [c.is_whole for c in staged.columns.values()] == [True, False, True]
    assert [c.non_finite for c in staged.columns.values()] == [0, 0, 2]


def test_binary_columns_are_left_out_and_told(tmp_path: Path) -> None:
    staged = stage(tmp_path, {"id": pa.array([1]), "photo": pa.array([b"\x00"])})
    assert list(staged.columns) == ["id"]
    assert [(f.code, f.column) for f in staged.findings] == [("binary_column", "photo")]


def test_a_table_without_columns(tmp_path: Path) -> None:
    with pytest.raises(SourceError) as caught:
        stage(tmp_path, {})
    assert caught.value.code == "no_columns"


def test_a_table_without_rows(tmp_path: Path) -> None:
    staged = stage(
        tmp_path,
        {"id": pa.array([], pa.int32()), "at": pa.array([], pa.string())},
        is_text=True,
        time_columns=frozenset({"at"}),
    )
    assert staged.rows == 0
    assert staged.types() == {"id": "int64", "at": "timestamp"}


def test_read_batches_reads_the_columns_that_are_asked_for(tmp_path: Path) -> None:
    staged = stage(tmp_path, {"a": pa.array([1, 2, 3]), "b": pa.array([4, 5, 6])})
    batches = list(read_batches(staged.path, ["c1"], batch_size=2))
    assert [b.column_names for b in batches] == [["c1"]] * len(batches)
    assert [v for b in batches for v in b.column(0).to_pylist()] == [4, 5, 6]
