"""The paper's theorems and lemmas about sampled structure, named after them: on rel-f1 and on
random graphs.

Where a claim holds only in norm, in a limit, or under a condition, it is tested where it holds, and
a counterexample stands beside it. Figures of rel-f1 over all seeds: docstring of
`gelgt.bench.theory.measure`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import gelgt
from gelgt.bench.theory import katz, measure
from gelgt.bench.theory.katz import C
from gelgt.config import SamplingConfig
from gelgt.graph import Graph
from gelgt.sampling import Sampler, task_seeds
from gelgt.testing.graphs import YEAR, large_graph


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
