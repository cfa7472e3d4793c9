"""Stale views: in the frozen regime training seeds also see what test seeds see, rows that end long
before they are asked about."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny import opened, small

import gelgt
from gelgt import Database, Task, TrainConfig
from gelgt.training.data import TrainingData
from gelgt.training.ensemble import about_seeds
from gelgt.training.fit import Trainer
from gelgt.training.model import make_model
from gelgt.training.regime import in_regime

DAY = 86_400


def data_of(db: Database, task: Task, visibility: Any, **changes: Any) -> TrainingData:
    return opened(db, task, in_regime(small(task.task_type, **changes), task, visibility))


@pytest.fixture(scope="module")
def races(relbench_data: Callable[[str], Path]) -> tuple[Database, Task]:
    db = gelgt.open(relbench_data("rel-f1"))
    return db, db.task("driver-top3")


def test_copies_see_less_and_keep_their_label(races: tuple[Database, Task]) -> None:
    data = data_of(*races, "frozen")
    fresh, labels = data.learned("train", TrainConfig(stale=0, windows=1))
    seeds, copied = data.learned("train", TrainConfig(stale=2, windows=1))
    assert len(seeds) == len(copied) > 2 * len(fresh)
    assert np.array_equal(seeds.time[: len(fresh)], fresh.time)
    assert np.array_equal(copied[: len(fresh)], labels)
    # Each copy is one of the labelled rows, earlier by a lag that validation knows.
    known = {(int(n), int(t), float(y)) for n, t, y in zip(fresh.node, fresh.time, labels)}
    lags = set(data.lags().tolist())
    for node, time, label in list(zip(seeds.node, seeds.time, copied))[len(fresh) :: 97]:
        assert any((int(node), int(time) + lag, float(label)) in known for lag in lags)
    assert seeds.time.min() >= fresh.time.min()
    assert max(lags) > 2 * 365 * DAY


def test_only_where_a_frozen_split_is_asked_about_for_long(
    races: tuple[Database, Task], relbench_data: Callable[[str], Path]
) -> None:
    assert len(data_of(*races, "seed-time").lags()) == 0
    auto = TrainConfig(stale="auto", windows=1)
    assert len(data_of(*races, "frozen").learned("train", auto)[0]) > 1.5 * len(
        data_of(*races, "seed-time").learned("train", auto)[0]
    )
    beer = gelgt.open(relbench_data("rel-stack-beer"))
    two_times = data_of(beer, beer.task("user-engagement"), "frozen")
    # of one and of two windows: the first sees all there is
    assert len(np.unique(two_times.seeds["val"].time)) == 2
    assert len(two_times.learned("train", auto)[0]) == len(two_times.seeds["train"])


def test_an_epoch_is_no_longer_for_its_copies(races: tuple[Database, Task]) -> None:
    steps, rows = {}, {}
    for stale in (0, 3):
        data = data_of(
            *races, "frozen", train__stale=stale, train__steps_per_epoch=None, model__history=0
        )
        config = small(train__stale=stale, train__steps_per_epoch=None, model__history=0)
        made = Trainer(make_model(data, config), data, config.train)
        steps[stale], rows[stale] = made.steps, len(made.setup.objective.labels)
    assert steps[0] == steps[3]
    assert rows[3] > 3 * rows[0]


def test_models_of_a_run_draw_their_own_lags(races: tuple[Database, Task]) -> None:
    data = data_of(*races, "frozen")
    times = [
        data.learned("train", TrainConfig(stale=1, windows=1, seed=seed))[0].time
        for seed in (0, 0, 1)
    ]
    assert np.array_equal(times[0], times[1])
    assert not np.array_equal(times[0], times[2])


def test_how_far_rows_reach_after_the_test_time_does_not_matter(db: Database, task: Task) -> None:
    """As many windows as there are rows for were evaluated: nobody knew that number at the test
    time."""
    assert task.is_open_ended
    lags = [
        data_of(db, replace(task, num_eval_timestamps=count), "frozen").lags() for count in (2, 30)
    ]
    assert np.array_equal(*lags)
    asked = data_of(db, replace(task, num_eval_timestamps=30, is_open_ended=False), "frozen").lags()
    assert len(asked) == 29


def test_copies_are_not_counted_as_windows(races: tuple[Database, Task]) -> None:
    data = data_of(*races, "frozen")
    rows = data.task.rows["train"]
    counts = {}
    for windows in (1, 2):
        seeds, _ = data.learned("train", TrainConfig(stale=1, windows=windows))
        fresh = len(data.windows("train", windows)[0])
        *overlapping, copies = about_seeds(seeds, rows)
        assert f"{len(seeds) - fresh:,} labels are learned once more" in copies
        counts[windows] = [
            text for text in overlapping if f"{fresh:,} labels of overlapping windows" in text
        ]
    assert (len(counts[1]), len(counts[2])) == (0, 1)
    assert not list(about_seeds(data.seeds["train"], rows))
