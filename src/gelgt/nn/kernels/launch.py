"""Launches the kernels: what they allocate, how large their tiles are, and which programs run."""

import math
from dataclasses import dataclass
from typing import Any

import torch
import triton
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from gelgt.nn.kernels.backward import keys_kernel, queries_kernel, sums_kernel
from gelgt.nn.kernels.forward import forward_kernel

LOG2E = math.log2(math.e)


@dataclass(frozen=True)
class Tiling:
    """The shape of a kernel's programs; `heads` of a tile share its Gaussians, and `poly` of those are polynomials."""

    queries: int
    keys: int
    warps: int
    stages: int
    heads: int = 1
    poly: int = 0
    registers: int | None = None

    def options(self) -> dict[str, int]:
        found = {"BLOCK_Q": self.queries, "BLOCK_K": self.keys, "POLY": self.poly, "num_warps": self.warps, "num_stages": self.stages}
        return found if self.registers is None else found | {"maxnreg": self.registers}


def choose_tiling(kernel: str, size: int, kernels: int, longest: int, dtype: torch.dtype) -> Tiling:
    """Tiles that were measured to be fast on an H200: for ``forward``, ``queries`` or ``keys``, by head size and longest subgraph."""
    if dtype == torch.float32:
        return {"forward": Tiling(64, 32, 4, 1), "queries": Tiling(64, 32, 4, 1), "keys": Tiling(32, 32, 4, 1)}[kernel]
    return {"forward": Tiling(64, 64, 4, 3), "queries": Tiling(64, 32, 4, 3), "keys": Tiling(64, 64, 4, 2)}[kernel]


@dataclass(frozen=True)
class Problem:
    """One attention over subgraphs.

    Attributes:
        qkv: (T, 3, H, D) packed, or (B, N, 3, H, D) padded.
        time: (T) or (B, N) float32 ages in days; `FAR` where there is none.
        places: (B + 1) offsets of the subgraphs, packed, or (B) rows of each, padded.
        mu, sigma, mix, shift: (G), (G), (H, G), (H) float32; None without a bias.
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
    mix: Tensor | None
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
        return self.qkv, self.time, self.places, self.mu, self.sigma, self.mix, self.shift, self.seed

    def draws(self) -> tuple[int, float]:
        """Below which of 2^24 draws a weight is dropped, and what the others are multiplied by."""
        return round(self.rate * 2**24), 1.0 / (1.0 - self.rate)

    def constants(self) -> dict[str, Any]:
        return {
            "H": self.heads,
            "D": self.size,
            "G": self.kernels,
            "IS_LOG": self.is_log,
            "IS_PACKED": self.is_packed,
            "HAS_DROPOUT": self.rate > 0,
            "PRECISION": "tf32x3" if self.qkv.dtype == torch.float32 else "tf32",  # bf16 and fp16 are exact factors either way
        }

    def factors(self) -> tuple[float, float]:
        """√D, and what makes exponents of 2 of the product of a query and a key."""
        return math.sqrt(self.size), LOG2E / math.sqrt(self.size)

    def tiling(self, kernel: str) -> Tiling:
        return choose_tiling(kernel, self.size, self.kernels, self.longest, self.qkv.dtype)


def tiles_of(values: Tensor, count: int, rows: int) -> TensorDescriptor:
    """Reads tiles of so many rows of one head, out of `count`: the copy engine fetches them, so no thread computes their addresses."""
    size, width = values.shape[-1], values.numel() // count
    return TensorDescriptor(values, [count, width], [width, 1], [rows, size])


def launch_forward(problem: Problem) -> tuple[Tensor, Tensor]:
    """(T, H, D) or (B, N, H, D), and (H, T) log2 Σ exp2 of the scores."""
    qkv, heads = problem.qkv, problem.heads
    out = torch.empty((*problem.time.shape, heads, problem.size), dtype=qkv.dtype, device=qkv.device)
    lse = torch.empty((heads, problem.rows), dtype=torch.float32, device=qkv.device)
    tiling = problem.tiling("forward")
    shared = math.gcd(tiling.heads, heads)
    tiles = -(-problem.longest // tiling.queries)
    forward_kernel[(tiles * (heads // shared) * problem.subgraphs,)](
        tiles_of(qkv, problem.rows, tiling.keys), *problem.tensors(), out, lse,
        tiles, problem.rows, problem.longest, *problem.factors(), *problem.draws(),
        **problem.constants(), **tiling.options(), HEADS=shared,
    )  # fmt: skip
    return out, lse


def launch_backward(problem: Problem, out: Tensor, lse: Tensor, d_out: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of `qkv`, and of μ, σ, W and b one after the other."""
    d_qkv, delta = torch.empty_like(problem.qkv), torch.empty_like(lse)
    partial = launch_queries(problem, out, lse, d_out, delta, d_qkv)
    launch_keys(problem, lse, d_out, delta, d_qkv)
    return d_qkv, launch_sums(problem, partial)


def launch_queries(problem: Problem, out: Tensor, lse: Tensor, d_out: Tensor, delta: Tensor, d_qkv: Tensor) -> Tensor:
    """Fills `delta` and the queries' part of `d_qkv`; the programs' sums for the bias are (H, programs of a head, 3G + 1)."""
    tiling = problem.tiling("queries")
    tiles = -(-problem.longest // tiling.queries)
    count = tiles * problem.subgraphs
    partial = lse.new_empty((problem.heads, count, 3 * problem.kernels + 1))
    scale = 1.0 / math.sqrt(problem.size)
    queries_kernel[(count * problem.heads,)](
        tiles_of(problem.qkv, problem.rows, tiling.keys), *problem.tensors(), out, lse, d_out, delta, d_qkv, partial,
        tiles, problem.rows, problem.longest, count, *problem.factors(), scale, *problem.draws(),
        **problem.constants(), **tiling.options(),
    )  # fmt: skip
    return partial


def launch_keys(problem: Problem, lse: Tensor, d_out: Tensor, delta: Tensor, d_qkv: Tensor) -> None:
    """Fills the keys' and values' part of `d_qkv`."""
    tiling = problem.tiling("keys")
    tiles = -(-problem.longest // tiling.keys)
    scale = 1.0 / math.sqrt(problem.size)
    keys_kernel[(tiles * problem.subgraphs * problem.heads,)](
        tiles_of(problem.qkv, problem.rows, tiling.queries), tiles_of(d_out, problem.rows, tiling.queries),
        *problem.tensors(), lse, delta, d_qkv,
        tiles, problem.rows, problem.longest, *problem.factors(), scale, *problem.draws(),
        **problem.constants(), **tiling.options(),
    )  # fmt: skip


def launch_sums(problem: Problem, partial: Tensor) -> Tensor:
    """The gradients of μ, σ, W and b, one after the other."""
    heads, kernels = problem.heads, problem.kernels
    gradient = partial.new_empty((heads + 2) * kernels + (heads if kernels else 0))
    if kernels:
        wide = triton.next_power_of_2(kernels)
        sizes = {"H": heads, "G": kernels, "WIDE": wide, "CHUNK": 1024 // wide}
        sums_kernel[(1,)](partial, problem.sigma, problem.mix, gradient, partial.shape[1], **sizes, num_warps=8)
    return gradient
