"""Launches the kernels: what they allocate, how large their tiles are, and which programs run."""

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from gelgt.nn.kernels.backward import keys_kernel, queries_kernel, sums_kernel
from gelgt.nn.kernels.columns import add_programs
from gelgt.nn.kernels.forward import forward_kernel
from gelgt.nn.kernels.groups import NODES, Groups, make_groups, sort_rows

LOG2E = math.log2(math.e)
SORTED_FROM = 1_024  # rows of the longest subgraph


class Tiling(NamedTuple):
    """The shape of a kernel's programs: rows of a tile of queries and of keys, warps, steps that
    are read ahead, and rows of a group that are read at once."""

    queries: int
    keys: int
    warps: int
    stages: int
    walk: int = 0


def choose_tiling(kernel: str, size: int, kernels: int, longest: int, dtype: torch.dtype) -> Tiling:
    """Tiles that were measured to be fast on an H200: for ``forward``, ``queries`` or ``keys``, by
    head size, Gaussians and longest subgraph."""
    if dtype == torch.float32:
        return {
            "forward": Tiling(64, 32, 4, 1),
            "queries": Tiling(64, 32, 4, 1),
            "keys": Tiling(32, 32, 4, 1),
        }[kernel]
    return {
        "forward": Tiling(64, 32, 4, 3),
        # A thread keeps the Gaussians of its pairs until it has their gradients: more than four of
        # 16 pairs each do not fit into its registers (37 µs instead of 46 in the preset `gpu`).
        "queries": Tiling(64, 32 if kernels <= 4 else 16, 4, 3),
        "keys": Tiling(64, 32 if size >= 128 else 64, 4, 2),
    }[kernel]


def choose_sorted_tiling(
    kernel: str, size: int, kernels: int, longest: int, dtype: torch.dtype
) -> Tiling:
    """The same over groups; what is taken pair by pair has tiles of 32 rows."""
    return {
        "forward": Tiling(64, 32, 4, 2, 64),
        "queries": Tiling(64, 32 if kernels <= 4 else 16, 4, 2, 64),
        "keys": Tiling(32, 64, 4, 2, 64),
    }[kernel]


def choose_group(kernels: int, is_log: bool, longest: int, dtype: torch.dtype) -> int:
    """Rows of a group that shares its Gaussians (groups.py); 0 where rows are not sorted for it."""
    is_worth_sorting = longest >= SORTED_FROM and 0 < kernels <= 8
    return 64 if is_worth_sorting and not is_log and dtype != torch.float32 else 0


@dataclass(frozen=True)
class Problem:
    """One attention over subgraphs.

    Attributes:
        qkv: (T, 3, H, D) packed, or (B, N, 3, H, D) padded.
        time: (T) or (B, N) float32 ages in days; `FAR` where there is none.
        places: (B + 1) offsets of the subgraphs, packed, or (B) rows of each, padded.
        mu, sigma, gain, shift: (G), (G), (H, G), (H) float32; None without a bias.
        seed: (1) of dropout; None without.
        longest: At least the rows of the longest subgraph; N if padded.
        is_log: Whether Δ is log(1 + days).
        rate: Of dropout.
        order: (T) int32 where its rows stand outside, if they are sorted by age; None if not.
    """

    qkv: Tensor
    time: Tensor
    places: Tensor
    mu: Tensor | None
    sigma: Tensor | None
    gain: Tensor | None
    shift: Tensor | None
    seed: Tensor | None
    longest: int
    is_log: bool
    rate: float
    order: Tensor | None = None

    @property
    def is_packed(self) -> bool:
        return self.qkv.dim() == 4

    @property
    def heads(self) -> int:
        return self.qkv.shape[-2]

    @property
    def size(self) -> int:
        return self.qkv.shape[-1]

    @property
    def kernels(self) -> int:
        return 0 if self.mu is None else self.mu.shape[0]

    @property
    def subgraphs(self) -> int:
        return self.places.shape[0] - self.is_packed

    @property
    def rows(self) -> int:
        return self.time.numel()

    def by_age(self) -> Tensor:
        """(T,) int32 the rows by age, of none if they are not to be sorted."""
        if not choose_group(self.kernels, self.is_log, self.longest, self.qkv.dtype):
            return self.time.new_empty(0, dtype=torch.int32)
        return sort_rows(self.time, self.places, self.longest, self.is_packed)

    def sorted(self, order: Tensor) -> "Problem":
        """With its rows in that order."""
        if not order.numel():
            return self
        qkv, time = rearranged(self.qkv, order), rearranged(self.time, order)
        return replace(self, qkv=qkv, time=time, order=order)

    @property
    def group(self) -> int:
        """Rows of a group; 0 if rows are not sorted."""
        if self.order is None:
            return 0
        return choose_group(self.kernels, self.is_log, self.longest, self.qkv.dtype)

    def groups(self) -> Groups | None:
        if self.order is None:
            return None
        assert self.sigma is not None
        assert self.gain is not None
        assert self.shift is not None
        return make_groups(
            self.order, self.time.view(-1), self.places, self.longest, self.qkv.dtype, self.group,
            (self.sigma, self.gain, self.shift), math.sqrt(self.size), self.is_packed,
        )  # fmt: skip

    def tensors(self, groups: Groups | None) -> tuple[Tensor | None, ...]:
        order, nodes, marks = (
            (groups.order, groups.nodes, groups.marks) if groups else (None, None, None)
        )
        return (
            self.qkv,
            self.time,
            self.places,
            self.mu,
            self.sigma,
            self.gain,
            self.shift,
            self.seed,
            order,
            nodes,
            marks,
        )

    def draws(self) -> tuple[int, float]:
        """Below which of 2^24 draws a weight is dropped, and what the others are multiplied by."""
        return round(self.rate * 2**24), 1.0 / (1.0 - self.rate)

    def constants(self, tiling: Tiling) -> dict[str, Any]:
        """In the order of the kernels' parameters."""
        return {
            "H": self.heads,
            "D": self.size,
            "G": self.kernels,
            "IS_LOG": self.is_log,
            "IS_PACKED": self.is_packed,
            "HAS_DROPOUT": self.rate > 0,
            # bf16 and fp16 are exact factors either way
            "PRECISION": "tf32x3" if self.qkv.dtype == torch.float32 else "tf32",
            "BLOCK_Q": tiling.queries,
            "BLOCK_K": tiling.keys,
            "GROUP": self.group,
            "WALK": tiling.walk,
            "NODES": NODES,
        }

    def sizes(self, tiles: int) -> tuple[int, int, int, int]:
        """Tiles of a subgraph, all rows, rows of a subgraph and groups of it, at most."""
        groups = -(-self.longest // self.group) if self.group else 0
        return tiles, self.rows, self.longest, groups

    def factors(self) -> tuple[float, float]:
        """√D, and what makes exponents of 2 of the product of a query and a key."""
        return math.sqrt(self.size), LOG2E / math.sqrt(self.size)

    def tiling(self, kernel: str, groups: Groups | None) -> Tiling:
        choose = choose_tiling if groups is None else choose_sorted_tiling
        return choose(kernel, self.size, self.kernels, self.longest, self.qkv.dtype)


def aligned(values: Tensor) -> Tensor:
    """As the kernels read it: contiguous, from an address that is a multiple of 16."""
    values = values.contiguous()
    return values.clone() if values.data_ptr() % 16 else values


def rearranged(values: Tensor, order: Tensor) -> Tensor:
    """Rows (T, …) or (B, N, …) in an order of all of them; as they are without one."""
    if not order.numel():
        return values
    return values.reshape(order.numel(), -1).index_select(0, order).view(values.shape)


def tiles_of(values: Tensor, count: int, rows: int) -> TensorDescriptor:
    """Reads tiles of so many rows of one head, out of `count`: the copy engine fetches them, so no
    thread computes their addresses."""
    size, width = values.shape[-1], values.numel() // count
    return TensorDescriptor(values, [count, width], [width, 1], [rows, size])


_COMPILED: dict[tuple[Any, ...], Any] = {}


def start(
    kernel: Any,
    programs: int,
    problem: Problem,
    arguments: tuple[Any, ...],
    constants: dict[str, Any],
    warps: int,
    stages: int = 1,
) -> None:
    """Run so many programs of a kernel.

    Triton's way from arguments to a compiled kernel takes longer than attention over 300 rows, so
    the kernel is kept. That is safe as the key holds all that Triton specialises on: integers and
    small tensors are exempt from it, the others are aligned.
    """
    given = tuple(constants.values())
    key = (
        kernel.__name__,
        problem.qkv.device,
        problem.qkv.dtype,
        problem.places.dtype,
        warps,
        stages,
        given,
    )
    compiled = _COMPILED.get(key)
    if compiled is None:  # always so in the interpreter
        _COMPILED[key] = kernel[(programs,)](
            *arguments, **constants, num_warps=warps, num_stages=stages
        )
    else:
        compiled[programs, 1, 1](*arguments, *given)


def launch_forward(problem: Problem, groups: Groups | None) -> tuple[Tensor, Tensor]:
    """(T, H, D) or (B, N, H, D), and (H, T) log Σ exp of the scores times √D."""
    qkv, heads = problem.qkv, problem.heads
    out = torch.empty(
        (*problem.time.shape, heads, problem.size), dtype=qkv.dtype, device=qkv.device
    )
    lse = torch.empty((heads, problem.rows), dtype=torch.float32, device=qkv.device)
    tiling = problem.tiling("forward", groups)
    tiles = -(-problem.longest // tiling.queries)
    numbers = *problem.sizes(tiles), *problem.factors(), *problem.draws()
    readers = (
        tiles_of(qkv, problem.rows, tiling.keys),
        groups and tiles_of(qkv, problem.rows, tiling.walk),
        groups and groups.reader(groups.shares, tiling.walk),
    )
    arguments = (*readers, *problem.tensors(groups), out, lse, *numbers)
    start(
        forward_kernel,
        tiles * heads * problem.subgraphs,
        problem,
        arguments,
        problem.constants(tiling),
        *tiling[2:4],
    )
    return out, lse


def launch_backward(
    problem: Problem, groups: Groups | None, out: Tensor, lse: Tensor, d_out: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradients of `qkv`, and of μ, σ, W and b one after the other."""
    d_qkv, delta = torch.empty_like(problem.qkv), torch.empty_like(lse)
    partial = launch_queries(problem, groups, out, lse, d_out, delta, d_qkv)
    launch_keys(problem, groups, lse, d_out, delta, d_qkv)
    return d_qkv, launch_sums(problem, partial)


def launch_queries(
    problem: Problem, groups: Groups | None, out: Tensor, lse: Tensor, d_out: Tensor,
    delta: Tensor, d_qkv: Tensor,
) -> Tensor:  # fmt: skip
    """Fills `delta` and the queries' part of `d_qkv`; the programs' sums for the bias are (H,
    programs of a head, 3G + 1)."""
    tiling = problem.tiling("queries", groups)
    tiles = -(-problem.longest // tiling.queries)
    count = tiles * problem.subgraphs
    partial = torch.empty(
        (problem.heads, count, 3 * problem.kernels + 1), dtype=torch.float32, device=lse.device
    )
    root, factor = problem.factors()
    numbers = *problem.sizes(tiles), count, root, factor, 1.0 / root, *problem.draws()
    readers = (
        tiles_of(problem.qkv, problem.rows, tiling.keys),
        groups and tiles_of(problem.qkv, problem.rows, tiling.walk),
        groups and groups.reader(groups.shares, tiling.walk),
        groups and groups.reader(groups.factors, tiling.walk),
    )
    tensors = problem.tensors(groups)
    arguments = (*readers, *tensors, out, lse, d_out, delta, d_qkv, partial, *numbers)
    start(
        queries_kernel,
        count * problem.heads,
        problem,
        arguments,
        problem.constants(tiling),
        *tiling[2:4],
    )
    return partial


def launch_keys(
    problem: Problem, groups: Groups | None, lse: Tensor, d_out: Tensor, delta: Tensor,
    d_qkv: Tensor,
) -> None:  # fmt: skip
    """Fills the keys' and values' part of `d_qkv`."""
    tiling = problem.tiling("keys", groups)
    tiles = -(-problem.longest // tiling.keys)
    root, factor = problem.factors()
    numbers = *problem.sizes(tiles), root, factor, 1.0 / root, *problem.draws()
    readers = (
        tiles_of(problem.qkv, problem.rows, tiling.queries),
        tiles_of(d_out, problem.rows, tiling.queries),
        groups and tiles_of(problem.qkv, problem.rows, tiling.walk),
        groups and tiles_of(d_out, problem.rows, tiling.walk),
        groups and groups.reader(groups.shares, tiling.walk),
    )
    arguments = (*readers, *problem.tensors(groups), lse, delta, d_qkv, *numbers)
    start(
        keys_kernel,
        tiles * problem.subgraphs * problem.heads,
        problem,
        arguments,
        problem.constants(tiling),
        *tiling[2:4],
    )


def launch_sums(problem: Problem, partial: Tensor) -> Tensor:
    """The gradients of μ, σ, W and b, one after the other."""
    heads, kernels = problem.heads, problem.kernels
    gradient = torch.empty(
        (heads + 2) * kernels + (heads if kernels else 0),
        dtype=torch.float32,
        device=partial.device,
    )
    if kernels:
        sizes = {"H": heads, "G": kernels, "WIDE": triton.next_power_of_2(kernels)}
        arguments = add_programs(partial), problem.sigma, problem.gain, gradient
        start(sums_kernel, 1, problem, arguments, sizes, warps=1)
    return gradient
