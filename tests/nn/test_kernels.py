"""The fused kernels against float64: values and all gradients, both layouts, dropout.

They run on a CUDA device, and without one through Triton's interpreter (interpreter.py), at small
sizes.
"""

import math
from dataclasses import dataclass

import pytest
import torch
from interpreter import DEVICE, IS_INTERPRETED, LOW, beyond_paths, on_device, one_thread
from torch import Tensor

from gelgt.nn.kernels import FAR


@dataclass
class Case:
    """Subgraphs of some lengths, padded; the bias is None without Gaussians."""

    qkv: Tensor
    age: Tensor
    known: Tensor
    lengths: Tensor
    kernels: tuple[Tensor, ...] | None
    is_log: bool
    d_out: Tensor

    @classmethod
    def of(
        cls,
        lengths: list[int],
        kernels: int = 4,
        is_log: bool = False,
        size: int = 32,
        heads: int = 2,
        dtype: torch.dtype = torch.float32,
    ) -> "Case":
        draw = torch.Generator().manual_seed(7)
        rows = (len(lengths), max(lengths))
        qkv, d_out = (
            torch.randn(*rows, *more, heads, size, generator=draw).to(dtype) for more in ((3,), ())
        )
        age, known = 50 * torch.rand(*rows, generator=draw), torch.rand(*rows, generator=draw) < 0.7
        known[:, 0] = True
        mu, sigma = (
            30 * torch.rand(kernels, generator=draw),
            4 + 5 * torch.rand(kernels, generator=draw),
        )
        mix, shift = torch.randn(heads, kernels, generator=draw), torch.randn(heads, generator=draw)
        bias = ((mu.log1p(), sigma / 10) if is_log else (mu, sigma)) + (mix, shift)
        on = [t.to(DEVICE) for t in (qkv, age, known, torch.tensor(lengths))]
        return cls(
            *on, tuple(t.to(DEVICE) for t in bias) if kernels else None, is_log, d_out.to(DEVICE)
        )

    @property
    def mask(self) -> Tensor:
        return torch.arange(self.qkv.shape[1], device=DEVICE)[None, :] < self.lengths[:, None]

    def leaves(self, dtype: torch.dtype | None = None) -> list[Tensor]:
        return [
            t.detach().to(dtype or t.dtype).requires_grad_()
            for t in (self.qkv, *(self.kernels or ()))
        ]

    def expected(self, kept: Tensor | None = None) -> list[Tensor]:
        """Values and gradients in float64, of rows that are no padding: the formula over all pairs;
        `kept` (B, H, N, N) is dropout."""
        leaves = self.leaves(torch.float64)
        q, k, v = leaves[0].permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        if self.kernels is not None:
            _, mu, sigma, mix, shift = leaves
            time = (self.age[:, :, None] - self.age[:, None, :]).double().abs()
            time = time.log1p() if self.is_log else time
            both = (self.known[:, :, None] & self.known[:, None, :]).double()[:, None]
            near = torch.exp(-(((time[..., None] - mu) / sigma) ** 2))
            scores = scores + both * (
                torch.einsum("bijg,hg->bhij", near, mix) + shift[:, None, None]
            )
        weights = scores.masked_fill(~self.mask[:, None, None, :], -math.inf).softmax(-1)
        out = (((weights if kept is None else weights * kept) @ v).transpose(1, 2))[self.mask]
        out.backward(self.d_out.double()[self.mask])
        return self._gathered(out, leaves)

    def found(self, is_packed: bool, rate: float = 0.0) -> list[Tensor]:
        """The same by the kernels."""
        from gelgt.nn.kernels.op import gaussian_attention

        leaves, time, mask = self.leaves(), torch.where(self.known, self.age, FAR), self.mask
        qkv, places, longest = leaves[0], self.lengths, mask.shape[1]
        if is_packed:
            qkv, time, places = (
                qkv[mask],
                time[mask],
                torch.cat([places.new_zeros(1), places.cumsum(0)]),
            )
        out = gaussian_attention(
            qkv, time, places, longest, tuple(leaves[1:]) or None, self.is_log, rate
        )  # type: ignore[arg-type]
        out.backward(self.d_out[mask] if is_packed else self.d_out)
        if not is_packed:
            assert not out[~mask].any()
            assert not qkv.grad[~mask].any()
        return self._gathered(out if is_packed else out[mask], leaves)

    def _gathered(self, out: Tensor, leaves: list[Tensor]) -> list[Tensor]:
        grads = [leaf.grad for leaf in leaves if leaf.grad is not None]
        assert len(grads) == len(leaves)
        # out, q, k, v, μ, s, W, b
        return [out.detach(), *grads[0][self.mask].unbind(1), *grads[1:]]


def error(found: Tensor, expected: Tensor) -> float:
    return float((found.double() - expected).norm() / expected.norm())


def assert_close(found: list[Tensor], expected: list[Tensor], most: float) -> None:
    errors = [error(a, b) for a, b in zip(found, expected, strict=True)]
    assert max(errors) < most, errors


@on_device
@pytest.mark.parametrize(
    ("kernels", "is_log", "is_packed"),
    [
        (1, False, True),
        (4, False, True),
        (4, True, True),
        (0, False, True),
        (4, False, False),
        beyond_paths(8, False, True),
        beyond_paths(1, False, False),
        beyond_paths(4, True, False),
        beyond_paths(8, False, False),
        (0, False, False),
    ],
)
def test_values_and_gradients(kernels: int, is_log: bool, is_packed: bool) -> None:
    """Lengths that fill no tile, a subgraph of one row, rows without time."""
    case = Case.of([37, 1, 20], kernels, is_log)
    assert_close(case.found(is_packed), case.expected(), 2e-5)


@on_device
@pytest.mark.parametrize(
    ("size", "dtype"),
    [
        (64, torch.float32),
        (128, torch.float16),
        beyond_paths(32, torch.float16),
        beyond_paths(64, torch.float16),
        beyond_paths(128, torch.float32),
        *((size, torch.bfloat16) for size in (32, 64, 128)),
        (32, torch.float32),
    ],
)
def test_sizes_and_precisions(size: int, dtype: torch.dtype) -> None:
    if IS_INTERPRETED and (dtype == torch.bfloat16 or (dtype == torch.float32 and size == 32)):
        pytest.skip("the interpreter has no bf16; float32 of 32 is tested above")
    case = Case.of([40, 9], size=size, dtype=dtype)
    assert_close(
        case.found(True),
        case.expected(),
        {torch.float16: 1e-2, torch.bfloat16: 5e-2, torch.float32: 2e-5}[dtype],
    )


@on_device
def test_many_gaussians() -> None:
    case = Case.of([20, 3], kernels=16)
    assert_close(case.found(True), case.expected(), 2e-5)


@on_device
def test_nobody_has_a_time() -> None:
    """Then there is no bias, and nothing for it to learn."""
    case = Case.of([20, 3])
    case.known[:] = False
    with_bias = case.found(True)
    assert not any(gradient.any() for gradient in with_bias[4:])
    case.kernels = None
    assert_close(with_bias[:4], case.expected(), 2e-5)


@on_device
@one_thread
def test_two_runs_give_the_same_bits() -> None:
    case = Case.of([40, 33, 40], dtype=LOW)
    assert all(torch.equal(a, b) for a, b in zip(case.found(True), case.found(True), strict=True))


@on_device
def test_padding_changes_nothing() -> None:
    case = Case.of([33, 7])
    first = case.found(False)
    case.qkv[~case.mask], case.age[~case.mask], case.d_out[~case.mask] = 77.0, 3.0, 5.0
    assert all(torch.equal(a, b) for a, b in zip(first, case.found(False), strict=True))


@on_device
def test_dropout() -> None:
    """The share is right, and gradients are those of the weights that were kept."""
    case, rate = Case.of([32, 32]), 0.3
    values = case.qkv[:, :, 2].clone()
    # so that what comes out is the weights
    case.qkv[:, :, 2] = torch.eye(32, device=DEVICE)[None, :, None]
    torch.manual_seed(1)
    weights = case.found(True, rate)[0].view(2, 32, 2, 32).permute(0, 2, 1, 3)  # (B, H, N, N)
    kept = (weights != 0).double() / (1 - rate)
    assert float((weights == 0).double().mean()) == pytest.approx(rate, abs=0.03)
    assert not torch.equal(kept[0, 0], kept[0, 1])
    assert not torch.equal(kept[0], kept[1])
    case.qkv[:, :, 2] = values
    torch.manual_seed(1)
    found = case.found(True, rate)
    assert_close(found, case.expected(kept), 2e-5)
    assert not torch.equal(found[0], case.found(True, rate)[0])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_gradients_at_3000_rows() -> None:
    """bf16, four heads of 128, four Gaussians: within 1 % of float64, and the same bits twice."""
    case = Case.of([3000, 3000], size=128, heads=4, dtype=torch.bfloat16)
    found = case.found(True)
    assert all(torch.equal(a, b) for a, b in zip(found, case.found(True), strict=True))
    assert_close(found, case.expected(), 1e-2)
