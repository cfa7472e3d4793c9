"""Every recommendation of every twin is trained, scored and predicted, by gelgt and by two models
of the zoo, and RelBench's own evaluation gives the same figures.

Trees and baselines come with the first recommendation of each database: they read columns, which
are those of its schema.
"""

import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import relbench

from gelgt import Database, Task
from gelgt.inference import Predictor, Recommend, evaluate_run, write_relbench
from gelgt.presets import RunConfig, config_type
from gelgt.testing.twins import TWINS, make_twin, twin_tasks
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
    "model.column_members": 0,
    "sampling.budget": 24,
}
TASKS = [
    (name, task)
    for name in TWINS
    for task in twin_tasks(name, recommendations=True)
    if task not in twin_tasks(name)
]
FIRST = dict(reversed(TASKS))


@pytest.fixture(scope="module")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Twins of half the rows; at that, a task of rel-f1 would have no labels for validation."""
    folder = tmp_path_factory.mktemp("small-twins")
    return cache(
        lambda name: make_twin(name, folder / name, scale=1.0 if name == "rel-f1" else 0.5)
    )


@pytest.fixture(scope="module")
def task_of(database: Callable[[str], Database]) -> Callable[[str, str], Task]:
    """A task of a twin, whose labels are read once."""
    return cache(lambda name, task_name: database(name).task(task_name))


def test_there_are_as_many_as_relbench_has() -> None:
    assert len(TASKS) == 13
    assert {name for name, _ in TASKS} >= {"rel-amazon", "rel-avito", "rel-f1", "rel-hm"}


def _cases() -> Iterator[Any]:
    """The zoo reads the rows of a database, which are the same for all its recommendations; one
    model of it reads every schema, the other two of them."""
    for name, task in TASKS:
        for model in MODELS:
            is_other = model == "hgt" and name not in ("rel-f1", "rel-trial")
            is_rare = model != "gelgt" and (FIRST[name] != task or is_other)
            marks = (pytest.mark.slow,) if is_rare else ()
            yield pytest.param(name, task, model, id=f"{name}/{task}-{model}", marks=marks)


@pytest.mark.parametrize(("name", "task_name", "model"), list(_cases()))
def test_train_evaluate_predict(
    name: str,
    task_name: str,
    model: str,
    database: Callable[[str], Database],
    task_of: Callable[[str, str], Task],
    twin: Callable[[str], Path],
    tmp_path: Path,
) -> None:
    db, task = database(name), task_of(name, task_name)
    has_trees = model == "gelgt" and task_name == FIRST[name]
    known = {f"model.{field}" for field in config_type(model).model_fields}
    tiny = TINY | {"model.trees": has_trees}
    changes = {k: v for k, v in tiny.items() if k in known or not k.startswith("model.")}
    run = train_run(
        db,
        task,
        tmp_path / "run",
        RunConfig.of("cpu", task.task_type, changes, model),
        Options(baselines=has_trees, device="cpu"),
    )
    if has_trees:
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
