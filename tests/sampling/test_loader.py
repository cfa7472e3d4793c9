"""The loader: order, resumption, bounded work ahead, and a clean end whatever happens."""

import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import gelgt
from gelgt.config import SamplingConfig
from gelgt.graph import Graph
from gelgt.sampling import Sample, Sampler, Seeds
from gelgt.sampling.loader import SubgraphLoader
from gelgt.testing.graphs import write_graph


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    times = sorted(np.random.default_rng(0).integers(0, 1000, 400).tolist())
    users = np.random.default_rng(1).integers(0, 20, 400).tolist()
    return write_graph(
        tmp_path, {"users": 20, "events": times}, [("events", "user", "users", users)]
    )


@pytest.fixture
def seeds() -> Seeds:
    rng = np.random.default_rng(2)
    return Seeds(
        rng.integers(0, 20, 101),
        rng.integers(1, 1000, 101),
        rng.integers(0, 2**63, 101).astype(np.uint64),
    )


def running() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name.startswith("gelgt-sampler")]


def test_every_seed_once_with_its_own_neighbourhood(graph: Graph, seeds: Seeds) -> None:
    loader = SubgraphLoader(
        Sampler(graph, SamplingConfig()),
        seeds,
        16,
        generator=np.random.default_rng(0),
        layout="packed",
    )
    seen = []
    for batch in loader:
        for b, place in enumerate(batch.index.tolist()):
            alone = Sampler(graph, SamplingConfig()).sample(
                seeds.node[[place]], seeds.time[[place]]
            )
            rows = slice(*batch.offsets[b : b + 2].tolist())
            assert batch.node[rows].tolist() == alone.node.tolist()
            assert batch.seed_time[b] == seeds.time[place]
        seen += batch.index.tolist()
    assert sorted(seen) == list(range(101))
    assert len(loader) == 7
    assert running() == []


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_order_does_not_depend_on_threads(graph: Graph, seeds: Seeds, threads: int) -> None:
    def places(count: int) -> list[int]:
        loader = SubgraphLoader(
            Sampler(graph, SamplingConfig()),
            seeds,
            10,
            generator=torch.Generator().manual_seed(3),
            threads=count,
        )
        return [place for batch in loader.epoch(2) for place in batch.index.tolist()]

    assert places(threads) == places(1)


def test_epochs_differ_and_any_step_can_be_reached_again(graph: Graph, seeds: Seeds) -> None:
    loader = SubgraphLoader(
        Sampler(graph, SamplingConfig()), seeds, 10, generator=np.random.default_rng(1)
    )
    first, second = ([batch.index.tolist() for batch in loader.epoch(e)] for e in (0, 1))
    assert first != second
    assert [batch.index.tolist() for batch in loader.epoch(1, start=4)] == second[4:]
    again = SubgraphLoader(
        Sampler(graph, SamplingConfig()), seeds, 10, generator=np.random.default_rng(1)
    )
    assert [batch.index.tolist() for batch in again.epoch(1, start=4)] == second[4:]


def test_without_a_generator_the_order_is_kept(graph: Graph, seeds: Seeds) -> None:
    loader = SubgraphLoader(Sampler(graph, SamplingConfig()), seeds, 10)
    assert [p for batch in loader for p in batch.index.tolist()] == list(range(101))
    assert len(loader) == 11


class Slow(Sampler):
    """Counts its calls, and fails at one of them."""

    def __init__(self, graph: Graph, fail_at: int | None = None) -> None:
        super().__init__(graph, SamplingConfig())
        self.calls, self.fail_at = 0, fail_at
        self.lock = threading.Lock()

    def sample(self, *args: object, **kwargs: object) -> Sample:
        with self.lock:
            self.calls += 1
            call = self.calls
        if call == self.fail_at:
            raise gelgt.GelgtError("planted", "planted")
        return super().sample(*args, **kwargs)  # type: ignore[arg-type]


def test_work_ahead_is_bounded(graph: Graph, seeds: Seeds) -> None:
    sampler = Slow(graph)
    batches = SubgraphLoader(sampler, seeds, 5, threads=2, prefetch=3).epoch(0)
    next(batches)
    time.sleep(0.3)
    assert sampler.calls <= 1 + 3
    batches.close()  # type: ignore[attr-defined]
    assert running() == []


def test_an_error_in_a_thread_is_raised_and_ends_the_threads(graph: Graph, seeds: Seeds) -> None:
    with pytest.raises(gelgt.GelgtError, match="planted"):
        list(SubgraphLoader(Slow(graph, fail_at=4), seeds, 5, threads=2))
    assert running() == []


def test_leaving_early_or_ctrl_c_ends_the_threads(graph: Graph, seeds: Seeds) -> None:
    def interrupted() -> None:
        for _ in SubgraphLoader(Slow(graph), seeds, 5, threads=2):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert running() == []


def test_bad_options(graph: Graph, seeds: Seeds) -> None:
    with pytest.raises(gelgt.GelgtError, match="batch_size must be at least 1, got 0"):
        SubgraphLoader(Sampler(graph, SamplingConfig()), seeds, 0)
