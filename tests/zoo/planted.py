"""Small databases with a planted signal, one for each mechanism, and a short training on them that
ends with a score."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

import gelgt
from gelgt.baselines import entity_mean
from gelgt.metrics import roc_auc
from gelgt.nn import RelationalModel
from gelgt.presets import RunConfig
from gelgt.scoring import Scorer
from gelgt.tasks import Task
from gelgt.training import TrainingData
from gelgt.training.fit import Trainer
from gelgt.training.model import make_model

START = np.datetime64("2024-01-01T00:00:00", "s")
SPLITS = {"val_timestamp": "2024-07-01", "test_timestamp": "2024-09-01"}  # days 182 and 244
# days between which the seed times of train, val and test lie
BORDERS = ((100, 180), (182, 242), (244, 300))
SMALL = {
    "model.width": 32,
    "model.dropout": 0.0,
    "model.row_width": 16,
    "model.row_layers": 1,
    "train.ensemble": 1,
    "train.windows": 1,
    "train.best_epochs": 1,
    "train.weight_average": 0.0,
    "train.steps_per_epoch": None,
    "train.batch_size": 64,
    "train.rate": 3e-3,
    "train.patience": 100,
}


@dataclass(frozen=True)
class Outcome:
    """Test AUCs, and the model that reached its own."""

    auc: float
    entity_mean: float
    model: RelationalModel
    data: TrainingData


@dataclass(frozen=True)
class Planted:
    """A database and its task."""

    db: gelgt.Database
    task: Task

    def train(self, kind: str, **changes: Any) -> Outcome:
        """Train a model of some kind by the common loop; changes are named as ``train__rate``."""
        settings = SMALL | {name.replace("__", "."): value for name, value in changes.items()}
        config = RunConfig.of("cpu", self.task.task_type, settings, kind)
        data = TrainingData.of(self.db, self.task, config)
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            model = make_model(data, config)
            Trainer(model, data, config.train).run()
            found = Scorer(model, data).predict(data.seeds["test"]).together
        finally:
            torch.set_num_threads(threads)
        labels = data.labels("test").astype(np.int64)
        scores = [roc_auc(labels, p) for p in (found, entity_mean(self.task)["test"])]
        assert None not in scores
        return Outcome(*scores, model, data)  # type: ignore[arg-type]


def seed_days(
    users: int, rng: np.random.Generator, training: int = 3
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """(user, day) of labelled rows: some in training and one each in validation and test of every
    user."""
    borders = [BORDERS[0]] * training + list(BORDERS[1:])
    days = np.concatenate([rng.uniform(*border, users) for border in borders])
    return np.tile(np.arange(users), len(borders)), days


def moment(days: NDArray[Any]) -> NDArray[np.datetime64]:
    return START + (days * 86_400).astype("timedelta64[s]")


def opened(
    frames: Mapping[str, pd.DataFrame],
    tables: Mapping[str, Any],
    users: NDArray[np.int64],
    days: NDArray[Any],
    label: Any,
    out: Path,
) -> Planted:
    """Import frames, and labels of users at days."""
    db = gelgt.open(dict(frames), schema={**SPLITS, "tables": dict(tables)}, out=out)
    labels = pd.DataFrame(
        {"id": users, "time": moment(days), "target": np.asarray(label, np.int64)}
    )
    return Planted(
        db,
        db.task(
            labels,
            entity="users.id",
            time_col="time",
            target_col="target",
            task_type="binary_classification",
        ),
    )


def lagged(out: Path, users: int = 500, seed: int = 0) -> Planted:
    """Each user has one event of a random value every ten days; the label is the sign of that which
    lies 30 to 40 days back."""
    rng = np.random.default_rng(seed)
    who, days = seed_days(users, rng)
    phase = rng.uniform(0, 10, users)
    times = phase[:, None] + np.arange(31) * 10.0  # (users, 31)
    values = rng.standard_normal(times.shape)
    place = np.floor((days - 30 - phase[who]) / 10).astype(int)
    events = {
        "id": np.arange(times.size),
        "user_id": np.repeat(np.arange(users), 31),
        "value": values.ravel(),
        "at": moment(times.ravel()),
    }
    tables = {
        "users": {"pkey": "id"},
        "events": {
            "pkey": "id",
            "time_col": "at",
            "fkeys": {"user_id": "users"},
            "kinds": {"value": "numerical"},
        },
    }
    people = pd.DataFrame({"id": np.arange(users), "shade": rng.standard_normal(users)})
    return opened(
        {"users": people, "events": pd.DataFrame(events)},
        tables,
        who,
        days,
        values[who, place] > 0,
        out,
    )


def unlinked(out: Path, users: int = 250, seed: int = 0) -> Planted:
    """The label is the sign of what the newest ten news say, which no key links to anybody; users
    and their events say nothing."""
    rng = np.random.default_rng(seed)
    who, days = seed_days(users, rng, training=5)
    times, mood = np.sort(rng.uniform(80, 305, 2000)), rng.standard_normal(2000)
    before = np.searchsorted(moment(times), moment(days))  # (S,) news before each seed time
    newest = mood[before[:, None] - 1 - np.arange(10)]  # (S, 10)
    frames = {
        "users": pd.DataFrame({"id": np.arange(users), "shade": rng.standard_normal(users)}),
        "events": pd.DataFrame(
            {
                "id": np.arange(10 * users),
                "user_id": np.repeat(np.arange(users), 10),
                "value": rng.standard_normal(10 * users),
                "at": moment(rng.uniform(0, 100, 10 * users)),
            }
        ),
        "news": pd.DataFrame({"id": np.arange(2000), "mood": mood, "at": moment(times)}),
    }
    tables = {
        "users": {"pkey": "id"},
        "events": {
            "pkey": "id",
            "time_col": "at",
            "fkeys": {"user_id": "users"},
            "kinds": {"value": "numerical"},
        },
        "news": {"pkey": "id", "time_col": "at", "kinds": {"mood": "numerical"}},
    }
    return opened(frames, tables, who, days, newest.sum(1) > 0, out)


def matching(out: Path, users: int = 1500, seed: int = 0) -> Planted:
    """A user has one view and one like, each of one of four categories. The label is whether they
    are the same; neither says it alone.

    Nothing happens twice to anybody, so no past label helps.
    """
    rng = np.random.default_rng(seed)
    days = np.concatenate(
        [
            rng.uniform(*border, share)
            for border, share in zip(BORDERS, (users * 2 // 3, users // 6, users // 6))
        ]
    )
    who = rng.permutation(users)[: len(days)]
    view, other = rng.integers(0, 4, users), rng.integers(1, 4, users)
    is_same = rng.random(users) < 0.5
    like = np.where(is_same, view, (view + other) % 4)
    words = np.array(["red", "green", "blue", "grey"])

    def rows(category: NDArray[np.int64]) -> pd.DataFrame:
        at = moment(rng.uniform(0, 99, users))
        return pd.DataFrame(
            {
                "id": np.arange(users),
                "user_id": np.arange(users),
                "category": words[category],
                "at": at,
            }
        )

    table = {
        "pkey": "id",
        "time_col": "at",
        "fkeys": {"user_id": "users"},
        "kinds": {"category": "categorical"},
    }
    people = pd.DataFrame({"id": np.arange(users), "shade": rng.standard_normal(users)})
    frames = {"users": people, "views": rows(view), "likes": rows(like)}
    return opened(
        frames,
        {"users": {"pkey": "id"}, "views": table, "likes": table},
        who,
        days,
        is_same[who],
        out,
    )


def summed(out: Path, users: int = 900, seed: int = 0) -> Planted:
    """A user has five events of random values, and the label is the sign of their sum. No past
    label helps."""
    rng = np.random.default_rng(seed)
    days = np.concatenate(
        [
            rng.uniform(*border, share)
            for border, share in zip(BORDERS, (users * 2 // 3, users // 6, users // 6))
        ]
    )
    who = rng.permutation(users)[: len(days)]
    values = rng.standard_normal((users, 5))
    events = {
        "id": np.arange(5 * users),
        "user_id": np.repeat(np.arange(users), 5),
        "value": values.ravel(),
    }
    people = pd.DataFrame(
        {
            "id": np.arange(users),
            "team": rng.choice(["north", "south"], users),
            "shade": rng.standard_normal(users),
        }
    )
    tables = {
        "users": {"pkey": "id", "kinds": {"team": "categorical", "shade": "numerical"}},
        "events": {
            "pkey": "id",
            "time_col": "at",
            "fkeys": {"user_id": "users"},
            "kinds": {"value": "numerical"},
        },
    }
    frames = {
        "users": people,
        "events": pd.DataFrame(events | {"at": moment(rng.uniform(0, 99, 5 * users))}),
    }
    return opened(frames, tables, who, days, values[who].sum(1) > 0, out)
