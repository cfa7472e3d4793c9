"""What seeds come with: the calendar of the time that is asked about, and how stale their view
is."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny import opened, small

import gelgt
from gelgt import Database, Task, TrainConfig
from gelgt.history.seed_history import CALENDAR, HistoryPlan, for_fitting
from gelgt.sampling import Seeds
from gelgt.training.data import TrainingData
from gelgt.training.model import make_model
from gelgt.training.regime import in_regime

DAY = 86_400


def data_of(db: Database, task: Task, visibility: Any, **changes: Any) -> TrainingData:
    return opened(
        db,
        task,
        in_regime(small(task.task_type, model__calendar=True, **changes), task, visibility),
    )


@pytest.fixture(scope="module")
def races(relbench_data: Callable[[str], Path]) -> tuple[Database, Task]:
    db = gelgt.open(relbench_data("rel-f1"))
    return db, db.task("driver-top3")


def lags(data: TrainingData, split: str) -> np.ndarray[Any, Any]:
    found = data.history(data.seeds[split])
    assert found is not None
    return found[:, -1].numpy()


def test_a_view_is_as_stale_as_the_horizon_makes_it(races: tuple[Database, Task]) -> None:
    frozen, fresh = (data_of(*races, visibility) for visibility in ("frozen", "seed-time"))
    assert not lags(fresh, "test").any()
    assert not lags(frozen, "val").any()
    expected = (frozen.seeds["test"].time - frozen.sampling.horizon) / DAY
    assert np.allclose(lags(frozen, "test"), expected)
    assert expected.max() > 1000


def test_copies_are_asked_about_at_the_time_of_their_label(races: tuple[Database, Task]) -> None:
    data = data_of(*races, "frozen")
    fresh = data.seeds["train"]
    seeds, _ = data.learned("train", TrainConfig(stale=1, windows=1))
    copies = seeds.take(np.arange(len(fresh), len(seeds)))
    assert set(copies.asked.tolist()) <= set(fresh.time.tolist())
    history = data.history(seeds)
    assert history is not None
    assert np.allclose(history[:, -1].numpy(), (seeds.asked - seeds.time) / DAY)
    # Two seeds of one day of the year, however stale, stand at one place in it.
    waves = {int(a): w for a, w in zip(seeds.asked, history[:, -CALENDAR:-1].numpy())}
    for asked, wave in list(zip(copies.asked, history[len(fresh) :, -CALENDAR:-1].numpy()))[::50]:
        assert np.array_equal(waves[int(asked)], wave)


def test_a_year_that_was_not_seen_twice_says_nothing(db: Database, task: Task) -> None:
    data = data_of(db, task, "seed-time")
    assert np.ptp(data.seeds["train"].time) < 2 * 365 * DAY
    model = make_model(data, small(task.task_type, model__calendar=True))
    history = data.history(data.seeds["test"])
    assert history is not None
    shifted = history.clone()
    shifted[:, -CALENDAR:] = torch.rand_like(shifted[:, -CALENDAR:])
    encoder: Any = model.history
    assert torch.equal(encoder.normal(history)[:, -CALENDAR:], torch.zeros(len(history), CALENDAR))
    assert torch.equal(encoder.eval()(history), encoder(shifted))


def test_long_training_keeps_the_year() -> None:
    seeds = Seeds(np.zeros(2, np.int64), np.array([0, 800 * DAY]), np.zeros(2, np.uint64))
    history = torch.ones(2, CALENDAR + 3)
    assert for_fitting(history, seeds, HistoryPlan(1, True)) is history
    short = for_fitting(
        history, Seeds(seeds.node, seeds.time // 2, seeds.key), HistoryPlan(1, True)
    )
    assert not short[:, -CALENDAR:-1].any()
    assert short[:, :-CALENDAR].all()
