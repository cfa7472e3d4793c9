"""Sums of the entries of each row, one program a row: no atomics, and a fixed order.

Most rows have a handful of entries, which a program reads a few at a time; a hub has hundreds, of
which it first takes as many whole tiles of `many` entries as there are, so that more of them are on
their way at once. A thread holds all entries of a tile for its columns: nothing is exchanged.
"""

# mypy: ignore-errors
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor


class Division(NamedTuple):
    """Entries of a hub and of other rows that are read at once, columns that a program takes, and
    its warps."""

    many: int
    few: int
    columns: int
    warps: int


DIVISION = Division(32, 4, 256, 1)


@triton.jit
def entries_sum(x, other, weight, at, stop, columns, width, ENTRIES: tl.constexpr):
    """Σ weight[e] · x[other[e]] for at ≤ e < at + ENTRIES, e < stop: (columns,) float32."""
    entries = at + tl.arange(0, ENTRIES)
    is_entry = entries < stop
    source = tl.load(other + entries, mask=is_entry, other=0).to(tl.int64)
    factor = tl.load(weight + entries, mask=is_entry, other=0.0)
    is_read = (factor != 0.0)[:, None] & (columns < width)[None, :]
    values = tl.load(x + source[:, None] * width + columns[None, :], mask=is_read, other=0.0)
    return tl.sum(values.to(tl.float32) * factor[:, None], axis=0)


@triton.jit
def segment_kernel(
    x, other, weight, start, end, out, width,
    BLOCK: tl.constexpr, MANY: tl.constexpr, FEW: tl.constexpr,
):  # fmt: skip
    """out[row] = Σ weight[e] · x[other[e]] for start[row] ≤ e < end[row], in float32."""
    row = tl.program_id(0)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    first, stop = tl.load(start + row), tl.load(end + row)
    border = first + (stop - first) // MANY * MANY
    total = tl.zeros((BLOCK,), tl.float32)
    for at in range(first, border, MANY):
        total += entries_sum(x, other, weight, at, stop, columns, width, MANY)
    for at in range(border, stop, FEW):
        total += entries_sum(x, other, weight, at, stop, columns, width, FEW)
    to = out + row.to(tl.int64) * width + columns
    tl.store(to, total.to(out.dtype.element_ty), mask=columns < width)


def launch_segment_sum(
    x: Tensor, other: Tensor, weight: Tensor, start: Tensor, end: Tensor,
    division: Division | None = None,
) -> Tensor:  # fmt: skip
    """(X, d), (S,), (S,) float32, (R,), (R,) → (R, d)."""
    many, few, columns, warps = division or DIVISION
    rows, width = start.shape[0], x.shape[1]
    out = torch.empty(rows, width, dtype=x.dtype, device=x.device)
    block = min(columns, triton.next_power_of_2(width))
    segment_kernel[(rows, triton.cdiv(width, block))](
        x, other, weight, start, end, out, width,
        BLOCK=block, MANY=many, FEW=few, num_warps=warps,
    )  # fmt: skip
    return out
