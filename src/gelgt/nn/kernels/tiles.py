"""What the forward and the backward kernels share: scores of a tile, their Gaussians, dropout, and
the rows of a subgraph.

Instructions other than the products are what costs, so each score has as few as possible. `exp2` is
one where `exp` is two: a Gaussian exp(-((Δ - μ)/s)²) is exp2(-d²) with d = (Δ - μ) · √log2(e)/s.
The product QKᵀ starts from the bias times √D instead of from 0, which adds it for nothing; a weight
is exp2 of the sum times `factor` = log2(e)/√D. A row without time stands at `FAR`, or at -FAR among
a program's own rows: its Gaussians vanish without a mask, and only b needs one, which is a product
of two vectors.
"""

# mypy: ignore-errors
# ruff: noqa: RUF005, RUF059, B007, RUF100 (Triton knows no starred tuples, and no underscore)
import triton
import triton.language as tl

from gelgt.nn import kernels

# one compiled kernel serves all of their values,
INTEGERS = ["tiles", "total", "longest", "groups", "count", "threshold"]
# and all addresses of these, which may be parts of other tensors
UNALIGNED = ["time", "places", "mu", "sigma", "gain", "shift", "seed"]
LOG2E = tl.constexpr(1.4426950408889634)
ROOT = tl.constexpr(1.2011224087864498)  # √log2(e)
LN2 = tl.constexpr(0.6931471805599453)
FAR = tl.constexpr(kernels.FAR)  # days


@triton.jit
def locate(places, tiles, longest, H: tl.constexpr, IS_PACKED: tl.constexpr):
    """Tile, head and subgraph of this program, and where the subgraph's rows begin and how many
    there are."""
    program = tl.program_id(0)
    tile = program % tiles
    h = (program // tiles) % H
    b = program // (tiles * H)
    if IS_PACKED:
        start = tl.load(places + b)
        length = tl.load(places + b + 1) - start
    else:
        start = b * longest
        length = tl.load(places + b)
    return tile, h, b, start.to(tl.int32), length.to(tl.int32)


@triton.jit
def rows_of(start, length, place):
    """Rows of the flattened batch at places of a subgraph; behind its end the last row again, so
    that every read is a valid one."""
    return tl.maximum(tl.minimum(place, length - 1) + start, 0)


@triton.jit
def flipped(time):
    """Times of a program's own rows: one without time stands at -FAR, as far from the others' FAR
    as from any age."""
    return tl.where(time < 0.5 * FAR, time, -FAR)


@triton.jit
def is_known(time):
    """Has-time as numbers."""
    return (tl.abs(time) < 0.5 * FAR).to(tl.float32)


@triton.jit
def between(time, others, IS_LOG: tl.constexpr):
    """Δ in days, or log2(1 + Δ)."""
    delta = time - others
    # an absolute value would be taken anew for every Gaussian, and -x is a subtraction
    delta = tl.maximum(delta, delta * -1.0)
    if IS_LOG:
        delta = tl.where(delta > 0.1 * FAR, FAR, tl.log2(1.0 + delta))
    return delta


@triton.jit
def kernels_of(mu, sigma, G: tl.constexpr, IS_LOG: tl.constexpr):
    """Slopes and offsets: d_g = Δ · slope_g - offset_g."""
    slopes = ()
    offsets = ()
    for g in tl.static_range(G):
        slope = ROOT / tl.load(sigma + g)
        offsets = offsets + (tl.load(mu + g) * slope,)
        slopes = slopes + (slope * LN2 if IS_LOG else slope,)
    return slopes, offsets


@triton.jit
def weights_of(gain, h, root, G: tl.constexpr):
    """W of a head times √D."""
    weights = ()
    for g in tl.static_range(G):
        weights = weights + (tl.load(gain + h * G + g) * root,)
    return weights


@triton.jit
def gaussian(delta, slope, offset):
    """d and exp2(-d²)."""
    d = delta * slope - offset
    return d, tl.exp2(0.0 - d * d)


@triton.jit
def mix32(x):
    """A 32-bit integer that depends on every bit of x."""
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15)) * 0x846CA68B
    return x ^ (x >> 16)


@triton.jit
def drop_rows(seed, row, h, H: tl.constexpr):
    """What a query brings to the draws of its row of weights."""
    return mix32(mix32((row * H + h).to(tl.uint32)) ^ tl.load(seed).to(tl.uint32))


@triton.jit
def drop_columns(place):
    """What a key's place in its subgraph brings."""
    return mix32(place.to(tl.uint32) + 0x9E3779B9)


@triton.jit
def survives(of_rows, of_columns, threshold):
    """Whether a weight survives dropout: a draw from a query and a key, the same in every
    kernel."""
    x = (of_rows ^ of_columns) * 0x9E3779B1
    x = (x ^ (x >> 15)) * 0x85EBCA6B
    return (x >> 8).to(tl.int32) >= threshold
