"""Sums over the rows of a matrix in two stages: programs add up rows of their own, and what they
found is added in a fixed order. PyTorch's own reduction reads a tall matrix with too few threads.
"""

# mypy: ignore-errors
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor


class Tile(NamedTuple):
    """The shape of a kernel's programs: rows and columns that one takes at once, its warps, and how
    many there are along the rows, at most."""

    rows: int
    columns: int
    warps: int
    programs: int = 0


SUMS = Tile(32, 128, 4, 66)
TOTAL = Tile(128, 16, 8)  # of the programs' sums that are added at once, at most
FEW = 256  # rows that are added in one stage


@triton.jit
def column_kernel(x, partial, rows, width, tiles, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Each program's sums: (n, rows, width) → (n, programs, width)."""
    program, programs, table = tl.program_id(0), tl.num_programs(0), tl.program_id(2)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    is_column = column < width
    summed = tl.zeros((ROWS, COLUMNS), tl.float32)
    for tile in range(program, tiles, programs):
        row = tile * ROWS + tl.arange(0, ROWS)
        place = (table * rows + row).to(tl.int64)[:, None] * width + column[None, :]
        inside = (row < rows)[:, None] & is_column[None, :]
        summed += tl.load(x + place, mask=inside, other=0.0).to(tl.float32)
    to = partial + (table * programs + program) * width + column
    tl.store(to, tl.sum(summed, axis=0), mask=is_column)


@triton.jit
def total_kernel(partial, out, programs, width, CHUNK: tl.constexpr, COLUMNS: tl.constexpr):
    """(n, programs, width) → (n, width)."""
    table = tl.program_id(1)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    is_column = column < width
    summed = tl.zeros((CHUNK, COLUMNS), tl.float32)
    for start in range(0, programs, CHUNK):
        k = start + tl.arange(0, CHUNK)
        place = (table * programs + k)[:, None] * width + column[None, :]
        inside = (k < programs)[:, None] & is_column[None, :]
        summed += tl.load(partial + place, mask=inside, other=0.0).to(tl.float32)
    total = tl.sum(summed, axis=0).to(out.dtype.element_ty)
    tl.store(out + table * width + column, total, mask=is_column)


def add_programs(partial: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """The sums of all programs together: (n, programs, d) → (n, d)."""
    tables, programs, width = partial.shape
    out = torch.empty(tables, width, dtype=dtype, device=partial.device)
    chunk = min(TOTAL.rows, max(16, triton.next_power_of_2(programs)))
    total_kernel[(triton.cdiv(width, TOTAL.columns), tables)](
        partial, out, programs, width,
        CHUNK=chunk, COLUMNS=TOTAL.columns, num_warps=min(TOTAL.warps, max(1, chunk // 16)),
    )  # fmt: skip
    return out


def column_sums(x: Tensor, tile: Tile | None = None) -> Tensor:
    """Sums over the rows of n matrices, in their precision: (n, rows, d) → (n, d)."""
    tile = tile or SUMS
    tables, rows, width = x.shape
    if rows <= FEW:
        return add_programs(x, x.dtype)
    columns = min(tile.columns, max(16, triton.next_power_of_2(width)))
    tiles = triton.cdiv(rows, tile.rows)
    grid = (min(tile.programs, tiles), triton.cdiv(width, columns), tables)
    partial = torch.empty(tables, grid[0], width, dtype=torch.float32, device=x.device)
    column_kernel[grid](
        x, partial, rows, width, tiles, ROWS=tile.rows, COLUMNS=columns, num_warps=tile.warps
    )
    return add_programs(partial, x.dtype)
