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
    rows = pa.table({"time": pa.array([2, 1, 2], pa.timestamp("us")), "entity": [0, 5, 3], "target": ["a", "b", "c"]})
    assert sort_rows(rows).column("target").to_pylist() == ["b", "a", "c"]


def test_notices() -> None:
    rows = pa.table({"time": [1]})
    raw = {"train": Raw(rows, 5, {"without a target": 1200}), "val": Raw(rows, 1, {"without a target": 0}), "test": Raw(rows, 1)}
    assert split_notices(raw) == ["train: 1,200 rows without a target were left out", "training rows sampled: 1 of 5"]


def test_labels_of_entities_that_come_after_the_test_time_are_dropped(shop_db: Database) -> None:
    task = shop_db.task("PREDICT COUNT(orders.*, 0, 30, days) FOR EACH customers.id")
    joined = shop_db.read("customers")["joined"].to_numpy()
    known = sum(joined <= task.test_timestamp.to_datetime64())  # type: ignore[union-attr]
    assert max(task.table("test").column("id").to_pylist()) == known - 1


def test_train_and_val_see_no_row_after_the_test_time(make_db: Make, random_shop: Callable[..., Any]) -> None:
    sql = (
        "SELECT t.timestamp AS timestamp, c.id AS id, (SELECT COUNT(*) FROM orders) + 0.0 AS n "
        "FROM timestamps t, customers c WHERE c.joined <= t.timestamp"
    )
    db = make_db(random_shop())
    task = db.task(sql, timedelta="30 days", entity="customers.id")
    placed = db.read("orders")["placed"].to_numpy()
    before = sum(placed <= task.test_timestamp.to_datetime64())  # type: ignore[union-attr]
    assert {split: set(task.table(split).column("n").to_pylist()) for split in ("train", "val", "test")} == {
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
