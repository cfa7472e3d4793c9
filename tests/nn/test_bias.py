"""The temporal biases: the written formula, exact zeros where there is no time, and what the
profile says."""

import math
from typing import Any

import pytest
import torch
from configs import kernel_form, plain_config

from gelgt.nn.base import duration
from gelgt.nn.bias import (
    BINS,
    GaussianBias,
    KernelForm,
    LinearDecayBias,
    TemporalBias,
    TimeBinBias,
    make_bias,
)

KINDS = ("gaussian", "linear-decay", "time-bins")


def made(
    kind: str = "gaussian",
    heads: int = 3,
    seed: int = 0,
    form: KernelForm | None = None,
    **changes: Any,
) -> TemporalBias:
    """A bias of which no parameter is zero."""
    config = plain_config(width=8 * heads, heads=heads, bias=kind, **changes)
    bias = GaussianBias(config, form) if form else make_bias(config)
    assert bias is not None
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        if isinstance(bias, GaussianBias):
            kernels = len(bias.centre)
            bias.start(
                5 + 60 * torch.rand(kernels, generator=generator),
                3 + 20 * torch.rand(kernels, generator=generator),
            )
        if isinstance(bias, TimeBinBias):
            bias.table.weight.copy_(1 + torch.rand(bias.table.weight.shape, generator=generator))
    return bias.double()


AGES = torch.tensor([[0.0, 3.5, 40.0, 7.0], [0.0, 100.0, 100.0, 0.0]], dtype=torch.float64)
KNOWN = torch.tensor([[True, True, True, False], [True, False, True, True]])


def written_gaussian(
    bias: GaussianBias, form: KernelForm, is_log: bool, time: float, head: int
) -> float:
    """Σ_g W[h, g] · exp(-(Δt - μ_g)² / σ_g²) + b_h, or with 2σ², from the raw parameters."""
    total = float(bias.mix.bias[head].detach())
    for g in range(len(bias.centre)):
        centre, width = float(bias.centre[g].detach()), float(bias.width[g].detach())
        mu, sigma = (
            (math.exp(centre), math.exp(width))
            if form.has_log_parameters
            else (centre, abs(width) + 1e-6)
        )
        at = math.log(1 + time) if is_log else time
        total += float(bias.weight[head, g].detach()) * math.exp(
            -((at - mu) ** 2) / (form.factor * sigma**2)
        )
    return total


@pytest.mark.parametrize("form", ["published", "lemma"])
@pytest.mark.parametrize("parameters", ["log", "direct"])
@pytest.mark.parametrize("scale", ["linear", "log"])
@pytest.mark.parametrize("kernels", [None, 5])
def test_gaussian_bias_is_the_written_formula(
    form: Any, parameters: Any, scale: Any, kernels: int | None
) -> None:
    written = kernel_form(form, parameters)
    bias = made(form=written, kernels=kernels, time_scale=scale)
    assert isinstance(bias, GaussianBias)
    assert len(bias.centre) == (kernels or 3)
    found = bias(AGES, KNOWN)
    assert found.shape == (2, 3, 4, 4)
    for b in range(2):
        for h in range(3):
            for i in range(4):
                for j in range(4):
                    both = bool(KNOWN[b, i]) and bool(KNOWN[b, j])
                    expected = (
                        written_gaussian(
                            bias,
                            written,
                            scale == "log",
                            abs(float(AGES[b, i]) - float(AGES[b, j])),
                            h,
                        )
                        if both
                        else 0.0
                    )
                    assert abs(float(found[b, h, i, j].detach()) - expected) < 1e-12


@pytest.mark.parametrize("kind", KINDS)
def test_rows_without_time_have_no_bias_at_all(kind: str) -> None:
    """Exactly 0, b included, in both directions, and no gradient comes from them."""
    bias = made(kind)
    found = bias(AGES, KNOWN)
    unknown = ~(KNOWN[:, :, None] & KNOWN[:, None, :])
    assert unknown.any()
    assert (found.movedim(1, -1)[unknown] == 0).all()
    assert (found.movedim(1, -1)[~unknown][:, 1:] != 0).any()
    (found.movedim(1, -1)[unknown]).sum().backward()
    assert all(p.grad is None or (p.grad == 0).all() for p in bias.parameters())
    moved = torch.where(KNOWN, AGES, 12_345.0)  # an age that means nothing has no effect
    assert torch.equal(found, bias(moved, KNOWN))


@pytest.mark.parametrize("kind", KINDS)
def test_biases_depend_on_differences_alone(kind: str) -> None:
    bias, everywhere = made(kind), torch.ones_like(KNOWN)
    found = bias(AGES, everywhere)
    torch.testing.assert_close(found, bias(AGES + 1000, everywhere), rtol=1e-9, atol=1e-12)
    assert torch.equal(found, found.transpose(-1, -2))


def test_linear_decay_falls_with_time() -> None:
    bias = made("linear-decay")
    assert isinstance(bias, LinearDecayBias)
    # (H, 50)
    line = bias.scores(torch.arange(0.0, 50.0, dtype=torch.float64)[None, None])[0, :, 0].detach()
    assert (line[:, 0] == 0).all()
    steps = line.diff(dim=1)
    assert (steps < 0).all()
    torch.testing.assert_close(steps, steps[:, :1].expand_as(steps))
    torch.testing.assert_close(
        steps[:, 0], torch.tensor([-1e-3, -1e-2, -1e-1], dtype=torch.float64), rtol=1e-6, atol=0
    )


def test_time_bins_are_constant_within_and_separate_between() -> None:
    bias = made("time-bins")
    assert isinstance(bias, TimeBinBias)
    for number, first in enumerate(BINS):
        inside = [first, BINS[number + 1] - 1e-6] if number + 1 < len(BINS) else [first, 1e6]
        found = bias.scores(torch.tensor(inside, dtype=torch.float64)[None, None])[0, :, 0]
        assert torch.equal(found[:, 0], bias.table.weight[number])
        assert torch.equal(found[:, 1], bias.table.weight[number])
    fresh = make_bias(plain_config(bias="time-bins"))
    assert fresh is not None
    assert (fresh(AGES.float(), KNOWN) == 0).all(), "bins start without an opinion"


def test_none_is_none() -> None:
    assert make_bias(plain_config(bias="none")) is None


@pytest.mark.parametrize("scale", ["linear", "log"])
@pytest.mark.parametrize("parameters", ["log", "direct"])
def test_centres_start_at_quantiles_of_the_ages(scale: Any, parameters: Any) -> None:
    bias = GaussianBias(plain_config(heads=4, time_scale=scale), kernel_form(parameters=parameters))
    ages = torch.cat(
        [torch.arange(1.0, 101.0), torch.zeros(50), torch.tensor([math.nan, math.inf, -3.0])]
    )
    bias.start_from(ages)
    centres = [kernel["centre_days"] for kernel in bias.profile()]
    assert centres == pytest.approx([13.4, 38.1, 62.9, 87.6], abs=0.1)
    assert all(float(kernel["width_days"]) > 1 for kernel in bias.profile())  # type: ignore[arg-type]
    before = bias.centre.clone()
    bias.start_from(torch.zeros(3))
    assert torch.equal(before, bias.centre), "without ages nothing moves"


def test_start_is_read_back_by_the_profile() -> None:
    for scale in ("linear", "log"):
        for parameters in ("log", "direct"):
            bias = GaussianBias(
                plain_config(width=16, heads=2, time_scale=scale),
                kernel_form(parameters=parameters),
            )
            bias.start(torch.tensor([31.0, 365.0]), torch.tensor([4.0, 30.0]))
            for kernel, (centre, width) in zip(bias.profile(), [(31.0, 4.0), (365.0, 30.0)]):
                assert kernel["centre_days"] == pytest.approx(centre, rel=1e-4)
                assert kernel["width_days"] == pytest.approx(width, rel=1e-4)
                assert len(kernel["weights"]) == 2  # type: ignore[arg-type]


def test_log_parameters_stay_positive_whatever_the_step() -> None:
    bias = GaussianBias(plain_config(width=16, heads=2))
    with torch.no_grad():
        bias.centre.sub_(40.0)
        bias.width.sub_(40.0)
    assert (bias.mu > 0).all()
    assert (bias.sigma > 0).all()


@pytest.mark.parametrize(
    ("days", "text"),
    [
        (31.0, "31 days"),
        (4.0, "4.0 days"),
        (1.0, "1.0 days"),
        (0.25, "6.0 hours"),
        (365.0, "365 days"),
        (730.5, "2.0 years"),
        (3652.5, "10.0 years"),
    ],
)
def test_durations_in_words(days: float, text: str) -> None:
    assert duration(days) == text
