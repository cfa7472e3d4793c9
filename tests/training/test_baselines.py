"""The baselines of a run learn what the model beside them learns, and are shown beside its
parts."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from tiny import small

import gelgt
from gelgt import Database, Task
from gelgt.baselines import Examples
from gelgt.inference import Predictor, evaluate_run
from gelgt.metrics import score
from gelgt.scoring import Scorer
from gelgt.scoring.scorer import tree_outputs
from gelgt.training import Options, Progress, train_run
from gelgt.training import baselines as module
from gelgt.training.baselines import lightgbm_predictions, make_baselines
from gelgt.training.data import TrainingData
from gelgt.training.examples import KNOWN, learnable
from gelgt.training.regime import in_regime
from gelgt.training.shares import Shares

pytestmark = pytest.mark.usefixtures("whole_forests")

CPU = torch.device("cpu")


@pytest.mark.parametrize("regime", ["seed-time", "frozen"])
@pytest.mark.parametrize("retrain", [False, True])
def test_lightgbm_learns_the_labels_of_the_model(
    db: Database, task: Task, monkeypatch: pytest.MonkeyPatch, regime: Any, retrain: bool
) -> None:
    config = in_regime(
        small(task.task_type, train__windows=3, train__stale=1, train__retrain=retrain),
        task,
        regime,
    )
    data = TrainingData.of(db, task, config)
    seen: list[dict[str, Examples]] = []
    before = module.lightgbm_baseline
    monkeypatch.setattr(
        module,
        "lightgbm_baseline",
        lambda *a, examples, **more: seen.append(examples) or before(*a, examples=examples, **more),
    )
    predictions, made = lightgbm_predictions(data, config)
    (examples,) = seen
    for name, split in (("train", "train"), ("known", KNOWN)) if retrain else (("train", "train"),):
        seeds, labels = learnable(data, (split,), config.train)
        assert examples[name].labels.tobytes() == labels.tobytes()
        assert examples[name].seeds.asked.tobytes() == seeds.asked.tobytes()
        assert examples[name].seeds.time.tobytes() == seeds.time.tobytes()
        assert len(labels) > 2 * task.rows["train"], "overlapping windows are among them"
    assert ("known" in examples) == retrain
    assert (made.known_rows is not None) == retrain
    assert "calendar: days ahead" in made.features
    again = lightgbm_predictions(data, config)[0]
    assert all(again[split].tobytes() == found.tobytes() for split, found in predictions.items())


def test_no_calendar_where_the_model_has_none(db: Database, task: Task) -> None:
    config = in_regime(small(task.task_type, model__calendar=False), task)
    made = lightgbm_predictions(TrainingData.of(db, task, config), config)[1]
    assert not [name for name in made.features if name.startswith("calendar")]


@pytest.fixture(scope="module")
def turning(tmp_path_factory: pytest.TempPathFactory) -> Task:
    """Labels that are noise up to the validation time, and follow a column from then on."""
    rng = np.random.default_rng(0)
    users = pd.DataFrame(
        {"id": np.arange(400), "joined": pd.Timestamp("2022-01-01"), "level": rng.normal(size=400)}
    )
    days = pd.date_range("2023-01-01", periods=24, freq="10D")
    frame = pd.DataFrame([(user, day) for day in days for user in range(400)], columns=["id", "at"])
    noise = rng.random(len(frame)) < 0.5
    follows = users.level.to_numpy()[frame.id] > 0
    frame["good"] = np.where(frame["at"] < days[4], noise, follows).astype(int)
    schema = {"tables": {"users": {"pkey": "id", "time_col": "joined"}}}
    db = gelgt.open({"users": users}, schema=schema, out=tmp_path_factory.mktemp("turning") / "db")
    return db.task(frame, entity="users.id", val=days[4], test=days[20], timedelta="5 days")


def test_what_only_later_labels_say_is_learned_by_the_retrain(turning: Task) -> None:
    found = {}
    for retrain in (False, True):
        config = in_regime(small(turning.task_type, train__retrain=retrain), turning)
        data = TrainingData.of(turning.database, turning, config)
        predictions = lightgbm_predictions(data, config)[0]
        found[retrain] = score("binary_classification", data.labels("test"), predictions["test"])[
            "roc_auc"
        ]
    assert found[False] < 0.7
    assert found[True] > 0.95


def test_test_labels_change_no_test_prediction_of_lightgbm(db: Database, task: Task) -> None:
    config = in_regime(small(task.task_type, train__retrain=True, train__windows=2), task)
    table = task.labels["test"]
    place = table.column_names.index(task.label_col)
    turned = 1 - table.column(place).to_numpy().astype(np.int64)
    other = replace(
        task,
        labels={
            **task.labels,
            "test": table.set_column(
                place, task.label_col, pa.array(turned, table.column(place).type)
            ),
        },
    )
    first, second = (
        lightgbm_predictions(TrainingData.of(db, t, config), config)[0]["test"]
        for t in (task, other)
    )
    assert first.tobytes() == second.tobytes()


def test_without_lightgbm_the_past_is_left(
    db: Database, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "has_lightgbm", lambda: False)
    config = in_regime(small(task.task_type), task)
    found = make_baselines(TrainingData.of(db, task, config), config, (1, 2), Progress())
    assert set(found.predictions) == {"entity-mean"}
    assert found.labels == {}


@pytest.mark.parametrize("retrain", [False, True])
def test_a_run_is_told_apart(db: Database, few: Task, tmp_path: Path, retrain: bool) -> None:
    run = train_run(
        db,
        few,
        tmp_path / "run",
        small(few.task_type, train__retrain=retrain),
        Options(device="cpu"),
    )
    metrics = run.record.to_json()
    share = metrics["tree_share"]
    assert share == metrics["trees"]["share"] > 0
    assert set(metrics["parts"]) == {"network", "columns", "trees"}
    assert set(metrics["baseline_labels"]) == ({"train", "known"} if retrain else {"train"})
    for split in ("val", "test"):
        table = pq.read_table(run.folder / "predictions" / f"{split}.parquet").to_pandas()
        label = table["label"].to_numpy()
        for part in ("network", "columns", "trees"):
            assert metrics["parts"][part][split] == score(
                "binary_classification", label, table[f"part:{part}"].to_numpy()
            )
        logit = {
            name: np.log(p / (1 - p))
            for name, p in ((n, table[n]) for n in ("part:network", "part:trees", "probability"))
        }
        np.testing.assert_allclose(
            logit["probability"],
            (1 - share) * logit["part:network"] + share * logit["part:trees"],
            rtol=1e-4,
            atol=1e-5,
        )
    again = evaluate_run(run, db, "test", device="cpu")
    assert again["parts"] == {
        part: {"test": scores["test"]} for part, scores in metrics["parts"].items()
    }
    assert again["tree_share"] == share


def test_trees_without_a_share_are_scored_and_not_kept(
    db: Database, few: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "gelgt.training.shares.choose_shares", lambda *_: Shares(graph=0.25, trees=0.0)
    )
    run = train_run(
        db,
        few,
        tmp_path / "run",
        small(few.task_type, train__retrain=True),
        Options(baselines=False, device="cpu"),
    )
    assert run.record.to_json()["tree_share"] == 0.0
    assert run.record.to_json()["trees"] is None
    assert (
        run.record.to_json()["parts"]["trees"]["test"]["roc_auc"]
        != run.record.to_json()["parts"]["network"]["test"]["roc_auc"]
    )
    assert run.record.to_json()["parts"]["network"] == run.record.to_json()["metrics"]
    assert not [name for name in run.weights() if name.startswith("trees.")]
    assert (
        evaluate_run(run, db, device="cpu")["parts"]["trees"]["test"]
        == run.record.to_json()["parts"]["trees"]["test"]
    )


def test_a_model_without_trees_has_one_part(db: Database, few: Task, tmp_path: Path) -> None:
    run = train_run(
        db,
        few,
        tmp_path / "run",
        small(few.task_type, model__trees=False, model__column_members=0),
        Options(baselines=False, device="cpu"),
    )
    record = run.record.to_json()
    assert list(record["parts"]) == ["network"]
    for split, scores in record["metrics"].items():  # of probabilities that may be calibrated
        alone = record["parts"]["network"][split]
        assert alone["roc_auc"] == pytest.approx(scores["roc_auc"], abs=1e-9)
    assert record["tree_share"] == 0.0
    assert not [
        name
        for name in pq.read_schema(run.folder / "predictions" / "test.parquet").names
        if name.startswith("part:")
    ]


def test_together_is_the_mix_of_the_raw_outputs(db: Database, few: Task, tmp_path: Path) -> None:
    run = train_run(
        db,
        few,
        tmp_path / "run",
        small(few.task_type, train__ensemble=2),
        Options(baselines=False, device="cpu"),
    )
    data = TrainingData.of(db, few, run.config)
    predictor = Predictor(run, db, "cpu")
    model, seeds = predictor.scorer.model, data.seeds["test"]
    scorer = Scorer(model, data)
    network, trees = scorer.outputs(seeds), tree_outputs(model.trees, data, seeds)
    share = run.record.to_json()["tree_share"]
    expected = data.target.decode((1 - share) * network + share * trees)
    found = scorer.predict(seeds)
    np.testing.assert_allclose(found.together, expected)
    assert found.together.tobytes() != found.alone["network"].tobytes()
