"""Blocks and models over the fused kernels: the same as over PyTorch's attention, and one compiled
graph."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from configs import plain_config
from interpreter import DEVICE, IS_INTERPRETED, beyond_paths, on_device
from test_static import static
from torch import Tensor

import gelgt
from gelgt.config import SamplingConfig
from gelgt.demo import Shop
from gelgt.errors import GelgtError
from gelgt.nn import GelGTModel, ModelContext, ModelInput
from gelgt.nn.attention import AttentionBlock, TimeBias, choose_backend, mask_bias
from gelgt.nn.bias import GaussianBias
from gelgt.nn.kernels import why_not
from gelgt.sampling import Sampler, task_seeds
from gelgt.sampling.batch import from_sample


@pytest.mark.slow
@on_device
def test_a_block_compiles_without_graph_breaks() -> None:
    """Kernels, bias and block as one graph (fullgraph raises at the first break), with dropout and
    with gradients."""
    torch.manual_seed(0)
    config = plain_config(width=64, heads=2, dropout=0.0, attention_dropout=0.2)
    block, bias = AttentionBlock(config).to(DEVICE), GaussianBias(config).to(DEVICE)
    x, age = torch.randn(24, 64, device=DEVICE), 90 * torch.rand(24, device=DEVICE)
    offsets, parameters = (
        torch.tensor([0, 20, 24], device=DEVICE),
        [*block.parameters(), *bias.parameters()],
    )

    def run(x: Tensor, age: Tensor, offsets: Tensor) -> Tensor:
        out: Tensor = block(x, TimeBias.of(bias, age, age > 9, offsets, 20))
        return out

    torch._dynamo.reset()
    results = []
    for function in (run, torch.compile(run, fullgraph=True, backend="aot_eager")):
        torch.manual_seed(1)
        out = function(x, age, offsets)
        results.append([out, *torch.autograd.grad(out.square().sum(), parameters)])
    for eager, compiled in zip(*results, strict=True):
        torch.testing.assert_close(eager, compiled, rtol=1e-5, atol=1e-5)


@on_device
@pytest.mark.parametrize(
    "changes", [{}, {"kernel": "published", "time_scale": "log"}, {"bias": "none"}]
)
def test_a_block_of_packed_rows_equals_one_of_padded_rows(changes: dict[str, Any]) -> None:
    """The same block by `sdpa`, with the whole bias, and by `fused`."""
    torch.manual_seed(0)
    config = plain_config(width=64, heads=2, dropout=0.0, **changes)
    block, bias = (
        AttentionBlock(config).to(DEVICE),
        GaussianBias(config).to(DEVICE) if config.bias == "gaussian" else None,
    )
    lengths = torch.tensor([21, 4, 1], device=DEVICE)
    mask = torch.arange(21, device=DEVICE)[None, :] < lengths[:, None]
    x, age, known = (
        torch.randn(3, 21, 64, device=DEVICE),
        90 * torch.rand(3, 21, device=DEVICE),
        mask & (torch.rand(3, 21).to(DEVICE) < 0.8),
    )
    offsets = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
    parameters = [*block.parameters(), *(bias.parameters() if bias is not None else ())]
    padded = block(x, mask_bias(None if bias is None else bias(age, known), mask, x.dtype))[mask]
    packed = block(x[mask], TimeBias.of(bias, age[mask], known[mask], offsets, 21))
    torch.testing.assert_close(packed, padded, rtol=1e-4, atol=1e-4)
    for one, other in zip(
        *(torch.autograd.grad(out.square().sum(), parameters) for out in (packed, padded)),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=2e-3)


@on_device
@pytest.mark.parametrize("changes", [{}, beyond_paths({"bias": "none"})])
def test_the_model_predicts_alike(
    small_shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    """Packed rows and fixed shapes through all blocks by `fused`, padded ones by `sdpa`; seeds with
    few and with many rows."""
    monkeypatch.setenv("GELGT_CACHE", str(tmp_path))
    db = gelgt.open(small_shop.url)
    graph, features = db.graph(), db.features()
    seeds = task_seeds(db.task(small_shop.sentence), graph, "val").take(np.array([0, 3, 50]))
    sample = Sampler(graph, SamplingConfig(budget=40)).sample(seeds.node, seeds.time, seeds.key)
    batch = from_sample(sample, graph, seeds.time, seeds.key, np.arange(3))
    inputs = ModelInput.of(batch, features).to(DEVICE)
    predictions = {}
    for backend in ("sdpa", "fused"):
        torch.manual_seed(0)
        model = (
            GelGTModel(
                plain_config(width=64, heads=2, keep=30, backend=backend, **changes),
                ModelContext(graph, features),
            )
            .to(DEVICE)
            .eval()
        )
        assert model.backend == backend
        with torch.no_grad():
            predictions[backend] = model(inputs)
            in_fixed_shape = static((graph, features, seeds), model, batch)
            _, shares = model.seed_attention(inputs)  # looks at weights, so never by `fused`
        assert float(shares.sum()) == pytest.approx(3.0, abs=1e-4)
        torch.testing.assert_close(in_fixed_shape, predictions[backend], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(predictions["fused"], predictions["sdpa"], rtol=1e-4, atol=1e-4)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_inductor_and_autocast() -> None:
    torch.manual_seed(0)
    config = plain_config(width=128, heads=4, dropout=0.0)
    block, bias = AttentionBlock(config).cuda(), GaussianBias(config).cuda()
    x, age = torch.randn(50, 128, device="cuda"), 90 * torch.rand(50, device="cuda")
    given = TimeBias.of(bias, age, age > 9, torch.tensor([0, 30, 50], device="cuda"), 30)
    with torch.no_grad():
        exact = block(x, given)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            eager, compiled = block(x, given), torch.compile(block, fullgraph=True)(x, given)
    torch.testing.assert_close(eager.float(), exact, rtol=0.05, atol=0.05)
    torch.testing.assert_close(compiled.float(), eager.float(), rtol=0.05, atol=0.05)


def test_reasons() -> None:
    cuda, cpu = torch.device("cuda"), torch.device("cpu")
    assert choose_backend(plain_config())[0] == "sdpa"
    assert choose_backend(plain_config(backend="sdpa"), cuda) == (
        "sdpa",
        "named by the configuration",
    )
    if IS_INTERPRETED:
        assert "interpreter" in choose_backend(plain_config())[1]
        assert "has no float64" in str(why_not(cpu, torch.float64, 32, 4))
        assert "not 48" in str(why_not(cpu, torch.float32, 48, 4))
        assert "not 17" in str(why_not(cpu, torch.float32, 32, 17))
        assert choose_backend(plain_config(backend="fused"))[0] == "fused"
        with pytest.raises(GelgtError, match="linear-decay"):
            choose_backend(plain_config(backend="fused", bias="linear-decay"))
    else:
        assert "CUDA" in choose_backend(plain_config())[1]
        with pytest.raises(GelgtError, match="CUDA"):
            choose_backend(plain_config(backend="fused"))
