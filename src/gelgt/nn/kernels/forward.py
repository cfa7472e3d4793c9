"""The forward kernel: a program takes a tile of queries of one subgraph and walks over its keys, with a running maximum and sum.

A program may take several heads of its tile: the Gaussians depend on the ages alone, so they are computed once for all of them.
"""

# mypy: ignore-errors
# ruff: noqa: RUF005, RUF059, B007, RUF100 (Triton knows no starred tuples, and no underscore)
import triton
import triton.language as tl

from gelgt.nn.kernels.tiles import (
    between,
    drop_columns,
    drop_rows,
    flipped,
    gaussian,
    is_known,
    kept,
    kernels_of,
    locate,
    rows_of,
    weights_of,
)


@triton.jit
def biases_of(delta, shift, known, closed, mix, slopes, offsets, G: tl.constexpr, HEADS: tl.constexpr, POLY: tl.constexpr):
    """The bias of a tile for each head, times √D; -∞ where the key is closed."""
    biases = ()
    for h in tl.static_range(HEADS):
        biases = biases + (shift[h][:, None] * known[None, :] + closed[None, :],)
    for g in tl.static_range(G):
        d, near = gaussian(delta, slopes[g], offsets[g], g < POLY)
        added = ()
        for h in tl.static_range(HEADS):
            added = added + (biases[h] + mix[h][g] * near,)
        biases = added
    return biases


@triton.jit
def forward_kernel(
    tokens, qkv, time, places, mu, sigma, mix, shift, seed, out, lse,
    tiles, total, longest, root, factor, threshold, upscale,
    H: tl.constexpr, D: tl.constexpr, G: tl.constexpr,
    IS_LOG: tl.constexpr, IS_PACKED: tl.constexpr, HAS_DROPOUT: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, HEADS: tl.constexpr, POLY: tl.constexpr,
):  # fmt: skip
    """(T, 3, H, D) → (T, H, D), and for each row of scores log Σ exp times √D (H, T). `tokens` reads tiles of BLOCK_K rows of `qkv`."""
    tile, group, b, start, length = locate(places, tiles, H // HEADS, longest, IS_PACKED)
    head = group * HEADS
    place_q = tile * BLOCK_Q + tl.arange(0, BLOCK_Q)
    row_q = rows_of(start, length, place_q)
    columns = tl.arange(0, D)
    # 64 bits: a large batch has more than 2^31 numbers.
    at_q = qkv + row_q.to(tl.int64)[:, None] * (3 * H * D) + head * D + columns[None, :]
    if G > 0:
        time_q = flipped(tl.load(time + row_q))
    slopes, offsets = kernels_of(mu, sigma, G, IS_LOG)
    q, weights, shifts, of_rows, top, summed, mixed = (), (), (), (), (), (), ()
    for h in tl.static_range(HEADS):
        q = q + (tl.load(at_q + h * D),)
        weights = weights + (weights_of(mix, head + h, root, G),)
        shifts = shifts + ((is_known(time_q) * (tl.load(shift + head + h) * root)) if G > 0 else 0.0,)
        of_rows = of_rows + (drop_rows(seed, row_q, head + h, H) if HAS_DROPOUT else 0,)
        top = top + (tl.full([BLOCK_Q], -float("inf"), tl.float32),)
        summed = summed + (tl.zeros([BLOCK_Q], tl.float32),)
        mixed = mixed + (tl.zeros([BLOCK_Q, D], tl.float32),)
    for first in tl.range(0, tl.where(tile * BLOCK_Q < length, length, 0), BLOCK_K):
        place_k = first + tl.arange(0, BLOCK_K)
        closed = tl.where(place_k < length, 0.0, -float("inf"))
        if G > 0:
            time_k = tl.load(time + rows_of(start, length, place_k))
            delta = between(time_q[:, None], time_k[None, :], IS_LOG)
            biases = biases_of(delta, shifts, is_known(time_k), closed, weights, slopes, offsets, G, HEADS, POLY)
        of_columns = drop_columns(place_k) if HAS_DROPOUT else 0
        tops, sums, mixes = (), (), ()
        for h in tl.static_range(HEADS):
            k = tokens.load([start + first, (H + head + h) * D])
            bias = biases[h] if G > 0 else tl.broadcast_to(closed[None, :], [BLOCK_Q, BLOCK_K])
            scores = tl.dot(q[h], tl.trans(k), bias, input_precision=PRECISION)
            highest = tl.maximum(top[h], tl.max(scores, 1))
            weight = tl.exp2(scores * factor - (highest * factor)[:, None])
            fade = tl.exp2((top[h] - highest) * factor)
            sums = sums + (summed[h] * fade + tl.sum(weight, 1),)
            if HAS_DROPOUT:
                weight = tl.where(kept(of_rows[h][:, None], of_columns[None, :], threshold), weight * upscale, 0.0)
            v = tokens.load([start + first, (2 * H + head + h) * D])
            mixes = mixes + (tl.dot(weight.to(v.dtype), v, mixed[h] * fade[:, None], input_precision=PRECISION),)
            tops = tops + (highest,)
        top, summed, mixed = tops, sums, mixes
    end = length if IS_PACKED else longest
    row_out = start + place_q
    for h in tl.static_range(HEADS):
        inside = summed[h] > 0  # not in a tile of padding
        whole = tl.where(inside, summed[h], 1.0)
        value = mixed[h] * tl.where(place_q < length, 1.0 / whole, 0.0)[:, None]
        at_out = out + row_out.to(tl.int64)[:, None] * (H * D) + (head + h) * D + columns[None, :]
        tl.store(at_out, value.to(out.dtype.element_ty), mask=(place_q < end)[:, None])
        level = tl.where(inside, top[h], 0.0) + tl.log2(whole) / factor
        tl.store(lse + (head + h).to(tl.int64) * total + row_out, level, mask=place_q < length)
