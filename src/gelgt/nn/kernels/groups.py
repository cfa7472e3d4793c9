"""Rows in the order of their ages, so that a group of them can share its Gaussians.

Over a group of consecutive rows the bias f(|t - τ|) of another row t is a smooth function of the
group's ages τ. It is computed at `NODES` ages, the Chebyshev nodes of the group's range, and the
group's rows read it off the polynomial through them: a product of two thin matrices, (rows of a
program, NODES) and the shares (NODES, rows of a group), which the tensor cores do. A group has four
times as many rows as nodes, so there are a quarter of the exponentials, and of the terms of the
sums for μ, s, W and b, whose gradients are those of that polynomial.

    bound   |error of a Gaussian| ≤ 1.09 x^n / (√n! 2^(n-1)), x = √2 · half the range / s, n = NODES
            (Cramér's bound of its n-th derivative, and the remainder of Chebyshev interpolation)

`smooth` groups are full and no wider than 2 s of the narrowest Gaussian: x ≤ √2 and the error at
most 2^-28 of W; 2^-25 for the gradients, whose functions are d and d² times a Gaussian. Both are
below float32's rounding. The shares and the bias are pairs of fp16 numbers, high and low, exact to
2^-22. |t - τ| has a kink at t = τ, so a program takes the groups of its own rows, and those that
are not smooth, pair by pair. A group without any times is smooth: its bias is 0 everywhere.
"""

# mypy: ignore-errors
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from gelgt.nn.kernels.tiles import UNALIGNED, is_known, rows_of

NODES = 16
MOST = 2.0**14  # of the bias times √D, of which fp16 holds four times as much


class Groups(NamedTuple):
    """Rows in the order of their ages within each subgraph, those without time last.

    Attributes:
        order: (T,) int32 the row that comes to each place.
        shares: (T, 2 NODES) fp16, high and low: what each node of its group gives to a row.
        factors: The same in the precision of the products, for sums over a group.
        nodes: (B, groups, NODES) ages.
        lists: (B, 3, groups + 1) int32 the smooth groups, the others, and how many smooth ones come
            before each group.
    """

    order: Tensor
    shares: Tensor
    factors: Tensor
    nodes: Tensor
    lists: Tensor

    def reader(self, shares: Tensor, rows: int) -> TensorDescriptor:
        """Reads the high or the low part of the shares of a group."""
        return TensorDescriptor(shares, list(shares.shape), [2 * NODES, 1], [rows, NODES])


def sort_rows(time: Tensor, places: Tensor, longest: int, is_packed: bool) -> Tensor:
    """(T,) int32 the rows of each subgraph by age, equal ones as they come; padding stays."""
    row = torch.arange(time.numel(), device=time.device)
    if is_packed:
        # behind the last subgraph there may be rows of none, which stay there
        subgraph = torch.bucketize(row, places.to(row.dtype), right=True)
    else:
        subgraph = row // longest
    bits = (time.reshape(-1) + 0.0).view(torch.int32)  # -0 becomes 0
    # of numbers as integers, negative ones count backwards
    key = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits).long()
    if not is_packed:
        key = torch.where(row % longest < places[subgraph], key, 1 << 32)
    key += subgraph << 33
    return torch.sort(key, stable=True).indices.int()


def make_groups(
    order: Tensor, time: Tensor, places: Tensor, longest: int, dtype: torch.dtype, rows: int,
    kernels: tuple[Tensor, Tensor, Tensor], root: float, is_packed: bool,
) -> Groups:  # fmt: skip
    """Nodes and shares of groups of so many rows; `time` is in order, `kernels` are s, W and b."""
    subgraphs, count = places.shape[0] - is_packed, triton.cdiv(longest, rows)
    sigma, gain, shift = kernels
    new = {"device": time.device}
    shares = torch.empty(time.numel(), 2 * NODES, dtype=torch.float16, **new)
    factors = torch.empty(time.numel(), 2 * NODES, dtype=dtype, **new)
    nodes = torch.empty(subgraphs, count, NODES, dtype=torch.float32, **new)
    is_smooth = torch.empty(subgraphs, count, dtype=torch.int32, **new)
    lists = torch.empty(subgraphs, 3, count + 1, dtype=torch.int32, **new)
    heads, gaussians = gain.shape
    groups_kernel[(subgraphs * count,)](
        time, places, sigma, gain, shift, shares, factors, nodes, is_smooth, count, longest, root,
        H=heads, G=gaussians, IS_PACKED=is_packed, ROWS=rows, N=NODES, MOST=MOST, num_warps=4,
    )  # fmt: skip
    lists_kernel[(subgraphs,)](is_smooth, lists, count, CHUNK=256, num_warps=4)
    return Groups(order, shares, factors, nodes, lists)


@triton.jit
def widest(sigma, gain, shift, root, H: tl.constexpr, G: tl.constexpr, MOST: tl.constexpr):
    """The range of a smooth group; negative where the bias is too large for fp16."""
    narrow = tl.load(sigma)
    for g in tl.static_range(1, G):
        narrow = tl.minimum(narrow, tl.load(sigma + g))
    largest = 0.0
    for h in range(H):
        bias = tl.abs(tl.load(shift + h))
        for g in tl.static_range(G):
            bias += tl.abs(tl.load(gain + h * G + g))
        largest = tl.maximum(largest, bias)
    return tl.where(largest * root < MOST, 2.0 * narrow, -1.0)


@triton.jit(
    do_not_specialize=["count", "longest"],
    do_not_specialize_on_alignment=UNALIGNED,
)
def groups_kernel(
    time, places, sigma, gain, shift, shares, factors, nodes, is_smooth, count, longest, root,
    H: tl.constexpr, G: tl.constexpr, IS_PACKED: tl.constexpr, ROWS: tl.constexpr,
    N: tl.constexpr, MOST: tl.constexpr,
):  # fmt: skip
    """One group. The share of node p in a row at x, both scaled to -1…1, is Lagrange's polynomial
    1/N + 2/N Σ_k T_k(x_p) T_k(x), where T_k(x_p) = cos(k (2p + 1) π / 2N)."""
    group, b = tl.program_id(0) % count, tl.program_id(0) // count
    if IS_PACKED:
        start = tl.load(places + b).to(tl.int32)
        length = tl.load(places + b + 1).to(tl.int32) - start
    else:
        start = b * longest
        length = tl.load(places + b).to(tl.int32)
    place = group * ROWS + tl.arange(0, ROWS)
    age = tl.load(time + rows_of(start, length, place))
    low, high = tl.min(age, 0), tl.max(age, 0)
    spread = high - low
    p = tl.arange(0, N)
    turn: tl.constexpr = 3.141592653589793 / (2 * N)
    node = low + spread * (0.5 + 0.5 * tl.cos((2 * p + 1).to(tl.float32) * turn))
    tl.store(nodes + tl.program_id(0) * N + p, node)
    # from the lower end, as the middle is rounded: x is never outside of -1…1
    x = (age - low) / tl.where(spread > 0, spread, 1.0) * 2.0 - 1.0
    before, now = tl.full([ROWS], 1.0, tl.float32), x
    share = tl.full([ROWS, N], 1.0 / N, tl.float32)
    for k in tl.static_range(1, N):
        angle = ((2 * p + 1) * k) % (4 * N)
        share += (2.0 / N) * now[:, None] * tl.cos(angle.to(tl.float32) * turn)[None, :]
        before, now = now, 2.0 * x * now - before
    at = (start + place).to(tl.int64)[:, None] * (2 * N) + p[None, :]
    is_row = (place < length)[:, None]
    first = share.to(tl.float16)
    tl.store(shares + at, first, mask=is_row)
    tl.store(shares + at + N, (share - first.to(tl.float32)).to(tl.float16), mask=is_row)
    head = share.to(factors.dtype.element_ty)
    tl.store(factors + at, head, mask=is_row)
    rest = (share - head.to(tl.float32)).to(factors.dtype.element_ty)
    tl.store(factors + at + N, rest, mask=is_row)
    limit = widest(sigma, gain, shift, root, H, G, MOST)
    is_full = group * ROWS + ROWS <= length
    tl.store(is_smooth + tl.program_id(0), (is_full & (spread <= limit)).to(tl.int32))


@triton.jit(do_not_specialize=["count"])
def lists_kernel(is_smooth, lists, count, CHUNK: tl.constexpr):
    """One subgraph: which groups are smooth, which are not, and how many before each are."""
    b = tl.program_id(0)
    smooth = lists + b * 3 * (count + 1)
    rest, before = smooth + count + 1, smooth + 2 * (count + 1)
    total = 0
    for first in range(0, count, CHUNK):
        group = first + tl.arange(0, CHUNK)
        is_group = group < count
        flag = tl.load(is_smooth + b * count + group, mask=is_group, other=0)
        rank = total + tl.cumsum(flag, 0) - flag
        tl.store(before + group, rank, mask=is_group)
        tl.store(smooth + rank, group, mask=is_group & (flag > 0))
        tl.store(rest + group - rank, group, mask=is_group & (flag == 0))
        total += tl.sum(flag, 0)
    tl.store(before + count, total)


@triton.jit
def divide(
    lists, b, tile, length, groups,
    ROWS: tl.constexpr, GROUP: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """How a program of ROWS rows takes its subgraph: where its own groups begin and end, how many
    smooth ones come before both, how many others it takes as one, and how many steps of STEP rows
    it takes pair by pair."""
    left, right, before, until, whole = 0, 0, 0, 0, 0
    steps = tl.cdiv(length, STEP)
    if GROUP > 0:
        tl.static_assert(GROUP % STEP == 0)
        all_groups = tl.cdiv(length, GROUP)
        left = tl.minimum(tile * ROWS // GROUP, all_groups)
        right = tl.minimum(tl.cdiv((tile + 1) * ROWS, GROUP), all_groups)
        counts = lists + b * 3 * (groups + 1) + 2 * (groups + 1)
        before, until = tl.load(counts + left), tl.load(counts + right)
        whole = tl.load(counts + groups) - (until - before)
        steps = (all_groups - whole) * (GROUP // STEP)
    is_used = tile * ROWS < length
    return left, right, before, until, tl.where(is_used, whole, 0), tl.where(is_used, steps, 0)


@triton.jit
def group_of(lists, b, n, before, until, groups):
    """The n-th group that is taken as one."""
    return tl.load(lists + b * 3 * (groups + 1) + n + tl.where(n >= before, until - before, 0))


@triton.jit
def step_of(
    lists, b, n, left, right, before, until, groups, GROUP: tl.constexpr, STEP: tl.constexpr
):
    """The first place of the n-th step that is taken pair by pair: those of the program's own
    groups, then those of groups that are not smooth."""
    first = n * STEP
    if GROUP > 0:
        n_group = n // (GROUP // STEP)
        others = n_group - (right - left)
        at = others + tl.where(others >= left - before, (right - until) - (left - before), 0)
        rest = tl.load(lists + b * 3 * (groups + 1) + groups + 1 + tl.maximum(at, 0))
        group = tl.where(others < 0, left + n_group, rest)
        first = group * GROUP + (n % (GROUP // STEP)) * STEP
    return first


@triton.jit
def frame_of(ROWS: tl.constexpr, N: tl.constexpr):
    """Zeros as a product leaves them. What is added to them stays in registers in which products
    leave a result and take a factor, so that nothing goes through shared memory between them."""
    zeros = tl.zeros([ROWS, N], tl.float16)
    return tl.dot(zeros, tl.zeros([N, N], tl.float16))


@triton.jit
def halves(values):
    """Two fp16 numbers for each, high and low."""
    high = values.to(tl.float16)
    return high, (values - high.to(tl.float32)).to(tl.float16)


@triton.jit
def cut(values, DTYPE: tl.constexpr):
    """Two numbers of a short type for each. The first has the leading bits, as two conversions for
    each value would take longer than a mask."""
    LEADING: tl.constexpr = -65536 if tl.bfloat16 == DTYPE else -8192
    first = (values.to(tl.int32, bitcast=True) & LEADING).to(tl.float32, bitcast=True)
    return first.to(DTYPE), (values - first).to(DTYPE)


@triton.jit
def shift_of(shifted, node):
    """b at the nodes of a group: that of its rows, as all have a time or none, and as the shares of
    a row sum to 1."""
    return shifted[:, None] * is_known(node)[None, :]


@triton.jit
def read_off(high, low, shares, row, N: tl.constexpr):
    """The bias at the nodes, (rows, N) in two halves, → at rows of the group from `row` on."""
    of_high, of_low = tl.trans(shares.load([row, 0])), tl.trans(shares.load([row, N]))
    return tl.dot(high, of_high, tl.dot(high, of_low, tl.dot(low, of_high)))


@triton.jit
def placed(order, row, is_row, GROUP: tl.constexpr):
    """Where the rows of a program stand outside of the kernels."""
    return tl.load(order + row, mask=is_row, other=0) if GROUP > 0 else row
