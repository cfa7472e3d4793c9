"""The training of one columns network: AdamW on rows of columns, with averaged weights."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from gelgt.nn.columns import ColumnsNetwork
from gelgt.nn.target import Target
from gelgt.training.columns_step import ColumnsStep, StepPlan, tensor_cores
from gelgt.training.optimiser import Adam
from gelgt.training.weights import MovingAverage, Weights

EPOCH, PATIENCE = 40, 15  # steps between two scores; scores without a better one
PLAN, AVERAGE = StepPlan(batch=256, rate=5e-4, warmup=50, decay=0.1), 0.98
OF_A_PASS = 4  # epochs in which all rows are seen, where these are so many that 40 steps are less
# rows of each pass when held-out rows are scored; on a CPU what they need should stay in its cache
SCORED, CUDA_SCORED = 256, 2_048


@dataclass
class ColumnRows:
    """What one network learns from.

    Attributes:
        values: (S, F) columns.
        labels: (S,) or (S, L).
        futures: (S, A) what the windows of the labels hold besides; None where nobody asks.
        weight: Of the loss of futures.
    """

    values: Tensor
    labels: Tensor
    futures: Tensor | None = None
    weight: float = 0.0

    def to(self, device: torch.device) -> "ColumnRows":
        futures = None if self.futures is None else self.futures.to(device)
        return ColumnRows(self.values.to(device), self.labels.to(device), futures, self.weight)


@dataclass
class ColumnsFit:
    """How columns networks are trained.

    Attributes:
        members: Of each.
        deadline: By `time.perf_counter`.
    """

    target: Target
    device: torch.device
    seed: int
    members: int
    deadline: float = np.inf
    is_cut_off: bool = field(default=False, init=False)

    def starter(self) -> Callable[[], None]:
        """Takes a step of a network of one column, so that what a CUDA device loads at its first
        use, which can take many seconds, is not taken from anyone's time. Draws nothing when it is
        called."""
        values = torch.linspace(0, 1, 8).unsqueeze(1)
        with torch.random.fork_rng(devices=[]):  # its weights are thrown away
            network = ColumnsNetwork(1, self.target.outputs, self.members)
        network.start(values, torch.tensor(self.target.start))
        network.eval()

        def start() -> None:
            if self.device.type == "cuda":
                out = network.to(self.device).of_members(values.to(self.device))
                out.mean().backward()  # type: ignore[no-untyped-call]
                group = {"params": network.parameters(), "lr": 0.0, "weight_decay": 0.0}
                Adam([group], is_recorded=True).step()
                torch.cuda.synchronize(self.device)

        return start

    def network(self, rows: ColumnRows) -> ColumnsNetwork:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            network = ColumnsNetwork(rows.values.shape[1], self.target.outputs, self.members)
            network.expect(0 if rows.futures is None else rows.futures.shape[1])
        network.start(rows.values, torch.tensor(self.target.start))
        return network.to(self.device)

    def best(
        self, rows: ColumnRows, held_out: ColumnRows, epochs: int
    ) -> tuple[ColumnsNetwork, int]:
        """A network with the weights of the epoch that had the least loss on rows that were held
        out, and the step at its end."""
        network, watched = self.network(rows), held_out.to(self.device)
        best: Weights = {}
        least, at = np.inf, 0

        def is_enough(step: int) -> bool:
            nonlocal best, least, at
            loss = self._loss(network, watched)
            if not best or loss < least:
                least, at = loss, step
                best = {name: p.detach().clone() for name, p in network.state_dict().items()}
            return step - at >= PATIENCE * EPOCH

        most = epochs * max(EPOCH, len(rows.labels) // (OF_A_PASS * PLAN.batch))
        self._train(network, rows, most, is_enough)
        network.load_state_dict(best)
        network.expect(0)
        return network, at

    def fixed(self, rows: ColumnRows, steps: int) -> ColumnsNetwork:
        """A network after so many steps."""
        network = self.network(rows)
        self._train(network, rows, steps)
        network.expect(0)
        return network

    def _is_over(self) -> bool:
        self.is_cut_off |= time.perf_counter() > self.deadline
        return self.is_cut_off

    @torch.no_grad()
    def _loss(self, network: ColumnsNetwork, rows: ColumnRows) -> float:
        network.eval()
        with tensor_cores(self.device):
            parts = torch.split(rows.values, CUDA_SCORED if rows.values.is_cuda else SCORED)
            out = torch.cat([network(part.float()) for part in parts])
        return float(self.target.loss(out, rows.labels))

    def _train(
        self,
        network: ColumnsNetwork,
        rows: ColumnRows,
        most: int,
        is_enough: Callable[[int], bool] | None = None,
    ) -> None:
        """Take steps, and leave the averaged weights. With these, `is_enough` is asked now and
        then, and when time is over."""
        rows, size = rows.to(self.device), len(rows.labels)
        order = torch.Generator().manual_seed(self.seed)
        futures = rows.values[:, :0] if rows.futures is None else rows.futures
        average = MovingAverage(network, AVERAGE)
        learned = (rows.values, rows.labels, self.target)
        take = ColumnsStep(network, average, *learned, PLAN, futures, rows.weight)
        devices = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed(self.seed)
            for step in range(1, most + 1):
                if take.is_used_up:
                    take.shuffle(torch.randperm(size, generator=order))
                take()
                if is_enough is None:
                    continue
                is_over = self._is_over()
                if is_over or step % EPOCH == 0:
                    with average.evaluated():
                        is_over |= is_enough(step)
                if is_over:
                    break
        average.keep()
