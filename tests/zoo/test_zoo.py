"""What every model of the package promises: a prediction depends on its seed and its past alone,
twice gives the same bits, a run can be saved, loaded and used. A model that is added to
`gelgt.registry.BUILT_IN` is tested here by itself.
"""

import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from planted_keys import gatherings

import gelgt
from gelgt.config import SamplingConfig
from gelgt.demo import Shop, shop
from gelgt.features import Features, open_features
from gelgt.graph import Graph
from gelgt.inference.predictor import Predictor
from gelgt.nn import ModelContext, ModelInput, RelationalModel
from gelgt.nn.dropout import own_dropout
from gelgt.presets import PRESETS, RunConfig, config_type
from gelgt.registry import BUILT_IN, find_model
from gelgt.sampling import Sampler, Seeds, make_seeds, task_seeds
from gelgt.sampling.batch import SubgraphBatch, from_sample
from gelgt.testing.hostile import HOSTILE, TIMES
from gelgt.training import Options, load_run, train_run

NAMES = [
    pytest.param(name, marks=[pytest.mark.llm] if name == "rel-llm" else []) for name in BUILT_IN
]
SMALL = {
    "model.width": 32,
    "model.row_width": 16,
    "model.row_layers": 1,
    "model.keep": 30,
    "model.centroids": 16,
}
TINY = {
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
PLACES = [0, 50, 99, 3, 42, 77]

each_model = pytest.mark.parametrize("name", NAMES)


@dataclass(frozen=True)
class World:
    """The demo shop, opened, and the seeds of a task."""

    db: gelgt.Database
    graph: Graph
    features: Features
    seeds: Seeds

    def batch(self, places: list[int], budget: int = 60) -> SubgraphBatch:
        chosen = self.seeds.take(np.array(places))
        sample = Sampler(self.graph, SamplingConfig(budget=budget)).sample(
            chosen.node, chosen.time, chosen.key
        )
        return from_sample(sample, self.graph, chosen.time, chosen.key, np.array(places))

    def inputs(self, places: list[int], budget: int = 60) -> ModelInput:
        return ModelInput.of(self.batch(places, budget), self.features)

    @property
    def context(self) -> ModelContext:
        return ModelContext(self.graph, self.features)

    def model(self, name: str, **changes: Any) -> RelationalModel:
        """A small model in evaluation mode, weights and times started."""
        torch.manual_seed(0)
        made = find_model(name)(settings(name, **changes).model, self.context)
        made.start(torch.tensor([0.1]), torch.tensor([1.0, 5.0, 30.0, 100.0]))
        return made.eval()


def settings(name: str, **changes: Any) -> RunConfig:
    """The preset `cpu` of a model, made small by whichever settings it has."""
    known = {f"model.{key}" for key in config_type(name).model_fields}
    wanted = {**SMALL, **{path.replace("__", "."): value for path, value in changes.items()}}
    return RunConfig.of(
        "cpu",
        None,
        {
            path: value
            for path, value in wanted.items()
            if path in known or not path.startswith("model.")
        },
        name,
    )


@pytest.fixture(scope="module")
def world(small_shop: Shop, tmp_path_factory: pytest.TempPathFactory) -> World:
    db = gelgt.open(small_shop.url, out=tmp_path_factory.mktemp("zoo") / "shop")
    graph, features = db.graph(), db.features()
    return World(db, graph, features, task_seeds(db.task(small_shop.sentence), graph, "val"))


@torch.no_grad()
def predict(model: RelationalModel, inputs: ModelInput) -> torch.Tensor:
    out: torch.Tensor = model(inputs)
    return out


@each_model
@pytest.mark.parametrize("keep", [None, 20])
def test_a_prediction_depends_on_its_seed_alone(world: World, name: str, keep: int | None) -> None:
    model = world.model(name, model__keep=keep)
    together = predict(model, world.inputs(PLACES))
    assert together.std() > 1e-4, "the seeds differ, so their predictions do"
    for number, place in enumerate(PLACES):
        torch.testing.assert_close(
            predict(model, world.inputs([place]))[0], together[number], atol=1e-5, rtol=0
        )
    torch.testing.assert_close(
        predict(model, world.inputs(PLACES[::-1])).flip(0), together, atol=1e-5, rtol=0
    )


@each_model
def test_layout_and_padding_change_nothing(world: World, name: str) -> None:
    model, packed = world.model(name), world.batch(PLACES)
    expected = predict(model, ModelInput.of(packed, world.features))
    for multiple in (1, 64):
        found = predict(model, ModelInput.of(packed.to_padded(multiple), world.features))
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


@each_model
def test_twice_gives_the_same_bits(world: World, name: str) -> None:
    """Predictions, and with the same masks the gradients too, or a run could not be resumed."""
    model, inputs = world.model(name), world.inputs(PLACES)
    assert torch.equal(predict(model, inputs), predict(model, inputs))
    seen = []
    for _ in range(2):
        again = world.model(name).train()
        with own_dropout(7):
            again(inputs).square().mean().backward()
        seen.append([p.grad for p in again.parameters() if p.grad is not None])
    assert len(seen[0]) > 10
    assert all(torch.equal(first, second) for first, second in zip(*seen))


@each_model
def test_every_parameter_is_learned(world: World, name: str) -> None:
    """From seeds of every table, those with the most neighbours too, so that there is something to
    choose along every relation."""
    model = world.model(name, model__keep=None).train()
    late = np.datetime64("2100-01-01", "s")
    degrees = np.split(np.diff(world.graph.indptr), world.graph.offsets[1:-1])
    parts = [
        np.union1d(
            np.linspace(0, len(d) - 1, 25).astype(np.int64), np.argsort(-d, kind="stable")[:25]
        )
        for d in degrees
    ]
    made = [
        make_seeds(world.db, world.graph, table, rows, np.full(len(rows), late))
        for table, rows in zip(world.graph.tables, parts)
    ]
    node, time, key = (
        np.concatenate([getattr(seeds, part) for seeds in made]) for part in ("node", "time", "key")
    )
    sample = Sampler(world.graph, SamplingConfig(budget=150, hops=3)).sample(node, time, key)
    model(
        ModelInput.of(
            from_sample(sample, world.graph, time, key, np.arange(len(node))), world.features
        )
    ).square().mean().backward()
    idle = [
        n
        for n, p in model.named_parameters()
        if p.requires_grad and (p.grad is None or not bool(p.grad.abs().sum() > 0))
    ]
    assert [n for n in idle if not n.endswith("timeless")] == [], (
        "the vector for rows without a time, in a table that has one, waits"
    )
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


@each_model
def test_a_seed_can_be_alone(world: World, name: str) -> None:
    """No neighbour, no edge, every other table absent; also among others."""
    model = world.model(name)
    alone = world.inputs(PLACES, budget=1)
    assert alone.batch.edge_index.shape[1] == 0
    assert len(alone.rows.frames) == 1
    out = predict(model, alone)
    assert torch.isfinite(out).all()
    torch.testing.assert_close(
        predict(model, world.inputs([PLACES[2]], budget=1))[0], out[2], atol=1e-5, rtol=0
    )
    training = model.train()(alone)
    training.square().mean().backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


@each_model
def test_tables_of_keys_alone_and_without_time(name: str, keys_only: gelgt.Database) -> None:
    graph, features = keys_only.graph(), keys_only.features()
    rows = np.arange(6)
    seeds = make_seeds(
        keys_only, graph, "users", rows, np.full(6, np.datetime64("2024-08-01", "s"))
    )
    sample = Sampler(graph, SamplingConfig(budget=20)).sample(seeds.node, seeds.time, seeds.key)
    torch.manual_seed(0)
    model = find_model(name)(settings(name).model, ModelContext(graph, features)).eval()
    out = predict(
        model, ModelInput.of(from_sample(sample, graph, seeds.time, seeds.key, rows), features)
    )
    assert out.shape == (6, 1)
    assert torch.isfinite(out).all()


@pytest.fixture(scope="module")
def keys_only(tmp_path_factory: pytest.TempPathFactory) -> gelgt.Database:
    return gatherings(tmp_path_factory.mktemp("keys") / "db", users=60).db


@each_model
def test_bf16_autocast(world: World, name: str) -> None:
    model, inputs = world.model(name), world.inputs(PLACES)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        low = predict(model, inputs)
    torch.testing.assert_close(low.float(), predict(model, inputs), atol=0.06, rtol=0.05)
    model.train()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(inputs).float().square().mean()
    loss.backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


@each_model
@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_is_possible(name: str, preset: str) -> None:
    config = RunConfig.of(preset, "regression", {}, name)
    assert config.kind == name
    assert RunConfig(**config.model_dump()) == config, "as it is read from a run folder"


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
