"""Files that a thread writes, the order of tables, and tables that refer to each other."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gelgt
from gelgt.schema.model import ForeignKey, TableSchema
from gelgt.sources.order import parents_first
from gelgt.sources.table_file import (
    SCRATCH,
    TableFile,
    batch_rows,
    mapped_table,
    read_ahead,
    read_batches,
)

SCHEMA = pa.schema([pa.field("x", pa.int64())])


def test_batches_are_written_in_order(tmp_path: Path) -> None:
    with TableFile(tmp_path / "x.parquet", SCHEMA, **SCRATCH) as file:
        for start in range(0, 100, 10):
            file.write([pa.array(range(start, start + 10))])
    assert pq.read_table(tmp_path / "x.parquet")["x"].to_pylist() == list(range(100))


def test_arrow_files_are_read_in_batches_and_mapped(tmp_path: Path) -> None:
    path = tmp_path / "x.arrow"
    with TableFile(path, SCHEMA) as file:
        file.write([pa.array([1, None, 3])])
        file.write([pa.array([], pa.int64())])
        file.write([pa.array([4])])
    assert mapped_table(path)["x"].to_pylist() == [1, None, 3, 4]
    batches = [batch.column(0).to_pylist() for batch in read_batches(path, batch_size=2)]
    assert batches == [[1, None], [3], [4]]


def test_an_error_of_the_writer_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    file = TableFile(tmp_path / "x.parquet", SCHEMA)
    monkeypatch.setattr(file._writer, "write_batch", full)
    with pytest.raises(OSError, match="No space left"), file:
        file.write([pa.array([1])])


def test_an_error_of_the_reader_is_raised_where_it_happens() -> None:
    def batches() -> Any:
        yield 1
        raise ValueError("broken")

    ahead = read_ahead(batches())
    assert next(ahead) == 1
    with pytest.raises(ValueError, match="broken"):
        next(ahead)


def test_wide_tables_have_batches_of_fewer_rows() -> None:
    assert batch_rows(1) == batch_rows(100) == 60 << 11
    assert batch_rows(1024) == 1 << 14
    assert batch_rows(10**6) == 1 << 12


def table(name: str, *parents: str) -> TableSchema:
    keys = tuple(ForeignKey((f"{p}_id",), p) for p in parents)
    return TableSchema(name, {}, None, None, keys)


def test_parents_come_first_and_cycles_end() -> None:
    tables = {
        t.name: t for t in (table("c", "b", "a"), table("b", "a"), table("a"), table("d", "d"))
    }
    assert parents_first(tables) == ["a", "b", "c", "d"]
    cycle = {t.name: t for t in (table("x", "y"), table("y", "x"), table("z", "x"))}
    assert sorted(parents_first(cycle)) == ["x", "y", "z"]
    assert parents_first(cycle)[-1] == "z"


def test_tables_in_a_cycle_get_each_others_row_numbers(tmp_path: Path) -> None:
    """Users name an order, orders a user and an earlier order; keys run against the times."""
    days = pd.date_range("2024-01-01", periods=4)
    users = pd.DataFrame({"id": [40, 30, 20], "order_id": [7.0, 9.0, np.nan], "at": days[:3]})
    orders = pd.DataFrame(
        {"id": [9, 8, 7, 6], "user_id": [30, 40, 40, 99], "after_id": [8.0, np.nan, 9.0, 5.0]}
        | {"at": days[::-1]}
    )
    schema = {
        "users": {"pkey": "id", "time_col": "at", "fkeys": {"order_id": "orders"}},
        "orders": {
            "pkey": "id",
            "time_col": "at",
            "fkeys": {"user_id": "users", "after_id": "orders"},
        },
    }
    db = gelgt.open({"users": users, "orders": orders}, schema=schema, out=tmp_path / "db")
    # orders by time: 6, 7, 8, 9; users by time: 40, 30, 20
    assert db.read("users")["order_id"].to_pylist() == [1, 3, None]
    assert db.read("orders")["user_id"].to_pylist() == [None, 0, 0, 1]
    assert db.read("orders")["after_id"].to_pylist() == [None, 3, None, 2]
    assert db.keys("orders")["id"].to_pylist() == [6, 7, 8, 9]
    lost = {f.column: f for f in db.import_findings if f.code == "dangling_key"}
    assert (lost["user_id"].count, lost["after_id"].count) == (1, 1)
    assert "no such row in 'users': 99;" in lost["user_id"].message
