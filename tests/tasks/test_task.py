import json

import numpy as np
import pytest

from gelgt.errors import TaskError
from gelgt.sources.database import Database

SENTENCE = "PREDICT COUNT(orders.*, 0, 30, days) FOR EACH customers.id"


def test_preview_counts_without_writing(shop_db: Database) -> None:
    before = sorted(shop_db.folder.rglob("*"))
    preview = shop_db.task(SENTENCE.replace("days)", "days) > 2")).preview()
    assert sorted(shop_db.folder.rglob("*")) == before
    assert list(preview.rows) == ["train", "val", "test"]
    assert [str(t)[:10] for t in preview.seed_times["val"]] == ["2024-03-01", "2024-03-31"]
    assert 0 < preview.target["train"]["positives"] < 1
    shown = json.loads(json.dumps(preview.to_dict()))
    assert shown["seed_times"]["test"] == {
        "count": 3,
        "first": "2024-05-01T00:00:00.000000",
        "last": "2024-06-30T00:00:00.000000",
    }


def test_preview_of_every_type(shop_db: Database) -> None:
    numbers = shop_db.task(SENTENCE)
    values = numbers.table("train").column("target").to_numpy()
    assert numbers.preview().target["train"] == {
        "min": values.min(),
        "median": np.median(values),
        "max": values.max(),
    }
    classes = (
        shop_db.task("PREDICT orders.status FOR EACH orders.id")
        .preview()
        .target["train"]["classes"]
    )
    assert sum(classes.values()) == 424
    assert list(classes) == ["new", "paid", "sent"]
    lists = shop_db.task(
        "PREDICT LIST_DISTINCT(items.product_id, 0, 30, days) FOR EACH customers.id"
    ).preview()
    assert 1 <= lists.target["train"]["mean_length"] <= 8


def test_tables_are_sorted_and_typed(shop_db: Database) -> None:
    table = shop_db.task(SENTENCE).table("train")
    assert [str(f.type) for f in table.schema] == ["timestamp[us]", "int64", "double"]
    assert table.sort_by([("timestamp", "ascending"), ("id", "ascending")]).equals(table)
    assert [
        str(f.type)
        for f in shop_db.task(SENTENCE.replace("days)", "days) > 2")).table("val").schema
    ] == [
        "timestamp[us]",
        "int64",
        "int64",
    ]


def test_unknown_split(shop_db: Database) -> None:
    with pytest.raises(TaskError, match=r"There is no split 'tests'\. Did you mean 'test'\?"):
        shop_db.task(SENTENCE).table("tests")


def test_tasks_are_frozen(shop_db: Database) -> None:
    with pytest.raises(AttributeError):
        shop_db.task(SENTENCE).name = "other"  # type: ignore[misc]
