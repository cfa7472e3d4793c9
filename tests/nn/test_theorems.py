"""The paper's theorems and lemmas, named after them: on rel-f1, on random graphs, and on the
model's own layers.

Where a claim holds only in norm, in a limit, or under a condition, it is tested where it holds, and
a counterexample stands beside it. Figures of rel-f1 over all seeds: docstring of
`gelgt.bench.theory.measure`.
"""

import math
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from configs import kernel_form

import gelgt
from gelgt.bench.theory import katz, layers, measure
from gelgt.bench.theory.katz import C
from gelgt.config import SamplingConfig
from gelgt.graph import Graph
from gelgt.nn.attention import BACKENDS
from gelgt.sampling import Sampler, task_seeds
from gelgt.testing.graphs import YEAR, large_graph

FORMS, PARAMETERS = ("published", "lemma"), ("log", "direct")


class Seeded(NamedTuple):
    graph: Graph
    nodes: np.ndarray
    times: np.ndarray


@pytest.fixture(scope="module")
def f1(relbench_data: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Seeded:
    """rel-f1 and the seeds of driver-dnf at 12 of its 420 training times."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GELGT_CACHE", str(tmp_path_factory.mktemp("f1")))
        db = gelgt.open(relbench_data("rel-f1"))
        graph = db.graph()
        seeds = task_seeds(db.task("driver-dnf"), graph, "train")
    chosen = measure.at_some_times(seeds.time, 12)
    return Seeded(graph, seeds.node[chosen], seeds.time[chosen])


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Seeded:
    """A generated database with skewed degrees and a hub, and users at two times."""
    graph = large_graph(tmp_path_factory.mktemp("generated") / "graph", 6000, hub=300, degree=8)
    users = np.arange(0, int(graph.offsets[1]), 7)
    return Seeded(graph, np.tile(users, 2), np.repeat([44 * YEAR, 51 * YEAR], len(users)))


# --- Theorem: Upper Bound of Relative Structural Loss
# ---------------------------------------------------------------------------------


def test_upper_bound_of_relative_structural_loss_on_rel_f1(f1: Seeded) -> None:
    """‖ΔC‖₂ / ‖C‖₂ ≤ c² on the whole graph: 0.70 % against 1 %. The bound is one of norms: 2.5 % of
    the rows lose more, at most 1.17 %."""
    norm, rows = katz.structural_loss(katz.adjacency(f1.graph))
    assert norm <= C**2
    assert norm == pytest.approx(0.00703, abs=5e-5)
    assert C**2 < np.nanmax(rows) < 0.012
    assert np.mean(rows > C**2) < 0.03


@pytest.mark.parametrize("c", [0.5, 0.1, 0.01])
@pytest.mark.parametrize("skew", [1.0, 3.0])
@pytest.mark.parametrize("degree", [1.5, 8.0, 60.0])
def test_upper_bound_of_relative_structural_loss_on_random_graphs(
    degree: float, skew: float, c: float
) -> None:
    for seed in range(3):
        norm, _ = katz.structural_loss(
            katz.random_adjacency(400, degree, np.random.default_rng(seed), skew), c
        )
        assert 0 < norm <= c**2


def test_the_bound_is_attained_on_regular_graphs() -> None:
    """A ring: the vector of ones is the leading eigenvector."""
    ring = katz.undirected(50, np.arange(50), np.roll(np.arange(50), 1))
    assert katz.structural_loss(ring)[0] == pytest.approx(C**2, rel=1e-9)


def test_walks_add_up_to_the_resolvent() -> None:
    matrix = katz.random_adjacency(60, 5, np.random.default_rng(0))
    beta = C / katz.spectral_radius(matrix)
    dense = matrix.toarray()
    assert katz.spectral_radius(matrix) == pytest.approx(np.linalg.norm(dense, 2), rel=1e-9)
    exact = np.linalg.solve(np.eye(60) - beta * dense, np.ones(60)) - 1
    np.testing.assert_allclose(katz.walks(matrix, beta).sum(0), exact, rtol=1e-12)


def test_the_bound_does_not_hold_row_by_row() -> None:
    """A leaf two steps from 20 hubs: it has one neighbour and thousands of walks of length three,
    and loses 15 times the bound."""
    hubs, leaves = 20, 400
    edges = [(0, 1)]
    for hub in range(2, 2 + hubs):
        edges.append((1, hub))
        edges += [(hub, 2 + hubs + (hub - 2) * leaves + i) for i in range(leaves)]
    one, other = np.array(edges).T
    norm, rows = katz.structural_loss(katz.undirected(int(other.max()) + 1, one, other))
    assert norm <= C**2
    assert rows[0] > 10 * C**2


def test_structural_loss_of_whole_two_hop_samples_on_rel_f1(f1: Seeded) -> None:
    """Never more than the proof says, for induced subgraphs keep some longer walks too.

    It is not below 1 % for every seed: 0.1 % of all training seeds lose up to 1.10 %.
    """
    seeds = katz.seed_walks(f1.graph, f1.nodes, f1.times)
    loss = katz.sampled_loss(
        Sampler(f1.graph, SamplingConfig(strategy="full", fanout=None)).sample(f1.nodes, f1.times),
        seeds,
    )
    known = ~np.isnan(loss)
    assert known.sum() > 200
    assert np.array_equal(known, seeds.whole > 0)
    assert loss[known].min() > 0
    assert loss[known].max() < 0.0115
    assert np.mean(loss[known] > C**2) < 0.01
    assert (loss[known] <= seeds.long_share[known] + 1e-12).all()
    assert loss[known].mean() < 0.9 * seeds.long_share[known].mean()


def test_structural_loss_of_budgeted_samples_on_rel_f1(f1: Seeded) -> None:
    """Where the budget does not cut, nothing changes; where it cuts, the theorem says nothing and
    single seeds lose tens of per cents.

    Breadth-first order loses the far rows, random choice the near ones.
    """
    seeds = katz.seed_walks(f1.graph, f1.nodes, f1.times)
    loss, cut = {}, {}
    for name, config in measure.SAMPLERS.items():
        sample = Sampler(f1.graph, config).sample(f1.nodes, f1.times)
        loss[name], cut[name] = katz.sampled_loss(sample, seeds), sample.is_cut
    untouched = ~cut["bfs 300"] & (seeds.whole > 0)
    np.testing.assert_allclose(
        loss["bfs 300"][untouched], loss["whole 2 hops"][untouched], rtol=1e-9
    )
    figures = {name: measure.distribution(values) for name, values in loss.items()}
    assert figures["bfs 300"]["median"] < 0.004
    assert figures["bfs 500"]["p95"] < C**2
    assert figures["bfs 300"]["max"] > C**2, "the promise of 1 % is not one for every seed"
    assert (
        figures["bfs 500"]["above"]
        <= figures["bfs 300"]["above"]
        < 0.1
        < figures["random 300"]["above"]
    )


def test_structural_loss_of_whole_two_hop_samples_on_generated_graphs(generated: Seeded) -> None:
    seeds = katz.seed_walks(generated.graph, generated.nodes, generated.times)
    loss = katz.sampled_loss(
        Sampler(generated.graph, SamplingConfig(strategy="full", fanout=None)).sample(
            generated.nodes, generated.times
        ),
        seeds,
    )
    known = seeds.whole > 0
    assert known.sum() > 50
    assert (loss[known] >= -1e-12).all()
    assert (loss[known] <= seeds.long_share[known] + 1e-12).all()


# --- Lemma: Exponential Decay of Structural Sensitivity
# -------------------------------------------------------------------------------


def test_sensitivities_are_what_removal_costs() -> None:
    matrix = katz.random_adjacency(50, 4, np.random.default_rng(3))
    beta = C / katz.spectral_radius(matrix)
    others = np.arange(1, 50)
    found = katz.sensitivities(matrix, 0, others, beta)
    whole = katz.walks(matrix, beta).sum(0)[0]
    for u in others:
        rest = np.delete(np.arange(50), u)
        assert found[u - 1] == pytest.approx(
            whole - katz.walks(matrix[rest][:, rest], beta).sum(0)[0], rel=1e-9, abs=1e-14
        )


def test_exponential_decay_of_structural_sensitivity_on_rel_f1(f1: Seeded) -> None:
    """A second-hop row matters about 0.5 % as much as a first-hop row (β ≈ 0.002), and no pair is
    the other way round."""
    ratios, exceptions = katz.seed_sensitivity(f1.graph, f1.nodes, f1.times, 10)
    assert len(ratios) >= 6
    assert np.median(ratios) < 0.02
    assert ratios.max() < 0.1
    assert exceptions.max() == 0


@pytest.mark.parametrize("skew", [1.0, 2.0])
def test_exponential_decay_of_structural_sensitivity_on_random_graphs(skew: float) -> None:
    matrix = katz.random_adjacency(500, 6, np.random.default_rng(5), skew)
    beta = C / katz.spectral_radius(matrix)
    ratios = []
    for seed in range(0, 500, 25):
        first, second = katz.sensitivity_by_hop(matrix, seed, beta)
        if len(first) and len(second):
            assert first.min() > second.max()
            ratios.append(np.median(second) / np.median(first))
    assert len(ratios) > 10
    assert np.median(ratios) < 3 * beta


def test_the_ratio_of_sensitivities_is_of_the_order_of_beta(f1: Seeded) -> None:
    """Each halving of β halves the ratio of every pair, ever more exactly: the ratio is N_paths · β
    + O(β²)."""
    last = int(np.flatnonzero(f1.times == f1.times.max())[0])
    part, place = katz.visible(f1.graph, katz.adjacency(f1.graph), int(f1.times[last]))
    for matrix, seed in (
        (part, int(place[f1.nodes[last]])),
        (katz.random_adjacency(300, 6, np.random.default_rng(1)), 0),
    ):
        start = C / katz.spectral_radius(matrix)
        ratios = []
        for halvings in (0, 3, 6, 7):
            first, second = katz.sensitivity_by_hop(matrix, seed, start / 2**halvings, 6)
            ratios.append(second[:, None] / first[None, :])
        np.testing.assert_allclose(ratios[3] / ratios[2], 0.5, rtol=0.02)
        paths = ratios[3] / (start / 2**7)  # N_paths(2), a whole number
        np.testing.assert_allclose(paths, np.round(paths), rtol=0.05)


def test_many_shortest_paths_outweigh_a_first_hop_row() -> None:
    """The lemma takes N_paths for small. A row that 1,000 neighbours share matters more than each
    of them at c = 0.1."""
    middle = np.arange(2, 1002)
    shared = katz.undirected(1002, np.concatenate([middle, middle]), np.repeat([0, 1], 1000))
    first, second = katz.sensitivity_by_hop(shared, 0, C / katz.spectral_radius(shared))
    assert second.min() > first.max()
    first, second = katz.sensitivity_by_hop(shared, 0, 0.01 * C / katz.spectral_radius(shared))
    assert second.max() < first.min(), "but not in the limit"


# --- Theorem: Enhancement of Semantic Relevance-to-Noise Ratio
# ------------------------------------------------------------------------


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
# --------------------------------------------------------------------------------------------


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
# ---------------------------------------------------------------------------------------


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


# --- All of it
# ------------------------------------------------------------------------------------------------------------------------


def test_bench_theory_reports_every_theorem() -> None:
    found = measure.bench_theory()
    assert {"machine", "results", "ratios"} <= set(found)
    norms = [entry["share"] for entry in found["results"] if entry["what"].startswith("‖ΔC‖")]
    assert len(norms) == 2
    assert max(norms) <= C**2
    assert found["ratios"]["relevance_to_noise"] > 1
    assert found["ratios"]["attention_factor"] == pytest.approx(math.e)
