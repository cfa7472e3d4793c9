"""The backward kernel of keys and values: a tile of keys walks over the queries (backward.py)."""

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
    scores, q, d_o, v, d_k, d_v, row_q, of_columns, seed, h, delta, factor, threshold, upscale,
    H: tl.constexpr, HAS_DROPOUT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """One tile of scores, keys × queries and less their levels, into dK and dV."""
    weight = tl.exp2(scores * factor)
    given = weight
    if HAS_DROPOUT:
        is_kept = survives(drop_rows(seed, row_q, h, H)[None, :], of_columns[:, None], threshold)
        given = tl.where(is_kept, weight * upscale, 0.0)
    d_v = tl.dot(given.to(d_o.dtype), d_o, d_v, input_precision=PRECISION)
    d_weight = tl.dot(v, tl.trans(d_o), input_precision=PRECISION)
    if HAS_DROPOUT:
        d_weight = tl.where(is_kept, d_weight * upscale, 0.0)
    d_score = weight * (d_weight - tl.load(delta + row_q)[None, :])
    return tl.dot(d_score.to(q.dtype), q, d_k, input_precision=PRECISION), d_v


@triton.jit(do_not_specialize=INTEGERS, do_not_specialize_on_alignment=UNALIGNED)
def keys_kernel(
    tokens, outputs, blocks, output_blocks, shares, qkv, time, places, mu, sigma, gain, shift, seed,
    order, nodes, lists, lse, delta, d_qkv,
    tiles, total, longest, groups, root, factor, scale, threshold, upscale,
    H: tl.constexpr, D: tl.constexpr, G: tl.constexpr,
    IS_LOG: tl.constexpr, IS_PACKED: tl.constexpr, HAS_DROPOUT: tl.constexpr,
    PRECISION: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr, WALK: tl.constexpr, NODES: tl.constexpr,
):  # fmt: skip
    """dK and dV in (T, 3, H, D); `tokens` and `outputs` read tiles of BLOCK_Q rows of `qkv` and dO.

    Tiles are transposed, keys × queries, so that P and dS are left factors as they stand.
    """
    tile, h, b, start, length = locate(places, tiles, longest, H, IS_PACKED)
    place_k = tile * BLOCK_K + tl.arange(0, BLOCK_K)
    row_k = rows_of(start, length, place_k)
    columns = tl.arange(0, D)
    at_k = qkv + row_k.to(tl.int64)[:, None] * (3 * H * D) + (H + h) * D + columns[None, :]
    k = tl.load(at_k)
    v = tl.load(at_k + H * D)
    if G > 0:
        time_k = flipped(tl.load(time + row_k))
        shifted = is_known(time_k) * (tl.load(shift + h) * root)
    slopes, offsets = kernels_of(mu, sigma, G, IS_LOG)
    weights = weights_of(gain, h, root, G)
    of_columns = drop_columns(place_k) if HAS_DROPOUT else 0
    d_k = tl.zeros([BLOCK_K, D], tl.float32)
    d_v = tl.zeros([BLOCK_K, D], tl.float32)
    line = h.to(tl.int64) * total
    left, right, before, until, whole_groups, steps = divide(
        lists, b, tile, length, groups, BLOCK_K, GROUP, BLOCK_Q
    )
    if GROUP > 0:
        frame = frame_of(BLOCK_K, NODES)
        for n in tl.range(0, whole_groups):
            group = group_of(lists, b, n, before, until, groups)
            node = tl.load(nodes + (b * groups + group) * NODES + tl.arange(0, NODES))
            apart = between(time_k[:, None], node[None, :], IS_LOG) + frame
            bias = shift_of(shifted, node)
            for g in tl.static_range(G):
                d, one = gaussian(apart, slopes[g], offsets[g])
                bias += weights[g] * one
            high, low = halves(bias)
            for part in tl.static_range(GROUP // WALK):
                first_q = start + group * GROUP + part * WALK
                row_q = first_q + tl.arange(0, WALK)
                scores = read_off(high, low, shares, first_q, NODES)
                q = blocks.load([first_q, h * D])
                scores = tl.dot(k, tl.trans(q), scores, input_precision=PRECISION)
                d_o = output_blocks.load([first_q, h * D])
                d_k, d_v = absorb(
                    scores - tl.load(lse + line + row_q)[None, :], q, d_o, v, d_k, d_v, row_q,
                    of_columns, seed, h, delta + line, factor, threshold, upscale, H, HAS_DROPOUT,
                    PRECISION,
                )  # fmt: skip
    for n in tl.range(0, steps):
        first = step_of(lists, b, n, left, right, before, until, groups, GROUP, BLOCK_Q)
        place_q = first + tl.arange(0, BLOCK_Q)
        row_q = rows_of(start, length, place_q)
        level = tl.where(place_q < length, tl.load(lse + line + row_q), float("inf"))
        # The Gaussians come first: the last product of the step before is still running.
        if G > 0:
            time_q = tl.load(time + row_q)
            apart = between(time_k[:, None], time_q[None, :], IS_LOG)
            bias = shifted[:, None] * is_known(time_q)[None, :] - level[None, :]
            for g in tl.static_range(G):
                d, one = gaussian(apart, slopes[g], offsets[g])
                bias += weights[g] * one
        else:
            bias = tl.broadcast_to(-level[None, :], [BLOCK_K, BLOCK_Q])
        q = tokens.load([start + first, h * D])
        scores = tl.dot(k, tl.trans(q), bias, input_precision=PRECISION)
        d_o = outputs.load([start + first, h * D])
        d_k, d_v = absorb(
            scores, q, d_o, v, d_k, d_v, row_q, of_columns, seed, h, delta + line,
            factor, threshold, upscale, H, HAS_DROPOUT, PRECISION,
        )  # fmt: skip
    is_written = place_k < (length if IS_PACKED else longest)
    row_out = placed(order, start + place_k, is_written, GROUP)
    at_d = d_qkv + row_out.to(tl.int64)[:, None] * (3 * H * D) + (H + h) * D + columns[None, :]
    written = is_written[:, None]
    tl.store(
        at_d,
        (d_k * tl.where(place_k < length, scale, 0.0)[:, None]).to(d_qkv.dtype.element_ty),
        mask=written,
    )
    tl.store(
        at_d + H * D,
        (d_v * tl.where(place_k < length, 1.0, 0.0)[:, None]).to(d_qkv.dtype.element_ty),
        mask=written,
    )
