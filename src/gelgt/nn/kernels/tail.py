"""What follows a product, in one pass over memory: GELU, dropout and a residual connection; and
backward the gradient of the product with the sums over its rows that the bias needs.

Whether an entry is dropped follows from a seed, its row and its column, so no mask is kept.
"""

# mypy: ignore-errors
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from gelgt.nn.kernels.columns import Tile, add_programs
from gelgt.nn.kernels.tiles import drop_columns, mix32, survives

FORWARD = Tile(16, 256, 4)
BACKWARD = Tile(16, 128, 4, 132)


class Tail(NamedTuple):
    """GELU or not, the rate of dropout, and (1,) the seed of its draws; None without."""

    is_gelu: bool
    rate: float = 0.0
    seed: Tensor | None = None

    def draws(self) -> tuple[int, float]:
        """Below which of 2^24 draws an entry is dropped, and what the others are multiplied by."""
        return round(self.rate * 2**24), 1.0 / (1.0 - self.rate)


@triton.jit
def is_kept(seed, row, column, threshold):
    """Whether entries survive dropout: (rows,), (columns,) → (rows, columns)."""
    of_rows = mix32(mix32(row.to(tl.uint32)) ^ tl.load(seed).to(tl.uint32))
    return survives(of_rows[:, None], drop_columns(column)[None, :], threshold)


@triton.jit(do_not_specialize_on_alignment=["seed"])  # one of many that were drawn at once
def tail_forward_kernel(
    y, residual, seed, out, rows, width, threshold, upscale,
    IS_GELU: tl.constexpr, HAS_DROPOUT: tl.constexpr, HAS_RESIDUAL: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """out = residual + dropout(GELU(y)), (rows, width) each."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = (row < rows)[:, None] & (column < width)[None, :]
    place = row.to(tl.int64)[:, None] * width + column[None, :]
    value = tl.load(y + place, mask=inside, other=0.0).to(tl.float32)
    if IS_GELU:
        value = 0.5 * value * (1.0 + tl.erf(value * 0.7071067811865476))
    if HAS_DROPOUT:
        value = tl.where(is_kept(seed, row, column, threshold), value * upscale, 0.0)
    if HAS_RESIDUAL:
        value += tl.load(residual + place, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + place, value.to(out.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize_on_alignment=["seed"])
def tail_backward_kernel(
    gradient, y, seed, d_y, partial, rows, width, tiles, threshold, upscale,
    IS_GELU: tl.constexpr, HAS_DROPOUT: tl.constexpr, HAS_SUMS: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """d_y, and each program's sums over its rows: (programs, width)."""
    program, programs = tl.program_id(0), tl.num_programs(0)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    is_column = column < width
    summed = tl.zeros((ROWS, COLUMNS), tl.float32)
    for tile in range(program, tiles, programs):
        row = tile * ROWS + tl.arange(0, ROWS)
        inside = (row < rows)[:, None] & is_column[None, :]
        place = row.to(tl.int64)[:, None] * width + column[None, :]
        given = tl.load(gradient + place, mask=inside, other=0.0).to(tl.float32)
        if HAS_DROPOUT:
            given = tl.where(is_kept(seed, row, column, threshold), given * upscale, 0.0)
        if IS_GELU:
            value = tl.load(y + place, mask=inside, other=0.0).to(tl.float32)
            below = 0.5 + 0.5 * tl.erf(value * 0.7071067811865476)
            density = 0.3989422804014327 * tl.exp(-0.5 * value * value)
            given = given * (below + value * density)
        tl.store(d_y + place, given.to(d_y.dtype.element_ty), mask=inside)
        if HAS_SUMS:
            summed += given
    if HAS_SUMS:
        tl.store(partial + program * width + column, tl.sum(summed, axis=0), mask=is_column)


def tail_forward(
    y: Tensor, residual: Tensor | None, tail: Tail, tile: Tile | None = None
) -> Tensor:
    """residual + dropout(GELU(y)): (T, d), (T, d) → (T, d)."""
    tile = tile or FORWARD
    rows, width = y.shape
    dtype = y.dtype if residual is None else torch.promote_types(y.dtype, residual.dtype)
    out = torch.empty(rows, width, dtype=dtype, device=y.device)
    columns = min(tile.columns, max(16, triton.next_power_of_2(width)))
    tail_forward_kernel[(triton.cdiv(rows, tile.rows), triton.cdiv(width, columns))](
        y, residual, tail.seed, out, rows, width, *tail.draws(),
        IS_GELU=tail.is_gelu, HAS_DROPOUT=tail.rate > 0, HAS_RESIDUAL=residual is not None,
        ROWS=tile.rows, COLUMNS=columns, num_warps=tile.warps,
    )  # fmt: skip
    return out


def tail_backward(
    gradient: Tensor, y: Tensor | None, tail: Tail, dtype: torch.dtype, has_sums: bool = True,
    tile: Tile | None = None,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """The gradient of y (T, d), and its sum over the rows (d,), both of the type of y.

    Args:
        gradient: (T, d) of the output.
        y: (T, d), which GELU alone needs.
        has_sums: Whether the sum is asked for.
    """
    tile = tile or BACKWARD
    rows, width = gradient.shape
    d_y = torch.empty(rows, width, dtype=dtype, device=gradient.device)
    columns = min(tile.columns, max(16, triton.next_power_of_2(width)))
    tiles = triton.cdiv(rows, tile.rows)
    grid = (min(tile.programs, tiles) if has_sums else tiles, triton.cdiv(width, columns))
    partial = (
        torch.empty(1, grid[0], width, dtype=torch.float32, device=gradient.device)
        if has_sums
        else None
    )
    tail_backward_kernel[grid](
        gradient, y, tail.seed, d_y, partial, rows, width, tiles, *tail.draws(),
        IS_GELU=tail.is_gelu, HAS_DROPOUT=tail.rate > 0, HAS_SUMS=has_sums,
        ROWS=tile.rows, COLUMNS=columns, num_warps=tile.warps,
    )  # fmt: skip
    return d_y, None if partial is None else add_programs(partial, dtype)[0]
