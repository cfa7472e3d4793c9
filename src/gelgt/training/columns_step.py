"""A training step of the columns network: on CUDA recorded after the first few, since it is a
hundred launches of small kernels."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from gelgt.nn.columns import ColumnsNetwork
from gelgt.nn.recording import recording
from gelgt.nn.target import Target
from gelgt.training.objective import future_losses
from gelgt.training.optimiser import set_rates

CLIP = 1.0  # largest norm of the gradient
EAGER = 3  # steps in which libraries and the optimiser set themselves up


@contextmanager
def tensor_cores(device: torch.device) -> Iterator[None]:
    """Products of float32 with the ten bits of TF32 on CUDA, several times as fast: half of a step
    are products."""
    before = torch.get_float32_matmul_precision()
    if device.type == "cuda":
        torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


class ColumnsStep:
    """Steps of one network.

    Args:
        network: On its device.
        values, labels: (S, F) and (S,) or (S, L) of all rows, on the same device.
        target: For the loss.
        rate, decay: Of AdamW.
        futures: (S, A) targets beside the labels, NaN where there is none; A may be 0.
        weight: Of their loss.
    """

    def __init__(
        self,
        network: ColumnsNetwork,
        values: Tensor,
        labels: Tensor,
        target: Target,
        rate: float,
        decay: float,
        futures: Tensor,
        weight: float,
    ) -> None:
        self.network, self.values, self.labels, self.target = network, values, labels, target
        self.futures, self.weight = futures, weight
        self.parameters, self.rate = list(network.parameters()), rate
        is_cuda = values.is_cuda
        self.optimiser = torch.optim.AdamW(
            self.parameters, weight_decay=decay, fused=is_cuda or None, capturable=is_cuda
        )
        if is_cuda:
            self.optimiser.param_groups[0]["lr"] = torch.tensor(rate, device=values.device)
        self._places: Tensor | None = None  # what a record reads
        self._graph: torch.cuda.CUDAGraph | None = None
        self._taken = 0

    def __call__(self, places: Tensor, warmth: float) -> None:
        """A step over some rows, always as many.

        Args:
            places: (B,) their numbers, on the host.
            warmth: The rate of this step over the usual one.
        """
        set_rates(self.optimiser, [self.rate], warmth)
        self.network.train()
        here = places.to(self.values.device)
        self._taken += 1
        if not here.is_cuda or self._taken <= EAGER:
            self._take(here)
            return
        if self._graph is None or self._places is None:
            self._places, self._graph = here.clone(), torch.cuda.CUDAGraph()
            graphed = torch.cuda.graph(self._graph, capture_error_mode="thread_local")
            with recording(), graphed:
                self._take(self._places)
        self._places.copy_(here)
        self._graph.replay()

    def _take(self, places: Tensor) -> None:
        with tensor_cores(places.device):
            self._step(places)

    def _step(self, places: Tensor) -> None:
        network = self.network
        h = network.hidden(self.values.index_select(0, places))  # (members, B, 256)
        out = h @ network.head + network.base
        # all members in one call: the launches of many small ones take longer than the work
        labels = torch.cat([self.labels.index_select(0, places)] * len(out))
        loss = self.target.loss(out.flatten(0, 1), labels)
        if network.futures is not None:
            wanted = self.futures.index_select(0, places)
            loss = loss + self.weight * future_losses(h @ network.futures, wanted).mean()
        for parameter, gradient in zip(
            self.parameters, torch.autograd.grad(loss, self.parameters), strict=True
        ):
            parameter.grad = gradient
        torch.nn.utils.clip_grad_norm_(self.parameters, CLIP)
        self.optimiser.step()
        for parameter in self.parameters:
            parameter.grad = None
