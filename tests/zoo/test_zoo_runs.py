"""What the run of every model promises: it can be saved, loaded and used, and rows after the time
that is asked about change no bit of its predictions."""

import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from test_zoo import each_model, predict, settings

import gelgt
from gelgt.config import SamplingConfig
from gelgt.demo import shop
from gelgt.features import open_features
from gelgt.inference.predictor import Predictor
from gelgt.nn import ModelContext, ModelInput
from gelgt.registry import find_model
from gelgt.sampling import Sampler, make_seeds
from gelgt.sampling.batch import from_sample
from gelgt.testing.hostile import HOSTILE, TIMES
from gelgt.training import Options, load_run, train_run

TINY = {
    "model.history_columns": 20,
    "sampling.strategy": "bfs",
    "sampling.budget": 24,
    "train.epochs": 2,
    "train.steps_per_epoch": 3,
    "train.batch_size": 32,
    "train.ensemble": 1,
    "train.windows": 1,
    "train.best_epochs": 1,
    "train.warmup": 0,
    "train.rate": 0.01,
}


@dataclass(frozen=True)
class Twins:
    """The shop whole, with hostile rows after a time, and cut there."""

    whole: gelgt.Database
    cut: gelgt.Database
    at: pd.Timestamp
    task: gelgt.Task


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> Twins:
    folder = tmp_path_factory.mktemp("zoo-twins")
    made = shop(folder / "whole.db", customers=80, days=250, seed=11)
    at = pd.Timestamp(made.val_timestamp) + pd.Timedelta(days=20, hours=7)
    shutil.copy(made.path, folder / "cut.db")
    removed = tuple(f"DELETE FROM {table} WHERE {column} > :t" for table, column in TIMES.items())
    for name, statements in (("whole", HOSTILE), ("cut", removed)):
        with sqlite3.connect(folder / f"{name}.db") as connection:
            for statement in statements:
                connection.execute(statement, {"t": str(at)})
            assert connection.total_changes > 100
        connection.close()
    val, test = at - pd.Timedelta(days=70), at - pd.Timedelta(days=30)
    stated = {"val_timestamp": str(val), "test_timestamp": str(test)}
    whole, cut = (
        gelgt.open(f"sqlite:///{folder / name}.db", schema=stated, out=folder / name)
        for name in ("whole", "cut")
    )
    return Twins(whole, cut, at, whole.task(made.sentence, val=val, test=test, eval_timestamps=1))


@pytest.fixture(scope="module")
def run_folder(twins: Twins, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a model's run of a few steps, trained once."""

    @cache
    def make(name: str) -> Path:
        out = tmp_path_factory.mktemp("zoo-runs") / name
        train_run(
            twins.whole,
            twins.task,
            out,
            settings(name, **TINY),
            Options(baseline_hops=(), device="cpu"),
        )
        return out

    return make


@each_model
def test_a_run_is_saved_loaded_and_used(
    twins: Twins, run_folder: Callable[[str], Path], name: str
) -> None:
    folder = run_folder(name)
    run = load_run(folder)
    assert run.config.kind == name
    found = Predictor(run, twins.whole).predict(at=twins.at).to_pandas()
    assert found["probability"].between(0, 1).all()
    assert found["probability"].std() > 1e-4
    shutil.copytree(folder, folder.parent / f"{name}-copy")
    again = (
        Predictor(load_run(folder.parent / f"{name}-copy"), twins.whole)
        .predict(at=twins.at)
        .to_pandas()
    )
    pd.testing.assert_frame_equal(found, again, check_exact=True)


@each_model
def test_later_rows_change_no_bit(
    twins: Twins, run_folder: Callable[[str], Path], name: str
) -> None:
    run = load_run(run_folder(name))
    whole, cut = (Predictor(run, db).predict(at=twins.at).table for db in (twins.whole, twins.cut))
    assert whole.num_rows > 50
    assert whole.equals(cut)


@each_model
def test_a_fresh_model_sees_no_later_rows(twins: Twins, name: str) -> None:
    """The same without a run: with random orders, and statistics of the whole database."""
    statistics = twins.whole.features().statistics
    config = SamplingConfig(budget=30, order="random", seed=5)
    rows = np.arange(twins.cut.num_rows("customers"))
    model, out = None, []
    for db in (twins.whole, twins.cut):
        graph, features = db.graph(), open_features(db, statistics=statistics)
        seeds = make_seeds(
            db,
            graph,
            "customers",
            rows,
            np.full(len(rows), np.datetime64(twins.at.floor("s"), "s")),
        )
        sample = Sampler(graph, config).sample(seeds.node, seeds.time, seeds.key)
        if model is None:
            torch.manual_seed(0)
            model = find_model(name)(settings(name).model, ModelContext(graph, features)).eval()
        out.append(
            predict(
                model,
                ModelInput.of(from_sample(sample, graph, seeds.time, seeds.key, rows), features),
            )
        )
    assert out[0].std() > 1e-4
    assert torch.equal(*out)


def test_history_and_trees_work_beside_any_network(twins: Twins, tmp_path: Path) -> None:
    """RelBench's baseline with gelgt's history and trees: trained, saved, loaded, and blind to
    later rows."""
    asked = {"model.history": 1, "model.calendar": True, "model.trees": True}
    config = settings("rdl", **TINY, **asked)
    options = Options(baseline_hops=(), device="cpu")
    train_run(twins.whole, twins.task, tmp_path / "run", config, options)
    run = load_run(tmp_path / "run")
    assert any(name.startswith("columns.") for name in run.weights())
    whole, cut = (Predictor(run, db).predict(at=twins.at).table for db in (twins.whole, twins.cut))
    assert whole.equals(cut)
    assert "trees" in run.record.parts
