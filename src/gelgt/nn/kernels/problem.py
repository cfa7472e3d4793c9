"""One attention over subgraphs as its kernels see it: its arrays, its tile sizes, and whether its
rows are sorted by age."""

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

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


def choose_group(
    kernels: int, is_log: bool, longest: int, dtype: torch.dtype, device: torch.device
) -> int:
    """Rows of a group that shares its Gaussians (groups.py); 0 where rows are not sorted for it."""
    is_worth_sorting = longest >= SORTED_FROM and 0 < kernels <= 8
    can_sort = not is_log and dtype != torch.float32 and has_room(device)
    return 64 if is_worth_sorting and can_sort else 0


@lru_cache(maxsize=8)
def has_room(device: torch.device) -> bool:
    """Whether a program may have the 113 KiB of shared memory that groups take. Smaller devices
    have less, and on other large ones than Hopper's nothing was tried."""
    # a CPU is the interpreter
    return device.type != "cuda" or torch.cuda.get_device_capability(device)[0] == 9


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
        if not self._choose_group():
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
        return 0 if self.order is None else self._choose_group()

    def _choose_group(self) -> int:
        qkv = self.qkv
        return choose_group(self.kernels, self.is_log, self.longest, qkv.dtype, qkv.device)

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
        order, nodes, lists = (
            (groups.order, groups.nodes, groups.lists) if groups else (None, None, None)
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
            lists,
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
