"""`gelgt bench sampling`: what it costs to sample one seed, beside a competent pure-Python sampler
in the same run.

Sources: the demo shop, a RelBench folder where one is given (rel-f1), and generated graphs: 14
million rows with a hub of a million neighbours, and the sparse and dense extremes with skewed
degrees of the paper's last efficiency table. Sampling is the paper's: no fanout. Every figure is
the median over repeated passes; on a shared machine only the ratios count.
"""

import statistics
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import numpy as np

from gelgt.bench.machine import machine
from gelgt.bench.python_sampler import SeededGraph, beside_python, paper_sampling
from gelgt.config import SamplingConfig
from gelgt.sampling import Sampler, task_seeds
from gelgt.testing.graphs import YEAR, large_graph

BATCH = 512  # seeds of one call, as a loader asks for them
LARGE_SEEDS = 4096  # of generated graphs
BUDGETS, HOPS = (100, 200, 300, 500, 1000), (2, 3, 4, 5)
Say = Callable[[str], None]


def bench_sampling(
    relbench: Path | None = None,
    task: str = "driver-dnf",
    rows: int = 14_000_000,
    folder: Path | None = None,
    *,
    passes: int = 7,
    python_seeds: int = 400,
    progress: Say | None = None,
) -> dict[str, Any]:
    """Measure the sampler.

    Args:
        relbench: A RelBench folder whose `task` gives the seeds; left out if None.
        rows: Size of the generated graph.
        folder: Where the temporary files go (2 GB for 14 million rows).
        passes: Passes over the seeds, of which the median counts.
        python_seeds: Seeds that the Python sampler takes; its samples are compared with ours, row
            by row.

    Returns:
        ``machine``, ``results`` (microseconds per seed), ``ratios``.
    """
    say = progress or (lambda line: None)
    results: list[dict[str, Any]] = []
    ratios: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="gelgt-bench-", dir=folder) as base:
        if relbench is not None:
            say(f"{relbench.name}: {task}")
            results += _on_task(
                relbench.name, _relbench(relbench, task), passes, python_seeds, ratios
            )
        say("shop")
        results += _on_task("shop", _shop(Path(base)), passes, python_seeds, ratios)
        say(f"generating a graph of {rows:,} rows")
        results += _on_large(Path(base), rows, passes, ratios, say)
        results += _extremes(Path(base), max(rows // 14, 1000), passes, say)
    return {"machine": machine(), "results": results, "ratios": ratios}


def _relbench(folder: Path, name: str) -> SeededGraph:
    from gelgt.sources import open

    db = open(folder)
    graph = db.graph()
    seeds = task_seeds(db.task(name), graph, "train")
    return SeededGraph(graph, seeds.node, seeds.time)


def _shop(base: Path) -> SeededGraph:
    from gelgt.demo import shop
    from gelgt.sources import open

    demo = shop(base / "shop.db")
    db = open(demo.url)
    graph = db.graph()
    seeds = task_seeds(db.task(demo.sentence), graph, "train")
    return SeededGraph(graph, seeds.node, seeds.time).spread(12_000)


def _on_task(
    name: str, task: SeededGraph, passes: int, python_seeds: int, ratios: dict[str, float]
) -> list[dict[str, Any]]:
    results = []
    for strategy in ("bfs", "random", "recent", "full"):
        results.append(_measure(name, task, paper_sampling(strategy=strategy), 1, passes))
    results.append(_measure(name, task, paper_sampling(), 2, passes))
    results += _sweeps(name, task, passes)
    results += [_loader(name, task, layout, passes) for layout in ("packed", "padded")]
    peer, ratios[f"{name}_bfs_vs_python"] = beside_python(task.spread(python_seeds))
    return [*results, {"graph": name, **peer}]


def _sweeps(name: str, task: SeededGraph, passes: int) -> list[dict[str, Any]]:
    """Other budgets, then other depths."""
    configs = [paper_sampling(budget=k) for k in BUDGETS if k != 300]
    configs += [paper_sampling(hops=h) for h in HOPS if h != 2]
    return [_measure(name, task, config, 1, passes) for config in configs]


def _measure(
    name: str, task: SeededGraph, config: SamplingConfig, threads: int, passes: int
) -> dict[str, Any]:
    """Median microseconds per seed over passes of batches; several threads share the batches, as a
    loader's threads do."""
    graph, nodes, times = task
    sampler = Sampler(graph, config)

    def batch(i: int) -> tuple[int, int, int]:
        sample = sampler.sample(nodes[i : i + BATCH], times[i : i + BATCH])
        return len(sample.node), len(sample.edge_source), int(sample.is_cut.sum())

    taken = []
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(passes + 1):  # the first compiles, and touches the pages
            start = time.perf_counter()
            counts = list((map if threads == 1 else pool.map)(batch, range(0, len(nodes), BATCH)))
            taken.append((time.perf_counter() - start) / len(nodes) * 1e6)
    rows, edges, full = (sum(column) for column in zip(*counts))
    return {
        "graph": name,
        "sampler": f"gelgt {config.strategy}",
        "budget": config.budget,
        "hops": config.hops,
        "threads": threads,
        "us_per_seed": round(statistics.median(taken[1:]), 2),
        "best": round(min(taken[1:]), 2),
        "seeds": len(nodes),
        "rows": round(rows / len(nodes), 1),
        "edges": round(edges / len(nodes), 1),
        "cut": round(full / len(nodes), 3),
    }


def _loader(
    name: str, task: SeededGraph, layout: Literal["packed", "padded"], passes: int
) -> dict[str, Any]:
    """Seeds per second from the loader to finished tensors, with two background threads."""
    from gelgt.sampling import Seeds
    from gelgt.sampling.loader import SubgraphLoader

    graph, nodes, times = task
    seeds = Seeds(nodes, times, np.arange(len(nodes), dtype=np.uint64))
    loader = SubgraphLoader(
        Sampler(graph, paper_sampling()),
        seeds,
        BATCH,
        generator=np.random.default_rng(0),
        layout=layout,
        threads=2,
    )
    taken = []
    for epoch in range(passes + 1):
        start = time.perf_counter()
        for _ in loader.epoch(epoch):
            pass
        taken.append((time.perf_counter() - start) / len(nodes) * 1e6)
    middle = statistics.median(taken[1:])
    return {
        "graph": name,
        "sampler": f"loader, {layout} tensors",
        "budget": 300,
        "hops": 2,
        "threads": 2,
        "us_per_seed": round(middle, 2),
        "best": round(min(taken[1:]), 2),
        "seeds": len(nodes),
        "seeds_per_second": round(1e6 / middle),
    }


def _working_memory(task: SeededGraph) -> dict[str, Any]:
    """Peak memory that sampling batches of 512 seeds allocates, results included; the graph itself
    is memory-mapped."""
    graph, nodes, times = task
    sampler = Sampler(graph, paper_sampling())
    sampler.sample(nodes[:BATCH], times[:BATCH])
    tracemalloc.start()
    for start in range(0, min(len(nodes), 4 * BATCH), BATCH):
        sampler.sample(nodes[start : start + BATCH], times[start : start + BATCH])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return {"working_memory_mib": round(peak / 2**20, 1)}


def _on_large(
    base: Path, rows: int, passes: int, ratios: dict[str, float], say: Say
) -> list[dict[str, Any]]:
    graph = large_graph(base / "large", rows, hub=min(1_000_000, rows // 14), degree=200)
    rng = np.random.default_rng(0)
    users = int(graph.offsets[1])
    now = np.full(LARGE_SEEDS, 51 * YEAR, np.int64)
    name = f"generated {rows / 1e6:g}M"
    say(f"{name}: sampling")
    task = SeededGraph(graph, rng.integers(0, users, LARGE_SEEDS), now)
    results = [_measure(name, task, paper_sampling(), threads, passes) for threads in (1, 2)]
    results[0] |= _working_memory(task)
    results += _sweeps(name, task, passes)
    results += [
        _measure(name, task, paper_sampling(strategy=s), 1, passes) for s in ("random", "recent")
    ]
    # The hub at many times: half of its neighbours lie in the future of some seeds, and a bisection
    # skips them.
    times = 40 * YEAR + rng.integers(YEAR, 10 * YEAR, LARGE_SEEDS)
    hub_seeds = SeededGraph(graph, np.full(LARGE_SEEDS, users), times)
    hub = _measure(f"{name}, hub", hub_seeds, paper_sampling(), 1, passes)
    ratios["hub_vs_seed_that_fills"] = round(hub["us_per_seed"] / results[0]["us_per_seed"], 2)
    return [*results, hub]


def _extremes(base: Path, rows: int, passes: int, say: Say) -> list[dict[str, Any]]:
    """Sparse and dense graphs, even and skewed."""
    results = []
    for degree, density in ((3, "sparse"), (30, "normal"), (1000, "dense")):
        for skew in (1.0, 3.0):
            name = f"{density}, {'skewed' if skew > 1 else 'even'}"
            say(f"{name}: sampling")
            folder = base / name.replace(", ", "-")
            graph = large_graph(folder, rows, hub=0, skew=skew, degree=degree)
            nodes = np.random.default_rng(0).integers(0, int(graph.offsets[1]), LARGE_SEEDS)
            seeds = SeededGraph(graph, nodes, np.full(LARGE_SEEDS, 51 * YEAR, np.int64))
            results.append(_measure(name, seeds, paper_sampling(), 1, passes))
    return results
