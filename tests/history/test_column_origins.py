"""The name of a history column leads back to the columns that it is read from."""

from typing import Any

import pandas as pd
import pytest

import gelgt
from gelgt.demo import Shop
from gelgt.history.aggregates import aggregates
from gelgt.history.column_origins import columns_read
from gelgt.schema.model import DatabaseSchema

DAYS = pd.date_range("2024-01-01", periods=4)


@pytest.fixture(scope="module")
def schema() -> DatabaseSchema:
    tables = {
        "regions": pd.DataFrame({"id": [1, 2], "name": ["north", "south"]}),
        "users": pd.DataFrame(
            {
                "id": [1, 2],
                "region_id": [1, 2],
                "joined": DAYS[:2],
                "joined age": [1.5, 2.5],
                "a: b": [0.5, 0.7],
            }
        ),
        "orders": pd.DataFrame(
            {"id": [1, 2, 3, 4], "user_id": [1, 1, 2, 2], "placed_at": DAYS, "amount": 1.5}
        ),
        "lines": pd.DataFrame({"id": [1, 2], "order_id": [1, 2], "user_id": [1, 2], "price": 1.5}),
    }
    stated: dict[str, Any] = {
        "users": {"time_col": "joined", "fkeys": {"region_id": "regions"}},
        "orders": {"time_col": "placed_at", "fkeys": {"user_id": "users"}},
        "lines": {"fkeys": {"order_id": "orders", "user_id": "users"}},
        "regions": {"fkeys": None},
    }
    return gelgt.open(tables, schema=stated).schema


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("age", {("users", "joined")}),
        ("joined age", {("users", "joined age")}),
        ("a: b", {("users", "a: b")}),
        ("> region_id: name is north", {("users", "region_id"), ("regions", "name")}),
        ("< orders.user_id: count", {("orders", "user_id")}),
        ("< orders.user_id by day: mean gap", {("orders", "user_id")}),
        (
            "< orders.user_id: amount mean in 3 windows",
            {("orders", "user_id"), ("orders", "amount")},
        ),
        (
            "< orders.user_id < lines.order_id: price last",
            {("orders", "user_id"), ("lines", "order_id"), ("lines", "price")},
        ),
        (
            "< lines.user_id > newest order_id < lines.order_id: price mean",
            {("lines", "user_id"), ("lines", "order_id"), ("lines", "price")},
        ),
        ("calendar: day of year", set()),
    ],
)
def test_paths_and_columns(
    name: str, expected: set[tuple[str, str]], schema: DatabaseSchema
) -> None:
    assert columns_read(schema, "users", name) == expected


def test_every_name_is_understood(small_shop: Shop) -> None:
    """Two hops around a customer: whatever is about a column names one of the table at the end of
    its path."""
    from gelgt.config import SamplingConfig
    from gelgt.history.task_data import TaskData
    from gelgt.sampling import task_seeds

    db = gelgt.open(small_shop.url)
    task = db.task("PREDICT COUNT(orders.*, 0, 30, days) FOR EACH customers.id")
    data = TaskData(db, db.graph(), db.features(), task, SamplingConfig(visibility="seed-time"))
    seeds = task_seeds(task, db.graph(), "val").take(range(20))
    first = db.graph().offsets[db.graph().table_number("customers")]
    names = aggregates(data, seeds.node - first, seeds.time, hops=2).names
    assert len(names) > 500
    for name in names:
        path, _, rest = name.rpartition(": ")
        read = columns_read(db.schema, "customers", name)
        steps = path.count("> ") + path.count("< ")
        assert len([1 for t, c in read if c in db.table(t).key_columns]) >= min(steps, 1), name
        is_count = rest.startswith(("count", "days since", "mean gap", "last gap", "overdue"))
        is_count |= rest == "active windows" or rest.startswith(("median count", "mean count"))
        assert is_count or any(c not in db.table(t).key_columns for t, c in read), name
