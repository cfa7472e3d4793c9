"""Layer norm: PyTorch's own, or under autocast on CUDA one that reads and writes autocast's
precision (`nn/kernels/layer_norm.py`)."""

from typing import Any

import torch
from torch import Tensor, nn

from gelgt.nn.kernels import has_triton


class LayerNorm(nn.LayerNorm):
    """`torch.nn.LayerNorm` over the last axis."""

    def forward(self, x: Tensor) -> Tensor:
        is_low = (
            x.is_cuda and torch.is_autocast_enabled("cuda") and not torch.compiler.is_compiling()
        )
        if not is_low or not has_triton(x.device):
            return super().forward(x)
        out: Tensor = _LayerNorm.apply(
            x, self.weight, self.bias, self.eps, torch.get_autocast_dtype("cuda")
        )  # type: ignore[no-untyped-call]
        return out


class BatchNorm(nn.BatchNorm1d):
    """`torch.nn.BatchNorm1d`, which also takes the one row that a batch may have of a small table:
    it is its own mean."""

    def forward(self, x: Tensor) -> Tensor:
        if self.training and len(x) == 1:
            return (x - x.detach()) * self.weight + self.bias
        return super().forward(x)


class _LayerNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, eps: float, dtype: torch.dtype
    ) -> Tensor:
        from gelgt.nn.kernels.layer_norm import layer_forward  # imports Triton

        flat = x.reshape(-1, x.shape[-1]).contiguous()
        with torch.cuda.device_of(x):  # type: ignore[no-untyped-call]
            out, means, scales = layer_forward(flat, weight, bias, eps, dtype)
        ctx.save_for_backward(flat, weight, means, scales)
        return out.view(x.shape)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        from gelgt.nn.kernels.layer_norm import layer_backward

        flat, weight, means, scales = ctx.saved_tensors
        with torch.cuda.device_of(flat):  # type: ignore[no-untyped-call]
            d_x, d_weight, d_bias = layer_backward(
                flat, weight, means, scales, gradient.reshape(flat.shape).contiguous()
            )
        return d_x.view(gradient.shape), d_weight, d_bias, None, None
