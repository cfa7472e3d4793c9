"""`gelgt bench theory`: all theorems, measured on the graph of a database, on the sampler's own
subgraphs and on the model's own layers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gelgt.bench.machine import machine
from gelgt.bench.theory.katz import (
    C,
    Floats,
    Ints,
    adjacency,
    random_adjacency,
    sampled_loss,
    seed_sensitivity,
    seed_walks,
    structural_loss,
)
from gelgt.bench.theory.layers import attention_factor, one_kernel, planted_ratio
from gelgt.config import SamplingConfig
from gelgt.graph import Graph
from gelgt.sampling import Sampler, task_seeds

SAMPLERS = {
    "whole 2 hops": SamplingConfig(strategy="full", fanout=None),
    "bfs 300": SamplingConfig(budget=300, fanout=None),
    "bfs 500": SamplingConfig(budget=500, fanout=None),
    "random 300": SamplingConfig(strategy="random", budget=300, fanout=None),
}


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
        task: Its task.
        split: Of the task, whose seeds are taken.
        times: The most distinct seed times, evenly spread; all if None.
        progress: Called with a line of text before each part.

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
        results.append(_loss(name, "‖ΔC‖/‖C‖, whole graph", {"share": norm}))
        results.append(_loss(name, "ΔC/C, rows of the whole graph", distribution(rows)))
    generator = torch.Generator().manual_seed(0)
    relevance = torch.cat([torch.ones(100), torch.zeros(400)])
    before, after = planted_ratio(relevance, 100, 1.0, 128, generator)
    factor = attention_factor(one_kernel(30.0, 4.0), 30.0, 1e6, "sdpa", generator)
    return {
        "machine": machine(),
        "results": results,
        "ratios": {"relevance_to_noise": after / before, "attention_factor": factor},
    }


def at_some_times(times: Ints, most: int | None) -> Ints:
    """Places of the seeds at some of the distinct times, evenly spread."""
    distinct = np.unique(times)
    if most is not None and most < len(distinct):
        distinct = distinct[np.linspace(0, len(distinct) - 1, most).astype(int)]
    return np.flatnonzero(np.isin(times, distinct))


def on_seeds(name: str, graph: Graph, nodes: Ints, times: Ints) -> list[dict[str, Any]]:
    """Losses of the samplers, and sensitivities at up to 20 of the seeds."""
    seeds = seed_walks(graph, nodes, times)
    results = [_loss(name, "seeds, walks over 2", distribution(seeds.long_share))]
    for sampler, config in SAMPLERS.items():
        losses = sampled_loss(Sampler(graph, config).sample(nodes, times), seeds)
        results.append(_loss(name, f"seeds, {sampler}", distribution(losses)))
    ratios, exceptions = seed_sensitivity(graph, nodes, times, 20)
    sensitivity = {"theorem": "sensitivity", "graph": name}
    results.append({**sensitivity, "what": "second over first hop", **distribution(ratios, 1.0)})
    share = float(np.mean(exceptions))
    results.append({**sensitivity, "what": "pairs where second ≥ first", "share": share})
    return results


def _loss(graph: str, what: str, figures: dict[str, Any]) -> dict[str, Any]:
    return {"theorem": "structural loss", "graph": graph, "what": what, **figures}


def distribution(values: Floats, limit: float = C**2) -> dict[str, Any]:
    """Median, 95th percentile, largest value and the share above a limit; NaN left out."""
    values = values[~np.isnan(values)]
    median, high, largest = (
        np.quantile(values, [0.5, 0.95, 1.0]).tolist() if len(values) else (0.0, 0.0, 0.0)
    )
    return {
        "median": median,
        "p95": high,
        "max": largest,
        "above": float(np.mean(values > limit)) if len(values) else 0.0,
        "count": len(values),
    }
