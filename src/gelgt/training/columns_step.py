"""A training step of the columns network: on CUDA recorded after the first few, since it is a
hundred launches of small kernels."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor

from gelgt.nn.columns import ColumnsNetwork
from gelgt.nn.dropout import LARGEST, own_dropout
from gelgt.nn.recording import recording
from gelgt.nn.target import Target
from gelgt.training.objective import future_losses
from gelgt.training.optimiser import Adam
from gelgt.training.weights import MovingAverage

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


class StepPlan(NamedTuple):
    """Rows of a step, the rate of AdamW and the steps until it is reached, and its decay."""

    batch: int
    rate: float
    warmup: int
    decay: float


class ColumnsStep:
    """Steps of one network, each over the next rows of a permutation of all.

    What changes from step to step (the rows, the rate, the share in the average) is computed on the
    device from a count of steps, so that on CUDA a step is one launch by the host.

    Args:
        network: On its device.
        average: Of its weights, moved after each step.
        values, labels: (S, F) and (S,) or (S, L) of all rows, on the same device.
        target: For the loss.
        plan: Of the steps.
        futures: (S, A) targets beside the labels, NaN where there is none; A may be 0.
        weight: Of their loss.
    """

    def __init__(
        self,
        network: ColumnsNetwork,
        average: MovingAverage,
        values: Tensor,
        labels: Tensor,
        target: Target,
        plan: StepPlan,
        futures: Tensor,
        weight: float,
    ) -> None:
        self.network, self.values, self.labels, self.target = network, values, labels, target
        self.futures, self.weight, self.plan, self.average = futures, weight, plan, average
        self.parameters = list(network.parameters())
        is_cuda, device = values.is_cuda, values.device
        self.rate = torch.zeros((), device=device)
        rate = self.rate if is_cuda else plan.rate
        group = {"params": self.parameters, "lr": rate, "weight_decay": plan.decay}
        self.optimiser = Adam([group], is_recorded=is_cuda)
        self.size = min(plan.batch, len(labels))
        self._within = torch.arange(self.size, device=device)
        self._order = torch.zeros(len(labels), dtype=torch.int64, device=device)
        self._at = torch.zeros((), dtype=torch.int64, device=device)  # in the permutation
        self._count = torch.zeros((), device=device)
        self._graph: torch.cuda.CUDAGraph | None = None
        self._taken, self._left = 0, 0  # steps so far, and rows of the permutation

    @property
    def is_used_up(self) -> bool:
        """Whether too few rows of the permutation are left for a step."""
        return self._left < self.size

    def shuffle(self, order: Tensor) -> None:
        """Go on with another permutation (S,) of the rows."""
        self._order.copy_(order)
        self._at.zero_()
        self._left = len(order)

    def __call__(self) -> None:
        """A step over the next rows."""
        self.network.train()
        self._taken += 1
        self._left -= self.size
        if not self.values.is_cuda:
            with own_dropout(int(torch.randint(LARGEST, ()))):  # whose masks are cheaper
                self._take()
            return
        if self._taken <= EAGER:
            self._take()
            return
        if self._graph is None:
            self._graph = torch.cuda.CUDAGraph()
            graphed = torch.cuda.graph(self._graph, capture_error_mode="thread_local")
            with recording(), graphed:
                self._take()
        self._graph.replay()

    def _take(self) -> None:
        with tensor_cores(self.values.device):
            places = self._order.index_select(0, self._at + self._within)
            self._at += self.size
            self._count += 1
            warmth = (self._count / self.plan.warmup).clamp(max=1)
            self.rate.copy_(self.plan.rate * warmth)
            if not self.values.is_cuda:
                self.optimiser.param_groups[0]["lr"] = float(self.rate)
            self._step(places)
            self.average.update(self._count)

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
