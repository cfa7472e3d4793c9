"""The shop's task, compiled by gelgt, has the labels that the shop's own arithmetic says it has."""

from pathlib import Path

import numpy as np
import pytest

import gelgt
from gelgt.demo import shop
from gelgt.demo.schema import TABLES
from gelgt.metrics import roc_auc


def test_the_sentence_gives_the_labels_of_the_oracle(tmp_path: Path) -> None:
    demo = shop(tmp_path / "shop.db", customers=200, days=300)
    db = gelgt.open(demo.url, out=tmp_path / "db")
    task = db.task(demo.sentence, val=demo.val_timestamp, test=demo.test_timestamp)
    assert task.task_type == "binary_classification"

    table = task.table("test").to_pandas()
    assert sorted(table[task.time_col].astype(str).unique()) == [
        at.removesuffix(" 00:00:00") for at in demo.test_seed_times
    ]
    keys = db.keys("customers")
    assert keys is not None
    original = keys.column("id").to_numpy()[table[task.entity_col].to_numpy()]
    labels = dict(
        zip(zip(table[task.time_col].astype(str), original.tolist()), table[task.target_col])
    )

    truths = {at: demo.truth(at) for at in demo.test_seed_times}
    expected = {
        (at.removesuffix(" 00:00:00"), int(c)): int(y)
        for at, t in truths.items()
        for c, y in zip(t.customer_ids, t.labels)
    }
    assert labels == expected
    pooled = [
        np.concatenate([getattr(t, field) for t in truths.values()])
        for field in ("labels", "probability")
    ]
    assert roc_auc(*pooled) == pytest.approx(demo.oracle_auc)


def test_the_list_sentence_gives_the_baskets_of_the_oracle(tmp_path: Path) -> None:
    demo = shop(tmp_path / "shop.db", customers=200, days=300)
    db = gelgt.open(demo.url, out=tmp_path / "db")
    task = db.task(demo.list_sentence, val=demo.val_timestamp, test=demo.test_timestamp)
    assert task.task_type == "recommendation"

    customers, products = db.keys("customers"), db.keys("products")
    assert customers is not None
    assert products is not None
    ids, skus = customers.column("id").to_pylist(), products.column("sku").to_pylist()
    labels = {
        (f"{at:%Y-%m-%d %H:%M:%S}", ids[customer], skus[product])
        for at, customer, bought in zip(
            *(task.table("test").to_pandas()[c] for c in (task.time_col, "id", task.label_col))
        )
        for product in bought
    }
    baskets = demo.baskets(demo.test_timestamp)
    expected = {
        (demo.test_timestamp, int(baskets.customer_ids[customer]), demo.skus[product])
        for customer, product in np.argwhere(baskets.is_bought)
    }
    assert labels == expected


def test_keys_and_times_are_found(tmp_path: Path) -> None:
    """SQLite declares keys but no times; each event table has one column that says when."""
    db = gelgt.open(shop(tmp_path / "shop.db", customers=50, days=200).url, out=tmp_path / "db")
    for table in TABLES.values():
        found = db.table(table.name)
        assert found.time_col == table.time_column
        assert {fk.column: fk.table for fk in found.foreign_keys} == table.foreign_keys
        assert found.pkey == table.key.name
