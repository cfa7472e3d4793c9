"""`gelgt bench efficiency` without a GPU: tiny, but every part is there."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from gelgt.bench import efficiency
from gelgt.bench.efficiency import bench_efficiency
from gelgt.training import fit
from gelgt.training.optimiser import make_optimiser


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


@pytest.mark.skipif(torch.cuda.is_available(), reason="is about machines without one")
def test_networks_side_by_side(
    relbench_data: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Packed steps without a GPU, of one network and of two."""
    monkeypatch.setattr(fit, "PARTS", 1)
    monkeypatch.setattr(fit, "why_not_recorded", lambda *_: None)
    monkeypatch.setattr(
        fit, "make_optimiser", lambda model, config, **_: make_optimiser(model, config)
    )
    monkeypatch.setattr(efficiency, "NETWORKS", (2,))
    changes = {
        "model.width": 16,
        "model.row_width": 8,
        "model.history": 0,
        "model.trees": False,
        "sampling.budget": 4,
        "train.batch_size": 2048,
        "train.windows": 1,
    }
    results = bench_efficiency(relbench_data("rel-f1"), preset="cpu", steps=2, changes=changes)
    found = {(entry["what"], entry["path"]): entry["ms"] for entry in results["results"]}
    assert found["training", "replayed"] > 0
    assert found["training, 2 networks", "replayed"] > 0
