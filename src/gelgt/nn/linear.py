"""Linear layers with what follows them: GELU, dropout, a residual connection.

While a model is trained under autocast on CUDA, the product alone is PyTorch's; the rest is one
kernel, whose backward also adds up what the bias needs (`nn/kernels/tail.py`). Everywhere else it
is PyTorch's own operations, one after the other.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from gelgt.nn.dropout import Dropout, draw_seed
from gelgt.nn.kernels import has_triton
from gelgt.nn.precision import lowered


def is_fused(x: Tensor) -> bool:
    """Whether kernels of their own are used for a tensor: in training under autocast on CUDA."""
    return torch.is_grad_enabled() and has_kernels(x)


def has_kernels(x: Tensor) -> bool:
    """Whether there are kernels of their own for a tensor: under autocast on CUDA."""
    return (
        x.is_cuda
        and x.numel() > 0  # a batch may have no row of a table
        and torch.is_autocast_enabled("cuda")
        and not torch.compiler.is_compiling()
        and has_triton(x.device)
    )


class Linear(nn.Linear):
    """`torch.nn.Linear`, which adds its bias's gradient up in a kernel of its own."""

    def forward(self, x: Tensor) -> Tensor:
        return product(x, self.weight, self.bias)

    def added(self, residual: Tensor, x: Tensor, dropout: Dropout) -> Tensor:
        """residual + dropout(Linear(x)): (…, b), (…, a) → (…, b)."""
        if not is_fused(x):
            plain: Tensor = residual + dropout(self(x))
            return plain
        rate = dropout.p if dropout.training else 0.0
        return _product(x, self.weight, self.bias, residual, rate=rate)


def product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x Wᵀ + b: (…, a), (b, a), (b,) → (…, b)."""
    if not is_fused(x):
        return functional.linear(x, weight, bias)
    return _product(x, weight, bias)


class FeedForward(nn.Sequential):
    """Linear, GELU, dropout, linear."""

    def __init__(self, width: int, hidden: int, out: int, dropout: float) -> None:
        super().__init__(Linear(width, hidden), nn.GELU(), Dropout(dropout), Linear(hidden, out))

    def forward(self, x: Tensor) -> Tensor:
        """(…, a) → (…, b)."""
        out: Tensor = self[3](self.hidden(x))
        return out

    def added(self, residual: Tensor, x: Tensor, dropout: Dropout) -> Tensor:
        """residual + dropout(FeedForward(x)): (…, b), (…, a) → (…, b)."""
        last: Any = self[3]
        out: Tensor = last.added(residual, self.hidden(x), dropout)
        return out

    def hidden(self, x: Tensor) -> Tensor:
        """What the second linear layer reads."""
        layers: Any = self
        first, bend, dropout, _ = layers
        if is_fused(x):
            rate = dropout.p if dropout.training else 0.0
            return _product(x, first.weight, first.bias, is_gelu=True, rate=rate)
        out: Tensor = dropout(bend(first(x)))
        return out


def bent(y: Tensor, residual: Tensor, dropout: Dropout) -> Tensor:
    """residual + dropout(GELU(y)): (T, d), (T, d) → (T, d). Also without a gradient it is one pass
    instead of two, while behind a product it would be as many."""
    if not has_kernels(y):
        plain: Tensor = residual + dropout(functional.gelu(y))
        return plain
    rate = dropout.p if dropout.training else 0.0
    out: Tensor = _Bent.apply(y, residual, rate, _seed(y, rate))  # type: ignore[no-untyped-call]
    return out


def _seed(x: Tensor, rate: float) -> Tensor | None:
    return draw_seed(x.device) if rate else None


def _product(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    residual: Tensor | None = None,
    is_gelu: bool = False,
    rate: float = 0.0,
) -> Tensor:
    x, weight, bias = lowered(x), lowered(weight), None if bias is None else lowered(bias)
    seed = _seed(x, rate)
    out: Tensor = _Product.apply(x, weight, bias, residual, is_gelu, rate, seed)  # type: ignore[no-untyped-call]
    return out


class _Product(torch.autograd.Function):
    """residual + dropout(GELU(x Wᵀ + b))."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, residual: Tensor | None,
        is_gelu: bool, rate: float, seed: Tensor | None,
    ) -> Tensor:  # fmt: skip
        from gelgt.nn.kernels.tail import Tail, tail_forward  # imports Triton

        flat = x.reshape(-1, x.shape[-1])
        y = functional.linear(flat, weight, bias)
        ctx.is_gelu, ctx.rate, ctx.shape = is_gelu, rate, x.shape
        ctx.residual = None if residual is None else residual.dtype
        ctx.save_for_backward(flat, weight, y if is_gelu else None, seed)
        out = y
        if is_gelu or rate or residual is not None:
            given = None if residual is None else residual.reshape(y.shape).contiguous()
            with torch.cuda.device_of(x):  # type: ignore[no-untyped-call]
                out = tail_forward(y, given, Tail(is_gelu, rate, seed))
        return out.view(*x.shape[:-1], -1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        flat, weight, y, seed = ctx.saved_tensors
        wants_x, _, wants_bias, *_ = ctx.needs_input_grad
        given = gradient.reshape(len(flat), -1).contiguous()
        d_y, d_bias = _before_tail(given, y, (ctx.is_gelu, ctx.rate, seed), flat.dtype, wants_bias)
        d_x = (d_y @ weight).view(ctx.shape) if wants_x else None
        d_residual = None if ctx.residual is None else gradient.to(ctx.residual)
        return d_x, d_y.t() @ flat, d_bias, d_residual, None, None, None


def _before_tail(
    gradient: Tensor, y: Tensor | None, tail: tuple[bool, float, Tensor | None],
    dtype: torch.dtype, wants_sums: bool,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """The gradient of what the tail reads (T, d), and its sum over the rows (d,)."""
    from gelgt.nn.kernels.columns import column_sums
    from gelgt.nn.kernels.tail import Tail, tail_backward

    with torch.cuda.device_of(gradient):  # type: ignore[no-untyped-call]
        if tail[0] or tail[1]:
            return tail_backward(gradient, y, Tail(*tail), dtype, wants_sums)
        gradient = gradient.to(dtype)
        return gradient, column_sums(gradient[None])[0] if wants_sums else None


class _Bent(torch.autograd.Function):
    """residual + dropout(GELU(y))."""

    @staticmethod
    def forward(ctx: Any, y: Tensor, residual: Tensor, rate: float, seed: Tensor | None) -> Tensor:
        from gelgt.nn.kernels.tail import Tail, tail_forward

        y = y.contiguous()
        ctx.save_for_backward(y, seed)
        ctx.rate, ctx.residual = rate, residual.dtype
        with torch.cuda.device_of(y):  # type: ignore[no-untyped-call]
            return tail_forward(y, residual.contiguous(), Tail(True, rate, seed))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        y, seed = ctx.saved_tensors
        given = gradient.contiguous()
        d_y, _ = _before_tail(given, y, (True, ctx.rate, seed), y.dtype, False)
        return d_y, gradient.to(ctx.residual), None, None
