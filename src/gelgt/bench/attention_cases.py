"""The inputs of `gelgt bench attention`, its backends, and their numerical errors."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from gelgt.config import GelGTConfig
from gelgt.nn.attention import mask_bias, reference_attention, sdpa_attention
from gelgt.nn.bias import GaussianBias
from gelgt.nn.kernels import FAR

PARTS = ("out", "q", "k", "v", "mu", "sigma", "weight", "shift")


@dataclass
class Case:
    """B subgraphs of N rows with their bias.

    Attributes:
        leaves: qkv (B, N, 3, H, D) and the parameters of the bias.
        age: (B, N) days.
        has_time: (B, N) whether a row has a time.
        d_out: (B, N, H, D) the gradient that comes back.
        bias: The module.
    """

    leaves: list[Tensor]
    age: Tensor
    has_time: Tensor
    d_out: Tensor
    bias: GaussianBias

    @classmethod
    def of(cls, seeds: int, rows: int, on: torch.device, dtype: torch.dtype) -> "Case":
        config = GelGTConfig(width=512, heads=4, kernels=4, kernel="published", time_scale="linear")
        draw = torch.Generator(on).manual_seed(0)
        bias = GaussianBias(config).to(on)
        bias.start(
            100 + 600 * torch.rand(4, device=on, generator=draw),
            50 + 100 * torch.rand(4, device=on, generator=draw),
        )
        torch.nn.init.normal_(bias.mix.weight, generator=draw)
        qkv = (
            torch.randn(seeds, rows, 3, 4, 128, device=on, generator=draw)
            .to(dtype)
            .requires_grad_()
        )
        age = 1000 * torch.rand(seeds, rows, device=on, generator=draw)
        has_time = torch.rand(seeds, rows, device=on, generator=draw) < 0.9
        d_out = torch.randn(seeds, rows, 4, 128, device=on, generator=draw).to(dtype)
        leaves = [qkv, bias.centre, bias.width, bias.mix.weight, bias.mix.bias]
        return cls(leaves, age, has_time, d_out, bias)

    def step(self, name: str) -> Callable[[], Tensor]:
        """Forward and backward by a backend, with q, k and v in the layout that it needs."""
        attend = _ATTEND[name](self)
        like = attend()

        def run() -> Tensor:
            for leaf in self.leaves:
                leaf.grad = None
            out = attend()
            out.backward(d_out)  # type: ignore[no-untyped-call]
            return out

        d_out = (
            self.d_out
            if like.shape == self.d_out.shape
            else self.d_out.transpose(1, 2).contiguous()
        )
        return run


def _fused(case: Case) -> Callable[[], Tensor]:
    from gelgt.nn.kernels.op import gaussian_attention

    rows = case.age.shape[1]
    time, lengths = (
        torch.where(case.has_time, case.age, FAR),
        torch.full(case.age.shape[:1], rows, device=case.age.device),
    )
    qkv, *kernels = case.leaves
    mu, sigma, mix, shift = kernels
    return lambda: gaussian_attention(qkv, time, lengths, rows, (mu, sigma, mix, shift))


def _separate(case: Case) -> tuple[Tensor, Tensor, Tensor]:
    """q, k, v (B, H, N, D) as separate leaves, in the place of qkv."""
    q, k, v = (
        part.contiguous().requires_grad_()
        for part in case.leaves[0].detach().permute(2, 0, 3, 1, 4)
    )
    case.leaves[:1] = [q, k, v]
    return q, k, v


def _flash(case: Case) -> Callable[[], Tensor]:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    q, k, v = _separate(case)
    if not q.is_cuda:
        return lambda: functional.scaled_dot_product_attention(q, k, v)

    def attend() -> Tensor:
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            return functional.scaled_dot_product_attention(q, k, v)

    return attend


def _by_tensor(backend: Callable[..., Tensor]) -> Callable[[Case], Callable[[], Tensor]]:
    def prepare(case: Case) -> Callable[[], Tensor]:
        q, k, v = _separate(case)
        mask = torch.ones_like(case.has_time)
        return lambda: backend(
            q, k, v, mask_bias(case.bias(case.age, case.has_time), mask, q.dtype), 0.0
        )

    return prepare


def _flex(case: Case) -> Callable[[], Tensor]:
    from torch.nn.attention.flex_attention import flex_attention

    q, k, v = _separate(case)
    mu, sigma, mix, shift = case.leaves[3:]
    age, has_time = case.age, case.has_time.float()
    attend = torch.compile(flex_attention)

    def score(value: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        apart = (age[b, i] - age[b, j]).abs()
        bias = shift[h]
        for g in range(4):
            bias = bias + mix[h, g] * torch.exp(-(((apart - mu[g]) / sigma[g]) ** 2))
        return value + has_time[b, i] * has_time[b, j] * bias

    return lambda: attend(q, k, v, score_mod=score)


_ATTEND: dict[str, Callable[[Case], Callable[[], Tensor]]] = {
    "fused": _fused,
    "flash": _flash,
    "materialised": _by_tensor(sdpa_attention),
    "reference": _by_tensor(reference_attention),
    "flex": _flex,
}


def errors(name: str, rows: int, on: torch.device) -> Iterator[tuple[str, float]]:
    """Relative errors of the values and of every gradient, over one subgraph."""
    case = Case.of(1, rows, on, torch.bfloat16 if on.type == "cuda" else torch.float32)
    expected = _exact(case)
    out = case.step(name)()
    out = out if out.shape == case.d_out.shape else out.transpose(1, 2)
    grads = [leaf.grad for leaf in case.leaves]
    if len(grads) == 5 and grads[0] is not None:
        grads[:1] = [part.transpose(1, 2) for part in grads[0].unbind(2)]
    for part, value, exact in zip(PARTS, [out, *grads], expected, strict=True):
        assert value is not None
        yield part, float(f"{float((value.detach().double() - exact).norm() / exact.norm()):.2g}")


def _exact(case: Case) -> list[Tensor]:
    """Values and gradients of the written formula in float64."""
    qkv, mu, sigma, mix, shift = (leaf.detach().double().requires_grad_() for leaf in case.leaves)
    q, k, v = (part.detach().requires_grad_() for part in qkv.detach().permute(2, 0, 3, 1, 4))
    apart = (case.age[:, :, None] - case.age[:, None, :]).abs().double()
    has_times = (case.has_time[:, :, None] & case.has_time[:, None, :]).double()
    scale = sigma.abs() + 1e-6
    bias = (
        sum(
            mix[:, g, None, None] * torch.exp(-(((apart - mu[g]) / scale[g]) ** 2))[:, None]
            for g in range(4)
        )
        + shift[:, None, None]
    )
    weights = torch.softmax(
        q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + has_times[:, None] * bias, dim=-1
    )
    out = (weights @ v).transpose(1, 2)
    leaves = [q, k, v, mu, sigma, mix, shift]
    return [out.detach(), *torch.autograd.grad(out, leaves, case.d_out.double())]
