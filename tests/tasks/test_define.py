"""What sentences define: autocomplete tasks, recommendations, and the types of their labels."""

from collections.abc import Callable
from typing import Any

import pandas as pd

from gelgt.sources.database import Database
from gelgt.tasks import make_task

Make = Callable[..., Database]
SENTENCE = "PREDICT COUNT(orders.*, 0, 30, days) FOR EACH customers.id"


def test_autocomplete(shop_db: Database) -> None:
    task = make_task(shop_db, "PREDICT orders.status FOR EACH orders.id")
    assert (task.kind, task.task_type, task.remove_columns) == (
        "autocomplete",
        "multiclass_classification",
        (("orders", "status"),),
    )
    assert task.classes == ("new", "paid", "sent")
    orders = shop_db.read("orders").to_pandas()
    inside = {
        "train": orders.placed <= "2024-03-01",
        "val": (orders.placed > "2024-03-01") & (orders.placed <= "2024-05-01"),
        "test": orders.placed > "2024-05-01",
    }
    for split, mask in inside.items():
        table = task.table(split)
        assert table.column("id").to_pylist() == orders[mask].id.tolist()
        assert [task.classes[i] for i in table.column("status").to_pylist()] == orders[
            mask
        ].status.tolist()
    some = make_task(
        shop_db,
        "PREDICT orders.amount FOR EACH orders.id WHERE orders.is_gift = true OR customer_id = 3",
    )
    mask = (orders.placed <= "2024-03-01") & (orders.is_gift | (orders.customer_id == 3))
    assert some.table("train").column("id").to_pylist() == orders[mask].id.tolist()


def test_autocomplete_of_a_table_without_key(
    make_db: Make, random_shop: Callable[..., Any]
) -> None:
    tables = random_shop()
    tables["orders"] = {**tables["orders"], "pkey": None}
    del tables["items"]
    db = make_db(tables)
    task = make_task(db, "PREDICT orders.amount FOR EACH orders.*")
    assert task.entity_col == "primary_key"
    rows = [
        row
        for split in ("train", "val", "test")
        for row in task.table(split).column("primary_key").to_pylist()
    ]
    assert rows == list(range(600))


def test_recommendation(shop_db: Database) -> None:
    task = make_task(
        shop_db,
        "PREDICT LIST_DISTINCT(items.product_id, 0, 30, days) FOR EACH customers.id",
        eval_k=3,
    )
    assert (task.task_type, task.target_col, task.dst_entity_table, task.dst_entity_col) == (
        "recommendation",
        None,
        "products",
        "product_id",
    )
    assert (task.src_entity_table, task.src_entity_col, task.eval_k, task.num_eval_timestamps) == (
        "customers",
        "id",
        3,
        1,
    )
    lists = task.table("val").column("product_id").to_pylist()
    assert all(row == sorted(set(row)) and row for row in lists)


def test_unseen_classes_are_dropped(make_db: Make, random_shop: Callable[..., Any]) -> None:
    tables = random_shop()
    late = (
        tables["orders"]["columns"]["placed"].astype("datetime64[us]")
        > pd.Timestamp("2024-04-01").to_numpy()
    )
    status = tables["orders"]["columns"]["status"]
    tables["orders"]["columns"]["status"] = [
        "lost" if is_late and i % 5 == 0 else s for i, (s, is_late) in enumerate(zip(status, late))
    ]
    task = make_task(make_db(tables), "PREDICT orders.status FOR EACH orders.id")
    assert "lost" not in task.classes
    assert any(
        n.endswith("rows of classes that training does not have were left out")
        for n in task.notices
    )


def test_a_number_that_names_a_category(make_db: Make, random_shop: Callable[..., Any]) -> None:
    tables = random_shop()
    status = tables["orders"]["columns"]["status"]
    tables["orders"]["columns"]["status_code"] = [
        {"new": 3, "paid": 5, "sent": 9}[s] for s in status
    ]
    tables["orders"]["columns"]["flag"] = [int(s == "new") for s in status]
    db = make_db(tables)
    task = make_task(db, "PREDICT LAST(orders.status_code, 0, 30, days) FOR EACH customers.id")
    assert (task.task_type, task.classes) == ("multiclass_classification", (3, 5, 9))
    assert (
        make_task(db, "PREDICT orders.flag FOR EACH orders.id").task_type == "binary_classification"
    )
    assert make_task(db, "PREDICT orders.amount FOR EACH orders.id").task_type == "regression"


def test_one_label_only_is_noticed(shop_db: Database) -> None:
    assert (
        "every training label is 1"
        in make_task(shop_db, SENTENCE.replace("days)", "days) >= 0")).notices
    )
