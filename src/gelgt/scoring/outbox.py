"""`Outbox`: what networks put out batch by batch, brought to the host some batches later, so that
nobody waits for the device."""

from collections import deque

import torch
from torch import Tensor

LAG = 3  # batches that the host may be ahead of what it has read back


class Outbox:
    """Collects outputs on the host.

    Page-locked memory, without which a copy would make the host wait, takes longer to get than a
    batch takes to score: a few buffers go round.

    Args:
        count: Outputs of all batches together.
        batch_size: Of one batch, at most.
        device: Where the outputs are made.
    """

    def __init__(self, count: int, batch_size: int, device: torch.device) -> None:
        self.count, self.batch_size = count, batch_size
        self.is_cuda = device.type == "cuda"
        self.results: Tensor | None = None
        self.buffers = 0
        self._free: list[Tensor] = []
        self._waiting: deque[tuple[Tensor, slice, torch.cuda.Event | None]] = deque()
        self._begun = 0

    def add(self, out: Tensor) -> None:
        """The outputs (n, …) of the next batch; they may be overwritten by later work on the same
        stream."""
        if self.results is None:
            self.results = torch.empty(self.count, *out.shape[1:], dtype=out.dtype)
        if not self._free:
            shape = (self.batch_size, *out.shape[1:])
            self._free.append(torch.empty(shape, dtype=out.dtype, pin_memory=self.is_cuda))
            self.buffers += 1
        buffer = self._free.pop()
        buffer[: len(out)].copy_(out, non_blocking=True)
        event: torch.cuda.Event | None = None
        if self.is_cuda:
            event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            event.record()
        self._waiting.append((buffer, slice(self._begun, self._begun + len(out)), event))
        self._begun += len(out)
        self._receive(LAG)

    def all(self) -> Tensor:
        """The outputs of all batches, (count, …)."""
        self._receive(0)
        assert self.results is not None, "somebody is asked about"
        return self.results

    def _receive(self, most: int) -> None:
        """Wait for batches until at most so many are on their way."""
        while len(self._waiting) > most:
            buffer, place, event = self._waiting.popleft()
            if event is not None:
                event.synchronize()
            assert self.results is not None
            self.results[place] = buffer[: place.stop - place.start]
            self._free.append(buffer)
