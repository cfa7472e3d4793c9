"""Every model trains, scores and predicts on the twins: on one task of each type in `make test`, on
all of them with the marker `slow`.

    pytest tests/testing/test_twins_models.py -m slow

A few steps of a small model: what is tested is that every model takes every schema, not how well it
learns there.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from scipy.stats import rankdata
from sklearn.metrics import mean_absolute_error, roc_auc_score

from gelgt import Database, Task
from gelgt.baselines import entity_mean, lightgbm_baseline
from gelgt.history import TaskData
from gelgt.inference import Predictor, evaluate_run
from gelgt.metrics import score
from gelgt.nn.columns import PREFIX as COLUMNS
from gelgt.presets import RunConfig, config_type
from gelgt.registry import BUILT_IN
from gelgt.testing.twins import TWINS, twin_tasks
from gelgt.training import Options, Run, TrainingData, load_run, train_run
from gelgt.training.model import make_model
from gelgt.training.regime import in_regime

pytestmark = pytest.mark.usefixtures("one_thread", "own_cache")

STEPS = 2
TINY = {
    "train.epochs": 1,
    "train.steps_per_epoch": STEPS,
    "train.ensemble": 1,
    "train.windows": 1,
    "train.best_epochs": 1,
    "train.batch_size": 32,
    "train.warmup": 1,
    "train.weight_decay": 0.0,  # what moves has had a gradient
    "model.width": 16,
    "model.heads": 2,
    "model.keep": 12,
    "model.row_width": 8,
    "model.centroids": 8,
    "sampling.budget": 24,
}
METRICS = {
    "binary_classification": "roc_auc",
    "regression": "mae",
    "multiclass_classification": "mrr",
}
# One of each type for each model, so that together they meet every schema.
BINARY = [
    "rel-amazon/user-churn",
    "rel-avito/user-clicks",
    "rel-event/user-repeat",
    "rel-f1/driver-dnf",
    "rel-hm/user-churn",
    "rel-stack/user-badge",
    "rel-trial/study-outcome",
    "rel-amazon/item-churn",
    "rel-event/user-ignore",
]
REGRESSION = [
    "rel-trial/site-success",
    "rel-ratebeer/beer_ratings-total_score",
    "rel-f1/driver-position",
    "rel-hm/item-sales",
    "rel-stack/post-votes",
    "rel-avito/ad-ctr",
    "rel-event/user-attendance",
    "rel-trial/study-adverse",
    "rel-amazon/item-ltv",
]
MULTICLASS = [f"rel-salt/{name}" for name in twin_tasks("rel-salt")] + ["rel-stack/badges-class"]
ALL = [f"{name}/{task}" for name in TWINS for task in twin_tasks(name)]
OTHERS = [model for model in BUILT_IN if model != "gelgt"]
CHOSEN = [
    (model, task)
    for model, *tasks in zip(OTHERS, BINARY, REGRESSION, MULTICLASS, strict=True)
    for task in tasks
]
BASELINES = ("lightgbm", "entity-mean")
Open = Callable[[str], Database]


def cells(pairs: list[tuple[str, str]]) -> pytest.MarkDecorator:
    """Pairs of a model and a task; those of rel-llm are skipped where `transformers` is not
    installed."""
    marks = {"rel-llm": [pytest.mark.llm]}
    return pytest.mark.parametrize(
        ("model", "place"),
        [pytest.param(*pair, id="-on-".join(pair), marks=marks.get(pair[0], [])) for pair in pairs],
    )


@cells(CHOSEN)
def test_one_task_of_each_type(model: str, place: str, database: Open, tmp_path: Path) -> None:
    check_model(model, *found(database, place), tmp_path / "run")


@pytest.mark.parametrize("place", [BINARY[0], REGRESSION[0], MULTICLASS[0]])
@pytest.mark.parametrize("baseline", BASELINES)
def test_baselines_on_one_task_of_each_type(baseline: str, place: str, database: Open) -> None:
    check_baseline(baseline, *found(database, place))


@pytest.mark.slow
@cells([(model, place) for place in ALL for model in BUILT_IN])
def test_every_task(model: str, place: str, database: Open, tmp_path: Path) -> None:
    check_model(model, *found(database, place), tmp_path / "run")


@pytest.mark.slow
@pytest.mark.parametrize("place", ALL)
@pytest.mark.parametrize("baseline", BASELINES)
def test_baselines_on_every_task(baseline: str, place: str, database: Open) -> None:
    check_baseline(baseline, *found(database, place))


def test_the_chosen_tasks_are_of_their_types(database: Open) -> None:
    for task_type, places in zip(METRICS, (BINARY, REGRESSION, MULTICLASS)):
        assert {found(database, place)[1].task_type for place in places} == {task_type}
    assert {place.partition("/")[0] for _, place in CHOSEN} == set(TWINS)


def found(database: Open, place: str) -> tuple[Database, Task]:
    name, _, task = place.partition("/")
    return database(name), database(name).task(task)


def check_model(model: str, db: Database, task: Task, out: Path) -> None:
    """A training of a few steps, its scores, and its predictions for some entities."""
    known = {f"model.{field}" for field in config_type(model).model_fields}
    changes = {
        path: value
        for path, value in TINY.items()
        if path in known or not path.startswith("model.")
    }
    config = RunConfig.of("cpu", task.task_type, changes, model)
    train_run(db, task, out, config, Options(baselines=False, device="cpu"))
    run = load_run(out)
    check_training(run, db, task)
    check_scores(run, db, task)
    check_predictions(run, db, task)


def check_training(run: Run, db: Database, task: Task) -> None:
    (epoch,) = run.record.to_json()["epochs"]
    assert epoch["step"] == STEPS
    assert np.isfinite(epoch["loss"])
    data = TrainingData.of(db, task, run.config)
    if any(name.startswith(COLUMNS) for name in run.weights()):
        data = data.without_history()  # left to the columns network
    before = dict(make_model(data, run.config).named_parameters())
    after = {name.removeprefix("members.0."): tensor for name, tensor in run.weights().items()}
    moved = [name for name, weight in before.items() if (weight - after[name]).abs().max() > 1e-5]
    assert all(torch.isfinite(after[name]).all() for name in before)
    assert any(name.startswith("head.") for name in moved)
    assert any("encoder_dict." in name for name in moved), (
        "what encodes cells, at the other end of the model"
    )


def check_scores(run: Run, db: Database, task: Task) -> None:
    """The file's score is that which scikit-learn finds for the predictions beside it, and comes
    out again."""
    written = json.loads((run.folder / "metrics.json").read_text())
    metric = METRICS[str(task.task_type)]
    assert written["metric"] == metric
    table = pq.read_table(run.folder / "predictions" / "test.parquet")
    assert len(table) == task.rows["test"]
    assert written["metrics"]["test"][metric] == pytest.approx(
        expected_score(table.to_pydict(), task), abs=1e-9
    )
    assert (
        evaluate_run(run, db, "test", device="cpu")["metrics"]["test"] == written["metrics"]["test"]
    )


def expected_score(table: dict[str, list[Any]], task: Task) -> float:
    if task.task_type == "binary_classification":
        return float(roc_auc_score(table["label"], table["probability"]))
    if task.task_type == "regression":
        return float(mean_absolute_error(table["label"], table["prediction"]))
    chances = np.array([table[f"probability_{name}"] for name in task.classes]).T  # (S, C)
    ranks = rankdata(-chances, axis=1)
    return float(
        np.mean(
            [1 / ranks[row, task.classes.index(label)] for row, label in enumerate(table["label"])]
        )
    )


def check_predictions(run: Run, db: Database, task: Task) -> None:
    """Entities of the test split, by their keys."""
    at = None if task.kind == "autocomplete" else db.test_timestamp
    split = task.table("test")
    first = (
        np.arange(len(split))
        if at is None
        else np.flatnonzero(split.column(task.time_col).to_numpy() == np.datetime64(str(at)))
    )
    entities = np.unique(split.column(task.entity_col).to_numpy()[first])[:8].tolist()
    assert len(entities) > 4
    predictor = Predictor(run, db, device="cpu")
    table = predictor.predict(entities, at=at).table
    chances = {"binary_classification": ["probability"], "regression": []}.get(
        str(task.task_type), [f"probability_{name}" for name in task.classes]
    )
    key = db.table(task.entity_table).pkey or "row"
    assert table.column_names == [key, "time", "prediction", *chances]
    assert table.column(0).to_pylist() == entities
    assert all(column.null_count == 0 for column in table.columns)
    # (entities, 1) or (entities, C)
    values = np.stack([table.column(name).to_numpy() for name in chances or ["prediction"]], axis=1)
    check_values(values[:, 0] if len(chances) < 2 else values, task)
    is_value, ends = task.task_type == "regression", (run.target.low, run.target.high)
    if is_value and (run.target.is_whole or np.isin(values, ends).all()):
        # of labels that are whole numbers, or mostly 0, predictions are often alike
        values = predictor.embed(entities, at=at).vectors
    assert not (values == values[0]).all(), "entities differ, so their predictions do"


def check_values(values: Any, task: Task) -> None:
    assert np.isfinite(values).all()
    if task.task_type != "regression":
        assert ((values >= 0) & (values <= 1)).all()
    if task.task_type == "multiclass_classification":
        np.testing.assert_allclose(values.sum(1), 1, rtol=1e-6)


def check_baseline(baseline: str, db: Database, task: Task) -> None:
    """A prediction for every row of validation and test, that can be scored."""
    data = TrainingData.of(db, task, in_regime(RunConfig.of("cpu", task.task_type), task))
    if baseline == "lightgbm":
        visible = TaskData(db, data.graph, data.features, task, data.sampling)
        made = lightgbm_baseline(visible, threads=1)
        assert made.rounds > 0
        assert made.importance
        predictions = made.predictions
    else:
        predictions = entity_mean(task, data.sampling.horizon)
    for split in ("val", "test"):
        classes = (len(task.classes),) if task.task_type == "multiclass_classification" else ()
        assert predictions[split].shape == (task.rows[split], *classes)
        check_values(predictions[split], task)
    assert METRICS[str(task.task_type)] in score(
        task.task_type, data.labels("test"), predictions["test"]
    )
