"""Numerical columns as vectors, v · w + b for each number v of a row, in the precision that the
next product reads; and the sums over rows that w and b need, in two stages (`columns.py`)."""

# mypy: ignore-errors
import torch
import triton
import triton.language as tl
from torch import Tensor

from gelgt.nn.kernels.columns import Tile, add_programs

FORWARD = Tile(16, 128, 4)
BACKWARD = Tile(16, 128, 4, 132)


@triton.jit
def number_forward_kernel(
    values, weight, bias, out, rows, width, stride, CHANNELS: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """`width` is columns · channels, `stride` the distance of two rows of values."""
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    is_column = column < width
    inside = (row < rows)[:, None] & is_column[None, :]
    at = row[:, None] * stride + (column // CHANNELS)[None, :]
    value = tl.load(values + at, mask=inside, other=0.0)
    factor = tl.load(weight + column, mask=is_column, other=0.0)
    shift = tl.load(bias + column, mask=is_column, other=0.0)
    made = (value * factor[None, :] + shift[None, :]).to(out.dtype.element_ty)
    tl.store(out + row[:, None] * width + column[None, :], made, mask=inside)


@triton.jit
def number_backward_kernel(
    values, gradient, partial, rows, width, stride, apart, tiles, CHANNELS: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Each program's sums for w and b: (2, programs, width). `apart` is the distance of two rows of
    the gradient."""
    program, programs = tl.program_id(0), tl.num_programs(0)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    is_column = column < width
    for_weight = tl.zeros((ROWS, COLUMNS), tl.float32)
    for_bias = tl.zeros((ROWS, COLUMNS), tl.float32)
    for tile in range(program, tiles, programs):
        row = (tile * ROWS + tl.arange(0, ROWS)).to(tl.int64)
        inside = (row < rows)[:, None] & is_column[None, :]
        at = row[:, None] * stride + (column // CHANNELS)[None, :]
        value = tl.load(values + at, mask=inside, other=0.0)
        given = tl.load(gradient + row[:, None] * apart + column[None, :], mask=inside, other=0.0)
        given = given.to(tl.float32)
        for_weight += given * value
        for_bias += given
    to = partial + program * width + column
    tl.store(to, tl.sum(for_weight, axis=0), mask=is_column)
    tl.store(to + programs * width, tl.sum(for_bias, axis=0), mask=is_column)


def _columns(tile: Tile, width: int) -> int:
    return min(tile.columns, max(16, triton.next_power_of_2(width)))


def number_forward(values: Tensor, weight: Tensor, bias: Tensor, dtype: torch.dtype) -> Tensor:
    """(U, columns) whose rows may lie apart, (columns, c), (columns, c) → (U, columns, c)."""
    rows, (count, channels) = len(values), weight.shape
    out = torch.empty(rows, count, channels, dtype=dtype, device=values.device)
    width, columns = count * channels, _columns(FORWARD, count * channels)
    number_forward_kernel[(triton.cdiv(rows, FORWARD.rows), triton.cdiv(width, columns))](
        values, weight, bias, out, rows, width, values.stride(0),
        CHANNELS=channels, ROWS=FORWARD.rows, COLUMNS=columns, num_warps=FORWARD.warps,
    )  # fmt: skip
    return out


def number_backward(values: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of weight and bias, (columns, c) each, from that of the output (U, columns, c),
    whose rows may lie apart."""
    rows, count, channels = gradient.shape
    width, columns = count * channels, _columns(BACKWARD, count * channels)
    tiles = triton.cdiv(rows, BACKWARD.rows)
    grid = (min(BACKWARD.programs, tiles), triton.cdiv(width, columns))
    partial = torch.empty(2, grid[0], width, dtype=torch.float32, device=values.device)
    number_backward_kernel[grid](
        values, gradient, partial, rows, width, values.stride(0), gradient.stride(0), tiles,
        CHANNELS=channels, ROWS=BACKWARD.rows, COLUMNS=columns, num_warps=BACKWARD.warps,
    )  # fmt: skip
    for_weight, for_bias = add_programs(partial).view(2, count, channels).unbind()
    return for_weight, for_bias
