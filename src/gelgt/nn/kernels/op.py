"""`gaussian_attention`: the kernels as one differentiable function.

Eager code calls the launches directly. Under `torch.compile` they are two operators of
`torch.library`, which the compiler takes as they are: no graph breaks. (Their dispatch would cost
eager code more than a launch.)
"""

from typing import Any

import torch
from torch import Tensor

from gelgt.nn.dropout import draw_seed
from gelgt.nn.kernels.launch import launch_backward, launch_forward
from gelgt.nn.kernels.problem import Problem, aligned, choose_group, rearranged


def gaussian_attention(
    qkv: Tensor,
    time: Tensor,
    places: Tensor,
    longest: int,
    kernels: tuple[Tensor, Tensor, Tensor, Tensor] | None = None,
    is_log: bool = False,
    rate: float = 0.0,
) -> Tensor:
    """softmax(QKᵀ/√D + bias) V over the rows of each subgraph, with dropout of the weights.

    Args:
        qkv: (T, 3, H, D) packed rows, or (B, N, 3, H, D) padded ones.
        time: (T) or (B, N) float32 ages in days; `FAR` where a row has none.
        places: (B + 1) offsets of the subgraphs, or, padded, the (B) rows of each.
        longest: At least the rows of the longest subgraph; N if padded.
        kernels: μ (G), s (G), W (H, G) and b (H) of the bias, float32; None for no bias.
        is_log: Whether Δ is log(1 + days).
        rate: Of dropout.

    Returns:
        (T, H, D) or (B, N, H, D), 0 on padding. Two runs on the same inputs give the same bits,
        gradients too.
    """
    seed = draw_seed(qkv.device) if rate else None
    mu, sigma, gain, shift = kernels or (None, None, None, None)
    out: Tensor = _GaussianAttention.apply(
        qkv, time, places, mu, sigma, gain, shift, seed, longest, is_log, rate
    )  # type: ignore[no-untyped-call]
    return out


class _GaussianAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, qkv: Tensor, time: Tensor, places: Tensor, *rest: Any) -> Tensor:
        *tensors, longest, is_log, rate = rest
        tensors = [None if t is None else t.contiguous() for t in tensors]
        run: Any = _forward if torch.compiler.is_compiling() else forward
        out: Tensor
        out, *saved = run(qkv, time, places, *tensors, longest, is_log, rate)
        ctx.save_for_backward(qkv, time, places, *tensors, out, *saved)
        ctx.settings = longest, is_log, rate
        return out

    @staticmethod
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        qkv, time, places, mu, sigma, gain, shift, seed, out, lse, order = ctx.saved_tensors
        run: Any = _backward if torch.compiler.is_compiling() else backward
        d_qkv, gradient = run(
            qkv, time, places, mu, sigma, gain, shift, seed, *ctx.settings, out, lse, order, d_out
        )
        if mu is None:
            return (d_qkv, *([None] * 10))
        heads, kernels = gain.shape
        for_mu, for_sigma, for_mix, for_shift = gradient.split(
            [kernels, kernels, heads * kernels, heads]
        )
        return (
            d_qkv,
            None,
            None,
            for_mu,
            for_sigma,
            for_mix.view(heads, kernels),
            for_shift,
            None,
            None,
            None,
            None,
        )


def forward(
    qkv: Tensor, time: Tensor, places: Tensor,
    mu: Tensor | None, sigma: Tensor | None, gain: Tensor | None, shift: Tensor | None,
    seed: Tensor | None, longest: int, is_log: bool, rate: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The attention, and what its gradient needs: of the scores, and the rows by age (none if they
    are not sorted)."""
    problem = Problem(
        aligned(qkv), time, places, mu, sigma, gain, shift, seed, longest, is_log, rate
    )
    with torch.cuda.device_of(qkv):  # type: ignore[no-untyped-call]
        order = problem.by_age()
        problem = problem.sorted(order)
        return *launch_forward(problem, problem.groups()), order


def backward(
    qkv: Tensor, time: Tensor, places: Tensor,
    mu: Tensor | None, sigma: Tensor | None, gain: Tensor | None, shift: Tensor | None,
    seed: Tensor | None, longest: int, is_log: bool, rate: float,
    out: Tensor, lse: Tensor, order: Tensor, d_out: Tensor,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Gradients of `qkv`, and of μ, s, W and b one after the other."""
    problem = Problem(
        aligned(qkv), time, places, mu, sigma, gain, shift, seed, longest, is_log, rate
    )
    with torch.cuda.device_of(qkv):  # type: ignore[no-untyped-call]
        problem = problem.sorted(order)
        d_out = rearranged(aligned(d_out), order)
        return launch_backward(problem, problem.groups(), out, lse, d_out)


_forward = torch.library.custom_op("gelgt::gaussian_attention", forward, mutates_args=())
_backward = torch.library.custom_op("gelgt::gaussian_attention_backward", backward, mutates_args=())


@_forward.register_fake
def _(
    qkv: Tensor, time: Tensor, places: Tensor,
    mu: Tensor | None, sigma: Tensor | None, gain: Tensor | None, shift: Tensor | None,
    seed: Tensor | None, longest: int, is_log: bool, rate: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    *rows, _, heads, size = qkv.shape
    out, lse = qkv.new_empty((*rows, heads, size)), time.new_empty((heads, time.numel()))
    kernels = 0 if mu is None else mu.shape[0]
    is_sorted = choose_group(kernels, is_log, longest, qkv.dtype, qkv.device) > 0
    return out, lse, time.new_empty(time.numel() if is_sorted else 0, dtype=torch.int32)


@_backward.register_fake
def _(
    qkv: Tensor, time: Tensor, places: Tensor,
    mu: Tensor | None, sigma: Tensor | None, gain: Tensor | None, shift: Tensor | None,
    seed: Tensor | None, longest: int, is_log: bool, rate: float,
    out: Tensor, lse: Tensor, order: Tensor, d_out: Tensor,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    count = 0 if gain is None else sum(gain.shape) + gain.shape[1] + gain.numel()
    return torch.empty_like(qkv), lse.new_empty(count)
