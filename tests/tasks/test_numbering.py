"""Saved labels stay with the entities that they were made for, however the rows are numbered
later."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import relbench
import yaml

import gelgt
from gelgt.demo import Shop, shop
from gelgt.errors import TaskError
from gelgt.sources.database import Database
from gelgt.tasks import Task

CHURN = "PREDICT COUNT(orders.*, 0, 30, days) = 0 FOR EACH customers.id"
TIMES = {"val": "2024-02-01", "test": "2024-04-01"}
NEXT = "PREDICT LIST_DISTINCT(orders.product_id, 0, 30, days) FOR EACH customers.id"


def by_key(task: Task) -> pd.DataFrame:
    """All labels with the user's own keys instead of row numbers."""
    frames = []
    for split in ("train", "val", "test"):
        frame = task.table(split).to_pandas().set_axis(["time", "entity", "label"], axis=1)
        frame["entity"] = named(task.database, task.entity_table, frame["entity"])
        if task.dst_entity_table is not None:
            frame["label"] = [
                sorted(named(task.database, task.dst_entity_table, rows)) for rows in frame["label"]
            ]
        frames.append(frame.assign(split=split))
    return pd.concat(frames).sort_values(["split", "time", "entity"], ignore_index=True)


def named(db: Database, table: str, rows: Any) -> list[Any]:
    keys = db.keys(table)
    return list(rows) if keys is None else keys.column(0).take(np.asarray(rows)).to_pylist()


def frames(extra: bool = False, later: bool = False) -> dict[str, pd.DataFrame]:
    """A shop whose customers have a time; `extra` adds one that sorts before the others, `later`
    one behind them."""
    rng = np.random.default_rng(1)
    joined = pd.Timestamp("2023-01-01") + pd.to_timedelta(np.arange(40) * 3, "D")
    customers = pd.DataFrame(
        {
            "id": [f"c{i:02}" for i in rng.permutation(40)],
            "joined_at": joined,
            "seen_at": joined[::-1],
        }
    )
    orders = pd.DataFrame(
        {
            "id": range(900),
            "customer_id": rng.choice(customers["id"][:30], 900),
            "product_id": rng.integers(5, 12, 900),
        }
    )
    orders["placed_at"] = pd.Timestamp("2023-02-01") + pd.to_timedelta(
        np.sort(rng.integers(0, 500, 900)), "D"
    )
    if extra:
        customers.loc[40] = ["c99", pd.Timestamp("2022-12-01"), pd.Timestamp("2022-12-01")]
    if later:
        customers.loc[41] = ["a00", pd.Timestamp("2025-01-01"), pd.Timestamp("2025-01-01")]
    return {
        "customers": customers,
        "orders": orders,
        "products": pd.DataFrame({"id": range(4 if extra else 5, 12)}),
    }


def edit(folder: Path, split: str = "train") -> None:
    table = pd.read_parquet(folder / f"{split}.parquet")
    table["target"] = 1 - table["target"]
    table.to_parquet(folder / f"{split}.parquet")


def test_an_entity_that_sorts_before_others(tmp_path: Path) -> None:
    before, after = gelgt.open(frames()), gelgt.open(frames(extra=True))
    folder = before.task(CHURN, name="churn", **TIMES).save(tmp_path / "churn")
    read = after.task(folder)
    pd.testing.assert_frame_equal(by_key(read), by_key(after.task(CHURN, name="churn", **TIMES)))
    assert "c99" in set(by_key(read)["entity"])
    assert any("other numbers than" in n and "made again" in n for n in read.notices)
    same = before.task(folder)
    assert not any("other numbers than" in n for n in same.notices)
    pd.testing.assert_frame_equal(by_key(same), by_key(before.task(CHURN, **TIMES)))


def test_the_demo_shop_in_sqlite(tmp_path: Path) -> None:
    small = shop(tmp_path / "shop.db", customers=80, days=400, seed=3)
    db = gelgt.open(small.url)
    folder = db.task(
        small.sentence, val=small.val_timestamp, test=small.test_timestamp, name="churn"
    ).save(tmp_path / "churn")
    before = by_key(db.task(folder))
    with sqlite3.connect(small.path) as connection:
        columns = [row[1] for row in connection.execute("PRAGMA table_info(customers)")]
        first = dict(
            zip(
                columns,
                connection.execute("SELECT * FROM customers ORDER BY id LIMIT 1").fetchone(),
            )
        )
        time = str(db.table("customers").time_col)
        first |= {"id": 999_999, time: str(pd.Timestamp(first[time]) - pd.Timedelta(days=900))}
        connection.execute(
            f"INSERT INTO customers ({', '.join(columns)}) VALUES "
            f"({', '.join('?' * len(columns))})",
            list(first.values()),
        )
    connection.close()
    grown = gelgt.open(small.url)
    assert named(grown, "customers", [0]) == [999_999]
    after = by_key(grown.task(folder))
    both = before.merge(after, on=["split", "time", "entity"], suffixes=("", "_after"))
    assert len(both) == len(before)
    assert (both["label"] == both["label_after"]).all()


def test_a_table_that_grew_at_its_end_keeps_the_files(tmp_path: Path) -> None:
    before, after = gelgt.open(frames()), gelgt.open(frames(later=True))
    folder = before.task(CHURN, name="churn", **TIMES).save(tmp_path / "churn")
    edit(folder)
    read = after.task(folder)
    assert not any("numbered" in n for n in read.notices)
    pd.testing.assert_frame_equal(by_key(read), by_key(before.task(folder)))


def test_edited_labels_follow_their_keys(tmp_path: Path) -> None:
    before, after = gelgt.open(frames()), gelgt.open(frames(extra=True))
    folder = before.task(CHURN, name="churn", **TIMES).save(tmp_path / "churn")
    edit(folder)
    expected, read = before.task(folder), after.task(folder)
    assert expected.is_edited
    assert read.is_edited
    pd.testing.assert_frame_equal(by_key(read), by_key(expected))
    assert any("matched by your keys" in n for n in read.notices)
    again = read.save(tmp_path / "again")  # an edit stays one when it is saved again
    assert before.task(again).is_edited
    pd.testing.assert_frame_equal(by_key(before.task(again)), by_key(expected))
    with pytest.raises(TaskError, match="it differs in train"):
        before.task(CHURN, name="churn", **TIMES).save(folder)  # and is not replaced without a word
    moved = before.task(folder, eval_timestamps=1)
    assert any("without the edits" in n for n in moved.notices)


def test_given_labels_follow_their_keys(tmp_path: Path) -> None:
    before, after = gelgt.open(frames()), gelgt.open(frames(extra=True))
    rows = (
        by_key(before.task(CHURN, **TIMES)).drop(columns="split").rename(columns={"entity": "id"})
    )
    folder = before.task(rows, entity="customers.id", timedelta="30 days", name="given").save(
        tmp_path / "given"
    )
    pd.testing.assert_frame_equal(by_key(after.task(folder)), by_key(before.task(folder)))
    gone = frames(extra=True)
    gone["customers"] = gone["customers"][gone["customers"]["id"] != rows["id"].iloc[0]]
    gone["orders"] = gone["orders"][gone["orders"]["customer_id"] != rows["id"].iloc[0]]
    with pytest.raises(
        TaskError,
        match="about rows that are gone: 1 key is not in the table 'customers': "
        f"'{rows['id'].iloc[0]}'",
    ):
        gelgt.open(gone).task(folder)
    (folder / "gelgt" / "keys" / "customers.parquet").unlink()
    with pytest.raises(TaskError) as caught:
        after.task(folder)
    assert caught.value.code == "labels_of_other_rows"


def test_recommended_rows_follow_their_keys(tmp_path: Path) -> None:
    before, after = gelgt.open(frames()), gelgt.open(frames(extra=True))
    folder = before.task(NEXT, name="next", **TIMES).save(tmp_path / "next")
    pd.testing.assert_frame_equal(by_key(after.task(folder)), by_key(after.task(NEXT, **TIMES)))
    for split in ("train", "val", "test"):
        table = pd.read_parquet(folder / f"{split}.parquet")
        table["product_id"] = [values[:1] for values in table["product_id"]]
        table.to_parquet(folder / f"{split}.parquet")
    assert before.task(folder).is_edited
    pd.testing.assert_frame_equal(by_key(after.task(folder)), by_key(before.task(folder)))


def test_another_time_column_in_the_manifest(tmp_path: Path) -> None:
    db = gelgt.open(frames(), out=tmp_path / "project")
    folder = db.task(CHURN, name="churn", **TIMES).save()
    _state(tmp_path / "project", "customers", "seen_at")
    other = gelgt.open(tmp_path / "project")
    assert named(other, "customers", range(40)) != named(db, "customers", range(40))
    pd.testing.assert_frame_equal(by_key(other.task(folder)), by_key(other.task(CHURN, **TIMES)))
    edit(folder)
    pd.testing.assert_frame_equal(by_key(other.task(folder)), by_key(db.task(folder)))


@pytest.mark.parametrize("is_edited", [False, True])
def test_another_time_column_of_the_events(tmp_path: Path, is_edited: bool) -> None:
    """Customers keep their numbers where orders get another time, but labels by the old one are
    about other orders."""
    tables = frames()
    tables["orders"]["paid_at"] = tables["orders"]["placed_at"] + pd.to_timedelta(
        np.arange(900) % 60, "D"
    )
    folder = gelgt.open(tables).task(CHURN, **TIMES).save(tmp_path / "churn")
    if is_edited:
        edit(folder)
    db = gelgt.open(tables, schema={"orders": {"time_col": "paid_at"}})
    task, fresh = db.task(folder), db.task(CHURN, **TIMES)
    # the saved task keeps its number of windows
    both = by_key(task).merge(by_key(fresh), on=["split", "time", "entity"])
    assert len(both) > 500
    assert both["label_x"].equals(both["label_y"]) != is_edited
    assert any("rows of 'orders' have other times than when" in notice for notice in task.notices)


def test_another_time_column_in_a_relbench_folder(shop_db: Database) -> None:
    """RelBench's own labels hold key values of the folder, which stay when gelgt orders the rows
    anew."""
    path = shop_db.folder
    folder = shop_db.task(CHURN, name="churn").save()
    content = yaml.safe_load((folder / "manifest.yaml").read_text())
    del content["gelgt"]  # as RelBench writes it
    (folder / "manifest.yaml").write_text(yaml.safe_dump(content))
    expected = by_key(gelgt.open(path).task("churn"))
    customers = pd.read_parquet(path / "db" / "customers.parquet")
    customers["seen"] = customers["joined"].to_numpy()[::-1]
    customers.to_parquet(path / "db" / "customers.parquet")
    _state(path, "customers", "seen")
    other = gelgt.open(path)
    assert other.folder != path
    assert other.keys("customers") is not None
    pd.testing.assert_frame_equal(by_key(other.task(folder)), expected, check_dtype=False)
    pd.testing.assert_frame_equal(by_key(other.task("churn")), expected, check_dtype=False)


def test_a_column_of_a_table_without_keys(
    make_db: Callable[..., Database], random_shop: Callable[..., Any], tmp_path: Path
) -> None:
    def with_reviews(first: int) -> Database:
        tables = random_shop()
        count = 60 - first
        times = np.datetime64("2023-01-01", "us") + np.arange(first, 60) * np.timedelta64(9, "D")
        columns = {
            "at": times,
            "stars": np.arange(first, 60) % 4,
            "customer_id": np.zeros(count, np.int64),
        }
        tables["reviews"] = {
            "columns": columns,
            "time_col": "at",
            "fkeys": {"customer_id": "customers"},
        }
        return make_db(tables)

    before, after = with_reviews(1), with_reviews(0)
    folder = before.task("PREDICT reviews.stars FOR EACH reviews.*", name="stars").save(
        tmp_path / "stars"
    )
    fresh, read = (
        after.task("PREDICT reviews.stars FOR EACH reviews.*", name="stars"),
        after.task(folder),
    )
    for split in ("train", "val", "test"):
        assert read.table(split).equals(fresh.table(split))
    table = pd.read_parquet(folder / "train.parquet")
    table["stars"] = 3 - table["stars"]
    table.to_parquet(folder / "train.parquet")
    assert before.task(folder).is_edited
    with pytest.raises(TaskError, match="have other numbers now"):
        after.task(folder)


def test_relbench_reads_a_folder_with_keys(small_shop: Shop, tmp_path: Path) -> None:
    db = gelgt.open(small_shop.url, out=tmp_path / "shop")
    task = db.task(
        small_shop.sentence,
        name="churn",
        val=small_shop.val_timestamp,
        test=small_shop.test_timestamp,
    )
    folder = task.save()
    assert (folder / "gelgt" / "keys" / "customers.parquet").is_file()
    theirs = relbench.load_dataset(tmp_path / "shop").load_task("churn")
    assert len(theirs.get_table("train")) == task.rows["train"]


def _state(folder: Path, table: str, time_col: str) -> None:
    content = yaml.safe_load((folder / "manifest.yaml").read_text())
    content["tables"][table]["time_col"] = time_col
    (folder / "manifest.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
