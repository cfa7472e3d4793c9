"""Saved tasks: their label files are read, or made again where options or rows have changed."""

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import yaml

from gelgt.errors import TaskError
from gelgt.sources.database import Database
from gelgt.tasks import make_task

COUNT = (
    "PREDICT COUNT(orders.*, 0, 30, days) FOR EACH customers.id WHERE COUNT(orders.*, -INF, 0, "
    "days) > 0"
)
NEXT = "PREDICT LAST(orders.status, 0, 30, days) FOR EACH customers.id"
CHURN = "PREDICT COUNT(orders.*, 0, 30, days) = 0 FOR EACH customers.id"


def test_saved_labels_need_no_duckdb(shop_db: Database) -> None:
    make_task(shop_db, NEXT, name="next").save()
    code = (
        "import sys; sys.modules['duckdb'] = sys.modules['sqlalchemy'] = None; import gelgt; "
        f"task = gelgt.open({str(shop_db.folder)!r}).task('next'); "
        "print(task.table('train').num_rows, len(task.population(task.database, '2024-01-01')))"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert int(shown[0]) == shop_db.task("next").rows["train"]


def test_other_options_make_the_labels_again(shop_db: Database) -> None:
    make_task(shop_db, COUNT, name="count").save()
    task = shop_db.task("count", eval_timestamps=1)
    assert len(task.preview().seed_times["val"]) == 1
    assert task.num_eval_timestamps == 1
    moved = shop_db.task("count", val="2024-01-01", test="2024-03-01")
    assert moved.rows["train"] < task.rows["train"]


def test_label_files_that_do_not_fit(shop_db: Database) -> None:
    folder = make_task(shop_db, COUNT, name="count").save()
    pd.read_parquet(folder / "val.parquet").rename(columns={"target": "tarGet"}).to_parquet(
        folder / "val.parquet"
    )
    with pytest.raises(
        TaskError, match=r"count/val.parquet has no column 'target'. Did you mean 'tarGet'\?"
    ):
        shop_db.task("count")
    (folder / "val.parquet").write_text("no parquet")
    with pytest.raises(TaskError, match="is not a readable Parquet file"):
        shop_db.task("count")


def test_folders_of_unknown_data_say_so(shop_db: Database, tmp_path: Path) -> None:
    folder = shop_db.task(CHURN, name="churn").save(tmp_path / "churn")
    content = yaml.safe_load((folder / "manifest.yaml").read_text())
    del content["gelgt"]["labels"]
    (folder / "manifest.yaml").write_text(yaml.safe_dump(content))
    assert any("does not say which data" in n for n in shop_db.task(folder).notices)


def test_sql_that_is_no_text(shop_db: Database) -> None:
    folder = make_task(shop_db, COUNT, name="listed").save()
    path = folder / "manifest.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | {"sql": ["SELECT 1"]}))
    with pytest.raises(TaskError, match="has sql that is no text") as caught:
        shop_db.task(str(folder))
    assert caught.value.code == "bad_manifest"
