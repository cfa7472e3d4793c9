"""Launches the kernels: what they allocate, how large their tiles are, and which programs run."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from gelgt.nn.kernels.backward import keys_kernel, queries_kernel, sums_kernel
from gelgt.nn.kernels.columns import add_programs
from gelgt.nn.kernels.forward import forward_kernel

LOG2E = math.log2(math.e)


class Tiling(NamedTuple):
    """The shape of a kernel's programs: rows of a tile of queries and of keys, warps, and steps
    that are read ahead."""

    queries: int
    keys: int
    warps: int
    stages: int


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

    def tensors(self) -> tuple[Tensor | None, ...]:
        return (
            self.qkv,
            self.time,
            self.places,
            self.mu,
            self.sigma,
            self.gain,
            self.shift,
            self.seed,
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
        }

    def factors(self) -> tuple[float, float]:
        """√D, and what makes exponents of 2 of the product of a query and a key."""
        return math.sqrt(self.size), LOG2E / math.sqrt(self.size)

    def tiling(self, kernel: str) -> Tiling:
        return choose_tiling(kernel, self.size, self.kernels, self.longest, self.qkv.dtype)


def aligned(values: Tensor) -> Tensor:
    """As the kernels read it: contiguous, from an address that is a multiple of 16."""
    values = values.contiguous()
    return values.clone() if values.data_ptr() % 16 else values


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


def launch_forward(problem: Problem) -> tuple[Tensor, Tensor]:
    """(T, H, D) or (B, N, H, D), and (H, T) log Σ exp of the scores times √D."""
    qkv, heads = problem.qkv, problem.heads
    out = torch.empty(
        (*problem.time.shape, heads, problem.size), dtype=qkv.dtype, device=qkv.device
    )
    lse = torch.empty((heads, problem.rows), dtype=torch.float32, device=qkv.device)
    tiling = problem.tiling("forward")
    tiles = -(-problem.longest // tiling.queries)
    numbers = tiles, problem.rows, problem.longest, *problem.factors(), *problem.draws()
    tokens = tiles_of(qkv, problem.rows, tiling.keys)
    arguments = (tokens, *problem.tensors(), out, lse, *numbers)
    start(
        forward_kernel,
        tiles * heads * problem.subgraphs,
        problem,
        arguments,
        problem.constants(tiling),
        *tiling[2:],
    )
    return out, lse


def launch_backward(
    problem: Problem, out: Tensor, lse: Tensor, d_out: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradients of `qkv`, and of μ, σ, W and b one after the other."""
    d_qkv, delta = torch.empty_like(problem.qkv), torch.empty_like(lse)
    partial = launch_queries(problem, out, lse, d_out, delta, d_qkv)
    launch_keys(problem, lse, d_out, delta, d_qkv)
    return d_qkv, launch_sums(problem, partial)


def launch_queries(
    problem: Problem, out: Tensor, lse: Tensor, d_out: Tensor, delta: Tensor, d_qkv: Tensor
) -> Tensor:
    """Fills `delta` and the queries' part of `d_qkv`; the programs' sums for the bias are (H,
    programs of a head, 3G + 1)."""
    tiling = problem.tiling("queries")
    tiles = -(-problem.longest // tiling.queries)
    count = tiles * problem.subgraphs
    partial = torch.empty(
        (problem.heads, count, 3 * problem.kernels + 1), dtype=torch.float32, device=lse.device
    )
    root, factor = problem.factors()
    numbers = (
        tiles,
        problem.rows,
        problem.longest,
        count,
        root,
        factor,
        1.0 / root,
        *problem.draws(),
    )
    tokens = tiles_of(problem.qkv, problem.rows, tiling.keys)
    arguments = (tokens, *problem.tensors(), out, lse, d_out, delta, d_qkv, partial, *numbers)
    start(
        queries_kernel,
        count * problem.heads,
        problem,
        arguments,
        problem.constants(tiling),
        *tiling[2:],
    )
    return partial


def launch_keys(problem: Problem, lse: Tensor, d_out: Tensor, delta: Tensor, d_qkv: Tensor) -> None:
    """Fills the keys' and values' part of `d_qkv`."""
    tiling = problem.tiling("keys")
    tiles = -(-problem.longest // tiling.keys)
    root, factor = problem.factors()
    numbers = tiles, problem.rows, problem.longest, root, factor, 1.0 / root, *problem.draws()
    tokens, outputs = (
        tiles_of(values, problem.rows, tiling.queries) for values in (problem.qkv, d_out)
    )
    arguments = (tokens, outputs, *problem.tensors(), lse, delta, d_qkv, *numbers)
    start(
        keys_kernel,
        tiles * problem.subgraphs * problem.heads,
        problem,
        arguments,
        problem.constants(tiling),
        *tiling[2:],
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
