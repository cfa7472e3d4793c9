"""Dropout that several threads can use at once and still repeat, and that costs little on a CPU.

PyTorch has one generator for all threads of a process: two parts of a batch that are trained side
by side would draw from it in whatever order the machine runs them. Inside `own_dropout` each thread
draws from a generator of its own: one long mask for each rate, of which every layer takes a stretch
that begins at a random place.

On CUDA the seed of `own_dropout` can lie in the device's memory, where a recorded graph reads it
anew in every replay. Networks that are trained side by side then draw what each would draw alone.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

LENGTH = 1 << 19  # of a long mask, at least
ROOM = 1 << 16  # places at which a stretch of it can begin, at least
LARGEST = 2**31 - 1
NUMBERS = 64  # that layers of one step take, about
LEVELS = 256  # a mask compares bytes, so a rate is a multiple of 1/256


class _Masks:
    """The long masks of one thread: 0, or what keeps the mean."""

    def __init__(self, seed: int) -> None:
        self.generator = np.random.Generator(np.random.SFC64(seed))
        self.long: dict[int, Tensor] = {}

    def take(self, level: int, length: int) -> Tensor:
        """(length,) factors of entries, of which level/256 are dropped."""
        mask = self.long.get(level)
        if mask is None or len(mask) < length + ROOM:
            drawn = self.generator.integers(
                0, 2**64, size=-(-max(LENGTH, length + ROOM) // 8), dtype=np.uint64
            ).view(np.uint8)
            mask = torch.from_numpy(drawn).ge(level).float().mul_(LEVELS / (LEVELS - level))
            self.long[level] = mask
        start = int(self.generator.integers(0, len(mask) - length))
        return mask[start : start + length]


class _Draws:
    """Draws on a device: a seed (1,) that lies there, and how many layers have drawn."""

    def __init__(self, seed: Tensor) -> None:
        self.seed, self.calls = seed, 0
        self._numbers: list[Tensor] = []

    def next(self) -> int:
        self.calls += 1
        return self.calls

    def number(self) -> Tensor:
        """(1,) the next whole number below 2^31; many are made at once."""
        if not self._numbers:
            places = torch.arange(NUMBERS, device=self.seed.device) + NUMBERS * self.next()
            self._numbers = list(((self.seed + places * 0x9E3779B1) % LARGEST)[:, None].unbind())
        return self._numbers.pop()


_OWN = threading.local()


@contextmanager
def own_dropout(seed: int | Tensor) -> Iterator[None]:
    """Dropout in this thread follows from the seed alone, whatever other threads draw: that of CPU
    tensors, or with a seed (1,) in the memory of a CUDA device that of tensors there."""
    before = getattr(_OWN, "masks", None)
    is_there = isinstance(seed, Tensor) and seed.is_cuda
    _OWN.masks = _Draws(seed) if is_there else _Masks(int(seed))  # type: ignore[arg-type]
    try:
        yield
    finally:
        _OWN.masks = before


class Dropout(nn.Dropout):
    """`torch.nn.Dropout`, with the thread's own masks inside `own_dropout`."""

    def forward(self, x: Tensor) -> Tensor:
        return dropout(x, self.p) if self.training else x


def dropout(x: Tensor, rate: float) -> Tensor:
    """Zero a share of the entries and scale the others, so that the mean stays."""
    masks = _masks_for(x)
    if masks is None:
        return functional.dropout(x, rate)
    if isinstance(masks, _Draws):
        out: Tensor = _Drawn.apply(x, masks.seed, masks.next(), rate) if rate else x  # type: ignore[no-untyped-call]
        return out
    level = round(rate * LEVELS)
    return x * masks.take(level, x.numel()).view(x.shape).to(x.dtype) if level else x


def uniform_like(x: Tensor) -> Tensor:
    """Numbers of [0, 1) in the shape of x, float32: inside `own_dropout` the thread's own, as the
    masks are."""
    masks = _masks_for(x)
    if isinstance(masks, _Draws):
        from gelgt.nn.kernels.dropout import launch_uniform  # imports Triton

        return launch_uniform(x.shape, masks.seed, masks.next())
    if masks is None:
        return torch.rand(x.shape, device=x.device)
    return torch.from_numpy(masks.generator.random(tuple(x.shape), dtype=np.float32))


def draw_seed(device: torch.device) -> Tensor:
    """(1,) the seed of what one kernel drops, a whole number below 2^31 on its device."""
    masks = None if torch.compiler.is_compiling() else getattr(_OWN, "masks", None)
    if isinstance(masks, _Draws):
        return masks.number()
    return torch.randint(LARGEST, (1,), device=device)


def _masks_for(x: Tensor) -> _Masks | _Draws | None:
    """What this thread draws from for a tensor; None for PyTorch's own generator."""
    masks: _Masks | _Draws | None = getattr(_OWN, "masks", None)
    return masks if isinstance(masks, _Draws) == x.is_cuda else None


class _Drawn(torch.autograd.Function):
    """Dropout by a kernel, which draws the same again in the backward pass."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, seed: Tensor, call: int, rate: float) -> Tensor:
        from gelgt.nn.kernels.dropout import launch_dropout  # imports Triton

        ctx.save_for_backward(seed)
        ctx.settings = call, rate
        return launch_dropout(x.contiguous(), seed, call, rate)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        from gelgt.nn.kernels.dropout import launch_dropout

        (seed,) = ctx.saved_tensors
        return launch_dropout(gradient.contiguous(), seed, *ctx.settings), None, None, None
