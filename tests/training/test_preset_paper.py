"""The preset `paper`: what a run of it really uses, not what its settings are called."""

from contextlib import nullcontext
from typing import Any

import pytest
import torch

from gelgt import Database, Task
from gelgt.nn.bias import GaussianBias
from gelgt.presets import RunConfig
from gelgt.scoring.scorer import autocast
from gelgt.training import in_regime
from gelgt.training.data import TrainingData
from gelgt.training.fit import Trainer
from gelgt.training.model import make_model

SMALLER = {
    "model.width": 16,
    "model.layers": 1,
    "model.row_width": 8,
    "model.row_layers": 1,
    "model.structure_width": 64,
    "model.centroids": 8,
    "model.keep": 12,
    "sampling.budget": 24,
}


@pytest.fixture
def trainer(db: Database, task: Task) -> Trainer:
    """Only sizes are smaller."""
    config = in_regime(RunConfig.of("paper", task.task_type, SMALLER), task)
    data = TrainingData.of(db, task, config)
    return Trainer(make_model(data, config), data, config.train)


def test_centres_and_widths_start_as_published(trainer: Trainer) -> None:
    (bias,) = trainer.model.biases
    assert isinstance(bias, GaussianBias)
    assert bias.mu.tolist() == pytest.approx([0.0, 100 / 3, 200 / 3, 100.0])
    assert bias.sigma.tolist() == pytest.approx([10.0] * 4)


def test_adam_with_an_l2_term_in_every_gradient(trainer: Trainer) -> None:
    """Where the loss has no gradient, the L2 term alone moves a weight, and Adam by one whole rate;
    decoupled decay hardly would."""
    assert not trainer.optimiser.is_decoupled
    before = [p.detach().clone() for p in trainer.setup.parameters]
    for parameter in trainer.setup.parameters:
        parameter.grad = torch.zeros_like(parameter)
    trainer.optimiser.step()
    (bias,) = trainer.model.biases
    assert {id(bias.centre), id(bias.width)} <= {id(p) for p in trainer.setup.parameters}
    for old, new in zip(before, trainer.setup.parameters):
        is_large = old.abs() > 0.1
        torch.testing.assert_close(
            (old - new.detach())[is_large], 1e-4 * old.sign()[is_large], rtol=0.1, atol=1e-5
        )


def test_gradients_are_not_clipped(trainer: Trainer, monkeypatch: pytest.MonkeyPatch) -> None:
    def clip(*given: Any) -> None:
        raise AssertionError("a gradient was clipped")

    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", clip)
    batch = next(iter(trainer.loader.epoch(0)))
    trainer._step([batch], trainer.rows(0))
    assert trainer.state.loss > 0


def test_the_precision_is_float32(trainer: Trainer) -> None:
    assert isinstance(autocast(trainer.config.precision, torch.device("cuda")), nullcontext)


def test_ten_epochs_with_one_rate(trainer: Trainer) -> None:
    config = trainer.config
    assert (
        config.epochs,
        config.steps_per_epoch,
        config.batch_size,
        config.warmup,
    ) == (10, 500, 64, 10)
    assert config.patience >= config.epochs, "no epoch is left out"
    assert trainer.rates == [1e-4, 1e-4]


def test_other_models_keep_the_way_of_their_own_papers() -> None:
    train = RunConfig.of("paper", None, None, "hgt").train
    assert (train.optimizer, train.clip, train.precision) == ("adamw", 1.0, "auto")
