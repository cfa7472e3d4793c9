"""The backward kernels. With P the weights, dS = P ∘ (dO Vᵀ - δ) and δ_i = dO_i · O_i:

    queries_kernel   a tile of queries walks over the keys: δ, dQ = dS K /√D, and the sums over
                     pairs that μ, s, W and b need
    keys_kernel      a tile of keys walks over the queries: dV = Pᵀ dO, dK = dSᵀ Q /√D
    sums_kernel      makes gradients of the sums of all programs, which `columns.py` adds up in a
                     fixed order

With A, B, C = Σ dS · k_g · (1, d, d²), d = (Δ - μ)/s, for each head and Gaussian: ∂W = A, ∂μ_g =
2/s_g Σ_h W B, ∂s_g = 2/s_g Σ_h W C, and ∂b = Σ dS over pairs that both have a time. A row of dS
sums to 0, so that is less the sum over keys without one, and nothing where all have one; summed up
as it is written, large numbers would cancel, and what bf16 leaves of them is mostly rounding.
Nothing is added atomically, so two runs give the same bits.
"""

# mypy: ignore-errors
# ruff: noqa: RUF005, RUF059, B007, RUF100 (Triton knows no starred tuples, and no underscore)
import triton
import triton.language as tl

from gelgt.nn.kernels.groups import (
    cut,
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
    LOG2E,
    ROOT,
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
def fold(tile, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Sums within a row, (ROWS, COLUMNS) → (ROWS, 4): exactly those of numbers that one thread
    holds, so nothing is exchanged."""
    return tl.sum(tl.sum(tl.reshape(tile, (ROWS, COLUMNS // 8, 4, 2)), 3), 1)


@triton.jit(do_not_specialize=INTEGERS, do_not_specialize_on_alignment=UNALIGNED)
def queries_kernel(
    tokens, blocks, shares, factors, qkv, time, places, mu, sigma, gain, shift, seed, order, nodes,
    lists, out, lse, d_out, delta, d_qkv, partial,
    tiles, total, longest, groups, count, root, factor, scale, threshold, upscale,
    H: tl.constexpr, D: tl.constexpr, G: tl.constexpr,
    IS_LOG: tl.constexpr, IS_PACKED: tl.constexpr, HAS_DROPOUT: tl.constexpr,
    PRECISION: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr, WALK: tl.constexpr, NODES: tl.constexpr,
):  # fmt: skip
    """δ (H, T), dQ in (T, 3, H, D), and for each program the sums A, B, C and ∂b in (H, programs,
    3G + 1)."""
    tile, h, b, start, length = locate(places, tiles, longest, H, IS_PACKED)
    place_q = tile * BLOCK_Q + tl.arange(0, BLOCK_Q)
    row_q = rows_of(start, length, place_q)
    columns = tl.arange(0, D)
    q = tl.load(qkv + row_q.to(tl.int64)[:, None] * (3 * H * D) + h * D + columns[None, :])
    own = row_q.to(tl.int64)[:, None] * (H * D) + h * D + columns[None, :]
    d_o = tl.load(d_out + own)
    row_out = placed(order, row_q, place_q >= 0, GROUP)
    own = row_out.to(tl.int64)[:, None] * (H * D) + h * D + columns[None, :]
    shared = tl.sum(d_o.to(tl.float32) * tl.load(out + own).to(tl.float32), 1)
    line = h.to(tl.int64) * total
    tl.store(delta + line + row_q, shared, mask=place_q < length)
    # exp2(-∞): padding has no weights
    level = tl.where(place_q < length, tl.load(lse + line + row_q) * factor, float("inf"))
    if G > 0:
        time_q = flipped(tl.load(time + row_q))
        known_q = is_known(time_q)
        shifted = known_q * (tl.load(shift + h) * root)
        for_b = tl.zeros([BLOCK_Q, 4], tl.float32)
    slopes, offsets = kernels_of(mu, sigma, G, IS_LOG)
    weights = weights_of(gain, h, root, G)
    sums = ()
    for g in tl.static_range(3 * G):
        sums = sums + (tl.zeros([BLOCK_Q, 4], tl.float32),)
    of_rows = drop_rows(seed, row_q, h, H) if HAS_DROPOUT else 0
    d_q = tl.zeros([BLOCK_Q, D], tl.float32)
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
            near = ()
            for g in tl.static_range(G):
                d, one = gaussian(apart, slopes[g], offsets[g])
                bias += weights[g] * one
                near = near + (one,)
            high, low = halves(bias)
            d_bias = tl.zeros([BLOCK_Q, NODES], tl.float32)
            for part in tl.static_range(GROUP // WALK):
                place = group * GROUP + part * WALK
                row_k = start + place
                scores = read_off(high, low, shares, row_k, NODES)
                k = blocks.load([row_k, (H + h) * D])
                v = blocks.load([row_k, (2 * H + h) * D])
                scores = tl.dot(q, tl.trans(k), scores, input_precision=PRECISION)
                d_weight = tl.dot(d_o, tl.trans(v), input_precision=PRECISION)
                weight = tl.exp2(scores * factor - level[:, None])
                if HAS_DROPOUT:
                    of_columns = drop_columns(place + tl.arange(0, WALK))
                    is_kept = survives(of_rows[:, None], of_columns[None, :], threshold)
                    d_weight = tl.where(is_kept, d_weight * upscale, 0.0)
                d_score = weight * (d_weight - shared[:, None])
                d_q = tl.dot(d_score.to(k.dtype), k, d_q, input_precision=PRECISION)
                # Of sums in which much cancels, the rounding of dS would be most of the error.
                high_d, low_d = cut(d_score, k.dtype)
                of_high, of_low = factors.load([row_k, 0]), factors.load([row_k, NODES])
                d_bias = tl.dot(high_d, of_high, d_bias, input_precision=PRECISION)
                d_bias = tl.dot(high_d, of_low, d_bias, input_precision=PRECISION)
                d_bias = tl.dot(low_d, of_high, d_bias, input_precision=PRECISION)
            added = ()
            for g in tl.static_range(G):
                d = apart * slopes[g] - offsets[g]
                zeroth = d_bias * near[g]
                once = zeroth * d
                added = added + (
                    sums[3 * g] + fold(zeroth, BLOCK_Q, NODES),
                    sums[3 * g + 1] + fold(once, BLOCK_Q, NODES),
                    sums[3 * g + 2] + fold(once * d, BLOCK_Q, NODES),
                )
            sums = added
            for_b -= fold(d_bias * (1.0 - is_known(node))[None, :], BLOCK_Q, NODES)
    for n in tl.range(0, steps):
        first = step_of(lists, b, n, left, right, before, until, groups, GROUP, BLOCK_K)
        place_k = first + tl.arange(0, BLOCK_K)
        closed = tl.where(place_k < length, 0.0, -float("inf"))
        k = tokens.load([start + first, (H + h) * D])
        v = tokens.load([start + first, (2 * H + h) * D])
        scores = tl.dot(q, tl.trans(k), input_precision=PRECISION)
        d_weight = tl.dot(d_o, tl.trans(v), input_precision=PRECISION)
        near = ()
        if G > 0:
            time_k = tl.load(time + rows_of(start, length, place_k))
            known_k = is_known(time_k)
            apart = between(time_q[:, None], time_k[None, :], IS_LOG)
            scores += shifted[:, None] * known_k[None, :] + closed[None, :]
            for g in tl.static_range(G):
                d, one = gaussian(apart, slopes[g], offsets[g])
                scores += weights[g] * one
                near = near + (one,)
        else:
            scores += closed[None, :]
        weight = tl.exp2(scores * factor - level[:, None])
        if HAS_DROPOUT:
            is_kept = survives(of_rows[:, None], drop_columns(place_k)[None, :], threshold)
            d_weight = tl.where(is_kept, d_weight * upscale, 0.0)
        d_score = weight * (d_weight - shared[:, None])
        d_q = tl.dot(d_score.to(k.dtype), k, d_q, input_precision=PRECISION)
        if G > 0:  # while that product runs
            added = ()
            for g in tl.static_range(G):
                d = apart * slopes[g] - offsets[g]
                zeroth = d_score * near[g]
                once = zeroth * d
                added = added + (
                    sums[3 * g] + fold(zeroth, BLOCK_Q, BLOCK_K),
                    sums[3 * g + 1] + fold(once, BLOCK_Q, BLOCK_K),
                    sums[3 * g + 2] + fold(once * d, BLOCK_Q, BLOCK_K),
                )
            sums = added
            for_b -= fold(d_score * (1.0 - known_k)[None, :], BLOCK_Q, BLOCK_K)
    is_written = place_q < (length if IS_PACKED else longest)
    row_out = placed(order, start + place_q, is_written, GROUP)
    at_d = d_qkv + row_out.to(tl.int64)[:, None] * (3 * H * D) + h * D + columns[None, :]
    value = d_q * tl.where(place_q < length, scale, 0.0)[:, None]
    tl.store(at_d, value.to(d_qkv.dtype.element_ty), mask=is_written[:, None])
    if G > 0:
        at = partial + (h * count + b * tiles + tile) * (3 * G + 1)
        for g in tl.static_range(G):
            tl.store(at + g, tl.sum(tl.sum(sums[3 * g], 1), 0))
            tl.store(at + G + g, tl.sum(tl.sum(sums[3 * g + 1], 1), 0) / ROOT)
            tl.store(at + 2 * G + g, tl.sum(tl.sum(sums[3 * g + 2], 1), 0) / LOG2E)
        tl.store(at + 3 * G, tl.sum(tl.sum(for_b, 1) * known_q, 0))


@triton.jit(do_not_specialize_on_alignment=UNALIGNED)
def sums_kernel(
    summed, sigma, gain, gradient, H: tl.constexpr, G: tl.constexpr, WIDE: tl.constexpr
):
    """(H, 3G + 1) → ∂μ (G), ∂s (G), ∂W (H, G), ∂b (H), one after the other."""
    g = tl.arange(0, WIDE)
    is_kernel = g < G
    for_mu = tl.zeros([WIDE], tl.float32)
    for_sigma = tl.zeros([WIDE], tl.float32)
    for h in range(H):
        at = summed + h * (3 * G + 1) + g
        weight = tl.load(gain + h * G + g, mask=is_kernel, other=0.0)
        for_mu += weight * tl.load(at + G, mask=is_kernel, other=0.0)
        for_sigma += weight * tl.load(at + 2 * G, mask=is_kernel, other=0.0)
        zeroth = tl.load(at, mask=is_kernel, other=0.0)
        tl.store(gradient + 2 * G + h * G + g, zeroth, mask=is_kernel)
        tl.store(gradient + 2 * G + H * G + h, tl.load(summed + h * (3 * G + 1) + 3 * G))
    slope = 2.0 / tl.load(sigma + g, mask=is_kernel, other=1.0)
    tl.store(gradient + g, for_mu * slope, mask=is_kernel)
    tl.store(gradient + G + g, for_sigma * slope, mask=is_kernel)
