"""Layer norm in one precision from memory to memory: it reads what a product wrote and writes what
the next one reads.

PyTorch's own norms under autocast read and write float32, with a conversion before and after.
Inside, everything here is float32 too. Gradients of the scales are sums over rows: each program
adds up its own, and the programs' sums are added in a fixed order.
"""

# mypy: ignore-errors
import torch
import triton
import triton.language as tl
from torch import Tensor

ROWS = 16  # that a program takes at once
PROGRAMS = 264  # of the gradient: two for each processor of an H200


@triton.jit
def layer_forward_kernel(
    x, weight, bias, out, means, scales, rows, width, eps, WIDE: tl.constexpr, ROWS: tl.constexpr
):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, WIDE)
    is_row, is_column = row < rows, column < width
    place = row.to(tl.int64)[:, None] * width + column[None, :]
    inside = is_row[:, None] & is_column[None, :]
    value = tl.load(x + place, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(value, axis=1) / width
    centred = tl.where(inside, value - mean[:, None], 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(centred * centred, axis=1) / width + eps)
    factor = tl.load(weight + column, mask=is_column, other=0.0)
    shift = tl.load(bias + column, mask=is_column, other=0.0)
    normed = centred * scale[:, None] * factor[None, :] + shift[None, :]
    tl.store(out + place, normed.to(out.dtype.element_ty), mask=inside)
    tl.store(means + row, mean, mask=is_row)
    tl.store(scales + row, scale, mask=is_row)


@triton.jit
def layer_backward_kernel(
    x,
    weight,
    means,
    scales,
    gradient,
    d_x,
    partial,
    rows,
    width,
    tiles,
    programs,
    WIDE: tl.constexpr,
    ROWS: tl.constexpr,
):
    """d_x, and each program's sums for the weight and the bias: (2, programs, width)."""
    program = tl.program_id(0)
    column = tl.arange(0, WIDE)
    is_column = column < width
    factor = tl.load(weight + column, mask=is_column, other=0.0)
    for_weight = tl.zeros((WIDE,), tl.float32)
    for_bias = tl.zeros((WIDE,), tl.float32)
    for tile in range(program, tiles, programs):
        row = tile * ROWS + tl.arange(0, ROWS)
        is_row = row < rows
        place = row.to(tl.int64)[:, None] * width + column[None, :]
        inside = is_row[:, None] & is_column[None, :]
        mean = tl.load(means + row, mask=is_row, other=0.0)
        scale = tl.load(scales + row, mask=is_row, other=0.0)
        value = tl.load(x + place, mask=inside, other=0.0).to(tl.float32)
        given = tl.load(gradient + place, mask=inside, other=0.0).to(tl.float32)
        normed = tl.where(inside, (value - mean[:, None]) * scale[:, None], 0.0)
        for_weight += tl.sum(given * normed, axis=0)
        for_bias += tl.sum(given, axis=0)
        inner = given * factor[None, :]
        first = tl.sum(inner, axis=1) / width
        second = tl.sum(inner * normed, axis=1) / width
        for_x = (inner - first[:, None] - normed * second[:, None]) * scale[:, None]
        tl.store(d_x + place, for_x.to(d_x.dtype.element_ty), mask=inside)
    tl.store(partial + program * width + column, for_weight, mask=is_column)
    tl.store(partial + (programs + program) * width + column, for_bias, mask=is_column)


def layer_forward(
    x: Tensor, weight: Tensor, bias: Tensor, eps: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    """(T, d) → (T, d) of the type asked for, and the rows' means and scales."""
    rows, width = x.shape
    out = torch.empty(rows, width, dtype=dtype, device=x.device)
    means, scales = (torch.empty(rows, dtype=torch.float32, device=x.device) for _ in range(2))
    sizes = {"WIDE": triton.next_power_of_2(width), "ROWS": ROWS}
    layer_forward_kernel[(triton.cdiv(rows, ROWS),)](
        x, weight, bias, out, means, scales, rows, width, eps, **sizes, num_warps=8
    )
    return out, means, scales


def layer_backward(
    x: Tensor, weight: Tensor, means: Tensor, scales: Tensor, gradient: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of x, weight and bias."""
    rows, width = x.shape
    tiles = triton.cdiv(rows, ROWS)
    programs = min(PROGRAMS, tiles)
    d_x = torch.empty_like(x)
    partial = torch.empty(2, programs, width, dtype=torch.float32, device=x.device)
    sizes = {"WIDE": triton.next_power_of_2(width), "ROWS": ROWS}
    layer_backward_kernel[(programs,)](
        x,
        weight,
        means,
        scales,
        gradient,
        d_x,
        partial,
        rows,
        width,
        tiles,
        programs,
        **sizes,
        num_warps=8,
    )
    for_weight, for_bias = partial.sum(1)
    return d_x, for_weight, for_bias
