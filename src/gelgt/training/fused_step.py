"""`FusedStep`: the end of a recorded step on CUDA by the kernels of `nn/kernels/adam.py`.

It stands in for `StepSetup.descend` and for the conversion of weights at the start of a step. State
is where the optimiser keeps it, under the same names, so checkpoints are the same, and steps
of both kinds can follow each other.
"""

from typing import Any

import torch
from torch import Tensor

from gelgt.nn import RelationalModel
from gelgt.nn.kernels.adam_launch import Moved, Rule, Tables, launch_adam
from gelgt.nn.static.weights import LowWeights
from gelgt.training.bucket import Gradients
from gelgt.training.optimiser import Adam
from gelgt.training.weights import MovingAverage


class FusedStep:
    """Takes the steps of one network.

    Args:
        model: Whose parameters.
        optimiser: Adam or AdamW over them, whose rates are on the device.
        clip: Largest norm of the gradient; None: no limit.
        average: Follows every step.
        weights: Copies in low precision, which follow every step.
    """

    def __init__(
        self,
        model: RelationalModel,
        optimiser: Adam,
        clip: float | None,
        average: MovingAverage,
        weights: LowWeights,
    ) -> None:
        self.optimiser, self.clip, self.average, self.weights = optimiser, clip, average, weights
        trained = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
        self.names = {id(p): name for name, p in trained}  # in the order of gradients
        self.share = torch.zeros((), device=trained[0][1].device)
        self.tables = Tables()

    def begin(self) -> None:
        """Before a step: its share in the average, and copies of the weights as they are."""
        if self.average.values:
            self.share.fill_(self.average.share)
        self.weights.renew()

    def begin_like(self, other: "FusedStep") -> None:
        """Have the state that a trial run would make, from a network of the same configuration that
        has taken one."""
        parameters, others = (step.optimiser.parameters for step in (self, other))
        for parameter, its in zip(parameters, others, strict=True):
            if other.optimiser.state.get(its):
                self.optimiser.state_of(parameter)
        self.tables.begin_like(other.tables)

    @torch.no_grad()
    def __call__(self, gradients: Gradients) -> None:
        """Take a step; a parameter without a gradient stays as it is, and so does its average."""
        gradient_of = dict(zip(self.names, gradients, strict=True))
        moved = [
            self._moved(parameter, gradient.contiguous(), group)
            for group in self.optimiser.param_groups
            for parameter in group["params"]
            if (gradient := gradient_of.get(id(parameter))) is not None
        ]
        optimiser = self.optimiser
        rule = Rule(optimiser.betas, optimiser.eps, optimiser.is_decoupled, self.clip)
        launch_adam(moved, rule, self.tables, self.share)

    def _moved(self, parameter: Tensor, gradient: Tensor, group: dict[str, Any]) -> Moved:
        state = self.optimiser.state_of(parameter)
        return Moved(
            parameter,
            gradient,
            state["exp_avg"],
            state["exp_avg_sq"],
            state["step"],
            group["lr"],
            group["weight_decay"],
            self.weights.copy_of.get(id(parameter)),
            self.average.values.get(self.names[id(parameter)]),
        )
