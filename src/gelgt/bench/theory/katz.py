"""Katz centrality on foreign-key graphs: structural loss of a sample, and sensitivity to a row.

Katz centrality of a row counts its walks, a walk of length k with weight β^k, where β = c / ρ(A), A
is the undirected multigraph of foreign keys and ρ its spectral radius (paper, appendix of proofs;
c = 0.1 there).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.linalg import eigsh

from gelgt.graph import Graph
from gelgt.sampling import Sample

C = 0.1  # β · ρ(A), the paper's local regime
TERMS = 16  # walks longer than this weigh less than C^TERMS
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def adjacency(graph: Graph) -> Any:
    """The undirected foreign-key graph (nodes, nodes): the number of keys between two rows."""
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
    """(TERMS, nodes) weights of each row's walks by length: entry k - 1 is (βA)^k 1, and their sum
    is the Katz centrality."""
    terms = []
    now = np.ones(matrix.shape[0])
    for _ in range(TERMS):
        now = beta * (matrix @ now)
        terms.append(now)
    return np.array(terms)


def visible(graph: Graph, matrix: Any, limit: int, extra: int = -1) -> tuple[Any, Ints]:
    """The part of the graph before `limit`, with one more row if given, and the place of each node
    in it (-1 outside)."""
    is_seen = np.array(graph.node_time) < limit
    if extra >= 0:
        is_seen[extra] = True
    place = np.where(is_seen, np.cumsum(is_seen) - 1, -1)
    return matrix[is_seen][:, is_seen], place


def structural_loss(matrix: Any, c: float = C) -> tuple[float, Floats]:
    """What is lost without walks longer than two steps: ‖ΔC‖₂ / ‖C‖₂, which the theorem bounds by
    c², and ΔC / C of every row, which it does not bound.

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


def seed_walks(graph: Graph, nodes: Ints, limits: Ints, c: float = C) -> SeedWalks:
    """Walks of seeds over the rows before their limits (`Sampler.limits`). One eigenvalue for each
    distinct limit."""
    matrix = adjacency(graph)
    # a seed that is not yet visible at its own time is added to the graph that it sees
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

    The subgraph is induced, so it keeps the long walks that stay inside: with a whole two-hop
    neighbourhood the loss is never more than `SeedWalks.long_share`. A budget that cuts the
    neighbourhood loses walks of length one and two as well, and no bound holds.
    """
    # the subgraphs as blocks of one matrix
    blocks = undirected(len(sample.node), sample.edge_source, sample.edge_target)
    beta = np.repeat(seeds.beta, np.diff(sample.offsets))
    sampled = walks(blocks, beta).sum(0)[sample.offsets[:-1]]
    return _shares(seeds.whole - sampled, seeds.whole)


def _shares(part: Floats, whole: Floats) -> Floats:
    shares: Floats = np.divide(part, whole, out=np.full(len(whole), np.nan), where=whole > 0)
    return shares


def sensitivities(matrix: Any, seed: int, removed: Ints, beta: float) -> Floats:
    """How much Katz centrality the seed loses with each of some rows: the weight of all walks from
    the seed that pass it.

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
    lost: Floats = (
        total[removed, 1] * total[removed, 0] / total[removed, 2 + np.arange(len(removed))]
    )
    return lost


def two_hops(matrix: Any, seed: int) -> tuple[Ints, Ints]:
    """The rows at distance one and at distance two."""
    first = np.setdiff1d(matrix.indices[matrix.indptr[seed] : matrix.indptr[seed + 1]], [seed])
    around = [matrix.indices[matrix.indptr[u] : matrix.indptr[u + 1]] for u in first]
    second = np.setdiff1d(np.concatenate([*around, first[:0]]), np.append(first, seed))
    return first.astype(np.int64), second.astype(np.int64)


def sensitivity_by_hop(
    matrix: Any, seed: int, beta: float, most: int = 12
) -> tuple[Floats, Floats]:
    """Sensitivities to at most `most` rows of the first and of the second hop, evenly spread."""
    first, second = (
        hop[np.unique(np.linspace(0, len(hop) - 1, min(most, len(hop))).astype(int))]
        for hop in two_hops(matrix, seed)
    )
    lost = sensitivities(matrix, seed, np.concatenate([first, second]), beta)
    return lost[: len(first)], lost[len(first) :]


def seed_sensitivity(
    graph: Graph, nodes: Ints, times: Ints, most: int, c: float = C
) -> tuple[Floats, Floats]:
    """At `most` seeds: the median second-hop over the median first-hop sensitivity, and the share
    of pairs in which the second-hop row matters no less."""
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
