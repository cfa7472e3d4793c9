"""Tiny RelBench v3 folders, written by hand so that every label can be counted on the fingers."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

import gelgt
from gelgt.sources.database import Database

Tables = Mapping[str, Mapping[str, Any]]
Make = Callable[..., Database]


def write_folder(
    folder: Path,
    tables: Tables,
    val: str,
    test: str,
    keys: Mapping[str, Mapping[str, Any]] | None = None,
    **ours: Any,
) -> Path:
    """Each table is {"columns": {…}, "pkey": …, "time_col": …, "fkeys": {…}}; `keys` are the user's
    own key values."""
    (folder / "db").mkdir(parents=True)
    specs = {}
    for name, table in tables.items():
        pq.write_table(pa.table(table["columns"]), folder / "db" / f"{name}.parquet")
        specs[name] = {
            "pkey": table.get("pkey"),
            "time_col": table.get("time_col"),
            "fkeys": table.get("fkeys", {}),
        }
    content = {
        "name": "tiny",
        "val_timestamp": val,
        "test_timestamp": test,
        "tables": specs,
        "gelgt": ours,
    }
    (folder / "manifest.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    for name, columns in (keys or {}).items():
        (folder / "gelgt" / "keys").mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(columns), folder / "gelgt" / "keys" / f"{name}.parquet")
    return folder


@pytest.fixture
def make_db(tmp_path: Path) -> Make:
    count = iter(range(100))

    def make(
        tables: Tables, val: str = "2024-03-01", test: str = "2024-05-01", **options: Any
    ) -> Database:
        return gelgt.open(write_folder(tmp_path / f"db{next(count)}", tables, val, test, **options))

    return make


def days(*texts: str | None) -> pa.Array:
    return pa.array(
        [None if t is None else np.datetime64(t, "us") for t in texts], pa.timestamp("us")
    )


@pytest.fixture(name="days")
def days_fixture() -> Callable[..., pa.Array]:
    return days


def random_shop(until: str | None = None, seed: int = 0) -> dict[str, dict[str, Any]]:
    """Customers, products, orders and order items over 2023-01-01 … 2024-08-01, optionally without
    rows after a time."""
    rng = np.random.default_rng(seed)
    start = np.datetime64("2023-01-01", "us")
    hours = lambda n: start + np.sort(rng.integers(0, 24 * 578, n)).astype("timedelta64[h]")  # noqa: E731
    customers, products, orders, items = 30, 8, 600, 1200
    joined, placed = hours(customers), hours(orders)
    joined[:10] = start
    customer = np.array(
        [rng.integers(0, max(1, np.searchsorted(joined, t, side="right"))) for t in placed]
    )
    order = np.sort(rng.integers(0, orders, items))
    tables = {
        "customers": {
            "columns": {
                "id": np.arange(customers),
                "joined": joined,
                "country": [["DE", "FR", None][i % 3] for i in range(customers)],
            },
            "pkey": "id",
            "time_col": "joined",
        },
        "products": {
            "columns": {"id": np.arange(products), "price": rng.normal(10, 2, products)},
            "pkey": "id",
        },
        "orders": {
            "columns": {
                "id": np.arange(orders),
                "placed": placed,
                "customer_id": pa.array(customer, mask=rng.random(orders) < 0.05),
                "amount": rng.integers(1, 100, orders).astype(float),
                "status": [["new", "paid", "sent"][i] for i in rng.integers(0, 3, orders)],
                "is_gift": rng.random(orders) < 0.3,
            },
            "pkey": "id",
            "time_col": "placed",
            "fkeys": {"customer_id": "customers"},
        },
        "items": {
            "columns": {
                "order_id": order,
                "product_id": rng.integers(0, products, items),
                "quantity": rng.integers(1, 5, items),
            },
            "fkeys": {"order_id": "orders", "product_id": "products"},
        },
    }
    return tables if until is None else shop_until(tables, until)


def shop_until(tables: dict[str, dict[str, Any]], until: str) -> dict[str, dict[str, Any]]:
    """The shop without rows after a time."""
    limit = np.datetime64(until, "us")
    visible = {
        "customers": tables["customers"]["columns"]["joined"] <= limit,
        "orders": tables["orders"]["columns"]["placed"] <= limit,
    }
    visible["items"] = visible["orders"][tables["items"]["columns"]["order_id"]]
    for name, is_visible in visible.items():
        tables[name]["columns"] = {
            column: pa.array(values).filter(pa.array(is_visible))
            for column, values in tables[name]["columns"].items()
        }
    return tables


@pytest.fixture
def shop_db(make_db: Make) -> Database:
    return make_db(random_shop(), val="2024-03-01", test="2024-05-01")


@pytest.fixture(name="random_shop")
def random_shop_fixture() -> Callable[..., dict[str, dict[str, Any]]]:
    return random_shop
