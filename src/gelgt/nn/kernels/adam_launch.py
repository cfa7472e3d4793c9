"""Launches the kernels of Adam: the table of addresses by which they find their tensors.

This module itself needs no Triton.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

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

    A recording has gradients of its own, and copies their addresses from pinned memory at every
    replay. It must not allocate that, so the trial run before leaves it what it needs.
    """

    def __init__(self) -> None:
        self.chunks: dict[tuple[int, ...], Tensor] = {}  # by the sizes of the tensors
        self.next: tuple[Tensor, Tensor] | None = None  # on the host and on the device
        self.recorded: list[tuple[Tensor, Tensor]] = []  # read by replays

    def of(self, moved: Sequence[Moved]) -> tuple[Tensor, Tensor]:
        """(tensors, columns) addresses and numbers, and (chunks, 2) tensor and place in it."""
        device, content = moved[0].parameter.device, _content(moved)
        is_recording = _is_recording(device)
        if self.next is None or self.next[0].shape != content.shape:
            assert not is_recording, "a trial run of the same step comes first"
            host = torch.empty_like(content, pin_memory=device.type == "cuda")
            self.next = host, torch.empty_like(content, device=device)
        host, table = self.next
        host.copy_(content)
        table.copy_(host, non_blocking=is_recording)  # a trial run must not write to it meanwhile
        if is_recording:
            self.recorded.append(self.next)
            self.next = None
        sizes = tuple(each.parameter.numel() for each in moved)
        if sizes not in self.chunks:
            self.chunks[sizes] = _chunks(sizes).to(device)
        return table, self.chunks[sizes]


def _is_recording(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


def _content(moved: Sequence[Moved]) -> Tensor:
    decays = torch.tensor([each.decay for each in moved], dtype=torch.float64).view(torch.int64)
    rows = []
    for each, decay in zip(moved, decays.tolist()):
        tensors = (*each[:6], each.copy, each.average)
        assert all(t is None or t.is_contiguous() for t in tensors)
        addresses = [0 if t is None else t.data_ptr() for t in tensors]
        is_low = each.gradient.dtype == torch.bfloat16
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
    factor, partial = numbers.new_empty(()), numbers.new_empty(len(chunks))
    is_clipped, grid = rule.clip is not None, (len(chunks),)
    if is_clipped:
        squares_kernel[grid](
            table, chunks, partial, IS_ALIGNED=is_aligned, BLOCK=BLOCK, num_warps=WARPS
        )
    advance_kernel[(1,)](
        table, partial, factor, numbers, len(moved), len(chunks), rule.clip or 0.0,
        LOG_FIRST=math.log(rule.betas[0]), LOG_SECOND=math.log(rule.betas[1]),
        IS_DECOUPLED=rule.is_decoupled, IS_CLIPPED=is_clipped, FEW=FEW, WIDE=WIDE, num_warps=8,
    )  # fmt: skip
    adam_kernel[grid](
        table, chunks, numbers, factor, factor if share is None else share, rule.eps,
        BETA_1=rule.betas[0], BETA_2=rule.betas[1], IS_DECOUPLED=rule.is_decoupled,
        IS_CLIPPED=is_clipped, IS_ALIGNED=is_aligned, BLOCK=BLOCK, num_warps=WARPS,
    )  # fmt: skip
