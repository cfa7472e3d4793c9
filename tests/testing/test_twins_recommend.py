"""Every recommendation of every twin is trained, scored and predicted, by gelgt and by two models
of the zoo, and RelBench's own evaluation gives the same figures."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import relbench

from gelgt import Database
from gelgt.inference import Predictor, Recommend, evaluate_run, write_relbench
from gelgt.presets import RunConfig, config_type
from gelgt.testing.twins import TWINS, twin_tasks
from gelgt.training import Options, train_run

pytestmark = pytest.mark.usefixtures("one_thread", "own_cache")
MODELS = ("gelgt", "relgt", "hgt")
TINY = {
    "train.epochs": 1,
    "train.steps_per_epoch": 2,
    "train.ensemble": 1,
    "train.windows": 1,
    "train.best_epochs": 1,
    "train.batch_size": 16,
    "train.warmup": 1,
    "model.width": 16,
    "model.heads": 2,
    "model.keep": 12,
    "model.row_width": 8,
    "model.centroids": 8,
    "sampling.budget": 24,
}
TASKS = [
    (name, task)
    for name in TWINS
    for task in twin_tasks(name, recommendations=True)
    if task not in twin_tasks(name)
]


def test_there_are_as_many_as_relbench_has() -> None:
    assert len(TASKS) == 13
    assert {name for name, _ in TASKS} >= {"rel-amazon", "rel-avito", "rel-f1", "rel-hm"}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    ("name", "task_name"), TASKS, ids=[f"{name}/{task}" for name, task in TASKS]
)
def test_train_evaluate_predict(
    name: str,
    task_name: str,
    model: str,
    database: Callable[[str], Database],
    twin: Callable[[str], Path],
    tmp_path: Path,
) -> None:
    db = database(name)
    task = db.task(task_name)
    known = {f"model.{field}" for field in config_type(model).model_fields}
    changes = {k: v for k, v in TINY.items() if k in known or not k.startswith("model.")}
    run = train_run(
        db,
        task,
        tmp_path / "run",
        RunConfig.of("cpu", task.task_type, changes, model),
        Options(baselines=model == "gelgt", device="cpu"),
    )
    if model == "gelgt":
        assert {"past", "recent", "popular", "lightgbm"} <= run.record.baselines.keys()
    assert np.isfinite(run.record.epochs[0].loss or np.nan)
    scores = evaluate_run(run, db, "test", device="cpu")["metrics"]["test"]
    assert scores == run.record.metrics["test"]

    if model == "gelgt":
        path = write_relbench(run, db, tmp_path / "sub.csv", device="cpu")
        lists = np.array([json.loads(text) for text in pd.read_csv(path)[task.label_col]])
        assert lists.shape == (task.rows["test"], task.eval_k)
        theirs = relbench.load_dataset(twin(name)).load_task(task_name)
        assert scores["map"] == pytest.approx(theirs.evaluate(lists)["map"], abs=1e-12)

    predictor = Predictor(run, db, device="cpu")
    keys = task.table("test").column(task.entity_col).to_pylist()[:5]
    table = predictor.predict(keys, at=db.test_timestamp, recommend=Recommend(3)).to_pandas()
    assert table["rank"].between(1, 3).all()
    assert np.isfinite(table["score"]).all()
    assert table.columns.tolist()[1:3] == ["time", "rank"]
