"""Real label tables name entities before their own row exists (accounts that were made anew): they
must not stop a training."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tiny import small

import gelgt
from gelgt import Database
from gelgt.inference import evaluate_run
from gelgt.scoring import Scorer
from gelgt.training import train_run
from gelgt.training.baselines import lightgbm_predictions
from gelgt.training.data import TrainingData
from gelgt.training.fit import Trainer
from gelgt.training.model import make_model
from gelgt.training.regime import in_regime

DAYS = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(300), "D")


@pytest.fixture(scope="module")
def late(tmp_path_factory: pytest.TempPathFactory) -> Database:
    rng = np.random.default_rng(0)
    users = pd.DataFrame(
        {
            "id": np.arange(30),
            "joined_at": DAYS[0] - pd.Timedelta(days=1),
            "kind": rng.choice(["a", "b"], 30),
        }
    )
    users.loc[[3, 7], "joined_at"] = DAYS[240]  # both have events long before
    events = pd.DataFrame(
        {
            "id": np.arange(3000),
            "user_id": rng.integers(0, 30, 3000),
            "at": DAYS[rng.integers(0, 300, 3000)],
        }
    )
    events["value"] = rng.normal(size=3000)
    frames = {"users": users, "events": events}
    schema = {
        "tables": {
            "users": {"pkey": "id", "time_col": "joined_at"},
            "events": {"pkey": "id", "time_col": "at", "fkeys": {"user_id": "users"}},
        }
    }
    return gelgt.open(frames, schema=schema, out=tmp_path_factory.mktemp("late") / "db")


def labels(last: int) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    times = DAYS[np.arange(30, last, 20)]
    frame = pd.DataFrame(
        [(user, time) for time in times for user in range(30)], columns=["id", "at"]
    )
    return frame.assign(good=rng.integers(0, 2, len(frame)))


def test_they_are_not_learned_from_and_get_the_base_rate(late: Database, tmp_path: Path) -> None:
    task = late.task(
        labels(280), entity="users.id", val=DAYS[200], test=DAYS[250], timedelta="5 days"
    )
    config = in_regime(small(task.task_type), task, "seed-time")
    data = TrainingData.of(late, task, config)
    there = {split: data.exists(seeds) for split, seeds in data.seeds.items()}
    assert {split: int((~found).sum()) for split, found in there.items()} == {
        "train": 18,
        "val": 4,
        "test": 0,
    }
    assert [text.split(":")[0] for text in data.notices()] == ["train", "val"]
    assert "does not exist yet" in data.notices()[0]

    trainer = Trainer(make_model(data, config), data, config.train)
    assert len(trainer.setup.objective.labels) == there["train"].sum()
    trainer.run()
    found = Scorer(trainer.model, data).predict(data.seeds["val"]).together
    rate = data.labels("train").mean()
    np.testing.assert_allclose(found[~there["val"]], rate, rtol=1e-5)
    assert np.ptp(found[there["val"]]) > 0

    beside = lightgbm_predictions(data, config)[0]["val"]
    np.testing.assert_allclose(beside[~there["val"]], rate, rtol=1e-5)
    assert np.ptp(beside[there["val"]]) > 0

    run = train_run(late, task, tmp_path / "run", small(task.task_type))
    again = evaluate_run(run, late, "val")
    assert again["metrics"]["val"] == run.record.to_json()["metrics"]["val"]
    assert any("get the base rate" in text for text in again["notices"])


def test_where_nobody_exists_there_is_nothing_to_learn(late: Database) -> None:
    nobody = labels(280).query("id in (3, 7)")
    task = late.task(nobody, entity="users.id", val=DAYS[200], test=DAYS[250], timedelta="5 days")
    config = in_regime(small(task.task_type), task, "seed-time")
    data = TrainingData.of(late, task, config)
    with pytest.raises(gelgt.GelgtError) as caught:
        Trainer(make_model(data, config), data, config.train)
    assert caught.value.code == "no_labels"
    assert "18 training labels" in caught.value.message
    assert "'joined_at'" in caught.value.message
