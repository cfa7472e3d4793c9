"""The paper's theorems, measured: on the graph of a database, on the sampler's own subgraphs, and
on the model's own layers.

Katz centrality of a row counts its walks, a walk of length k with weight β^k, where β = c / ρ(A), A
is the undirected multigraph of foreign keys and ρ its spectral radius (paper, appendix of proofs; c
= 0.1 there). Where a claim holds only under conditions, both sides are measured; `bench_theory`
says what came out on rel-f1.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.linalg import eigsh
from torch import Tensor

from gelgt.bench.machine import machine
from gelgt.config import GelGTConfig, SamplingConfig
from gelgt.graph import Graph
from gelgt.nn.attention import BACKENDS
from gelgt.nn.bias import GaussianBias, KernelForm
from gelgt.nn.refinement import refine, semantic_scores
from gelgt.sampling import Sample, Sampler, task_seeds

C = 0.1  # β · ρ(A), the paper's local regime
TERMS = 16  # walks longer than this weigh less than C^TERMS
Floats = NDArray[np.float64]


# --- Graphs as matrices
# ---------------------------------------------------------------------------------------------------------------


def adjacency(graph: Graph) -> Any:
    """The undirected foreign-key graph (nodes, nodes): as many as there are keys between two
    rows."""
    return csr_array(
        (np.ones(len(graph.indices)), np.array(graph.indices), np.array(graph.indptr)),
        shape=(graph.num_nodes,) * 2,
    )


def random_adjacency(nodes: int, degree: float, rng: np.random.Generator, skew: float = 1.0) -> Any:
    """A random undirected graph without loops or double edges; a skew above 1 makes hubs."""
    ends = np.sort(
        (nodes * rng.random((2, int(nodes * degree / 2))) ** skew).astype(np.int64), axis=0
    )
    one, other = np.unique(ends[:, ends[0] < ends[1]], axis=1)
    return undirected(nodes, one, other)


def undirected(nodes: int, one: NDArray[Any], other: NDArray[Any]) -> Any:
    """Edges between `one` and `other` as a symmetric matrix."""
    return csr_array(
        (np.ones(2 * len(one)), (np.concatenate([one, other]), np.concatenate([other, one]))),
        shape=(nodes, nodes),
    )


def spectral_radius(matrix: Any) -> float:
    """ρ(A), which is the largest eigenvalue: no entry is negative."""
    nodes = matrix.shape[0]
    if nodes < 16:  # too small for Lanczos
        return float(np.linalg.eigvalsh(matrix.toarray())[-1]) if nodes else 0.0
    if not matrix.nnz:
        return 0.0
    return float(
        eigsh(matrix, k=1, which="LA", v0=np.ones(nodes), tol=1e-9, return_eigenvectors=False)[0]
    )


def walks(matrix: Any, beta: float | Floats) -> Floats:
    """(TERMS, nodes) weights of each row's walks by length: row k - 1 is (βA)^k 1. Katz centrality
    is their sum."""
    terms = []
    now = np.ones(matrix.shape[0])
    for _ in range(TERMS):
        now = beta * (matrix @ now)
        terms.append(now)
    return np.array(terms)


# --- Upper Bound of Relative Structural Loss
# ------------------------------------------------------------------------------------------


def structural_loss(matrix: Any, c: float = C) -> tuple[float, Floats]:
    """What walks longer than two steps weigh: ‖ΔC‖₂ / ‖C‖₂, which the theorem bounds by c², and ΔC
    / C of every row, which it does not.

    Rows without neighbours have no centrality and a loss of NaN.
    """
    terms = walks(matrix, c / spectral_radius(matrix))
    whole, lost = terms.sum(0), terms[2:].sum(0)
    return float(np.linalg.norm(lost) / np.linalg.norm(whole)), _shares(lost, whole)


@dataclass(frozen=True)
class SeedWalks:
    """Walks of each seed in everything that is visible at its time.

    Attributes:
        beta: (S,) c / ρ of that graph.
        whole: (S,) Katz centrality; 0 where the seed has no neighbour.
        long: (S,) of it the walks longer than two.
    """

    beta: Floats
    whole: Floats
    long: Floats

    @property
    def long_share(self) -> Floats:
        """(S,) what the proof takes for the loss; NaN where there is no neighbour."""
        return _shares(self.long, self.whole)


def seed_walks(
    graph: Graph, nodes: NDArray[np.int64], limits: NDArray[np.int64], c: float = C
) -> SeedWalks:
    """Walks of seeds over the rows before their limits (`Sampler.limits`). One eigenvalue for each
    distinct limit."""
    matrix = adjacency(graph)
    # at its very own time a seed sees a graph of its own
    hidden = np.where(np.array(graph.node_time)[nodes] < limits, -1, nodes)
    beta, whole, long = np.ones(len(nodes)), np.zeros(len(nodes)), np.zeros(len(nodes))
    groups, group = np.unique(np.stack([limits, hidden]), axis=1, return_inverse=True)
    for number, (limit, extra) in enumerate(groups.T):
        here = np.flatnonzero(group.reshape(-1) == number)
        part, place = visible(graph, matrix, int(limit), int(extra))
        radius = spectral_radius(part)
        if radius > 0:
            beta[here] = c / radius
            terms = walks(part, c / radius)[:, place[nodes[here]]]
            whole[here], long[here] = terms.sum(0), terms[2:].sum(0)
    return SeedWalks(beta, whole, long)


def sampled_loss(sample: Sample, seeds: SeedWalks) -> Floats:
    """(S,) 1 - Katz centrality in the sampled subgraph over that in everything visible, with the
    same β; NaN without neighbours.

    The subgraph is induced, so it keeps the long walks that stay inside: of a whole two-hop
    neighbourhood the loss is never more than `SeedWalks.long_share`. A budget that cuts the
    neighbourhood loses walks of length one and two as well, and no bound holds.
    """
    # all subgraphs beside each other
    blocks = undirected(len(sample.node), sample.edge_source, sample.edge_target)
    kept = walks(blocks, np.repeat(seeds.beta, np.diff(sample.offsets))).sum(0)[sample.offsets[:-1]]
    return _shares(seeds.whole - kept, seeds.whole)


def visible(
    graph: Graph, matrix: Any, limit: int, extra: int = -1
) -> tuple[Any, NDArray[np.int64]]:
    """The part of the graph before `limit`, with one more row if given, and the place of each node
    in it (-1 outside)."""
    is_seen = np.array(graph.node_time) < limit
    if extra >= 0:
        is_seen[extra] = True
    place = np.where(is_seen, np.cumsum(is_seen) - 1, -1)
    return matrix[is_seen][:, is_seen], place


def _shares(part: Floats, whole: Floats) -> Floats:
    found: Floats = np.divide(part, whole, out=np.full(len(whole), np.nan), where=whole > 0)
    return found


# --- Exponential Decay of Structural Sensitivity
# --------------------------------------------------------------------------------------


def sensitivities(matrix: Any, seed: int, removed: NDArray[np.int64], beta: float) -> Floats:
    """How much Katz centrality the seed loses with each of some rows: all walks from the seed that
    come by.

    With R = Σ (βA)^k these weigh R[v, u] · (R 1)[u] / R[u, u]: once to u for the first time, and on
    from there.
    """
    block = np.zeros((matrix.shape[0], len(removed) + 2))
    block[:, 0] = 1.0
    block[seed, 1] = 1.0
    block[removed, 2 + np.arange(len(removed))] = 1.0
    total, now = block.copy(), block
    for _ in range(TERMS):
        now = beta * (matrix @ now)
        total += now
    found: Floats = (
        total[removed, 1] * total[removed, 0] / total[removed, 2 + np.arange(len(removed))]
    )
    return found


def two_hops(matrix: Any, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows at distance one and at distance two."""
    first = np.setdiff1d(matrix.indices[matrix.indptr[seed] : matrix.indptr[seed + 1]], [seed])
    around = [matrix.indices[matrix.indptr[u] : matrix.indptr[u + 1]] for u in first]
    second = np.setdiff1d(np.concatenate([*around, first[:0]]), np.append(first, seed))
    return first.astype(np.int64), second.astype(np.int64)


def sensitivity_by_hop(
    matrix: Any, seed: int, beta: float, most: int = 12
) -> tuple[Floats, Floats]:
    """Sensitivities to at most so many rows of the first and of the second hop, evenly spread over
    them."""
    first, second = (
        hop[np.unique(np.linspace(0, len(hop) - 1, min(most, len(hop))).astype(int))]
        for hop in two_hops(matrix, seed)
    )
    found = sensitivities(matrix, seed, np.concatenate([first, second]), beta)
    return found[: len(first)], found[len(first) :]


# --- Enhancement of Semantic Relevance-to-Noise Ratio
# ---------------------------------------------------------------------------------


def relevance_to_noise(
    relevance: Tensor, weight: Tensor, seed_norm: float = 1.0, noise: float = 1.0
) -> float:
    """‖h_v‖² (Σ w_u μ_u)² / (σ² Σ w_u²), the paper's ratio for an aggregation with weights w."""
    return float(seed_norm**2 * (weight * relevance).sum() ** 2 / (noise**2 * (weight**2).sum()))


def planted_ratio(
    relevance: Tensor, keep: int, noise: float, width: int, generator: torch.Generator
) -> tuple[float, float]:
    """The ratio among second-hop rows h_u = μ_u h_v + noise before and after refinement, with equal
    weights.

    Args:
        relevance: (K,) planted μ of each row.
        keep: How many of them refinement keeps.
    """
    seed = torch.randn(width, generator=generator)
    others = relevance[:, None] * seed + noise * torch.randn(
        len(relevance), width, generator=generator
    )
    h = torch.cat([seed[None], others])
    offsets, batch = torch.tensor([0, len(h)]), torch.zeros(len(h), dtype=torch.int64)
    hop = torch.tensor([0] + [2] * len(relevance))
    kept = refine(semantic_scores(h, offsets, batch), hop, offsets, batch, keep + 1)[1:]
    norm, weight = float(seed.norm()), torch.ones(len(relevance))
    return relevance_to_noise(relevance, weight, norm, noise), relevance_to_noise(
        relevance[kept], weight[kept], norm, noise
    )


# --- Convergence of Temporal Center, Attention Score Ratio Enhancement
# ----------------------------------------------------------------


def one_kernel(centre: float, width: float, form: KernelForm | None = None) -> GaussianBias:
    """The lemma's bias in float64: one kernel, one head, W = 1, b = 0."""
    free = replace(form or KernelForm(), has_positive_weights=False)
    bias = GaussianBias(GelGTConfig(width=8, heads=1, kernels=1), free).double()
    with torch.no_grad():
        bias.mix.weight.fill_(1.0)
        bias.mix.bias.zero_()
    bias.start(
        torch.tensor([centre], dtype=torch.float64), torch.tensor([width], dtype=torch.float64)
    )
    return bias


def ascend(bias: GaussianBias, target: float, rate: float, steps: int) -> list[float]:
    """μ after each step of gradient ascent on the bias at Δt = target."""
    path = [float(bias.mu.detach())]
    difference = torch.full((1, 1, 1), target, dtype=bias.centre.dtype)
    for _ in range(steps):
        (slope,) = torch.autograd.grad(bias.scores(difference).sum(), bias.centre)
        with torch.no_grad():
            bias.centre.add_(slope, alpha=rate)
        path.append(float(bias.mu.detach()))
    return path


def attention_factor(
    bias: GaussianBias, relevant: float, noise: float, backend: str, generator: torch.Generator
) -> float:
    """How often the bias multiplies α_relevant / α_noise of a seed that attends to a row of either
    age, whatever its q and k."""
    # two of (B, H, N, d/H)
    q, k = torch.randn(2, 1, 1, 3, 3, dtype=torch.float64, generator=generator)
    ages = torch.tensor([[0.0, relevant, noise]], dtype=torch.float64)
    added = bias(ages, torch.ones(1, 3, dtype=torch.bool)).detach()
    v = torch.eye(3, dtype=torch.float64)[None, None]  # so that what comes out is the weights
    with_bias, without = (
        BACKENDS[backend](q, k, v, b, 0.0)[0, 0, 0] for b in (added, torch.zeros_like(added))
    )
    return float((with_bias[1] / with_bias[2]) / (without[1] / without[2]))


# --- All of it, on a data set
# ---------------------------------------------------------------------------------------------------------


def bench_theory(
    relbench: Path | None = None,
    task: str = "driver-dnf",
    split: str = "train",
    *,
    times: int | None = None,
    progress: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Measure all theorems.

    rel-f1, all 10,640 training seeds of driver-dnf that have a neighbour (420 times, c = 0.1),
    relative structural loss:

        seeds                          median     95 %       max   above 1 %
        walks longer than two (proof)  0.33 %   0.78 %    1.21 %      0.9 %
        sampled, whole two hops        0.24 %   0.63 %    1.10 %      0.1 %
        sampled, bfs, K = 500          0.24 %   0.64 %    5.33 %      0.2 %
        sampled, bfs, K = 300          0.26 %   4.58 %   43.31 %      5.8 %
        sampled, random, K = 300       0.27 %  36.21 %   64.34 %     16.9 %

    In norm, over the whole graph, the loss is 0.70 %, below the bound of 1 %. The bound is one of
    norms and says nothing of single rows: 0.1 % of the seeds lose more even with their whole two
    hops, and where a budget cuts the neighbourhood the proof does not apply. Removing the median
    second-hop row of a seed costs 0.6 % of what its median first-hop row costs (median over 17
    seeds, at most 1.3 %; up to 12 rows of either hop). Hubs among them cost far more than their
    median, yet in no pair more than the first-hop row. Reproduced in minutes on one core, the same
    figures every time, by

        gelgt bench theory --dataset rel-f1

    Args:
        relbench: A RelBench folder whose `task` gives graph and seeds; a random graph alone if
            None.
        times: At most so many distinct seed times, evenly spread; all if None.

    Returns:
        ``machine``, ``results``, ``ratios``.
    """
    say = progress or (lambda line: None)
    results: list[dict[str, Any]] = []
    matrices = {
        "random": random_adjacency(20_000, 8, np.random.default_rng(0)),
        "hubs": random_adjacency(20_000, 8, np.random.default_rng(1), 3),
    }
    if relbench is not None:
        from gelgt.sources import open

        say(f"{relbench.name}: samples of {task}")
        db = open(relbench)
        graph = db.graph()
        seeds = task_seeds(db.task(task), graph, split)
        chosen = at_some_times(seeds.time, times)
        results += on_seeds(relbench.name, graph, seeds.node[chosen], seeds.time[chosen])
        matrices = {relbench.name: adjacency(graph), **matrices}
    for name, matrix in matrices.items():
        say(f"{name}: whole graph")
        norm, rows = structural_loss(matrix)
        results.append(
            {
                "theorem": "structural loss",
                "graph": name,
                "what": "‖ΔC‖/‖C‖, whole graph",
                "share": norm,
            }
        )
        results.append(
            {
                "theorem": "structural loss",
                "graph": name,
                "what": "ΔC/C, rows of the whole graph",
                **distribution(rows),
            }
        )
    generator = torch.Generator().manual_seed(0)
    relevance = torch.cat([torch.ones(100), torch.zeros(400)])
    before, after = planted_ratio(relevance, 100, 1.0, 128, generator)
    factor = attention_factor(one_kernel(30.0, 4.0), 30.0, 1e6, "sdpa", generator)
    return {
        "machine": machine(),
        "results": results,
        "ratios": {"relevance_to_noise": after / before, "attention_factor": factor},
    }


def at_some_times(times: NDArray[np.int64], most: int | None) -> NDArray[np.int64]:
    """Places of the seeds at some of the distinct times, evenly spread."""
    distinct = np.unique(times)
    if most is not None and most < len(distinct):
        distinct = distinct[np.linspace(0, len(distinct) - 1, most).astype(int)]
    return np.flatnonzero(np.isin(times, distinct))


SAMPLERS = {
    "whole 2 hops": SamplingConfig(strategy="full"),
    "bfs 300": SamplingConfig(budget=300),
    "bfs 500": SamplingConfig(budget=500),
    "random 300": SamplingConfig(strategy="random", budget=300),
}


def on_seeds(
    name: str, graph: Graph, nodes: NDArray[np.int64], times: NDArray[np.int64]
) -> list[dict[str, Any]]:
    """Losses of the samplers, and sensitivities at up to 20 of the seeds."""
    results: list[dict[str, Any]] = []
    seeds = seed_walks(graph, nodes, times)
    results.append(
        {
            "theorem": "structural loss",
            "graph": name,
            "what": "seeds, walks over 2",
            **distribution(seeds.long_share),
        }
    )
    for sampler, config in SAMPLERS.items():
        losses = sampled_loss(Sampler(graph, config).sample(nodes, times), seeds)
        results.append(
            {
                "theorem": "structural loss",
                "graph": name,
                "what": f"seeds, {sampler}",
                **distribution(losses),
            }
        )
    ratios, exceptions = seed_sensitivity(graph, nodes, times, 20)
    results.append(
        {
            "theorem": "sensitivity",
            "graph": name,
            "what": "second over first hop",
            **distribution(ratios, 1.0),
        }
    )
    results.append(
        {
            "theorem": "sensitivity",
            "graph": name,
            "what": "pairs where second ≥ first",
            "share": float(np.mean(exceptions)),
        }
    )
    return results


def seed_sensitivity(
    graph: Graph, nodes: NDArray[np.int64], times: NDArray[np.int64], most: int, c: float = C
) -> tuple[Floats, Floats]:
    """At some seeds: median second-hop over median first-hop sensitivity, and the share of pairs in
    which the second hop is no smaller."""
    matrix = adjacency(graph)
    ratios, exceptions = [], []
    for b in np.unique(np.linspace(0, len(nodes) - 1, most).astype(int)):
        part, place = visible(graph, matrix, int(times[b]), int(nodes[b]))
        radius = spectral_radius(part)
        first, second = (
            sensitivity_by_hop(part, int(place[nodes[b]]), c / radius)
            if radius > 0
            else (np.zeros(0), np.zeros(0))
        )
        if len(first) and len(second):
            ratios.append(np.median(second) / np.median(first))
            exceptions.append(np.mean(second[:, None] >= first[None, :]))
    return np.array(ratios), np.array(exceptions)


def distribution(values: Floats, limit: float = C**2) -> dict[str, Any]:
    """Median, 95th percentile, largest value and the share above a limit; NaN left out."""
    known = values[~np.isnan(values)]
    median, high, largest = (
        np.quantile(known, [0.5, 0.95, 1.0]).tolist() if len(known) else (0.0, 0.0, 0.0)
    )
    return {
        "median": median,
        "p95": high,
        "max": largest,
        "above": float(np.mean(known > limit)) if len(known) else 0.0,
        "count": len(known),
    }
