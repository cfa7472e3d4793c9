"""Tasks replayed at earlier split times: which labels they have, and that nothing later matters."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import gelgt
from gelgt import Database, Task
from gelgt.demo import Shop, shop
from gelgt.errors import TaskError
from gelgt.presets import RunConfig
from gelgt.runs.folder import load_run
from gelgt.tasks.origins import replayed
from gelgt.training.job import Options
from gelgt.training.run import train_run

WINDOW = pd.Timedelta(days=10)
SENTENCE = "PREDICT COUNT(orders.*, 0, 10, days) > 0 FOR EACH customers.id"
SETTINGS: dict[str, Any] = {
    "model.width": 16,
    "model.heads": 2,
    "model.row_width": 8,
    "model.history_columns": 12,
    "sampling.budget": 16,
    "train.batch_size": 32,
    "train.epochs": 1,
    "train.steps_per_epoch": 2,
    "train.ensemble": 1,
    "train.windows": 2,
    "train.retrain": True,
    "train.time_limit": None,
}


def days(task: Task, split: str) -> list[int]:
    """The distinct days of a split's seed times, counted from 2024-01-01."""
    times = task.table(split).column(str(task.time_col)).to_numpy()
    return sorted({int((t - np.datetime64("2024-01-01")) / np.timedelta64(1, "D")) for t in times})


@pytest.fixture
def weekly(make_task: Callable[..., Task]) -> Task:
    """Labels every five days with windows of five days: train up to day 15, val 20 and 25."""
    users = range(4)
    rows = {
        "train": [(u, day, (u + day) % 2) for day in (0, 5, 10, 15) for u in users],
        "val": [(u, day, u % 2) for day in (20, 25) for u in users],
        "test": [(u, day, u % 2) for day in (30, 35) for u in users],
    }
    task = make_task(rows["train"], rows["val"], rows["test"], "binary_classification")
    return _split(task, 20, 30)


def _split(task: Task, val: int, test: int) -> Task:
    start = pd.Timestamp("2024-01-01")
    return replace(
        task,
        val_timestamp=start + pd.Timedelta(days=val),
        test_timestamp=start + pd.Timedelta(days=test),
    )


def test_blocks_of_as_many_seed_times_as_validation(
    weekly: Task, make_task: Callable[..., Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gelgt.tasks.origins.MIN_TRAIN_TIMES", 1)
    one = replayed(weekly, 1)
    born = weekly.database.row_times("users")[:4] // 86_400_000_000 - 19_723  # days since 2024
    assert (born <= 10).all()  # else their labels would be left out
    assert {s: days(one, s) for s in ("train", "val", "test")} == {
        "train": [0, 5],
        "val": [10, 15],
        "test": [20, 25],
    }
    assert (one.val_timestamp, one.test_timestamp) == (
        pd.Timestamp("2024-01-11"),
        pd.Timestamp("2024-01-21"),
    )
    assert one.name == "tiny@origin-1"
    assert one.num_eval_timestamps == 2
    with pytest.raises(TaskError, match=r"0 are left for training"):
        replayed(weekly, 2)


def test_too_little_history_is_said(weekly: Task) -> None:
    with pytest.raises(TaskError, match="2 are left for training, which needs 3") as error:
        replayed(weekly, 1)
    assert error.value.code == "no_origin"
    assert "--origins" in error.value.hint


def test_windows_that_reach_over_a_split_are_left_out(make_task: Callable[..., Task]) -> None:
    """Seed times every two days, windows of five: the last ones before a split are gaps."""
    train = [(0, day, day % 4 // 2) for day in range(0, 20, 2)]
    val = [(0, day, day % 4 // 2) for day in (20, 22, 24)]
    task = _split(make_task(train, val, val, "binary_classification"), 20, 30)
    one = replayed(task, 1)
    assert days(one, "test") == [20, 22, 24]
    assert one.val_timestamp == pd.Timestamp("2024-01-15")  # day 14
    assert days(one, "val") == [14]  # 16 + 5 lies after day 20
    assert days(one, "train")[-1] == 8  # 10 + 5 lies after day 14


def test_labels_without_windows_go_by_the_time_between_the_splits(
    make_task: Callable[..., Task],
) -> None:
    train = [(0, day, day % 2) for day in range(1, 21)]
    val = [(0, day, day % 2) for day in range(21, 31)]
    task = make_task(train, val, val, "binary_classification", timedelta=None)
    one = replayed(_split(task, 20, 30), 1)
    assert [days(one, s) for s in ("train", "val", "test")] == [
        list(range(1, 11)),
        list(range(11, 21)),
        list(range(21, 31)),
    ]
    with pytest.raises(TaskError, match="no labels are left for train"):
        replayed(_split(task, 20, 30), 2)


def test_calendar_months_end_within_their_split(small_shop: Shop, tmp_path: Path) -> None:
    db = gelgt.open(small_shop.url, out=tmp_path / "shop")
    task = db.task("PREDICT COUNT(orders.*, 0, 1, months) > 0 FOR EACH customers.id")
    one = replayed(task, 1)
    for split, border in (("train", one.val_timestamp), ("val", one.test_timestamp)):
        last = pd.Timestamp(one.table(split).column(str(one.time_col)).to_numpy().max())
        assert last + pd.DateOffset(months=1) <= border


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shop as a folder with a task: three windows each for validation and test."""
    path = tmp_path_factory.mktemp("origins")
    made = shop(path / "shop.db", customers=50, days=240, seed=3)
    latest = pd.Timestamp(made.test_timestamp)
    stated = {"val_timestamp": str(latest - 3 * WINDOW), "test_timestamp": str(latest)}
    db = gelgt.open(made.url, schema=stated, out=path / "shop")
    db.task(SENTENCE, name="soon", eval_timestamps=3).save()
    return path / "shop"


def trained(folder: Path, out: Path) -> Path:
    """A run on the task of a folder, replayed at origin 2."""
    db = gelgt.open(folder)
    task = replayed(db.task("soon"), 2)
    config = RunConfig.of("cpu", task.task_type, SETTINGS)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        train_run(db, task, out, config, Options(visibility="seed-time", baselines=False))
    finally:
        torch.set_num_threads(threads)
    return out


def changed(folder: Path, copy: Path, at: pd.Timestamp) -> Path:
    """A copy with other values and keys in every row after a time, and with other labels at seed
    times whose windows end after it."""
    shutil.copytree(folder, copy)
    db = gelgt.open(copy)
    generator = np.random.default_rng(0)
    for name in db.table_names:
        moments = db.row_times(name)
        later = np.flatnonzero(moments > np.datetime64(at, "us").astype(np.int64))
        if db.table(name).has_time and len(later):
            _change_rows(db, name, later, generator)
    for split in ("train", "val", "test"):
        path = copy / "tasks" / "soon" / f"{split}.parquet"
        table = pq.read_table(path)
        names = table.column_names
        ends = table.column(0).to_numpy() + np.timedelta64(WINDOW)
        labels = table.column(2).to_numpy()
        labels = np.where(ends > np.datetime64(at), 1 - labels, labels)
        pq.write_table(table.set_column(2, names[2], pa.array(labels)), path)
    return copy


def _change_rows(db: Database, name: str, later: Any, generator: np.random.Generator) -> None:
    table, schema = pq.read_table(db.paths(name)[0]), db.table(name)
    keys = {fk.column for fk in schema.foreign_keys}
    kept = {schema.time_col, schema.pkey, *(fk.column for fk in schema.dating_keys)}
    for place, field in enumerate(table.schema):
        if field.name in kept:
            continue
        values = table.column(place).to_pylist()
        for row, other in zip(later, generator.permutation(later)):
            if field.name in keys:
                values[row] = table.column(place)[int(other)].as_py()
            elif pa.types.is_string(field.type):
                values[row] = f"new {row}"
            elif pa.types.is_floating(field.type) or pa.types.is_integer(field.type):
                values[row] = -1000 if values[row] is None else values[row] * 1000
        table = table.set_column(place, field, pa.array(values, field.type))
    pq.write_table(table, db.paths(name)[0])


@pytest.fixture(scope="module")
def as_it_was(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(folder, tmp_path_factory.mktemp("runs") / "run")


def test_what_comes_after_the_scored_block_changes_no_bit(
    folder: Path, as_it_was: Path, tmp_path: Path
) -> None:
    """Rows and labels after the last window of origin 2, which are origin 1's and the test's."""
    at = pd.Timestamp(gelgt.open(folder).task("soon").val_timestamp)
    assert replayed(gelgt.open(folder).task("soon"), 2).test_timestamp == at - 3 * WINDOW
    run = trained(changed(folder, tmp_path / "shop", at), tmp_path / "run")
    for split in ("val", "test"):
        name = f"predictions/{split}.parquet"
        assert pq.read_table(run / name).equals(pq.read_table(as_it_was / name))


def test_what_comes_after_the_replayed_test_time_is_not_learned(
    folder: Path, as_it_was: Path, tmp_path: Path
) -> None:
    """Weights, statistics, chosen columns and validation predictions stay the same bits."""
    at = replayed(gelgt.open(folder).task("soon"), 2).test_timestamp
    run = trained(changed(folder, tmp_path / "shop", at), tmp_path / "run")
    for name in ("features.json", "target.json"):
        assert (run / name).read_bytes() == (as_it_was / name).read_bytes(), name
    now, before = load_run(run), load_run(as_it_was)
    assert now.record.history == before.record.history
    weights = before.weights()
    assert all(torch.equal(tensor, weights[name]) for name, tensor in now.weights().items())
    name = "predictions/val.parquet"
    assert pq.read_table(run / name).equals(pq.read_table(as_it_was / name))
    tested = [pq.read_table(each / "predictions/test.parquet") for each in (run, as_it_was)]
    assert not tested[0].equals(tested[1])  # else nothing was changed
