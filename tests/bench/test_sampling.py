"""`gelgt bench sampling` at a tiny size: every row of the table is there, and the peer was
compared."""

from functools import partial

import pytest

from gelgt import demo
from gelgt.bench import sampling
from gelgt.bench.sampling import bench_sampling


def test_bench_sampling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "shop", partial(demo.shop, customers=100, days=300))
    monkeypatch.setattr(sampling, "LARGE_SEEDS", 512)
    result = bench_sampling(rows=20_000, passes=1, python_seeds=20)
    samplers = {(r["graph"], r["sampler"]) for r in result["results"]}
    assert {("shop", f"gelgt {s}") for s in ("bfs", "random", "recent", "full")} <= samplers
    assert ("shop", "python bfs") in samplers
    assert {"sparse, even", "dense, skewed", "generated 0.02M, hub"} <= {
        graph for graph, _ in samplers
    }
    assert {r["budget"] for r in result["results"]} == {100, 200, 300, 500, 1000}
    assert {r["hops"] for r in result["results"]} == {2, 3, 4, 5}
    assert {r["threads"] for r in result["results"]} == {1, 2}
    assert result["ratios"]["shop_bfs_vs_python"] > 1
    assert all(r["us_per_seed"] > 0 for r in result["results"])
