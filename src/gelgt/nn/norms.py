"""Norms: PyTorch's own, or under autocast on CUDA layer norms that read and write autocast's
precision (`nn/kernels/layer_norm.py`)."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gelgt.nn.kernels import has_triton
from gelgt.nn.precision import lowered


def is_low(x: Tensor) -> bool:
    """Whether a tensor is normed in autocast's precision."""
    return (
        x.is_cuda
        and torch.is_autocast_enabled("cuda")
        and not torch.compiler.is_compiling()
        and has_triton(x.device)
    )


class LayerNorm(nn.LayerNorm):
    """`torch.nn.LayerNorm` over the last axis."""

    def forward(self, x: Tensor) -> Tensor:
        return self.beside(x)[1] if is_low(x) else super().forward(x)

    def beside(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """x, for a residual connection, and its norm. Their gradients meet in one kernel."""
        if not is_low(x):
            return x, super().forward(x)
        flat = x.reshape(1, -1, x.shape[-1])
        same, out = _LayerNorm.apply(
            flat, self.weight[None], self.bias[None], self.eps, _low_type(), False
        )  # type: ignore[no-untyped-call]
        return same.view(x.shape), out.view(x.shape)


class BatchNorm(nn.BatchNorm1d):
    """`torch.nn.BatchNorm1d`, which also takes the one row that a batch may have of a small table:
    it is its own mean."""

    def forward(self, x: Tensor) -> Tensor:
        if self.training and len(x) == 1:
            return (x - x.detach()) * self.weight + self.bias
        return super().forward(x)


def relu_layer_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """ReLU of the layer norms of n tables, in autocast's precision: (n, R, c), (n, c), (n, c) → (n,
    R, c)."""
    out: Tensor = _LayerNorm.apply(x, weight, bias, eps, _low_type(), True)[1]  # type: ignore[no-untyped-call]
    return out


def side_by_side(norms: Sequence[nn.Module], parts: Sequence[Tensor]) -> Tensor:
    """Parts normed and beside each other: [(T, d), …] → (T, n · d)."""
    if not all(is_low(part) and isinstance(norm, nn.LayerNorm) for norm, part in zip(norms, parts)):
        return torch.cat([lowered(norm(part)) for norm, part in zip(norms, parts)], dim=1)
    scales = [value for norm in norms for value in (norm.weight, norm.bias)]
    eps: Any = norms[0].eps
    out: Tensor = _SideBySide.apply(eps, _low_type(), *parts, *scales)  # type: ignore[no-untyped-call]
    return out


def _low_type() -> torch.dtype:
    return torch.get_autocast_dtype("cuda")


class _LayerNorm(torch.autograd.Function):
    """(n, T, d) → the same, and its norm."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, eps: float, dtype: torch.dtype,
        is_relu: bool,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        from gelgt.nn.kernels.layer_norm import layer_forward  # imports Triton

        given = x.contiguous()
        with torch.cuda.device_of(x):  # type: ignore[no-untyped-call]
            out, means, scales = layer_forward(given, weight, bias, eps, dtype, is_relu=is_relu)
        ctx.save_for_backward(given, weight, bias, means, scales)
        ctx.is_relu = is_relu
        ctx.set_materialize_grads(False)
        return x.view_as(x), out

    @staticmethod
    def backward(ctx: Any, passed: Tensor | None, gradient: Tensor | None) -> Any:
        from gelgt.nn.kernels.layer_norm import layer_backward

        x, weight, bias, means, scales = ctx.saved_tensors
        if gradient is None:
            return passed, None, None, None, None, None
        given = None if passed is None else passed.contiguous()
        with torch.cuda.device_of(x):  # type: ignore[no-untyped-call]
            d_x, d_weight, d_bias = layer_backward(
                x, weight, bias, means, scales, _in_rows(gradient), given, ctx.is_relu
            )
        return d_x, d_weight, d_bias, None, None, None


class _SideBySide(torch.autograd.Function):
    """Each part writes its own columns; backward reads them where they are."""

    @staticmethod
    def forward(ctx: Any, eps: float, dtype: torch.dtype, *tensors: Tensor) -> Tensor:
        from gelgt.nn.kernels.layer_norm import layer_forward

        count = len(tensors) // 3
        parts, scales = [part.contiguous() for part in tensors[:count]], tensors[count:]
        rows, width = parts[0].shape
        out = torch.empty(rows, count * width, dtype=dtype, device=parts[0].device)
        kept: list[Tensor] = []
        with torch.cuda.device_of(out):  # type: ignore[no-untyped-call]
            for number, part in enumerate(parts):
                weight, bias = scales[2 * number : 2 * number + 2]
                place = out[None, :, number * width : (number + 1) * width]
                _, *found = layer_forward(part[None], weight, bias, eps, dtype, place)
                kept += [part, weight, bias, *found]
        ctx.save_for_backward(*kept)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        from gelgt.nn.kernels.layer_norm import layer_backward

        kept, gradient = ctx.saved_tensors, gradient.contiguous()
        count, width = len(kept) // 5, kept[0].shape[1]
        d_parts: list[Tensor | None] = []
        d_scales: list[Tensor] = []
        with torch.cuda.device_of(gradient):  # type: ignore[no-untyped-call]
            for number in range(count):
                part, weight, bias, means, scales = kept[5 * number : 5 * number + 5]
                columns = gradient[None, :, number * width : (number + 1) * width]
                d_part, d_weight, d_bias = layer_backward(
                    part[None], weight, bias, means, scales, columns
                )
                d_parts.append(d_part[0])
                d_scales += [d_weight[0], d_bias[0]]
        return None, None, *d_parts, *d_scales


def _in_rows(gradient: Tensor) -> Tensor:
    """(n, T, d) whose rows are contiguous, and behind each other with one distance."""
    tables, rows, _ = gradient.shape
    is_even = gradient.stride(2) == 1 and (
        tables == 1 or gradient.stride(0) == rows * gradient.stride(1)
    )
    return (
        gradient if is_even and gradient.stride(1) >= gradient.shape[2] else gradient.contiguous()
    )
