import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import relbench
import yaml

import gelgt
from gelgt.demo import Shop
from gelgt.errors import TaskError
from gelgt.sources.database import Database
from gelgt.tasks import Task, make_task
from gelgt.tasks.folder import task_names

Make = Callable[..., Database]
FORECASTS = {
    "count": "PREDICT COUNT(orders.*, 0, 30, days) FOR EACH customers.id WHERE COUNT(orders.*, "
    "-INF, 0, days) > 0",
    "churn": "PREDICT COUNT(orders.*, 0, 30, days) = 0 FOR EACH customers.id",
    "mean": "PREDICT AVG(orders.amount WHERE status LIKE 's%', 0, 1, month) FOR EACH customers.id",
    "next": "PREDICT LAST(orders.status, 0, 30, days) FOR EACH customers.id",
}
COLUMNS = {
    "status": "PREDICT orders.status FOR EACH orders.id",
    "amount": "PREDICT orders.amount FOR EACH orders.id",
    "gift": "PREDICT orders.is_gift FOR EACH orders.id",
}


def original(task: Task, split: str) -> pd.DataFrame:
    frame = task.table(split).to_pandas()
    if task.classes:
        frame[task.label_col] = [task.classes[i] for i in frame[task.label_col]]
    return frame


def assert_loads_alike(db: Database, task: Task, regenerate: bool = False) -> None:
    theirs = relbench.load_dataset(db.folder).load_task(task.name, regenerate=regenerate)
    for split in ("train", "val", "test"):
        frame = theirs.get_table(split, mask_input_cols=False).df
        pd.testing.assert_frame_equal(frame, original(task, split), check_dtype=False)


def assert_same_task(one: Task, other: Task) -> None:
    assert one == other
    for split in ("train", "val", "test"):
        assert one.table(split).equals(other.table(split))


@pytest.mark.parametrize("name", FORECASTS)
@pytest.mark.parametrize("regenerate", [False, True])
def test_forecasts_load_in_relbench(shop_db: Database, name: str, regenerate: bool) -> None:
    task = make_task(shop_db, FORECASTS[name], name=name)
    assert task.save() == shop_db.folder / "tasks" / name
    assert_loads_alike(shop_db, task, regenerate)
    assert_same_task(shop_db.task(name), task)


@pytest.mark.parametrize("name", COLUMNS)
def test_autocomplete_loads_in_relbench(shop_db: Database, name: str) -> None:
    task = make_task(shop_db, COLUMNS[name], name=name)
    task.save()
    assert_loads_alike(shop_db, task)
    if name == "amount":
        assert_loads_alike(shop_db, task, regenerate=True)
    assert_same_task(shop_db.task(name), task)
    for file in (shop_db.folder / "tasks" / name).glob("*.parquet"):
        file.unlink()
    assert shop_db.task(name).table("val").equals(task.table("val"))


def test_recommendation_loads_in_relbench(shop_db: Database) -> None:
    task = make_task(
        shop_db,
        "PREDICT LIST_DISTINCT(items.product_id, 0, 30, days) FOR EACH customers.id",
        name="next-products",
    )
    task.save()
    for regenerate in (False, True):
        theirs = relbench.load_dataset(shop_db.folder).load_task(
            "next-products", regenerate=regenerate
        )
        for split in ("train", "val", "test"):
            frame = theirs.get_table(split, mask_input_cols=False).df
            mine = task.table(split).to_pandas()
            assert frame.id.tolist() == mine.id.tolist()
            assert [list(x) for x in frame.product_id] == [list(x) for x in mine.product_id]
    assert_same_task(shop_db.task("next-products"), task)


def test_frames_load_in_relbench(shop_db: Database) -> None:
    frame = pd.DataFrame(
        {
            "id": [0, 1, 2] * 20,
            "at": pd.date_range("2023-02-01", periods=60, freq="10D"),
            "y": ["a", "b", "b"] * 20,
        }
    )
    task = make_task(shop_db, frame, entity="customers.id", timedelta="10 days", name="given")
    task.save()
    assert_loads_alike(shop_db, task)
    assert_same_task(shop_db.task("given"), task)
    with pytest.raises(TaskError, match="are given, not made; it takes no val"):
        shop_db.task("given", val="2024-01-01")
    changed = make_task(
        shop_db,
        frame.assign(y="c").where(frame.id > 0, frame),
        entity="customers.id",
        timedelta="10 days",
        name="given",
    )
    with pytest.raises(TaskError, match="it differs in train, val, test"):
        changed.save()


def test_manifest_is_relbenchs_with_ours_below(shop_db: Database) -> None:
    folder = make_task(shop_db, FORECASTS["next"], name="next").save()
    content = yaml.safe_load((folder / "manifest.yaml").read_text())
    ours = content.pop("gelgt")
    assert list(content) == [
        "name", "kind", "task_type", "entity_table", "entity_col", "target_col", "time_col",
        "timedelta", "num_eval_timestamps", "sql", "manifest_version",
    ]  # fmt: skip
    assert content["timedelta"] == "30 days"
    assert ours["sentence"] == FORECASTS["next"]
    assert (ours["val_timestamp"], ours["test_timestamp"], ours["classes"]) == (
        "2024-03-01",
        "2024-05-01",
        ["new", "paid", "sent"],
    )
    assert "sql: |" in (folder / "manifest.yaml").read_text()


def test_another_task_of_the_same_name(shop_db: Database) -> None:
    make_task(shop_db, FORECASTS["count"], name="same").save()
    make_task(shop_db, FORECASTS["count"], name="same").save()  # the same task may be saved again
    other = make_task(shop_db, FORECASTS["churn"], name="same")
    with pytest.raises(TaskError) as caught:
        other.save()
    assert caught.value.code == "task_exists"
    assert "it differs in sql, task_type." in caught.value.message
    with pytest.raises(TaskError, match="it differs in val_timestamp"):
        make_task(
            shop_db, FORECASTS["count"], name="same", val="2024-02-20", eval_timestamps=3
        ).save()
    other.save(overwrite=True)
    assert shop_db.task("same").task_type == "binary_classification"
    assert sorted(p.name for p in (shop_db.folder / "tasks").iterdir()) == ["same"]


def test_a_failed_save_leaves_nothing(shop_db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    task = make_task(shop_db, FORECASTS["count"], name="count")
    calls = iter([True, False])

    def fail(*args: Any) -> None:
        if not next(calls):
            raise OSError("disk full")

    monkeypatch.setattr("gelgt.tasks.folder.pq.write_table", fail)
    with pytest.raises(OSError, match="disk full"):
        task.save()
    assert list((shop_db.folder / "tasks").iterdir()) == []


@pytest.mark.parametrize("is_exchanged", [True, False])
def test_a_failed_replacement_keeps_what_was_there(
    shop_db: Database, monkeypatch: pytest.MonkeyPatch, is_exchanged: bool
) -> None:
    """Where two folders change places at once, and where there are two renames."""
    folder = make_task(shop_db, FORECASTS["count"], name="same").save()
    rename = os.replace

    def fail(source: Path, target: Path) -> None:
        if target == folder and source.suffix == ".tmp":
            raise OSError("disk full")
        rename(source, target)

    def exchange(one: Path, other: Path) -> bool:
        if is_exchanged:
            raise OSError("disk full")
        return False

    monkeypatch.setattr("gelgt.files.os.replace", fail)
    monkeypatch.setattr("gelgt.files._exchange", exchange)
    with pytest.raises(OSError, match="disk full"):
        make_task(shop_db, FORECASTS["churn"], name="same").save(overwrite=True)
    assert shop_db.task("same").task_type == "regression"
    assert task_names(shop_db) == ["same"]


def test_elsewhere(shop_db: Database, tmp_path: Path) -> None:
    task = make_task(shop_db, FORECASTS["count"], name="count")
    folder = task.save(tmp_path / "my task")
    for definition in (
        folder,
        str(folder),
        folder / "manifest.yaml",
        str(folder / "manifest.yaml"),
    ):
        assert_same_task(shop_db.task(definition), task)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    with pytest.raises(TaskError, match="is not empty and holds no task"):
        task.save(tmp_path / "other")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_read_only_database_folder(shop_db: Database) -> None:
    task = make_task(shop_db, FORECASTS["count"], name="count")
    shop_db.folder.chmod(0o555)
    try:
        assert task.save() == shop_db.cache_dir / "tasks" / "count"
    finally:
        shop_db.folder.chmod(0o755)


def test_tasks_in_the_cache_are_found(shop_db: Database) -> None:
    task = make_task(shop_db, FORECASTS["count"], name="count")
    task.save(shop_db.cache_dir / "tasks" / "count")
    assert task_names(shop_db) == ["count"]
    assert_same_task(shop_db.task("count"), task)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "forcast"}, "has the kind 'forcast'. Did you mean 'forecast'?"),
        ({"task_type": "binary"}, "has the task_type 'binary'."),
        ({"sql": None, "timedelta": None}, "lacks timedelta, sql."),
        ({"entity_table": "custmers"}, "Did you mean 'customers'?"),
    ],
)
def test_bad_manifests(shop_db: Database, change: dict[str, Any], message: str) -> None:
    folder = make_task(shop_db, FORECASTS["count"], name="count").save()
    content = yaml.safe_load((folder / "manifest.yaml").read_text()) | change
    (folder / "manifest.yaml").write_text(yaml.safe_dump(content))
    with pytest.raises(gelgt.GelgtError) as caught:
        shop_db.task("count")
    assert message in str(caught.value)


def test_the_first_tasks_split_times_go_to_the_manifest(small_shop: Shop, tmp_path: Path) -> None:
    db = gelgt.open(small_shop.url, out=tmp_path / "project")
    assert db.schema.split_origin == "inferred"
    days = pd.Timedelta(days=10)  # before what is guessed
    first = db.task(
        small_shop.sentence,
        name="first",
        val=pd.Timestamp(small_shop.val_timestamp) - days,
        test=pd.Timestamp(small_shop.test_timestamp) - days,
    )
    first.save()
    again = gelgt.open(tmp_path / "project")
    assert (again.val_timestamp, again.test_timestamp) == (
        first.val_timestamp,
        first.test_timestamp,
    )
    assert again.schema.split_origin == "manifest"
    assert again.follows_contract
    theirs = relbench.load_dataset(tmp_path / "project").load_task("first", regenerate=True)
    assert len(theirs.get_table("train")) == first.rows["train"]
    later = again.task(
        small_shop.sentence, name="later", val=again.val_timestamp - pd.Timedelta(days=20)
    )
    later.save()
    assert gelgt.open(tmp_path / "project").val_timestamp == first.val_timestamp, (
        "a later task keeps its times to itself"
    )
