"""The mechanism works: on a planted lag of 30 days the bias finds it, and a model without the bias
does not."""

import pytest
import torch

from gelgt.bench.mechanism import _ratios
from gelgt.bench.planted_lag import Data, Outcome, Training, small_config, train
from gelgt.config import GelGTConfig
from gelgt.metrics import roc_auc
from gelgt.nn import GelGTModel, ModelContext, ModelInput

LAG = 30.0


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Data:
    """Two lags of history a seed: small enough for two trainings."""
    return Data.of(
        LAG, 8000, tmp_path_factory.mktemp("lag") / "db", eval_rows=600, budget=22, seed=2
    )


@pytest.mark.slow
def test_bias_finds_the_planted_lag(data: Data) -> None:
    # Of seeds 0 to 4 this one leaves the plateau first. 0, 1, 2 and 4 put a kernel at the lag
    # within these steps; 3 needs 800 steps and suppresses all other ages instead, so that no single
    # kernel has the lag as its centre.
    training = Training(max_steps=450)
    given = train(data, small_config("gaussian", has_age=False), 2, training)
    none = train(data, small_config("none", has_age=False), 2, training)
    assert given.test_auc > none.test_auc + 0.12
    assert given.test_auc < data.database.splits["test"].oracle_auc + 0.02
    assert abs(given.kernels[0]["centre_days"] - LAG) < 0.25 * LAG
    assert given.peak_days == pytest.approx(LAG, rel=0.25)
    assert none.kernels == []
    assert none.peak_days is None


def test_nothing_but_the_bias_knows_time(data: Data) -> None:
    """Without bias and age encoder, moving every event in time changes no prediction; with the bias
    it does."""
    batch = next(iter(data.loader("test", 8)))
    inputs = ModelInput.of(batch, data.features, {"events": ("happened_at",)})
    moved = ModelInput(type(batch)(**(vars(batch) | {"age": batch.age * 3})), inputs.rows)

    def change(config: GelGTConfig) -> float:
        model = GelGTModel(
            config, ModelContext(data.graph, data.features, hide={"events": ("happened_at",)})
        ).eval()
        with torch.no_grad():
            return float((model(inputs) - model(moved)).abs().max())

    assert change(small_config("none", has_age=False)) == 0.0
    assert change(small_config("gaussian", has_age=False)) > 0.0
    assert change(small_config("none", has_age=True)) > 0.0


def test_training_is_fixed_by_its_seed(data: Data) -> None:
    training = Training(max_steps=20, eval_every=10)
    first, again, other = (
        train(data, small_config("gaussian", has_age=True), seed, training) for seed in (3, 3, 4)
    )
    assert first.curve == again.curve != other.curve
    assert first.kernels == again.kernels


def test_start_of_the_kernels_can_be_set(data: Data) -> None:
    seen = []

    def start(bias: object, ages: torch.Tensor) -> None:
        seen.append(float(ages.max()))

    train(
        data,
        small_config("gaussian", has_age=False),
        0,
        Training(max_steps=10, eval_every=10),
        start,
    )
    assert len(seen) == 1
    assert 1.9 * LAG < seen[0] < 2.5 * LAG


def test_steps_and_ratios() -> None:
    outcome = Outcome(val_auc=0.9, curve=[(50, 0.6), (100, 0.89), (150, 0.9)])
    assert outcome.steps_to(0.98) == 100
    common = {"lag": 30.0, "rows": 1000}
    alone = [
        {"part": "alone", "bias": "gaussian", "test_auc": 0.9, "centre_days": 33.0, **common},
        {"part": "alone", "bias": "gaussian", "test_auc": 0.8, "centre_days": 30.0, **common},
        {"part": "alone", "bias": "none", "test_auc": 0.6, **common},
    ]
    beside = [
        {"part": "beside", "bias": "gaussian", "test_auc": 0.9, "steps_to_98": 100, **common},
        {"part": "beside", "bias": "none", "test_auc": 0.9, "steps_to_98": 300, **common},
    ]
    assert _ratios(alone + beside) == {
        "alone_30d_gain": pytest.approx(0.25),
        "alone_30d_centre_over_lag": 1.1,
        "beside_1000_gain": 0.0,
        "beside_1000_steps_without_over_with": 3.0,
    }
    assert roc_auc(torch.tensor([0, 1]).numpy(), torch.tensor([0.2, 0.3]).numpy()) == 1.0
