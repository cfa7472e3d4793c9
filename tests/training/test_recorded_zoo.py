"""Training of the zoo's models over packed batches: the losses of ordinary steps. On a CPU nothing
is recorded, but the steps are those that a CUDA graph holds."""

from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import SMALL

import gelgt
from gelgt import Database, Task
from gelgt.nn.static.pack import StaticBatch
from gelgt.presets import RunConfig, config_type
from gelgt.registry import BUILT_IN, find_model
from gelgt.training.data import TrainingData
from gelgt.training.fit import Trainer
from gelgt.training.model import make_model
from gelgt.training.regime import in_regime

NAMES = [name for name in BUILT_IN if name != "gelgt" and find_model(name).is_static]
STEPS = 30
DRY: dict[str, Any] = {
    "model.dropout": 0.0,
    "model.attention_dropout": 0.0,
    "model.trees": False,
    "train.precision": "float32",
}
each_model = pytest.mark.parametrize("name", NAMES)


@pytest.fixture(autouse=True)
def without_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """A packed batch is not split, and nodeformer draws nothing."""
    monkeypatch.setattr("gelgt.training.fit.PARTS", 1)
    monkeypatch.setattr("gelgt.zoo.nodeformer.gumbel_like", torch.zeros_like)


def config_of(name: str, preset: str, task: Task, changes: dict[str, Any]) -> RunConfig:
    """A preset of a model with whichever changes it knows."""
    known = {f"model.{key}" for key in config_type(name).model_fields}
    wanted = {k: v for k, v in changes.items() if k in known or not k.startswith("model.")}
    return in_regime(RunConfig.of(preset, task.task_type, wanted, name), task)


def losses(made: Trainer, steps: int = STEPS) -> list[float]:
    """The loss of each step; nearly every batch finds room, where batches are packed."""
    found: list[float] = []
    packed = 0
    while len(found) < steps:
        for batch in islice(made.loader.epoch(made.state.epoch), steps - len(found)):
            before = made.state.loss
            is_packed = isinstance(batch, StaticBatch)
            packed += is_packed
            made._step([batch], batch.seeds if is_packed else batch.batch.num_seeds)
            made.collect()
            made.state.total += 1
            found.append(made.state.loss - before)
        made.state.epoch += 1
    assert packed >= (0.9 * steps if made.recorded is not None else 0)
    return found


@each_model
def test_packed_steps_are_steps(db: Database, task: Task, name: str) -> None:
    config = config_of(name, "cpu", task, SMALL | DRY | {"model.centroids": 16})
    data = TrainingData.of(db, task, config)
    eager, packed = (Trainer(make_model(data, config), data, config.train) for _ in range(2))
    packed.recorded = packed.record()
    expected = losses(eager)
    assert losses(packed) == pytest.approx(expected, abs=1e-4)
    assert len(set(expected)) == STEPS, "it learns"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@each_model
def test_recorded_steps_are_steps(
    relbench_data: Callable[[str], Path], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a recorded step draws its signs otherwise
    monkeypatch.setattr("gelgt.zoo.hgt_pe.random_signs", lambda *_: 1.0)
    db = gelgt.open(relbench_data("rel-f1"))
    task = db.task("driver-dnf")
    # at the rate of the preset, eager runs whose weights differ by 1e-7 are soon 3e-5 apart
    changes = DRY | {"sampling.budget": 150, "train.batch_size": 128, "model.centroids": 64}
    changes["train.rate"] = 1e-4
    config = config_of(name, "gpu", task, changes)
    data = TrainingData.of(db, task, config)
    eager, recorded = (
        Trainer(make_model(data, config), data, config.train, "cuda", is_recorded=is_recorded)
        for is_recorded in (False, True)
    )
    assert recorded.recorded is not None, recorded.why_eager
    assert losses(recorded) == pytest.approx(losses(eager), abs=1e-4)
