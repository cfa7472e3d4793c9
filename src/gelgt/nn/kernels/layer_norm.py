"""Layer norm of n tables at once in one precision from memory to memory: it reads what a product
wrote and writes what the next one reads.

PyTorch's own norms under autocast read and write float32, with a conversion before and after.
Inside, everything here is float32 too. Gradients of the scales are sums over rows: each program
adds up its own, and the programs' sums are added in a fixed order (`columns.py`).
"""

# mypy: ignore-errors
import torch
import triton
import triton.language as tl
from torch import Tensor

from gelgt.nn.kernels.columns import Tile, add_programs

FORWARD = Tile(8, 0, 2)
BACKWARD = Tile(4, 0, 4, 264)


@triton.jit
def layer_forward_kernel(
    x, weight, bias, out, means, scales, rows, width, stride, eps,
    IS_RELU: tl.constexpr, WIDE: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """`stride` is the distance of two rows of `out`."""
    table = tl.program_id(1)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, WIDE)
    is_row, is_column = row < rows, column < width
    at = (table * rows + row).to(tl.int64)
    inside = is_row[:, None] & is_column[None, :]
    value = tl.load(x + at[:, None] * width + column[None, :], mask=inside, other=0.0)
    value = value.to(tl.float32)
    mean = tl.sum(value, axis=1) / width
    centred = tl.where(inside, value - mean[:, None], 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(centred * centred, axis=1) / width + eps)
    factor = tl.load(weight + table * width + column, mask=is_column, other=0.0).to(tl.float32)
    shift = tl.load(bias + table * width + column, mask=is_column, other=0.0).to(tl.float32)
    normed = centred * scale[:, None] * factor[None, :] + shift[None, :]
    if IS_RELU:
        normed = tl.maximum(normed, 0.0)
    to = out + at[:, None] * stride + column[None, :]
    tl.store(to, normed.to(out.dtype.element_ty), mask=inside)
    tl.store(means + at, mean, mask=is_row)
    tl.store(scales + at, scale, mask=is_row)


@triton.jit
def layer_backward_kernel(
    x, weight, bias, means, scales, gradient, passed, d_x, partial, rows, width, stride, tiles,
    IS_RELU: tl.constexpr, HAS_PASSED: tl.constexpr, WIDE: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """d_x, to which `passed` is added, and each program's sums for the weights and the biases: (2,
    n, programs, width). `stride` is the distance of two rows of the gradient."""
    program, programs = tl.program_id(0), tl.num_programs(0)
    table, tables = tl.program_id(1), tl.num_programs(1)
    column = tl.arange(0, WIDE)
    is_column = column < width
    factor = tl.load(weight + table * width + column, mask=is_column, other=0.0).to(tl.float32)
    if IS_RELU:
        shift = tl.load(bias + table * width + column, mask=is_column, other=0.0).to(tl.float32)
    # summed over a program's rows at the end, once: rows lie in different warps
    for_weight = tl.zeros((ROWS, WIDE), tl.float32)
    for_bias = tl.zeros((ROWS, WIDE), tl.float32)
    for tile in range(program, tiles, programs):
        row = tile * ROWS + tl.arange(0, ROWS)
        is_row = row < rows
        at = (table * rows + row).to(tl.int64)
        place = at[:, None] * width + column[None, :]
        inside = is_row[:, None] & is_column[None, :]
        mean = tl.load(means + at, mask=is_row, other=0.0)
        scale = tl.load(scales + at, mask=is_row, other=0.0)
        value = tl.load(x + place, mask=inside, other=0.0).to(tl.float32)
        from_ = gradient + at[:, None] * stride + column[None, :]
        given = tl.load(from_, mask=inside, other=0.0).to(tl.float32)
        normed = tl.where(inside, (value - mean[:, None]) * scale[:, None], 0.0)
        if IS_RELU:
            given = tl.where(normed * factor[None, :] + shift[None, :] > 0.0, given, 0.0)
        for_weight += given * normed
        for_bias += given
        inner = given * factor[None, :]
        first = tl.sum(inner, axis=1) / width
        second = tl.sum(inner * normed, axis=1) / width
        for_x = (inner - first[:, None] - normed * second[:, None]) * scale[:, None]
        if HAS_PASSED:
            for_x += tl.load(passed + place, mask=inside, other=0.0).to(tl.float32)
        tl.store(d_x + place, for_x.to(d_x.dtype.element_ty), mask=inside)
    to = partial + (table * programs + program) * width + column
    tl.store(to, tl.sum(for_weight, axis=0), mask=is_column)
    tl.store(to + tables * programs * width, tl.sum(for_bias, axis=0), mask=is_column)


def layer_forward(
    x: Tensor, weight: Tensor, bias: Tensor, eps: float, dtype: torch.dtype,
    out: Tensor | None = None, is_relu: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """(n, T, d), (n, d), (n, d) → (n, T, d) of the type asked for, and the rows' means and scales
    (n, T).

    Args:
        out: Where to write, (1, T, d) with rows as far from each other as it has them.
        is_relu: Whether a ReLU follows.
    """
    tables, rows, width = x.shape
    out = torch.empty(tables, rows, width, dtype=dtype, device=x.device) if out is None else out
    means, scales = (
        torch.empty(tables, rows, dtype=torch.float32, device=x.device) for _ in range(2)
    )
    layer_forward_kernel[(triton.cdiv(rows, FORWARD.rows), tables)](
        x, weight, bias, out, means, scales, rows, width, out.stride(1), eps,
        IS_RELU=is_relu, WIDE=triton.next_power_of_2(width), ROWS=FORWARD.rows,
        num_warps=FORWARD.warps,
    )  # fmt: skip
    return out, means, scales


def layer_backward(
    x: Tensor, weight: Tensor, bias: Tensor, means: Tensor, scales: Tensor, gradient: Tensor,
    passed: Tensor | None = None, is_relu: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Gradients of x (n, T, d), weight and bias (n, d).

    Args:
        gradient: Of the output; its rows may lie apart.
        passed: (n, T, d) what else comes back to x, by a residual connection.
    """
    tables, rows, width = x.shape
    tiles = triton.cdiv(rows, BACKWARD.rows)
    programs = min(max(1, BACKWARD.programs // tables), tiles)
    d_x = torch.empty_like(x)
    partial = torch.empty(2 * tables, programs, width, dtype=torch.float32, device=x.device)
    layer_backward_kernel[(programs, tables)](
        x, weight, bias, means, scales, gradient, passed, d_x, partial,
        rows, width, gradient.stride(1), tiles,
        IS_RELU=is_relu, HAS_PASSED=passed is not None,
        WIDE=triton.next_power_of_2(width), ROWS=BACKWARD.rows, num_warps=BACKWARD.warps,
    )  # fmt: skip
    sums = add_programs(partial)
    return d_x, sums[:tables], sums[tables:]
