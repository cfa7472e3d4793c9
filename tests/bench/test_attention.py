"""`gelgt bench attention` without a GPU: tiny, but every backend that can run is there and
right."""

import pytest
import torch

from gelgt.bench.attention import bench_attention
from gelgt.bench.attention_cases import PARTS


@pytest.mark.skipif(torch.cuda.is_available(), reason="is about machines without one")
def test_bench_attention_without_a_gpu() -> None:
    said: list[str] = []
    result = bench_attention(progress=said.append)
    found = {entry["backend"]: entry for entry in result["results"]}
    assert list(found) == ["flash", "materialised", "reference"]
    assert any("say nothing about speed" in line for line in said)
    assert "fused is left out: the fused kernel needs a CUDA device" in said
    for name in ("materialised", "reference"):
        assert all(found[name][f"error_{part}"] < 1e-5 for part in PARTS)
    assert result["ratios"]["materialised_ms_vs_flash_40"] > 0
