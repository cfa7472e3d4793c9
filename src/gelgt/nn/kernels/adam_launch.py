"""Launches the kernels of Adam: the table of addresses by which they find their tensors.

This module itself needs no Triton.
"""

import math
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from gelgt.nn.recording import after_recording, is_recording

BLOCK, WARPS = 2048, 8  # numbers of a program, and its warps
FEW, WIDE = 256, 2048  # tensors whose steps are counted at once, and chunks that are added


class Moved(NamedTuple):
    """What a step of one parameter reads and writes, contiguous on one device, in float32 where
    nothing else is said.

    Attributes:
        gradient: In float32 or bf16.
        first, second: Adam's moments.
        step: () steps that were taken.
        rate: () the learning rate.
        decay: Of the weight.
        copy: In bf16.
        average: The moving average.
    """

    parameter: Tensor
    gradient: Tensor
    first: Tensor
    second: Tensor
    step: Tensor
    rate: Tensor
    decay: float
    copy: Tensor | None = None
    average: Tensor | None = None


class Rule(NamedTuple):
    """How steps are taken.

    Attributes:
        is_decoupled: Whether weights decay apart from the gradient (AdamW).
        clip: Largest norm of the gradient; None: no limit.
    """

    betas: tuple[float, float]
    eps: float
    is_decoupled: bool
    clip: float | None = None


class Tables:
    """Addresses and chunks on the device, of trial runs and of the recordings after them.

    A recording has gradients of its own, so it has a table of its own. It cannot have it from the
    memory that is allocated while recording, of which each replay uses parts for something else:
    a trial run before, of these parameters or of others like them, or the last recording leaves it
    one.
    """

    def __init__(self) -> None:
        self.chunks: dict[tuple[int, ...], Tensor] = {}  # by the sizes of the tensors
        self.next: Tensor | None = None
        self.recorded: list[Tensor] = []  # read by replays

    def of(self, moved: Sequence[Moved]) -> tuple[Tensor, Tensor]:
        """(tensors, columns) addresses and numbers, and (chunks, 2) tensor and place in it."""
        device, content = moved[0].parameter.device, _content(moved)
        sizes = tuple(each.parameter.numel() for each in moved)
        if is_recording():
            table, self.next = self.next, None
            assert table is not None, "a trial run comes first"
            assert table.shape == content.shape, "a trial run takes the same step"
            self.recorded.append(table)
            after_recording(partial(self._fill, table, content))
            return table, self.chunks[sizes]
        if self.next is None or self.next.shape != content.shape:
            self.next = torch.empty_like(content, device=device)
        if sizes not in self.chunks:
            self.chunks[sizes] = _chunks(sizes).to(device)
        return self.next.copy_(content), self.chunks[sizes]

    def begin_like(self, other: "Tables") -> None:
        """Be ready to record as another network of the same form is after its trial run."""
        self.chunks |= other.chunks  # they hold no addresses
        if self.next is None and other.next is not None:
            self.next = torch.empty_like(other.next)

    def _fill(self, table: Tensor, content: Tensor) -> None:
        table.copy_(content)
        self.next = torch.empty_like(table)


def _content(moved: Sequence[Moved]) -> Tensor:
    decays = torch.tensor([each.decay for each in moved], dtype=torch.float64).view(torch.int64)
    rows = []
    for each, decay in zip(moved, decays.tolist()):
        tensors = (*each[:6], each.copy, each.average)
        assert all(t is None or t.is_contiguous() for t in tensors)
        addresses = [0 if t is None else t.data_ptr() for t in tensors]
        is_low = each.gradient.dtype == torch.bfloat16
        wide = (each.parameter, each.first, each.second, each.step, each.rate)
        assert is_low or each.gradient.dtype == torch.float32
        assert all(t.dtype == torch.float32 for t in wide)
        rows.append([*addresses, decay, each.parameter.numel(), int(is_low)])
    return torch.tensor(rows, dtype=torch.int64)


def _chunks(sizes: Sequence[int]) -> Tensor:
    counts = torch.tensor([-(-size // BLOCK) for size in sizes])
    tensor = torch.repeat_interleave(torch.arange(len(sizes)), counts)
    starts = torch.repeat_interleave(counts.cumsum(0) - counts, counts)
    return torch.stack([tensor, torch.arange(len(tensor)) - starts], dim=1).to(torch.int32)


def launch_adam(
    moved: Sequence[Moved], rule: Rule, tables: Tables, share: Tensor | None = None
) -> None:
    """Take a step.

    Args:
        share: () of the weights in their moving average, where there is one.
    """
    from gelgt.nn.kernels.adam import adam_kernel, advance_kernel, squares_kernel

    table, chunks = tables.of(moved)
    is_aligned = all(
        t is None or t.data_ptr() % 16 == 0
        for each in moved
        for t in (*each[:4], each.copy, each.average)
    )
    numbers = torch.empty(len(moved), 3, device=table.device)
    factor, squares = numbers.new_empty(()), numbers.new_empty(len(chunks))
    is_clipped, grid = rule.clip is not None, (len(chunks),)
    if is_clipped:
        squares_kernel[grid](
            table, chunks, squares, IS_ALIGNED=is_aligned, BLOCK=BLOCK, num_warps=WARPS
        )
    advance_kernel[(1,)](
        table, squares, factor, numbers, len(moved), len(chunks), rule.clip or 0.0,
        LOG_FIRST=math.log(rule.betas[0]), LOG_SECOND=math.log(rule.betas[1]),
        IS_DECOUPLED=rule.is_decoupled, IS_CLIPPED=is_clipped, FEW=FEW, WIDE=WIDE, num_warps=8,
    )  # fmt: skip
    adam_kernel[grid](
        table, chunks, numbers, factor, factor if share is None else share, rule.eps,
        BETA_1=rule.betas[0], BETA_2=rule.betas[1], IS_DECOUPLED=rule.is_decoupled,
        IS_CLIPPED=is_clipped, IS_ALIGNED=is_aligned, BLOCK=BLOCK, num_warps=WARPS,
    )  # fmt: skip
