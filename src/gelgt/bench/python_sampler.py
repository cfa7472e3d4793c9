"""A competent pure-Python sampler, the peer of `gelgt bench sampling`: prebuilt adjacency lists,
dict look-ups, same output; and the comparison with ours.

It does what one would write without compiled code: a breadth-first search over per-node Python
lists (parents, then children newest first, with a bisection to the first child before the seed
time), and induced edges from each row's own foreign keys.
"""

import statistics
import time
from bisect import bisect_right
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gelgt.config import SamplingConfig
from gelgt.graph import TIMELESS, Graph
from gelgt.sampling import Sample, Sampler

TURNS = 5  # of the two samplers, alternately, so that other work on the machine hits both
REPEATS = 8  # of ours in a turn
# nodes, hops, ages, and edges (child, parent, relation) of one subgraph
Subgraph = tuple[list[int], list[int], list[float], list[tuple[int, int, int]]]


class SeededGraph(NamedTuple):
    """A graph with S seeds."""

    graph: Graph
    nodes: NDArray[np.int64]
    times: NDArray[np.int64]

    def spread(self, count: int) -> "SeededGraph":
        """At most so many of the seeds, evenly spread."""
        last = len(self.nodes) - 1
        places = np.linspace(0, last, min(count, len(self.nodes))).astype(np.int64)
        return SeededGraph(self.graph, self.nodes[places], self.times[places])


def paper_sampling(**values: Any) -> SamplingConfig:
    """The paper's sampling, with no fanout, changed by `values`."""
    return SamplingConfig(**({"fanout": None} | values))


class PythonSampler:
    """Breadth-first sampling with prebuilt lists."""

    def __init__(self, graph: Graph) -> None:
        self.time: list[int] = graph.node_time.tolist()
        indptr, indices = graph.indptr.tolist(), graph.indices.tolist()
        self.keys: list[list[tuple[int, int]]] = []
        for number, table in enumerate(graph.tables):
            relations = graph.relation_of[number].tolist()
            for row in graph.table_parents(table).tolist():
                self.keys.append(
                    [(parent, relation) for parent, relation in zip(row, relations) if parent >= 0]
                )
        self.children = [
            indices[indptr[n] + len(self.keys[n]) : indptr[n + 1]] for n in range(graph.num_nodes)
        ]
        # Newest first, so the negated times rise and bisect can find the first child before a time.
        self.child_times = [[-self.time[c] for c in listed] for listed in self.children]

    def sample(self, seed: int, limit: int, budget: int, hops: int) -> Subgraph:
        """Nodes, hops, ages in days from `limit`, and edges (place of the child, place of the
        parent, relation)."""
        nodes, depths = self._search(seed, limit, budget, hops)
        place = {node: i for i, node in enumerate(nodes)}
        ages = [
            0.0 if self.time[node] == TIMELESS else max(limit - self.time[node], 0) / 86400.0
            for node in nodes
        ]
        ages[0] = 0.0
        edges = [
            (i, place[parent], relation)
            for i, node in enumerate(nodes)
            for parent, relation in self.keys[node]
            if parent in place
        ]
        return nodes, depths, ages, edges

    def _search(self, seed: int, limit: int, budget: int, hops: int) -> tuple[list[int], list[int]]:
        nodes, depths, seen = [seed], [0], {seed}
        time, first = self.time, 0
        for depth in range(1, hops + 1):
            last = len(nodes)
            for i in range(first, last):
                node = nodes[i]
                listed = self.children[node]
                admitted = (
                    listed[bisect_right(self.child_times[node], -limit) :] if listed else listed
                )
                for other in [p for p, _ in self.keys[node] if time[p] < limit] + admitted:
                    if other not in seen:
                        if len(nodes) == budget:
                            return nodes, depths
                        seen.add(other)
                        nodes.append(other)
                        depths.append(depth)
            first = last
        return nodes, depths


def beside_python(seeds: SeededGraph) -> tuple[dict[str, Any], float]:
    """The Python sampler's microseconds per seed, and how many times ours on the same seeds.

    Raises:
        RuntimeError: the two give different subgraphs, so that there is nothing to compare.
    """
    graph, nodes, times = seeds
    peer, config = PythonSampler(graph), paper_sampling()
    sampler = Sampler(graph, config)
    sample = sampler.sample(nodes, times)  # compiles
    taken: list[tuple[float, float]] = []
    for _ in range(TURNS):
        start = time.perf_counter()
        theirs = [
            peer.sample(int(n), int(t), config.budget, config.hops) for n, t in zip(nodes, times)
        ]
        middle = time.perf_counter()
        for _ in range(REPEATS):
            sample = sampler.sample(nodes, times)
        taken.append((middle - start, (time.perf_counter() - middle) / REPEATS))
    for place, subgraph in enumerate(theirs):
        if not is_same_subgraph(sample, place, subgraph):
            raise RuntimeError(f"The Python sampler and the kernel differ at seed {place}.")
    peer_seconds, our_seconds = (statistics.median(column) for column in zip(*taken))
    measured = {
        "sampler": "python bfs",
        "budget": config.budget,
        "hops": config.hops,
        "threads": 1,
        "us_per_seed": round(peer_seconds / len(nodes) * 1e6, 2),
        "seeds": len(nodes),
    }
    return measured, round(peer_seconds / our_seconds, 1)


def is_same_subgraph(sample: Sample, place: int, subgraph: Subgraph) -> bool:
    """Whether the subgraph of the `place`-th seed of a sample is this one."""
    nodes, hops, ages, edges = subgraph
    rows = slice(*sample.offsets[place : place + 2])
    links = slice(*sample.edge_offsets[place : place + 2])
    first = int(sample.offsets[place])
    ours = zip(
        (sample.edge_source[links] - first).tolist(),
        (sample.edge_target[links] - first).tolist(),
        sample.edge_relation[links].tolist(),
    )
    return (
        sample.node[rows].tolist() == nodes
        and sample.hop[rows].tolist() == hops
        and sorted(ours) == sorted(edges)
        and np.array_equal(sample.age[rows], np.array(ages, np.float32))
    )
