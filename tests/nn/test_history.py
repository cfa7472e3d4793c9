"""Aggregates as a model reads them: on a normal scale, missing ones known as such, the same bits
whatever stands beside them."""

import numpy as np
import pytest
import torch
from scipy.stats import norm, rankdata

from gelgt.nn.history import MOST, HistoryEncoder


@pytest.fixture
def values() -> torch.Tensor:
    generator = np.random.default_rng(0)
    columns = [
        generator.exponential(50, 4000),
        generator.integers(0, 3, 4000),
        np.full(4000, 7.0),
        generator.normal(0, 1e-6, 4000),
    ]
    made = np.stack(columns, 1).astype(np.float32)
    made[::10, 0] = np.nan
    return torch.from_numpy(made)


def fitted(values: torch.Tensor) -> HistoryEncoder:
    made = HistoryEncoder(values.shape[1], 16, 0.1)
    made.fit(values)
    return made.eval()


def test_values_become_normal(values: torch.Tensor) -> None:
    scale = fitted(values).normal(values)
    for column in (0, 3):  # continuous ones, however skewed or small
        known = ~torch.isnan(values[:, column])
        raw = values[known, column].numpy()
        expected = np.clip(norm.ppf((rankdata(raw) - 0.5) / len(raw)), -MOST, MOST)
        assert np.abs(scale[known, column].numpy() - expected).mean() < 0.02


def test_shared_values_lie_in_their_middle(values: torch.Tensor) -> None:
    scale = fitted(values).normal(values)
    for code in range(3):
        assert len(torch.unique(scale[values[:, 1] == code, 1])) == 1
    low, middle, high = (float(scale[values[:, 1] == code, 1][0]) for code in range(3))
    assert low < -0.5 < middle < 0.5 < high
    assert middle == pytest.approx(0, abs=0.1)
    assert scale[:, 2].abs().max() == pytest.approx(0, abs=1e-6), "a constant says nothing"


def test_values_beyond_training_stay_near(values: torch.Tensor) -> None:
    wild = torch.tensor([[1e30, 99.0, -1e30, -1e30], [-1e30, -99.0, 1e30, float("inf")]])
    scale = fitted(values).normal(wild)
    assert torch.isfinite(scale).all()
    assert scale.abs().max() <= MOST + 1e-3


def test_missing_is_told_from_zero_and_rows_are_alone(values: torch.Tensor) -> None:
    encoder = fitted(values)
    median = values[:, 0].nanmedian()
    rows = torch.stack([values[0].clone(), values[0].clone(), values[5]])
    rows[0, 0], rows[1, 0] = float("nan"), median
    out = encoder(rows)
    assert torch.isfinite(out).all()
    assert not torch.allclose(out[0], out[1], atol=1e-4)
    assert torch.allclose(encoder(rows[2:]), out[2:], atol=1e-6)


def test_a_column_that_training_never_knew() -> None:
    encoder = fitted(torch.full((50, 2), float("nan")))
    assert torch.isfinite(encoder(torch.tensor([[1.0, float("nan")], [-3.0, 2.0]]))).all()


def test_many_rows_are_thinned_from_all_over(monkeypatch: pytest.MonkeyPatch) -> None:
    values = torch.linspace(0, 1, 5001)[:, None]
    whole = fitted(values).edges.clone()
    monkeypatch.setattr("gelgt.nn.history.MOST_ROWS", 1000)
    assert torch.allclose(fitted(values).edges, whole, atol=2e-3)
