"""Label rows of SQL and columns: what RelBench leaves out is left out, counted, and said."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from gelgt.errors import TaskError
from gelgt.sources.database import Database
from gelgt.tasks.labels import Raw, autocomplete_sql, sort_rows, split_notices

Make = Callable[..., Database]


def test_rows_are_sorted_by_time_then_entity() -> None:
    rows = pa.table(
        {
            "time": pa.array([2, 1, 2], pa.timestamp("us")),
            "entity": [0, 5, 3],
            "target": ["a", "b", "c"],
        }
    )
    assert sort_rows(rows).column("target").to_pylist() == ["b", "a", "c"]


def test_notices() -> None:
    rows = pa.table({"time": [1]})
    raw = {
        "train": Raw(rows, 5, {"without a target": 1200}),
        "val": Raw(rows, 1, {"without a target": 0}),
        "test": Raw(rows, 1),
    }
    assert split_notices(raw) == [
        "train: 1,200 rows without a target were left out",
        "training rows sampled: 1 of 5",
    ]


def test_labels_of_entities_that_come_after_the_test_time_are_dropped(shop_db: Database) -> None:
    task = shop_db.task("PREDICT COUNT(orders.*, 0, 30, days) FOR EACH customers.id")
    joined = shop_db.read("customers")["joined"].to_numpy()
    existing = sum(joined <= task.test_timestamp.to_datetime64())  # type: ignore[union-attr]
    assert max(task.table("test").column("id").to_pylist()) == existing - 1


def test_train_and_val_see_no_row_after_the_test_time(
    make_db: Make, random_shop: Callable[..., Any]
) -> None:
    sql = (
        "SELECT t.timestamp AS timestamp, c.id AS id, (SELECT COUNT(*) FROM orders) + 0.0 AS n "
        "FROM timestamps t, customers c WHERE c.joined <= t.timestamp"
    )
    db = make_db(random_shop())
    task = db.task(sql, timedelta="30 days", entity="customers.id")
    placed = db.read("orders")["placed"].to_numpy()
    before = sum(placed <= task.test_timestamp.to_datetime64())  # type: ignore[union-attr]
    assert {
        split: set(task.table(split).column("n").to_pylist()) for split in ("train", "val", "test")
    } == {
        "train": {before},
        "val": {before},
        "test": {len(placed)},
    }


def test_autocomplete_needs_a_feature_column_and_a_time(shop_db: Database) -> None:
    assert autocomplete_sql(shop_db, "orders", "status") == "SELECT placed, id, status\nFROM orders"
    for column in ("id", "customer_id", "nothing"):
        with pytest.raises(TaskError, match="is no column that could be predicted"):
            autocomplete_sql(shop_db, "orders", column)
    with pytest.raises(TaskError, match="The table 'products' has no time column"):
        autocomplete_sql(shop_db, "products", "price")


def test_autocomplete_needs_rows_after_the_test_time(shop_db: Database) -> None:
    with pytest.raises(TaskError, match="There is no row after the test time 2025-01-01"):
        shop_db.task("PREDICT orders.amount FOR EACH orders.id", test="2025-01-01")


def test_recommended_rows_that_are_dated_by_others_exist_at_the_test_time(
    make_db: Make, days: Callable[..., Any]
) -> None:
    """Order lines have no time: one of an order that comes after the test time is no label, as a
    row with a time would be none."""
    dates = [f"2024-{month:02d}-15" for month in range(1, 13)]
    # each month the first line and that of the month come back
    lines = [line for month in range(12) for line in (0, month)]
    db = make_db(
        {
            "users": {"columns": {"id": [0]}, "pkey": "id"},
            "orders": {
                "columns": {"id": list(range(12)), "at": days(*dates)},
                "pkey": "id",
                "time_col": "at",
            },
            "lines": {
                "columns": {"id": list(range(12)), "order": list(range(12))},
                "pkey": "id",
                "fkeys": {"order": "orders"},
            },
            "returns": {
                "columns": {"line": lines, "user": [0] * 24, "at": days(*sorted(dates * 2))},
                "time_col": "at",
            }
            | {"fkeys": {"line": "lines", "user": "users"}},
        }
    )
    assert db.table("lines").dating_keys
    sentence = "PREDICT LIST_DISTINCT(returns.line VIA user, 0, 40, days) FOR EACH users.id"
    task = db.task(sentence, val="2024-08-01", test="2024-10-01")
    assert task.table("val").column("line").to_pylist() == [[0, 7]]
    assert task.table("test").column("line").to_pylist() == [[0]], (
        "the lines of the month are of orders that are yet to come"
    )
