"""Batch norm of several tables at once, each over its real rows, in one precision from memory to
memory, as `layer_norm.py` is.

A chunk of rows is a program. Statistics and gradients of the scales are those of the chunks, added
in a fixed order.
"""

# mypy: ignore-errors
import torch
import triton
import triton.language as tl
from torch import Tensor

CHUNK = 64  # rows that a program takes
SUMS = 32  # of the chunks' sums that are added at once


@triton.jit
def chunk_rows(chunk, count, height, width, table, WIDE: tl.constexpr, CHUNK: tl.constexpr):
    """Where the entries of a chunk lie, which are real, and which exist."""
    row = chunk * CHUNK + tl.arange(0, CHUNK)
    column = tl.arange(0, WIDE)
    place = (table * height + row).to(tl.int64)[:, None] * width + column[None, :]
    exists = (row < height)[:, None] & (column < width)[None, :]
    return place, exists & (row < count)[:, None], exists


@triton.jit
def batch_stats_kernel(
    x, counts, partial, height, width, chunks, WIDE: tl.constexpr, CHUNK: tl.constexpr
):
    """Each chunk's mean, and its sum of squares around it: (2, n, chunks, width)."""
    chunk, table = tl.program_id(0), tl.program_id(1)
    column = tl.arange(0, WIDE)
    count = tl.load(counts + table)
    place, is_real, _ = chunk_rows(chunk, count, height, width, table, WIDE, CHUNK)
    rows = tl.maximum(tl.minimum(count - chunk * CHUNK, CHUNK), 0)  # of this chunk that are real
    value = tl.load(x + place, mask=is_real, other=0.0).to(tl.float32)
    mean = tl.sum(value, axis=0) / tl.maximum(rows, 1)
    centred = tl.where(is_real, value - mean[None, :], 0.0)
    to = partial + (table * chunks + chunk) * width + column
    tl.store(to, mean, mask=column < width)
    tl.store(
        to + tl.num_programs(1) * chunks * width,
        tl.sum(centred * centred, axis=0),
        mask=column < width,
    )


@triton.jit
def batch_forward_kernel(
    x, counts, weight, bias, partial, out, means, scales, variances, height, width, chunks, eps,
    WIDE: tl.constexpr, CHUNK: tl.constexpr, SUMS: tl.constexpr,
):  # fmt: skip
    """The chunks' statistics together, then the chunk normalised; filler rows get the bias."""
    chunk, table = tl.program_id(0), tl.program_id(1)
    column = tl.arange(0, WIDE)
    is_column = column < width
    count = tl.load(counts + table)
    total = tl.maximum(count, 1).to(tl.float32)
    second = tl.num_programs(1) * chunks * width
    mean = tl.zeros((WIDE,), tl.float32)
    for start in range(0, chunks, SUMS):
        k = start + tl.arange(0, SUMS)
        rows = tl.maximum(tl.minimum(count - k * CHUNK, CHUNK), 0).to(tl.float32)
        part = (table * chunks + k)[:, None] * width + column[None, :]
        mean += tl.sum(
            tl.load(partial + part, mask=(k < chunks)[:, None] & is_column[None, :], other=0.0)
            * rows[:, None],
            axis=0,
        )
    mean = mean / total
    square = tl.zeros((WIDE,), tl.float32)
    for start in range(0, chunks, SUMS):
        k = start + tl.arange(0, SUMS)
        rows = tl.maximum(tl.minimum(count - k * CHUNK, CHUNK), 0).to(tl.float32)
        part = (table * chunks + k)[:, None] * width + column[None, :]
        inside = (k < chunks)[:, None] & is_column[None, :]
        apart = tl.load(partial + part, mask=inside, other=0.0) - mean[None, :]
        square += tl.sum(
            tl.load(partial + second + part, mask=inside, other=0.0)
            + apart * apart * rows[:, None],
            axis=0,
        )
    scale = 1.0 / tl.sqrt(square / total + eps)
    if chunk == 0:
        tl.store(means + table * width + column, mean, mask=is_column)
        tl.store(scales + table * width + column, scale, mask=is_column)
        tl.store(
            variances + table * width + column,
            square / tl.maximum(total - 1.0, 1.0),
            mask=is_column,
        )
    factor = tl.load(weight + table * width + column, mask=is_column, other=0.0).to(tl.float32)
    shift = tl.load(bias + table * width + column, mask=is_column, other=0.0).to(tl.float32)
    place, is_real, exists = chunk_rows(chunk, count, height, width, table, WIDE, CHUNK)
    value = tl.load(x + place, mask=is_real, other=0.0).to(tl.float32)
    normed = tl.where(is_real, (value - mean[None, :]) * scale[None, :], 0.0)
    tl.store(
        out + place,
        (normed * factor[None, :] + shift[None, :]).to(out.dtype.element_ty),
        mask=exists,
    )


@triton.jit
def batch_sums_kernel(
    x,
    gradient,
    counts,
    means,
    scales,
    partial,
    height,
    width,
    chunks,
    WIDE: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """Each chunk's sums of the gradient, and of it times the normalised rows: (2, n, chunks,
    width)."""
    chunk, table = tl.program_id(0), tl.program_id(1)
    column = tl.arange(0, WIDE)
    is_column = column < width
    count = tl.load(counts + table)
    mean = tl.load(means + table * width + column, mask=is_column, other=0.0)
    scale = tl.load(scales + table * width + column, mask=is_column, other=0.0)
    place, is_real, _ = chunk_rows(chunk, count, height, width, table, WIDE, CHUNK)
    value = tl.load(x + place, mask=is_real, other=0.0).to(tl.float32)
    given = tl.load(gradient + place, mask=is_real, other=0.0).to(tl.float32)
    normed = (value - mean[None, :]) * scale[None, :]
    to = partial + (table * chunks + chunk) * width + column
    tl.store(to, tl.sum(given, axis=0), mask=is_column)
    tl.store(
        to + tl.num_programs(1) * chunks * width, tl.sum(given * normed, axis=0), mask=is_column
    )


@triton.jit
def batch_backward_kernel(
    x, gradient, counts, weight, means, scales, partial, d_x, d_weight, d_bias,
    height, width, chunks,
    WIDE: tl.constexpr, CHUNK: tl.constexpr, SUMS: tl.constexpr,
):  # fmt: skip
    chunk, table = tl.program_id(0), tl.program_id(1)
    column = tl.arange(0, WIDE)
    is_column = column < width
    count = tl.load(counts + table)
    second = tl.num_programs(1) * chunks * width
    for_bias = tl.zeros((WIDE,), tl.float32)
    for_weight = tl.zeros((WIDE,), tl.float32)
    for start in range(0, chunks, SUMS):
        k = start + tl.arange(0, SUMS)
        part = (table * chunks + k)[:, None] * width + column[None, :]
        inside = (k < chunks)[:, None] & is_column[None, :]
        for_bias += tl.sum(tl.load(partial + part, mask=inside, other=0.0), axis=0)
        for_weight += tl.sum(tl.load(partial + second + part, mask=inside, other=0.0), axis=0)
    if chunk == 0:
        tl.store(d_bias + table * width + column, for_bias, mask=is_column)
        tl.store(d_weight + table * width + column, for_weight, mask=is_column)
    mean = tl.load(means + table * width + column, mask=is_column, other=0.0)
    scale = tl.load(scales + table * width + column, mask=is_column, other=0.0)
    factor = tl.load(weight + table * width + column, mask=is_column, other=0.0).to(tl.float32)
    share = 1.0 / tl.maximum(count, 1).to(tl.float32)
    place, is_real, exists = chunk_rows(chunk, count, height, width, table, WIDE, CHUNK)
    value = tl.load(x + place, mask=is_real, other=0.0).to(tl.float32)
    given = tl.load(gradient + place, mask=is_real, other=0.0).to(tl.float32)
    normed = (value - mean[None, :]) * scale[None, :]
    inner = given - (for_bias * share)[None, :] - normed * (for_weight * share)[None, :]
    for_x = tl.where(is_real, inner * (scale * factor)[None, :], 0.0)
    tl.store(d_x + place, for_x.to(d_x.dtype.element_ty), mask=exists)


def batch_forward(
    x: Tensor, counts: Tensor, weight: Tensor, bias: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(n, R, c), of which the first `counts` (n,) rows are real → (n, R, c), and means, scales and
    unbiased variances (n, c)."""
    tables, height, width = x.shape
    chunks = triton.cdiv(height, CHUNK)
    partial = torch.empty(2, tables, chunks, width, dtype=torch.float32, device=x.device)
    out = torch.empty_like(x)
    means, scales, variances = (
        torch.empty(tables, width, dtype=torch.float32, device=x.device) for _ in range(3)
    )
    sizes = {"WIDE": triton.next_power_of_2(width), "CHUNK": CHUNK}
    batch_stats_kernel[(chunks, tables)](
        x, counts, partial, height, width, chunks, **sizes, num_warps=8
    )
    batch_forward_kernel[(chunks, tables)](
        x,
        counts,
        weight,
        bias,
        partial,
        out,
        means,
        scales,
        variances,
        height,
        width,
        chunks,
        eps,
        **sizes,
        SUMS=SUMS,
        num_warps=8,
    )
    return out, means, scales, variances


def batch_backward(
    x: Tensor, counts: Tensor, weight: Tensor, means: Tensor, scales: Tensor, gradient: Tensor
) -> tuple[Tensor, ...]:
    """Gradients of x, weight and bias."""
    tables, height, width = x.shape
    chunks = triton.cdiv(height, CHUNK)
    partial = torch.empty(2, tables, chunks, width, dtype=torch.float32, device=x.device)
    d_x = torch.empty_like(x)
    d_weight, d_bias = (
        torch.empty(tables, width, dtype=torch.float32, device=x.device) for _ in range(2)
    )
    sizes = {"WIDE": triton.next_power_of_2(width), "CHUNK": CHUNK}
    grid = (chunks, tables)
    batch_sums_kernel[grid](
        x, gradient, counts, means, scales, partial, height, width, chunks, **sizes, num_warps=8
    )
    batch_backward_kernel[grid](
        x,
        gradient,
        counts,
        weight,
        means,
        scales,
        partial,
        d_x,
        d_weight,
        d_bias,
        height,
        width,
        chunks,
        **sizes,
        SUMS=SUMS,
        num_warps=8,
    )
    return d_x, d_weight, d_bias
