"""Lookups, stacked products and batch norms over fixed shapes, with gradients of their own."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gelgt.nn.linear import has_kernels
from gelgt.nn.precision import low_type, lowered

SMALL = 256  # entries of an embedding whose gradient is a product with a one-hot matrix


def look_up(embedding: nn.Embedding, index: Tensor) -> Tensor:
    """Entries of an embedding: (T,) → (T, d)."""
    if embedding.num_embeddings > SMALL:
        out: Tensor = embedding(index)
        return out
    weight = embedding.weight
    # what is read of it next is rounded anyway; its gradient is not
    weight = weight if torch.is_grad_enabled() else lowered(weight)
    return picked(weight, index, embedding.padding_idx)


def picked(values: Tensor, index: Tensor, padding: int | None = None) -> Tensor:
    """values[index] for few values: (m, d), (T,) → (T, d)."""
    out: Tensor = _LookUp.apply(values, index, padding)  # type: ignore[no-untyped-call]
    return out


class _LookUp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, index: Tensor, padding: int | None) -> Tensor:
        ctx.save_for_backward(index)
        ctx.entries, ctx.padding = len(weight), padding
        return weight.index_select(0, index)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (index,) = ctx.saved_tensors
        entries = torch.arange(ctx.entries, device=index.device)
        chosen = entries[:, None] == index
        if ctx.padding is not None:
            chosen = chosen & (entries != ctx.padding)[:, None]
        return chosen.to(gradient.dtype) @ gradient, None, None


def scaled_numbers(values: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """v · w + b for each number of a row: (U, columns), (columns, c), (columns, c) → (U, columns,
    c)."""
    if not has_kernels(values):
        return torch.addcmul(bias, values[:, :, None], weight)
    out: Tensor = _ScaledNumbers.apply(values, weight, bias, low_type(values))  # type: ignore[no-untyped-call]
    return out


class _ScaledNumbers(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, values: Tensor, weight: Tensor, bias: Tensor, dtype: torch.dtype
    ) -> Tensor:
        from gelgt.nn.kernels.numbers import number_forward  # imports Triton

        ctx.save_for_backward(values)
        return number_forward(values, weight.contiguous(), bias.contiguous(), dtype)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        from gelgt.nn.kernels.numbers import number_backward

        (values,) = ctx.saved_tensors
        is_whole = gradient.stride(2) == 1 and gradient.stride(1) == gradient.shape[2]
        d_weight, d_bias = number_backward(values, gradient if is_whole else gradient.contiguous())
        return None, d_weight, d_bias, None


class Stacked(torch.autograd.Function):
    """The two halves of n tables' rows, each a stack of all tables with zeros behind the rows of a
    table: [(U, 2 · c), …] → (n, R, c), (n, R, c)."""

    @staticmethod
    def forward(ctx: Any, height: int, *parts: Tensor) -> tuple[Tensor, Tensor]:
        width = parts[0].shape[1] // 2
        first, short = parts[0].new_zeros(2, len(parts), height, width).unbind()
        for number, part in enumerate(parts):
            for to, half in zip((first, short), part.chunk(2, dim=1)):
                to[number, : len(part)].copy_(half)
        ctx.rows = [len(part) for part in parts]
        return first, short

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        return None, *(
            torch.cat([gradient[number, :rows] for gradient in gradients], dim=1)
            for number, rows in enumerate(ctx.rows)
        )


class StackedLinear(torch.autograd.Function):
    """n linear layers on n batches: (n, R, a), (n, b, a), (n, b) → (n, R, b). The weights'
    gradients are contiguous, as optimisers want."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return torch.baddbmm(bias[:, None], x, weight.transpose(1, 2))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        return gradient @ weight, gradient.transpose(1, 2) @ x, _row_sums(gradient)


def _row_sums(gradient: Tensor) -> Tensor:
    """(n, R, b) → (n, b)."""
    if not gradient.is_cuda:
        return gradient.sum(1)
    from gelgt.nn.kernels.columns import column_sums  # imports Triton

    return column_sums(gradient.contiguous())


def masked_batch_norm(
    x: Tensor,
    counts: Tensor,
    weight: Tensor,
    bias: Tensor,
    running: tuple[Tensor, Tensor],
    training: bool,
    eps: float,
    is_relu: bool = False,
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Batch norm of n batches at once, each over its first rows.

    Args:
        x: (n, R, c).
        counts: (n,) real rows.
        weight, bias: (n, c).
        running: (n, c) mean and variance, which evaluation uses.
        is_relu: Whether a ReLU follows.

    Returns:
        (n, R, c), and the mean and the unbiased variance of each batch, (n, c); the running ones in
        evaluation.
    """
    if not training and x.is_cuda and not torch.is_grad_enabled():
        from gelgt.nn.kernels.batch_norm import batch_apply  # imports Triton

        mean, scale = running[0], torch.rsqrt(running[1] + eps)
        return batch_apply(x.contiguous(), counts, weight, bias, mean, scale, is_relu), running
    if not training:
        scale = weight * torch.rsqrt(running[1] + eps)
        shift = bias - running[0] * scale
        out = torch.addcmul(shift[:, None], x.float(), scale[:, None]).to(x.dtype)
        return torch.relu(out) if is_relu else out, running
    if x.is_cuda:
        out, mean, variance = _FusedNorm.apply(x, counts, weight, bias, eps, is_relu)  # type: ignore[no-untyped-call]
    else:
        valid = torch.arange(x.shape[1], device=x.device) < counts[:, None]
        out, mean, variance = MaskedNorm.apply(x, valid, weight, bias, eps)  # type: ignore[no-untyped-call]
        out = torch.relu(out) if is_relu else out
    return out, (mean, variance)


class _FusedNorm(torch.autograd.Function):
    """`MaskedNorm`, and perhaps a ReLU, by Triton's kernels."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, counts: Tensor, weight: Tensor, bias: Tensor, eps: float,
        is_relu: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
        from gelgt.nn.kernels.batch_norm import batch_forward  # imports Triton

        x = x.contiguous()
        out, means, scales, variances = batch_forward(x, counts, weight, bias, eps, is_relu)
        ctx.save_for_backward(x, counts, weight, bias, means, scales)
        ctx.is_relu = is_relu
        ctx.mark_non_differentiable(means, variances)
        return out, means, variances

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        from gelgt.nn.kernels.batch_norm import batch_backward

        x, counts, weight, bias, means, scales = ctx.saved_tensors
        d_x, d_weight, d_bias = batch_backward(
            x, counts, weight, bias, means, scales, gradient.contiguous(), ctx.is_relu
        )
        return d_x, None, d_weight, d_bias, None, None


class MaskedNorm(torch.autograd.Function):
    """(n, R, c), (n, R) of booleans, (n, c), (n, c) → (n, R, c), and mean and unbiased variance (n,
    c)."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, valid: Tensor, weight: Tensor, bias: Tensor, eps: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        real = valid.to(torch.float32)[:, :, None]
        count = real.sum(1)  # (n, 1)
        share = 1.0 / count.clamp(min=1.0)
        mean = (x * real).sum(1) * share  # (n, c)
        centred = (x - mean[:, None]) * real
        square = centred.square().sum(1)
        scale = torch.rsqrt(square * share + eps)
        normed = centred * scale[:, None]
        ctx.save_for_backward(normed, real, weight, scale, share)
        ctx.dtype = x.dtype
        variance = square / (count - 1.0).clamp(min=1.0)
        ctx.mark_non_differentiable(mean, variance)
        return torch.addcmul(bias[:, None], normed, weight[:, None]).to(x.dtype), mean, variance

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        normed, real, weight, scale, share = ctx.saved_tensors
        gradient = gradient * real  # float32
        for_bias = gradient.sum(1)
        for_weight = (gradient * normed).sum(1)
        inner = gradient - (for_bias * share)[:, None]
        inner = torch.addcmul(inner, normed, (for_weight * share)[:, None], value=-1.0)
        return (
            (inner * (scale * weight)[:, None] * real).to(ctx.dtype),
            None,
            for_weight,
            for_bias,
            None,
        )


Moved = tuple[Sequence[Any], tuple[Tensor, Tensor], Tensor]


@torch.no_grad()
def move_running(moved: Sequence[Moved]) -> None:
    """Move running statistics towards those of their batches, where there is one: for each, n
    norms, (n, c) statistics and (n,) counts."""
    running: list[Tensor] = []
    targets: list[Tensor] = []
    shares: list[Tensor] = []
    for norms, (means, variances), counts in moved:
        share = (
            ((counts > 1).to(means.dtype) * (norms[0].momentum or 0.0))[:, None]
            .expand_as(means)
            .contiguous()
        )
        for number, norm in enumerate(norms):
            running += [norm.running_mean, norm.running_var]
            targets += [means[number], variances[number]]
            shares += [share[number]] * 2
    if running:
        torch._foreach_lerp_(running, targets, shares)
        torch._foreach_add_(
            [norm.num_batches_tracked for norms, _, _ in moved for norm in norms], 1
        )
