"""Batch norm of several tables at once, each over its real rows, in one precision from memory to
memory, as `layer_norm.py` is.

A chunk of rows is a program. Statistics and gradients of the scales are those of the chunks, added
in a fixed order by programs of their own, once and not for every chunk.
"""

# mypy: ignore-errors
import torch
import triton
import triton.language as tl
from torch import Tensor

from gelgt.nn.kernels.columns import Tile, add_programs

CHUNK = Tile(32, 0, 2)  # rows that a program takes
MERGE = Tile(64, 16, 4)  # chunks whose statistics are put together at once


@triton.jit
def chunk_rows(chunk, count, height, width, table, WIDE: tl.constexpr, CHUNK: tl.constexpr):
    """Where the entries of a chunk lie, which are real, and which exist."""
    row = chunk * CHUNK + tl.arange(0, CHUNK)
    column = tl.arange(0, WIDE)
    place = (table * height + row).to(tl.int64)[:, None] * width + column[None, :]
    exists = (row < height)[:, None] & (column < width)[None, :]
    return place, exists & (row < count)[:, None], exists


@triton.jit
def of_table(values, table, width, WIDE: tl.constexpr):
    """A table's row of (n, width), in float32."""
    column = tl.arange(0, WIDE)
    found = tl.load(values + table * width + column, mask=column < width, other=0.0)
    return found.to(tl.float32)


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
def batch_merge_kernel(
    partial, counts, means, scales, variances, width, chunks, eps,
    CHUNK: tl.constexpr, SUMS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """The chunks' statistics together: means, scales and unbiased variances (n, width)."""
    table, tables = tl.program_id(1), tl.num_programs(1)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    is_column = column < width
    count = tl.load(counts + table)
    total = tl.maximum(count, 1).to(tl.float32)
    summed = tl.zeros((SUMS, COLUMNS), tl.float32)
    for start in range(0, chunks, SUMS):
        k = start + tl.arange(0, SUMS)
        rows = tl.maximum(tl.minimum(count - k * CHUNK, CHUNK), 0).to(tl.float32)
        part = (table * chunks + k)[:, None] * width + column[None, :]
        inside = (k < chunks)[:, None] & is_column[None, :]
        summed += tl.load(partial + part, mask=inside, other=0.0) * rows[:, None]
    mean = tl.sum(summed, axis=0) / total
    summed = tl.zeros((SUMS, COLUMNS), tl.float32)
    for start in range(0, chunks, SUMS):
        k = start + tl.arange(0, SUMS)
        rows = tl.maximum(tl.minimum(count - k * CHUNK, CHUNK), 0).to(tl.float32)
        part = (table * chunks + k)[:, None] * width + column[None, :]
        inside = (k < chunks)[:, None] & is_column[None, :]
        apart = tl.load(partial + part, mask=inside, other=0.0) - mean[None, :]
        square = tl.load(partial + tables * chunks * width + part, mask=inside, other=0.0)
        summed += square + apart * apart * rows[:, None]
    square = tl.sum(summed, axis=0)
    at = table * width + column
    tl.store(means + at, mean, mask=is_column)
    tl.store(scales + at, 1.0 / tl.sqrt(square / total + eps), mask=is_column)
    tl.store(variances + at, square / tl.maximum(total - 1.0, 1.0), mask=is_column)


@triton.jit
def batch_forward_kernel(
    x, counts, weight, bias, means, scales, out, height, width,
    IS_RELU: tl.constexpr, WIDE: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """The chunk normalised; filler rows get the bias."""
    chunk, table = tl.program_id(0), tl.program_id(1)
    count = tl.load(counts + table)
    place, is_real, exists = chunk_rows(chunk, count, height, width, table, WIDE, CHUNK)
    value = tl.load(x + place, mask=is_real, other=0.0).to(tl.float32)
    mean, scale = of_table(means, table, width, WIDE), of_table(scales, table, width, WIDE)
    factor, shift = of_table(weight, table, width, WIDE), of_table(bias, table, width, WIDE)
    normed = tl.where(is_real, (value - mean[None, :]) * scale[None, :], 0.0)
    normed = normed * factor[None, :] + shift[None, :]
    if IS_RELU:
        normed = tl.maximum(normed, 0.0)
    tl.store(out + place, normed.to(out.dtype.element_ty), mask=exists)


@triton.jit
def real_gradient(
    x, gradient, weight, bias, means, scales, place, is_real, table, width,
    IS_RELU: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """The normalised rows of a chunk, and the gradient of them times the weight, where they are
    real."""
    mean, scale = of_table(means, table, width, WIDE), of_table(scales, table, width, WIDE)
    value = tl.load(x + place, mask=is_real, other=0.0).to(tl.float32)
    given = tl.load(gradient + place, mask=is_real, other=0.0).to(tl.float32)
    normed = (value - mean[None, :]) * scale[None, :]
    if IS_RELU:
        factor, shift = of_table(weight, table, width, WIDE), of_table(bias, table, width, WIDE)
        given = tl.where(normed * factor[None, :] + shift[None, :] > 0.0, given, 0.0)
    return normed, given


@triton.jit
def batch_sums_kernel(
    x, gradient, counts, weight, bias, means, scales, partial, height, width, chunks,
    IS_RELU: tl.constexpr, WIDE: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """Each chunk's sums of the gradient times the normalised rows, and of the gradient: (2, n,
    chunks, width)."""
    chunk, table = tl.program_id(0), tl.program_id(1)
    column = tl.arange(0, WIDE)
    is_column = column < width
    count = tl.load(counts + table)
    place, is_real, _ = chunk_rows(chunk, count, height, width, table, WIDE, CHUNK)
    normed, given = real_gradient(
        x, gradient, weight, bias, means, scales, place, is_real, table, width, IS_RELU, WIDE
    )
    to = partial + (table * chunks + chunk) * width + column
    tl.store(to, tl.sum(given * normed, axis=0), mask=is_column)
    tl.store(to + tl.num_programs(1) * chunks * width, tl.sum(given, axis=0), mask=is_column)


@triton.jit
def batch_backward_kernel(
    x, gradient, counts, weight, bias, means, scales, d_weight, d_bias, d_x, height, width,
    IS_RELU: tl.constexpr, WIDE: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    chunk, table = tl.program_id(0), tl.program_id(1)
    count = tl.load(counts + table)
    place, is_real, exists = chunk_rows(chunk, count, height, width, table, WIDE, CHUNK)
    normed, given = real_gradient(
        x, gradient, weight, bias, means, scales, place, is_real, table, width, IS_RELU, WIDE
    )
    share = 1.0 / tl.maximum(count, 1).to(tl.float32)
    for_weight = of_table(d_weight, table, width, WIDE) * share
    for_bias = of_table(d_bias, table, width, WIDE) * share
    scale = of_table(scales, table, width, WIDE) * of_table(weight, table, width, WIDE)
    inner = given - for_bias[None, :] - normed * for_weight[None, :]
    for_x = tl.where(is_real, inner * scale[None, :], 0.0)
    tl.store(d_x + place, for_x.to(d_x.dtype.element_ty), mask=exists)


def batch_forward(
    x: Tensor, counts: Tensor, weight: Tensor, bias: Tensor, eps: float, is_relu: bool = False
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(n, R, c), of which the first `counts` (n,) rows are real → (n, R, c), and means, scales and
    unbiased variances (n, c).

    Args:
        is_relu: Whether a ReLU follows.
    """
    tables, height, width = x.shape
    chunks = triton.cdiv(height, CHUNK.rows)
    partial = torch.empty(2, tables, chunks, width, dtype=torch.float32, device=x.device)
    means, scales, variances = torch.empty(
        3, tables, width, dtype=torch.float32, device=x.device
    ).unbind()
    sizes = {"WIDE": triton.next_power_of_2(width), "CHUNK": CHUNK.rows}
    batch_stats_kernel[(chunks, tables)](
        x, counts, partial, height, width, chunks, **sizes, num_warps=CHUNK.warps
    )
    batch_merge_kernel[(triton.cdiv(width, MERGE.columns), tables)](
        partial, counts, means, scales, variances, width, chunks, eps,
        CHUNK=CHUNK.rows, SUMS=MERGE.rows, COLUMNS=MERGE.columns, num_warps=MERGE.warps,
    )  # fmt: skip
    out = batch_apply(x, counts, weight, bias, means, scales, is_relu)
    return out, means, scales, variances


def batch_apply(
    x: Tensor, counts: Tensor, weight: Tensor, bias: Tensor, means: Tensor, scales: Tensor,
    is_relu: bool = False,
) -> Tensor:  # fmt: skip
    """The same with means and scales (n, c) that are given."""
    tables, height, width = x.shape
    out = torch.empty_like(x)
    batch_forward_kernel[(triton.cdiv(height, CHUNK.rows), tables)](
        x, counts, weight, bias, means, scales, out, height, width,
        IS_RELU=is_relu, WIDE=triton.next_power_of_2(width), CHUNK=CHUNK.rows,
        num_warps=CHUNK.warps,
    )  # fmt: skip
    return out


def batch_backward(
    x: Tensor, counts: Tensor, weight: Tensor, bias: Tensor, means: Tensor, scales: Tensor,
    gradient: Tensor, is_relu: bool = False,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Gradients of x, weight and bias."""
    tables, height, width = x.shape
    chunks = triton.cdiv(height, CHUNK.rows)
    partial = torch.empty(2 * tables, chunks, width, dtype=torch.float32, device=x.device)
    d_x = torch.empty_like(x)
    sizes = {"IS_RELU": is_relu, "WIDE": triton.next_power_of_2(width), "CHUNK": CHUNK.rows}
    grid, given = (chunks, tables), (x, gradient, counts, weight, bias, means, scales)
    batch_sums_kernel[grid](*given, partial, height, width, chunks, **sizes, num_warps=CHUNK.warps)
    sums = add_programs(partial)
    d_weight, d_bias = sums[:tables], sums[tables:]
    batch_backward_kernel[grid](
        *given, d_weight, d_bias, d_x, height, width, **sizes, num_warps=CHUNK.warps
    )
    return d_x, d_weight, d_bias
