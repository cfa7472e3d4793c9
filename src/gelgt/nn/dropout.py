"""Dropout that several threads can use at once and still repeat, and that costs little on a CPU.

PyTorch has one generator for all threads of a process: two parts of a batch that are trained side
by side would draw from it in whatever order the machine runs them. Inside `own_dropout` each thread
draws from a generator of its own: one long mask for each rate, of which every layer takes a stretch
that begins at a random place.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

LENGTH = 1 << 19  # of a long mask, at least
ROOM = 1 << 16  # places at which a stretch of it can begin, at least
MOST_SEED, SEEDS = 2**31 - 1, 64  # of kernels, that are drawn at once
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


_OWN = threading.local()


@contextmanager
def own_dropout(seed: int) -> Iterator[None]:
    """Dropout on CPU tensors in this thread follows from the seed alone, whatever other threads
    draw."""
    before = getattr(_OWN, "masks", None)
    _OWN.masks = _Masks(seed)
    try:
        yield
    finally:
        _OWN.masks = before


@contextmanager
def shared_draw() -> Iterator[None]:
    """Seeds of kernels that drop entries come from one draw instead of one each."""
    before = getattr(_OWN, "seeds", None)
    _OWN.seeds = iter(())
    try:
        yield
    finally:
        _OWN.seeds = before


def draw_seed(device: torch.device) -> Tensor:
    """(1,) the seed of what one kernel drops, on its device."""
    if torch.compiler.is_compiling() or getattr(_OWN, "seeds", None) is None:
        return torch.randint(MOST_SEED, (1,), device=device)
    seed: Tensor | None = next(_OWN.seeds, None)
    if seed is None:
        _OWN.seeds = iter(torch.randint(MOST_SEED, (SEEDS, 1), device=device).unbind())
        seed = next(_OWN.seeds)
    return seed


class Dropout(nn.Dropout):
    """`torch.nn.Dropout`, with the thread's own masks inside `own_dropout`."""

    def forward(self, x: Tensor) -> Tensor:
        return dropout(x, self.p) if self.training else x


def dropout(x: Tensor, rate: float) -> Tensor:
    """Zero a share of the entries and scale the others, so that the mean stays."""
    masks: _Masks | None = None if x.is_cuda else getattr(_OWN, "masks", None)
    if masks is None:
        return functional.dropout(x, rate)
    level = round(rate * LEVELS)
    return x * masks.take(level, x.numel()).view(x.shape).to(x.dtype) if level else x


def uniform_like(x: Tensor) -> Tensor:
    """Numbers of [0, 1) in the shape of x, float32: inside `own_dropout` the thread's own, as the
    masks are."""
    masks: _Masks | None = None if x.is_cuda else getattr(_OWN, "masks", None)
    if masks is None:
        return torch.rand(x.shape, device=x.device)
    return torch.from_numpy(masks.generator.random(tuple(x.shape), dtype=np.float32))
