"""`gelgt bench sampling`: what it costs to sample one seed, beside a competent pure-Python sampler
in the same run.

Sources: the demo shop, a RelBench folder where one is given (rel-f1), and generated graphs: 14
million rows with a hub of a million neighbours, and the sparse and dense extremes with skewed
degrees of the paper's last efficiency table. Every figure is the median over repeated passes; on a
shared machine only the ratios count.
"""

import statistics
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gelgt.bench.machine import machine
from gelgt.bench.python_sampler import PythonSampler
from gelgt.config import SamplingConfig
from gelgt.graph import Graph
from gelgt.sampling import Sampler, task_seeds
from gelgt.testing.graphs import YEAR, large_graph

BATCH = 512  # seeds of one call, as a loader asks for them
TURNS = 5  # of the Python sampler and ours, beside each other
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


Task = tuple[Graph, NDArray[np.int64], NDArray[np.int64]]  # graph, seed nodes, seed times


def _relbench(folder: Path, name: str) -> Task:
    from gelgt.sources import open

    db = open(folder)
    graph = db.graph()
    seeds = task_seeds(db.task(name), graph, "train")
    return graph, seeds.node, seeds.time


def _shop(base: Path) -> Task:
    from gelgt.demo import shop
    from gelgt.sources import open

    made = shop(base / "shop.db")
    db = open(made.url)
    graph = db.graph()
    seeds = task_seeds(db.task(made.sentence), graph, "train")
    places = np.linspace(0, len(seeds) - 1, min(len(seeds), 12_000)).astype(np.int64)
    return graph, seeds.node[places], seeds.time[places]


def _on_task(
    name: str, task: Task, passes: int, python_seeds: int, ratios: dict[str, float]
) -> list[dict[str, Any]]:
    results = []
    for strategy in ("bfs", "random", "recent", "full"):
        results.append(_measure(name, task, SamplingConfig(strategy=strategy), 1, passes))
    results.append(_measure(name, task, SamplingConfig(), 2, passes))
    results += [
        _measure(name, task, SamplingConfig(budget=k), 1, passes) for k in BUDGETS if k != 300
    ]
    results += [_measure(name, task, SamplingConfig(hops=h), 1, passes) for h in HOPS if h != 2]
    results += [_loader(name, task, layout, passes) for layout in ("packed", "padded")]
    peer, ratios[f"{name}_bfs_vs_python"] = _beside_python(name, task, python_seeds)
    return [*results, peer]


def _measure(
    name: str, task: Task, config: SamplingConfig, threads: int, passes: int
) -> dict[str, Any]:
    """Median microseconds per seed over passes of batches; several threads take batches in turn, as
    a loader's threads do."""
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
    name: str, task: Task, layout: Literal["packed", "padded"], passes: int
) -> dict[str, Any]:
    """Seeds per second from the loader to finished tensors, with two background threads."""
    from gelgt.sampling import Seeds
    from gelgt.sampling.loader import SubgraphLoader

    graph, nodes, times = task
    seeds = Seeds(nodes, times, np.arange(len(nodes), dtype=np.uint64))
    loader = SubgraphLoader(
        Sampler(graph, SamplingConfig()),
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


def _working_memory(task: Task) -> dict[str, Any]:
    """Peak of what sampling batches of 512 seeds allocates, results included; the graph itself is
    mapped, not loaded."""
    graph, nodes, times = task
    sampler = Sampler(graph, SamplingConfig())
    sampler.sample(nodes[:BATCH], times[:BATCH])
    tracemalloc.start()
    for start in range(0, min(len(nodes), 4 * BATCH), BATCH):
        sampler.sample(nodes[start : start + BATCH], times[start : start + BATCH])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return {"working_memory_mib": round(peak / 2**20, 1)}


def _chosen(task: Task, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    places = np.linspace(0, len(task[1]) - 1, min(count, len(task[1]))).astype(np.int64)
    return task[1][places], task[2][places]


def _beside_python(name: str, task: Task, count: int) -> tuple[dict[str, Any], float]:
    """The peer's microseconds per seed, and how many times ours on the same seeds; both in turn, so
    other work on the machine hits both."""
    graph, (nodes, times) = task[0], _chosen(task, count)
    peer, config = PythonSampler(graph), SamplingConfig()
    sampler = Sampler(graph, config)
    sample = sampler.sample(nodes, times)  # compiles
    taken: list[tuple[float, float]] = []
    for _ in range(TURNS):
        start = time.perf_counter()
        theirs = [
            peer.sample(int(n), int(t), config.budget, config.hops) for n, t in zip(nodes, times)
        ]
        middle = time.perf_counter()
        for _ in range(8):
            sample = sampler.sample(nodes, times)
        taken.append((middle - start, (time.perf_counter() - middle) / 8))
    _assert_equal(sample, theirs)
    peer_seconds, own_seconds = (statistics.median(column) for column in zip(*taken))
    measured = {
        "graph": name,
        "sampler": "python bfs",
        "budget": config.budget,
        "hops": config.hops,
        "threads": 1,
        "us_per_seed": round(peer_seconds / len(nodes) * 1e6, 2),
        "seeds": len(nodes),
    }
    return measured, round(peer_seconds / own_seconds, 1)


def _assert_equal(
    ours: Any,
    theirs: Sequence[tuple[list[int], list[int], list[float], list[tuple[int, int, int]]]],
) -> None:
    """A peer that gave something else would be no peer."""
    for b, (nodes, depths, ages, edges) in enumerate(theirs):
        t, e = slice(*ours.offsets[b : b + 2]), slice(*ours.edge_offsets[b : b + 2])
        first = int(ours.offsets[b])
        got = list(
            zip(
                (ours.edge_source[e] - first).tolist(),
                (ours.edge_target[e] - first).tolist(),
                ours.edge_relation[e].tolist(),
            )
        )
        same = (
            ours.node[t].tolist() == nodes
            and ours.hop[t].tolist() == depths
            and sorted(got) == sorted(edges)
        )
        if not (same and np.array_equal(ours.age[t], np.array(ages, np.float32))):
            raise RuntimeError(f"The Python sampler and the kernel differ at seed {b}.")


def _on_large(
    base: Path, rows: int, passes: int, ratios: dict[str, float], say: Say
) -> list[dict[str, Any]]:
    graph = large_graph(base / "large", rows, hub=min(1_000_000, rows // 14), degree=200)
    rng = np.random.default_rng(0)
    users = int(graph.offsets[1])
    count = 4096
    now = np.full(count, 51 * YEAR, np.int64)
    name = f"generated {rows / 1e6:g}M"
    say(f"{name}: sampling")
    task = graph, rng.integers(0, users, count), now
    results = [_measure(name, task, SamplingConfig(), threads, passes) for threads in (1, 2)]
    results[0] |= _working_memory(task)
    results += [
        _measure(name, task, SamplingConfig(budget=k), 1, passes) for k in BUDGETS if k != 300
    ]
    results += [_measure(name, task, SamplingConfig(hops=h), 1, passes) for h in HOPS if h != 2]
    results += [
        _measure(name, task, SamplingConfig(strategy=s), 1, passes) for s in ("random", "recent")
    ]
    # The hub at many times: half of its neighbours lie in the future of some seeds, and a bisection
    # skips them.
    spread = 40 * YEAR + rng.integers(YEAR, 10 * YEAR, count)
    hub = _measure(
        f"{name}, hub", (graph, np.full(count, users), spread), SamplingConfig(), 1, passes
    )
    ratios["hub_vs_seed_that_fills"] = round(hub["us_per_seed"] / results[0]["us_per_seed"], 2)
    return [*results, hub]


def _extremes(base: Path, rows: int, passes: int, say: Say) -> list[dict[str, Any]]:
    """Sparse and dense graphs, even and skewed."""
    results = []
    for degree, density in ((3, "sparse"), (30, "normal"), (1000, "dense")):
        for skew in (1.0, 3.0):
            name = f"{density}, {'skewed' if skew > 1 else 'even'}"
            say(f"{name}: sampling")
            graph = large_graph(
                base / name.replace(", ", "-"), rows, hub=0, skew=skew, degree=degree
            )
            users = int(graph.offsets[1])
            nodes = np.random.default_rng(0).integers(0, users, 4096)
            results.append(
                _measure(
                    name,
                    (graph, nodes, np.full(4096, 51 * YEAR, np.int64)),
                    SamplingConfig(),
                    1,
                    passes,
                )
            )
    return results
