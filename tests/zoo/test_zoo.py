"""What every model of the package promises: a prediction depends on its seed alone, twice gives the
same bits, every part is learned. A model that is added to `gelgt.registry.BUILT_IN` is tested here
and in `test_zoo_runs.py` by itself.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from planted_keys import gatherings

import gelgt
from gelgt.config import SamplingConfig
from gelgt.demo import Shop
from gelgt.features import Features
from gelgt.graph import Graph
from gelgt.nn import ModelContext, ModelInput, RelationalModel
from gelgt.nn.dropout import own_dropout
from gelgt.presets import PRESETS, RunConfig, config_type
from gelgt.registry import BUILT_IN, find_model
from gelgt.sampling import Sampler, Seeds, make_seeds, task_seeds
from gelgt.sampling.batch import SubgraphBatch, from_sample

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


@each_model
def test_the_history_of_a_seed_is_read(world: World, name: str) -> None:
    """Aggregates are added to the seed's vector, whatever the model; what is missing is no NaN."""
    torch.manual_seed(0)
    context = ModelContext(world.graph, world.features, history=3)
    model = find_model(name)(settings(name).model, context)
    aggregates = torch.randn(200, 3, generator=torch.Generator().manual_seed(1))
    model.start(torch.tensor([0.1]), torch.tensor([1.0, 5.0, 30.0, 100.0]), aggregates)
    inputs = world.inputs(PLACES)
    known, other = (
        replace(inputs, history=aggregates[start : start + len(PLACES)]) for start in (0, 50)
    )
    missing = replace(inputs, history=torch.full_like(aggregates[: len(PLACES)], torch.nan))
    model.eval()
    assert not torch.allclose(predict(model, known), predict(model, other), atol=1e-4)
    assert torch.isfinite(predict(model, missing)).all()
    with torch.no_grad():
        added = model.seed_vectors(known) - model.embed(known)
        if not model.is_coupled:
            torch.testing.assert_close(added, model.history(known.history), atol=1e-5, rtol=0)
    model.train()(known).square().mean().backward()
    assert model.history is not None
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.history.parameters())
