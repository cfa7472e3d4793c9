"""`StepSetup`: what every kind of step needs, and how a step is taken by PyTorch."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from gelgt.nn import RelationalModel
from gelgt.scoring.replay import Context
from gelgt.training.bucket import Bucket, Gradients
from gelgt.training.objective import Objective
from gelgt.training.optimiser import Adam, limit_gradients
from gelgt.training.rank_objective import RankObjective
from gelgt.training.weights import MovingAverage
from gelgt.training.workers import Workers, tree_sum


@dataclass(frozen=True)
class StepSetup:
    """What both kinds of steps need.

    Attributes:
        clip: Largest norm of the gradient; None: no limit.
        precision: Autocast, or nothing.
        average: Of the parameters, which follows every step.
        workers: Who else computes parts of the batch; None: nobody.
    """

    model: RelationalModel
    objective: Objective | RankObjective
    optimiser: Adam
    clip: float | None
    precision: Context
    device: torch.device
    average: MovingAverage
    workers: Workers | None = None

    @cached_property
    def parameters(self) -> list[torch.nn.Parameter]:
        return [p for p in self.model.parameters() if p.requires_grad]

    @cached_property
    def bucket(self) -> Bucket:
        return Bucket(self.parameters)

    def everyone(self, flats: Sequence[Tensor]) -> Tensor:
        """The sum of packed gradients, of this worker and the others."""
        flat = tree_sum(flats) if flats else self.bucket.empty()
        return flat if self.workers is None else self.workers.sum(flat)

    def descend(self, gradients: Gradients) -> None:
        """Take the step."""
        for parameter, gradient in zip(self.parameters, gradients):
            parameter.grad = gradient
        limit_gradients(self.parameters, self.clip)
        self.optimiser.step()
        for parameter in self.parameters:  # a fused optimiser does not count its changes
            torch.autograd.graph.increment_version(parameter)
        self.average.update()
