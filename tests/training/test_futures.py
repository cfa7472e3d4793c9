"""Futures: the window of a label as further targets, of the right rows, none of them from after
what may be learned.

A trained model has no trace of them.
"""

import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from tiny import small
from torch.nn import functional

import gelgt
from gelgt import Database, Task
from gelgt.nn import GelGTModel
from gelgt.sampling import Seeds
from gelgt.testing import Shop, shop
from gelgt.testing.hostile import HOSTILE
from gelgt.training.data import KNOWN, TrainingData, in_regime
from gelgt.training.fit import Trainer
from gelgt.training.futures import Objective, future_values, known_until, make_objective
from gelgt.training.members import make_model
from gelgt.training.target import Target

DAY = 86_400


def data_of(db: Database, task: Task, **changes: Any) -> TrainingData:
    return TrainingData.of(db, task, in_regime(small(task.task_type, **changes), task))


def trainer(data: TrainingData, **changes: Any) -> Trainer:
    config = small(data.task.task_type, **changes)
    return Trainer(make_model(data, config), data, config.train)


def test_they_are_what_the_windows_hold(db: Database, task: Task) -> None:
    data = data_of(db, task)
    seeds = data.seeds["train"]
    found = future_values(data, seeds, None)
    orders = pd.read_parquet(db.path("orders"))
    keys = pd.read_parquet(db.path("customers"))["id"].to_numpy()
    assert task.timedelta is not None
    rows = seeds.node - data.graph.offsets[data.graph.table_number("customers")]
    counts = []
    for row, time in zip(rows, pd.to_datetime(seeds.asked, unit="s")):
        own = orders[orders["customer_id"] == keys[row]]
        counts.append(
            ((own["placed_at"] > time) & (own["placed_at"] <= time + task.timedelta)).sum()
        )
    assert sum(counts) > 50
    assert any(np.array_equal(column, counts) for column in found.T)
    # The task asks whether there is an order: its label is one bit of that count.
    assert np.array_equal(np.array(counts) > 0, data.labels("train") > 0)


def test_windows_that_end_later_teach_nothing(db: Database, task: Task) -> None:
    data = data_of(db, task)
    seeds = data.seeds["train"]
    assert task.timedelta is not None
    middle = int(np.median(seeds.asked)) + int(task.timedelta.total_seconds())
    found, every = future_values(data, seeds, middle), future_values(data, seeds, None)
    later = seeds.asked + int(task.timedelta.total_seconds()) > middle
    assert later.any()
    assert np.isnan(found[later]).all()
    assert np.array_equal(found[~later], every[~later], equal_nan=True)


def test_they_end_where_learned_labels_end(db: Database, task: Task) -> None:
    data = data_of(db, task)
    assert task.val_timestamp is not None
    assert task.test_timestamp is not None
    assert known_until(data, ("train",)) == int(pd.Timestamp(task.val_timestamp).timestamp())
    assert known_until(data, (KNOWN,)) == int(pd.Timestamp(task.test_timestamp).timestamp())
    assert known_until(data, ("train", "val", "test")) is None


def test_stale_views_have_the_future_of_their_label(db: Database, task: Task) -> None:
    data = data_of(db, task)
    fresh = data.seeds["train"]
    lag = np.full(len(fresh), 40 * DAY)
    assert np.array_equal(
        future_values(data, Seeds(fresh.node, fresh.time - lag, fresh.key, lag), None),
        future_values(data, fresh, None),
        equal_nan=True,
    )


def test_rows_after_the_split_times_change_no_weight(tmp_path: Path) -> None:
    """A model learns from rows up to validation, and anew from rows up to the test time: what comes
    later is not among its targets."""
    weights = []
    made: Shop = shop(tmp_path / "shop.db", customers=80, days=300, seed=5)
    for name, split, until in (
        ("one", ("train",), made.val_timestamp),
        ("two", (KNOWN,), made.test_timestamp),
    ):
        found = []
        for change in (False, True):
            path = tmp_path / f"{name}-{change}.db"
            path.write_bytes(made.path.read_bytes())
            if change:
                with sqlite3.connect(path) as connection:
                    for statement in HOSTILE:
                        connection.execute(statement, {"t": str(until)})
                    assert connection.total_changes > 100
                connection.close()
            stated = {"val_timestamp": made.val_timestamp, "test_timestamp": made.test_timestamp}
            db = gelgt.open(f"sqlite:///{path}", schema=stated, out=tmp_path / f"{name}-{change}")
            data = data_of(db, db.task(made.sentence))
            config = small(data.task.task_type)
            model = make_model(data, config)
            Trainer(model, data, config.train, splits=split, watch=False).run()
            found.append(model.state_dict())
        weights.append(found)
    for first, second in weights:
        assert all(torch.equal(first[key], second[key]) for key in first)


def test_half_a_second_after_a_window_is_after_it() -> None:
    """Times are kept in whole seconds, and a row of the second in which a window ends may lie
    behind it."""
    rng = np.random.default_rng(0)
    val, test = pd.Timestamp("2024-03-01"), pd.Timestamp("2024-04-01")
    times = pd.Timestamp("2024-01-01") + pd.to_timedelta(
        np.sort(rng.integers(0, 120 * DAY, 600)), unit="s"
    )
    found = []
    for late in ([], [val + pd.Timedelta("400ms")]):
        at = pd.Series([*times, *late]).sort_values(ignore_index=True)
        users = np.where(at.isin(late), 1, at.astype("int64") // 10**6 % 7 + 1)
        events = pd.DataFrame({"id": range(len(at)), "user_id": users, "at": at})
        db = gelgt.open({"users": pd.DataFrame({"id": range(1, 8)}), "events": events})
        task = db.task(
            "PREDICT COUNT(events.*, 0, 10, days) > 3 FOR EACH users.id", val=val, test=test
        )
        data = data_of(db, task)
        found.append(
            (
                future_values(data, data.seeds["train"], known_until(data, ("train",))),
                data.labels("train"),
            )
        )
        assert (data.seeds["train"].asked + 10 * DAY).max() == int(val.timestamp())
    assert np.array_equal(found[0][1], found[1][1])
    assert np.array_equal(found[0][0], found[1][0], equal_nan=True)


def test_the_loss_counts_what_is_known() -> None:
    target = Target.from_dict(
        {"space": {"task_type": "binary_classification", "labels": []}, "start": [0.0]}
    )
    out = torch.randn(4, 3)
    labels = torch.tensor([0.0, 1.0, 1.0, 0.0, 1.0])
    futures = torch.tensor(
        [[0.0, 1.0], [torch.nan, 2.0], [torch.nan, torch.nan], [0.5, -0.5], [9.0, 9.0]]
    )
    index = torch.tensor([3, 1, 2, 0])
    found = Objective(target, labels, futures, 2.0).losses(out, index)
    plain = functional.binary_cross_entropy_with_logits(out[:, 0], labels[index], reduction="none")
    gap = functional.smooth_l1_loss(out[:, 1:], futures[index], reduction="none")
    expected = plain + 2.0 * torch.stack(
        [gap[0].mean(), gap[1, 1], torch.tensor(0.0), gap[3].mean()]
    )
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(Objective(target, labels).losses(out[:, :1], index), plain)


def test_a_trained_model_has_no_trace_of_them(db: Database, task: Task) -> None:
    data = data_of(db, task)
    made = trainer(data)
    model = made.model
    assert isinstance(model, GelGTModel)
    assert made.objective.futures is not None
    assert model.futures is not None
    assert model.futures.out_features == made.objective.futures.shape[1] > 5
    before = model.futures.weight.detach().clone()
    layer = model.futures
    made.run()
    assert not torch.equal(layer.weight, before)  # it was trained
    assert model.futures is None
    assert set(model.state_dict()) == set(
        make_model(data, small(task.task_type, model__futures=0.0)).state_dict()
    )


def test_they_change_what_is_learned_and_not_what_it_starts_from(db: Database, task: Task) -> None:
    data = data_of(db, task)
    starts, ends = [], []
    for weight in (0.0, 3.0):
        made = trainer(data, model__futures=weight)
        starts.append(
            {
                name: t.clone()
                for name, t in made.model.state_dict().items()
                if not name.startswith("futures")
            }
        )
        made.run()
        ends.append(made.model.state_dict())
    assert all(torch.equal(starts[0][name], starts[1][name]) for name in starts[0])
    assert not torch.equal(ends[0]["head.1.weight"], ends[1]["head.1.weight"])


def test_without_a_window_there_are_none(db: Database, task: Task) -> None:
    data = data_of(db, replace(task, timedelta=None))
    seeds = data.seeds["train"]
    model = make_model(data, small(task.task_type))
    found = make_objective(
        model, data, seeds, data.labels("train"), ("train",), torch.device("cpu")
    )
    assert found.futures is None
    assert isinstance(model, GelGTModel)
    assert model.futures is None
