"""The paper's theorems and lemmas about the model's own layers, named after them: semantic
refinement, the temporal kernels, attention.

Where a claim holds only in norm, in a limit, or under a condition, it is tested where it holds, and
a counterexample stands beside it.
"""

import math

import numpy as np
import pytest
import torch
from configs import kernel_form

from gelgt.bench.theory import layers, measure
from gelgt.bench.theory.katz import C
from gelgt.nn.attention import BACKENDS

FORMS, PARAMETERS = ("published", "lemma"), ("log", "direct")


# --- Theorem: Enhancement of Semantic Relevance-to-Noise Ratio


@pytest.mark.parametrize("noise", [0.1, 1.0, 2.0])
@pytest.mark.parametrize("share", [0.1, 0.5])
def test_enhancement_of_semantic_relevance_to_noise_ratio(share: float, noise: float) -> None:
    """Relevant rows have μ in 0.5…1, the others none: dropping those raises the ratio by about one
    over the share of relevant rows."""
    for seed in range(10):
        generator = torch.Generator().manual_seed(seed)
        relevant = int(300 * share)
        relevance = torch.cat(
            [0.5 + 0.5 * torch.rand(relevant, generator=generator), torch.zeros(300 - relevant)]
        )
        relevance = relevance[torch.randperm(300, generator=generator)]
        before, after = layers.planted_ratio(relevance, relevant, noise, 128, generator)
        assert after > before
        if noise <= 1:
            assert after / before == pytest.approx(1 / share, rel=0.05)


def test_the_ratio_is_what_aggregation_shows() -> None:
    """The paper's formula against the energies of a sum of many draws, noise of variance σ² along
    the seed's direction."""
    generator = torch.Generator().manual_seed(0)
    relevance, weight, noise = (
        torch.rand(40, generator=generator).double(),
        torch.rand(40, generator=generator).double(),
        0.7,
    )
    draws = (
        weight * noise * torch.randn(20_000, 40, generator=generator, dtype=torch.float64)
    ).sum(1)
    measured = 3.0**2 * (weight * relevance).sum() ** 2 / draws.var()
    assert float(measured) == pytest.approx(
        layers.relevance_to_noise(relevance, weight, 3.0, noise), rel=0.05
    )


def test_refinement_lowers_the_ratio_where_all_rows_are_relevant() -> None:
    """The theorem needs the dropped rows to be irrelevant. With equal relevance the ratio is K μ²,
    and fewer rows have less of it."""
    before, after = layers.planted_ratio(
        torch.ones(100), 25, 0.5, 64, torch.Generator().manual_seed(0)
    )
    assert after / before == pytest.approx(0.25)


# --- Lemma: Convergence of Temporal Center


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("parameters", PARAMETERS)
def test_convergence_of_temporal_center_value_and_sign_of_the_gradient(
    form: str, parameters: str
) -> None:
    """∂B/∂μ = (Δt - μ)/σ² · B with 2σ² in the kernel (the lemma), twice that with σ² (the published
    equation)."""
    factor = 2.0 if form == "published" else 1.0
    for mu, sigma, time in [
        (30.0, 4.0, 26.5),
        (30.0, 4.0, 33.0),
        (30.0, 4.0, 30.0),
        (1.0, 10.0, 40.0),
        (365.0, 90.0, 10.0),
        (7.0, 2.0, 27.0),
    ]:
        bias = layers.one_kernel(mu, sigma, form=kernel_form(form, parameters))
        value = bias.scores(torch.full((1, 1, 1), time, dtype=torch.float64)).sum()
        (slope,) = torch.autograd.grad(value, bias.centre)
        sigma = float(bias.sigma.detach())
        kernel = math.exp(-((time - mu) ** 2) * factor / (2 * sigma**2))
        assert float(value.detach()) == pytest.approx(kernel, rel=1e-10)
        along = mu if parameters == "log" else 1.0  # ∂μ/∂parameter
        assert float(slope) == pytest.approx(
            along * factor * (time - mu) / sigma**2 * kernel, rel=1e-8, abs=1e-12
        )
        assert time == mu or np.sign(float(slope)) == np.sign(time - mu)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("parameters", PARAMETERS)
@pytest.mark.parametrize("start", [18.0, 27.0, 33.0, 42.0])
def test_convergence_of_temporal_center_by_gradient_ascent(
    form: str, parameters: str, start: float
) -> None:
    """From both sides, without ever passing by."""
    bias = layers.one_kernel(start, 8.0, form=kernel_form(form, parameters))
    path = np.array(layers.ascend(bias, 30.0, 8.0 if parameters == "direct" else 0.01, 1500))
    away = np.abs(path - 30.0)
    assert away[-1] < 1e-6
    assert (np.diff(away) <= 1e-12).all()
    assert (np.sign(np.round(path - 30.0, 9)) * np.sign(start - 30.0) >= 0).all()


def test_the_restoring_force_is_not_linear() -> None:
    """It is largest σ/√2 away (published form) and fades from there: ten widths away float32 has no
    gradient left.

    This is why μ starts from quantiles of the ages (docs/model.md).
    """
    slopes = {}
    for away in (0.5, 1 / math.sqrt(2), 1.0, 3.0, 12.0):
        bias = layers.one_kernel(100.0, 4.0, form=kernel_form(parameters="direct"))
        (slope,) = torch.autograd.grad(
            bias.scores(torch.full((1, 1, 1), 100 + 4 * away, dtype=torch.float64)).sum(),
            bias.centre,
        )
        slopes[away] = float(slope)
    assert all(slope > 0 for slope in slopes.values())
    assert max(slopes, key=lambda away: slopes[away]) == 1 / math.sqrt(2)
    assert slopes[3.0] < 1e-2 * slopes[1.0]
    single = layers.one_kernel(100.0, 4.0, form=kernel_form(parameters="direct")).float()
    (slope,) = torch.autograd.grad(single.scores(torch.full((1, 1, 1), 148.0)).sum(), single.centre)
    assert float(slope) == 0.0


def test_sinusoids_push_both_ways() -> None:
    """The lemma's baseline: Σ cos(ω (t* - μ)) has a gradient whose sign changes on one side of t*;
    the Gaussian's does not."""
    omega = 10_000.0 ** -(np.arange(32) / 32)
    away = np.linspace(0.1, 60, 2000)
    base = (omega * np.sin(omega * away[:, None])).sum(1)
    assert (np.diff(np.sign(base)) != 0).sum() > 5
    bias = layers.one_kernel(1.0, 20.0)
    centre = torch.autograd.grad(
        bias.scores(torch.from_numpy(1.0 + away)[None, None]).sum(), bias.centre
    )[0]
    assert float(centre) > 0
    each = [
        float(
            torch.autograd.grad(
                bias.scores(torch.full((1, 1, 1), 1.0 + a, dtype=torch.float64)).sum(), bias.centre
            )[0]
        )
        for a in away[::50]
    ]
    assert min(each) > 0


# --- Theorem: Attention Score Ratio Enhancement


@pytest.mark.parametrize("backend", sorted(BACKENDS))
@pytest.mark.parametrize("form", FORMS)
def test_attention_score_ratio_enhancement(form: str, backend: str) -> None:
    """W = 1, b = 0, the relevant row at μ: the factor grows towards e with the distance of the
    noise, and is e in the limit."""
    factors = []
    for seed, noise in enumerate([31.0, 34.0, 38.0, 60.0, 1e6]):
        bias = layers.one_kernel(30.0, 4.0, form=kernel_form(form))
        factors.append(
            layers.attention_factor(bias, 30.0, noise, backend, torch.Generator().manual_seed(seed))
        )
    assert (np.diff(factors) >= -1e-9).all()
    assert factors[0] < 1.1
    assert factors[-1] == pytest.approx(math.e, rel=1e-10)


@pytest.mark.parametrize("backend", sorted(BACKENDS))
@pytest.mark.parametrize("form", FORMS)
def test_attention_score_ratio_at_finite_distance(form: str, backend: str) -> None:
    """The factor is exp(B(relevant) - B(noise)), whatever q and k are; below 1 where the noise is
    nearer to μ."""
    scale = 1.0 if form == "published" else 2.0
    for seed, (relevant, noise) in enumerate(
        [(30.0, 37.0), (28.0, 40.0), (33.0, 35.0), (25.0, 30.0)]
    ):
        bias = layers.one_kernel(30.0, 4.0, form=kernel_form(form))
        sigma = float(bias.sigma.detach())
        kernel = [math.exp(-((t - 30.0) ** 2) / (scale * sigma**2)) for t in (relevant, noise)]
        factor = layers.attention_factor(
            bias, relevant, noise, backend, torch.Generator().manual_seed(seed)
        )
        assert factor == pytest.approx(math.exp(kernel[0] - kernel[1]), rel=1e-10)
        assert (factor > 1) == (abs(relevant - 30) < abs(noise - 30))


def test_a_learned_weight_makes_the_factor_exp_w() -> None:
    """e belongs to W = 1. The model learns W, and b cancels in the ratio."""
    for weight in (-2.0, 0.5, 3.0):
        bias = layers.one_kernel(30.0, 4.0)
        with torch.no_grad():
            bias.mix.weight.fill_(weight)
            bias.mix.bias.fill_(0.7)
        assert layers.attention_factor(
            bias, 30.0, 1e6, "reference", torch.Generator().manual_seed(0)
        ) == pytest.approx(math.exp(weight), rel=1e-9)


def test_bench_theory_reports_every_theorem() -> None:
    found = measure.bench_theory()
    assert {"machine", "results", "ratios"} <= set(found)
    norms = [entry["share"] for entry in found["results"] if entry["what"].startswith("‖ΔC‖")]
    assert len(norms) == 2
    assert max(norms) <= C**2
    assert found["ratios"]["relevance_to_noise"] > 1
    assert found["ratios"]["attention_factor"] == pytest.approx(math.e)
