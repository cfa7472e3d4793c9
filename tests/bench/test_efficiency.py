"""`gelgt bench efficiency` without a GPU: tiny, but every part is there."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from gelgt.bench.efficiency import bench_efficiency


@pytest.mark.skipif(torch.cuda.is_available(), reason="is about machines without one")
def test_bench_efficiency_without_a_gpu(relbench_data: Callable[[str], Path]) -> None:
    changes = {
        "model.width": 16,
        "model.row_width": 8,
        "sampling.budget": 16,
        "train.batch_size": 32,
    }
    said: list[str] = []
    result = bench_efficiency(
        relbench_data("rel-f1"), preset="cpu", steps=3, changes=changes, progress=said.append
    )
    assert any("say nothing about speed" in line for line in said)
    found = {(entry["what"], entry["path"]): entry for entry in result["results"]}
    assert {
        ("training", "not recorded"),
        ("training", "eager"),
        ("inference", "not recorded"),
        ("backward", "part"),
    } <= found.keys()
    assert all(entry["ms"] > 0 for (_, path), entry in found.items() if path != "part")
    assert result["ratios"] == {}, "there is nothing to compare with"
    assert result["reference"]["step_ms"] == 117.0
