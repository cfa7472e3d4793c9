"""The kernels for sums and norms against PyTorch's own: on a CUDA device, or through Triton's
interpreter in a process of its own."""

import pytest
import torch
from interpreter import DEVICE, on_device
from torch.nn import functional


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


@on_device
def test_segment_sums() -> None:
    from gelgt.nn.kernels.segments import launch_segment_sum

    counts = torch.tensor([0, 3, 70, 1, 0, 9], device=DEVICE)
    end = counts.cumsum(0).int()
    start, entries = (end - counts).int(), int(end[-1])
    x, weight = draw(20, 150), draw(entries + 5, seed=1)
    other = (
        torch.randint(0, 20, (entries + 5,), generator=torch.Generator().manual_seed(2))
        .int()
        .to(DEVICE)
    )
    found = launch_segment_sum(x, other, weight, start, end)
    rows = torch.repeat_interleave(torch.arange(6, device=DEVICE), counts)
    messages = x[other[:entries].long()] * weight[:entries, None]
    torch.testing.assert_close(
        found, torch.zeros(6, 150, device=DEVICE).index_add(0, rows, messages), atol=1e-4, rtol=1e-4
    )


@on_device
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_layer_norm(dtype: torch.dtype) -> None:
    from gelgt.nn.kernels.layer_norm import layer_backward, layer_forward

    x, weight, bias, given = (
        draw(21, 40).to(dtype),
        draw(40, seed=1),
        draw(40, seed=2),
        draw(21, 40, seed=3).to(dtype),
    )
    leaves = [
        x.float().requires_grad_(),
        weight.clone().requires_grad_(),
        bias.clone().requires_grad_(),
    ]
    expected = functional.layer_norm(leaves[0], (40,), leaves[1], leaves[2], 1e-5)
    gradients = torch.autograd.grad(expected, leaves, given.float())
    out, means, scales = layer_forward(x, weight, bias, 1e-5, dtype)
    assert out.dtype == dtype
    loose = {"atol": 1e-4, "rtol": 1e-4} if dtype == torch.float32 else {"atol": 3e-2, "rtol": 2e-2}
    torch.testing.assert_close(out.float(), expected, **loose)
    for found, exact in zip(layer_backward(x, weight, means, scales, given), gradients):
        torch.testing.assert_close(found.float(), exact, **loose)


@on_device
def test_batch_norm_over_real_rows() -> None:
    from gelgt.nn.kernels.batch_norm import batch_backward, batch_forward
    from gelgt.nn.static.ops import MaskedNorm

    x, given = 3 + draw(3, 150, 24), draw(3, 150, 24, seed=3)
    weight, bias = draw(3, 24, seed=1), draw(3, 24, seed=2)
    counts = torch.tensor([150, 70, 0], dtype=torch.int32, device=DEVICE)
    valid = torch.arange(150, device=DEVICE) < counts[:, None]
    given = given * valid[:, :, None]
    leaves = [
        x.clone().requires_grad_(),
        weight.clone().requires_grad_(),
        bias.clone().requires_grad_(),
    ]
    expected, mean, variance = MaskedNorm.apply(leaves[0], valid, leaves[1], leaves[2], 1e-5)
    gradients = torch.autograd.grad(expected, leaves, given)
    out, means, scales, variances = batch_forward(x, counts, weight, bias, 1e-5)
    for found, exact in ((out, expected), (means, mean), (variances, variance)):
        torch.testing.assert_close(found, exact, atol=1e-4, rtol=1e-4)
    for found, exact in zip(batch_backward(x, counts, weight, means, scales, given), gradients):
        torch.testing.assert_close(found, exact, atol=1e-3, rtol=1e-3)


@on_device
def test_dropout_follows_from_seed_and_call() -> None:
    """A share is zeroed and the mean stays; another call or seed draws otherwise, the same ones the
    same, whatever is drawn besides."""
    from gelgt.nn.kernels.dropout import launch_dropout

    x = torch.ones(50, 100, device=DEVICE)
    seed = torch.tensor([7], device=DEVICE)
    out = launch_dropout(x, seed, 1, 0.3)
    assert out.unique().tolist() == pytest.approx([0.0, 1 / 0.7])
    assert float((out == 0).float().mean()) == pytest.approx(0.3, abs=0.03)
    torch.rand(3)
    assert torch.equal(launch_dropout(x, seed, 1, 0.3), out)
    others = [launch_dropout(x, seed, 2, 0.3), launch_dropout(x, seed + 1, 1, 0.3)]
    for other in others:  # as often the same as independent draws are
        assert float(((other == 0) == (out == 0)).float().mean()) == pytest.approx(0.58, abs=0.03)
