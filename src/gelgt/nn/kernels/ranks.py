"""Ranks of rows within their subgraphs by counting: a row's rank is how many others come before it.
A subgraph has some hundred rows, so comparing all pairs is faster than sorting.
"""

# mypy: ignore-errors
import torch
import triton
import triton.language as tl
from torch import Tensor

ROWS, OTHERS, WARPS = 32, 64, 4  # of a program, and those that they are compared with at once
SCORED = 16  # rows of a program that multiplies them by their seed


@triton.jit
def own_rows(offsets, ROWS: tl.constexpr):
    """The rows of this program, and where its subgraph begins and ends."""
    start, stop = tl.load(offsets + tl.program_id(1)), tl.load(offsets + tl.program_id(1) + 1)
    return start + tl.program_id(0) * ROWS + tl.arange(0, ROWS), start, stop


@triton.jit
def hop_and_score(hop, scores, row, inside):
    """What rows are ordered by: the seed, the first hop, the rest; and among the rest the higher
    score first, as whole numbers in the order of floats."""
    group = tl.minimum(tl.load(hop + row, mask=inside, other=2), 2)
    score = tl.load(scores + row, mask=inside, other=0.0).to(tl.float32)
    bits = tl.where(group == 2, 0.0 - score, 0.0).to(tl.int32, bitcast=True)
    return group, tl.where(bits < 0, 0 - (bits & 0x7FFFFFFF), bits)


@triton.jit
def kept_kernel(scores, hop, offsets, out, keep, ROWS: tl.constexpr, OTHERS: tl.constexpr):
    """Which rows are among the first `keep` of their subgraph (`nn/refinement.py`)."""
    row, start, stop = own_rows(offsets, ROWS)
    inside = row < stop
    group, score = hop_and_score(hop, scores, row, inside)
    rank = tl.zeros((ROWS,), tl.int32)
    for first in range(start, tl.where(tl.min(row, 0) < stop, stop, start), OTHERS):
        other = first + tl.arange(0, OTHERS)
        is_other = other < stop
        its_group, its_score = hop_and_score(hop, scores, other, is_other)
        is_tied = its_score[None, :] == score[:, None]
        is_nearer = its_group[None, :] < group[:, None]
        is_better = (its_score[None, :] < score[:, None]) | (
            is_tied & (other[None, :] < row[:, None])
        )
        is_before = is_nearer | ((its_group[None, :] == group[:, None]) & is_better)
        rank += tl.sum((is_before & is_other[None, :]).to(tl.int32), axis=1)
    tl.store(out + row, (rank < keep).to(tl.int8), mask=inside)


@triton.jit
def scores_kernel(h, offsets, out, width, ROWS: tl.constexpr, WIDE: tl.constexpr):
    """h_seed · h_row of every row of a subgraph (`nn/refinement.py`); products are rounded as
    PyTorch's are, sums are float32."""
    row, start, stop = own_rows(offsets, ROWS)
    column = tl.arange(0, WIDE)
    is_column, inside = column < width, row < stop
    # an empty subgraph begins at a filler row, of which there is one at least
    seed = tl.load(h + start.to(tl.int64) * width + column, mask=is_column, other=0.0)
    place = row.to(tl.int64)[:, None] * width + column[None, :]
    value = tl.load(h + place, mask=inside[:, None] & is_column[None, :], other=0.0)
    product = (value.to(tl.float32) * seed.to(tl.float32)[None, :]).to(h.dtype.element_ty)
    tl.store(out + row, tl.sum(product.to(tl.float32), axis=1), mask=inside)


@triton.jit
def recency_kernel(
    age, table, is_new, offsets, out, IS_RANK: tl.constexpr, ROWS: tl.constexpr,
    OTHERS: tl.constexpr,
):  # fmt: skip
    """Whether no row before has the same table and age; or, where that is known, how many distinct
    ages of the same table are smaller."""
    row, start, stop = own_rows(offsets, ROWS)
    inside = row < stop
    own_age = tl.load(age + row, mask=inside, other=0.0)
    own_table = tl.load(table + row, mask=inside, other=-1)
    count = tl.zeros((ROWS,), tl.int32)
    for first in range(start, tl.where(tl.min(row, 0) < stop, stop, start), OTHERS):
        other = first + tl.arange(0, OTHERS)
        is_other = other < stop
        its_age = tl.load(age + other, mask=is_other, other=0.0)
        its_table = tl.load(table + other, mask=is_other, other=-2)
        if IS_RANK:
            counts = (tl.load(is_new + other, mask=is_other, other=0) != 0)[None, :] & (
                its_age[None, :] < own_age[:, None]
            )
        else:
            counts = (its_age[None, :] == own_age[:, None]) & (other[None, :] < row[:, None])
        counts = counts & (its_table[None, :] == own_table[:, None])
        count += tl.sum(counts.to(tl.int32), axis=1)
    found = count if IS_RANK else (count == 0).to(tl.int32)
    tl.store(out + row, found, mask=inside)


def launch_scores(h: Tensor, offsets: Tensor, longest: int) -> Tensor:
    """The semantic score of each row: (T, d), (B + 1,) → (T,) float32; 0 for rows of no
    subgraph."""
    out = torch.zeros(len(h), dtype=torch.float32, device=h.device)
    width = h.shape[1]
    scores_kernel[(triton.cdiv(longest, SCORED), len(offsets) - 1)](
        h, offsets, out, width,
        ROWS=SCORED, WIDE=triton.next_power_of_2(width), num_warps=WARPS,
    )  # fmt: skip
    return out


def launch_kept(scores: Tensor, hop: Tensor, offsets: Tensor, longest: int, keep: int) -> Tensor:
    """Which rows refinement keeps: (T,), (T,), (B + 1,) → (T,) of booleans; rows of no subgraph are
    not kept."""
    out = torch.zeros(len(scores), dtype=torch.int8, device=scores.device)
    grid = (triton.cdiv(longest, ROWS), len(offsets) - 1)
    kept_kernel[grid](scores, hop, offsets, out, keep, ROWS=ROWS, OTHERS=OTHERS, num_warps=WARPS)
    return out.view(torch.bool)


def launch_recency(age: Tensor, table: Tensor, offsets: Tensor, longest: int) -> Tensor:
    """How many distinct ages among the rows of the same table and subgraph are smaller: (T,), (T,),
    (B + 1,) → (T,) int32; 0 for rows of no subgraph."""
    is_new, rank = torch.zeros(2, len(age), dtype=torch.int32, device=age.device).unbind()
    grid = (triton.cdiv(longest, ROWS), len(offsets) - 1)
    sizes = {"ROWS": ROWS, "OTHERS": OTHERS}
    given = (age, table, is_new, offsets)
    recency_kernel[grid](*given, is_new, IS_RANK=False, **sizes, num_warps=WARPS)
    recency_kernel[grid](*given, rank, IS_RANK=True, **sizes, num_warps=WARPS)
    return rank
