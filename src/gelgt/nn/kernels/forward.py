"""The forward kernel: a program takes a tile of queries of one subgraph and head and walks over the
keys, with a running maximum and sum.

Two heads in a program would share their Gaussians, and polynomials would relieve the
special-function unit. Both were measured and are slower: what they save is less than what two fewer
programs on a multiprocessor, or the instructions, cost.
"""

# mypy: ignore-errors
# ruff: noqa: RUF005, RUF059, B007, RUF100 (Triton knows no starred tuples, and no underscore)
import triton
import triton.language as tl

from gelgt.nn.kernels.groups import (
    divide,
    frame_of,
    group_of,
    halves,
    placed,
    read_off,
    shift_of,
    step_of,
)
from gelgt.nn.kernels.tiles import (
    INTEGERS,
    UNALIGNED,
    between,
    drop_columns,
    drop_rows,
    flipped,
    gaussian,
    is_known,
    kernels_of,
    locate,
    rows_of,
    survives,
    weights_of,
)


@triton.jit
def absorb(
    scores, v, top, summed, attended, of_rows, place_k, factor, threshold, upscale,
    HAS_DROPOUT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """One tile of scores and values into the running maximum, sum and weighted values."""
    highest = tl.maximum(top, tl.max(scores, 1))
    weight = tl.exp2(scores * factor - (highest * factor)[:, None])
    fade = tl.exp2((top - highest) * factor)
    summed = summed * fade + tl.sum(weight, 1)
    if HAS_DROPOUT:
        is_kept = survives(of_rows[:, None], drop_columns(place_k)[None, :], threshold)
        weight = tl.where(is_kept, weight * upscale, 0.0)
    attended = tl.dot(weight.to(v.dtype), v, attended * fade[:, None], input_precision=PRECISION)
    return highest, summed, attended


@triton.jit(do_not_specialize=INTEGERS, do_not_specialize_on_alignment=UNALIGNED)
def forward_kernel(
    tokens, blocks, shares, qkv, time, places, mu, sigma, gain, shift, seed, order, nodes, lists,
    out, lse, tiles, total, longest, groups, root, factor, threshold, upscale,
    H: tl.constexpr, D: tl.constexpr, G: tl.constexpr,
    IS_LOG: tl.constexpr, IS_PACKED: tl.constexpr, HAS_DROPOUT: tl.constexpr,
    PRECISION: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr, WALK: tl.constexpr, NODES: tl.constexpr,
):  # fmt: skip
    """(T, 3, H, D) → (T, H, D), and for each row of scores log Σ exp times √D (H, T). `tokens`
    reads tiles of BLOCK_K rows of `qkv`, `blocks` groups of it."""
    tile, h, b, start, length = locate(places, tiles, longest, H, IS_PACKED)
    place_q = tile * BLOCK_Q + tl.arange(0, BLOCK_Q)
    row_q = rows_of(start, length, place_q)
    columns = tl.arange(0, D)
    # 64 bits: a large batch has more than 2^31 numbers.
    q = tl.load(qkv + row_q.to(tl.int64)[:, None] * (3 * H * D) + h * D + columns[None, :])
    if G > 0:
        time_q = flipped(tl.load(time + row_q))
        shifted = is_known(time_q) * (tl.load(shift + h) * root)
    slopes, offsets = kernels_of(mu, sigma, G, IS_LOG)
    weights = weights_of(gain, h, root, G)
    of_rows = drop_rows(seed, row_q, h, H) if HAS_DROPOUT else 0
    top = tl.full([BLOCK_Q], -float("inf"), tl.float32)
    summed = tl.zeros([BLOCK_Q], tl.float32)
    attended = tl.zeros([BLOCK_Q, D], tl.float32)
    left, right, before, until, whole_groups, steps = divide(
        lists, b, tile, length, groups, BLOCK_Q, GROUP, BLOCK_K
    )
    if GROUP > 0:
        frame = frame_of(BLOCK_Q, NODES)
        for n in tl.range(0, whole_groups):
            group = group_of(lists, b, n, before, until, groups)
            node = tl.load(nodes + (b * groups + group) * NODES + tl.arange(0, NODES))
            apart = between(time_q[:, None], node[None, :], IS_LOG) + frame
            bias = shift_of(shifted, node)
            for g in tl.static_range(G):
                d, near = gaussian(apart, slopes[g], offsets[g])
                bias += weights[g] * near
            high, low = halves(bias)
            for part in tl.static_range(GROUP // WALK):
                place = group * GROUP + part * WALK
                scores = read_off(high, low, shares, start + place, NODES)
                k = blocks.load([start + place, (H + h) * D])
                scores = tl.dot(q, tl.trans(k), scores, input_precision=PRECISION)
                v = blocks.load([start + place, (2 * H + h) * D])
                top, summed, attended = absorb(
                    scores, v, top, summed, attended, of_rows, place + tl.arange(0, WALK),
                    factor, threshold, upscale, HAS_DROPOUT, PRECISION,
                )  # fmt: skip
    for n in tl.range(0, steps):
        first = step_of(lists, b, n, left, right, before, until, groups, GROUP, BLOCK_K)
        place_k = first + tl.arange(0, BLOCK_K)
        closed = tl.where(place_k < length, 0.0, -float("inf"))
        if G > 0:
            time_k = tl.load(time + rows_of(start, length, place_k))
            apart = between(time_q[:, None], time_k[None, :], IS_LOG)
            bias = shifted[:, None] * is_known(time_k)[None, :] + closed[None, :]
            for g in tl.static_range(G):
                d, near = gaussian(apart, slopes[g], offsets[g])
                bias += weights[g] * near
        else:
            bias = tl.broadcast_to(closed[None, :], [BLOCK_Q, BLOCK_K])
        k = tokens.load([start + first, (H + h) * D])
        scores = tl.dot(q, tl.trans(k), bias, input_precision=PRECISION)
        v = tokens.load([start + first, (2 * H + h) * D])
        top, summed, attended = absorb(
            scores, v, top, summed, attended, of_rows, place_k,
            factor, threshold, upscale, HAS_DROPOUT, PRECISION,
        )  # fmt: skip
    is_row = summed > 0  # false in a tile of padding
    whole = tl.where(is_row, summed, 1.0)
    value = attended * tl.where(place_q < length, 1.0 / whole, 0.0)[:, None]
    is_written = place_q < (length if IS_PACKED else longest)
    row_out = placed(order, start + place_q, is_written, GROUP)
    at_out = out + row_out.to(tl.int64)[:, None] * (H * D) + h * D + columns[None, :]
    tl.store(at_out, value.to(out.dtype.element_ty), mask=is_written[:, None])
    level = tl.where(is_row, top, 0.0) + tl.log2(whole) / factor
    tl.store(lse + h.to(tl.int64) * total + start + place_q, level, mask=place_q < length)
