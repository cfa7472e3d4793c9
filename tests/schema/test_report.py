"""`inspect`: the shape that scripts rely on, and nothing that JSON cannot hold."""

import json

import pandas as pd

import gelgt
from gelgt.demo import Shop
from gelgt.schema.report import inspect

DAYS = pd.date_range("2024-01-01", periods=4)


def report() -> dict[str, object]:
    users = pd.DataFrame({"id": [1, 2], "name": ["Ann", "Bob"]})
    orders = pd.DataFrame(
        {
            "id": [5, 6, 7, 8],
            "user_id": [1, 1, 2, 9],
            "placed_at": DAYS,
            "amount": [1.5, 2.5, 3.5, 4.5],
        }
    )
    stated = {"orders": {"fkeys": {"user_id": "users"}}}
    return json.loads(
        json.dumps(inspect(gelgt.open({"users": users, "orders": orders}, schema=stated)))
    )  # type: ignore[no-any-return]


def test_the_promised_shape() -> None:
    inspected = report()
    orders = inspected["tables"]["orders"]  # type: ignore[index]
    assert orders["rows"] == 4
    assert orders["primary_key"]["columns"] == ["id"]
    assert orders["primary_key"]["origin"] == "inferred"
    assert orders["time_column"]["column"] == "placed_at"
    assert orders["time_column"]["origin"] == "inferred"
    (key,) = orders["foreign_keys"]
    assert (key["column"], key["table"], key["origin"]) == ("user_id", "users", "manifest")
    finding = next(f for f in inspected["findings"] if f["code"] == "dangling_key")  # type: ignore[attr-defined]
    assert (finding["table"], finding["column"], finding["count"]) == ("orders", "user_id", 1)
    assert (finding["severity"], finding["repair"]) == ("warning", None)


def test_every_column_has_a_type_and_a_kind() -> None:
    columns = report()["tables"]["orders"]["columns"]  # type: ignore[index]
    assert {c: (entry["type"], entry["kind"]) for c, entry in columns.items()} == {
        "id": ("int64", "key"),
        "user_id": ("int64", "key"),
        "placed_at": ("timestamp", "timestamp"),
        "amount": ("float64", "numerical"),
    }


def test_time_ranges() -> None:
    tables = report()["tables"]
    assert tables["orders"]["time_range"] == ["2024-01-01", "2024-01-04"]  # type: ignore[index]
    assert tables["users"]["time_range"] is None  # type: ignore[index]
    assert tables["users"]["time_column"] is None  # type: ignore[index]


def test_time_range_of_an_empty_table_and_of_empty_times() -> None:
    empty = pd.DataFrame({"id": [1, 2], "created_at": pd.to_datetime([None, None])})
    db = gelgt.open(
        {"empty": empty, "none": empty.head(0)},
        schema={t: {"time_col": "created_at"} for t in ("empty", "none")},
    )
    tables = inspect(db)["tables"]
    assert tables["empty"]["time_range"] is None
    assert tables["none"]["time_range"] is None


def test_declared_keys_of_the_shop(small_shop: Shop) -> None:
    inspected = inspect(gelgt.open(small_shop.url))
    assert inspected["source"] == small_shop.url
    assert inspected["name"] == "shop"
    assert inspected["split_origin"] == "inferred"
    orders = inspected["tables"]["orders"]
    assert orders["primary_key"]["origin"] == "declared"
    assert [(k["column"], k["table"], k["origin"]) for k in orders["foreign_keys"]] == [
        ("customer_id", "customers", "declared")
    ]
    assert inspected["val_timestamp"] < inspected["test_timestamp"] < orders["time_range"][1]


def lines_of_orders() -> dict[str, pd.DataFrame]:
    """Lines name their order and their product; one names no order."""
    products = pd.DataFrame({"id": [1, 2], "listed_at": DAYS[:2], "name": ["a", "b"]})
    orders = pd.DataFrame({"id": [5, 6, 7, 8], "placed_at": DAYS, "amount": [1.5, 2.5, 3.5, 4.5]})
    lines = pd.DataFrame(
        {
            "id": range(4),
            "order_id": pd.array([5, 6, 7, None], "Int64"),
            "product_id": [1, 2, 1, 2],
            "due_date": DAYS,
        }
    )
    return {"products": products, "orders": orders, "lines": lines}


def test_the_readings_of_a_table_without_a_time() -> None:
    stated = {"lines": {"time_col": None, "dated_by": "order_id"}}
    lines = inspect(gelgt.open(lines_of_orders(), schema=stated))["tables"]["lines"]
    assert lines["never_visible"] == 1
    assert [(r["reading"], r["is_used"], r["never_visible"]) for r in lines["readings"]] == [
        ("as new as orders.placed_at (through order_id)", True, 1),
        ("as new as the row of 'products' that 'product_id' names", False, 0),
        ("always visible", False, 0),
        ("'due_date' is the time of the row", False, 0),
    ]


def test_a_reading_that_is_stated_is_the_one_in_use() -> None:
    frames = lines_of_orders()
    first = inspect(gelgt.open(frames, schema={"lines": {"dated_by": "order_id"}}))
    for reading in first["tables"]["lines"]["readings"]:
        table = inspect(gelgt.open(frames, schema=reading["schema"]))["tables"]["lines"]
        if "time of the row" in reading["reading"]:
            assert table["time_column"]["column"] == "due_date"
            assert table["readings"] == []
        else:
            assert table["readings"][0]["schema"] == reading["schema"]
            assert table["never_visible"] == reading["never_visible"]


def test_tables_with_a_time_have_one_reading() -> None:
    tables = inspect(gelgt.open(lines_of_orders()))["tables"]
    assert tables["orders"]["readings"] == []
    assert tables["orders"]["never_visible"] == 0
