"""The optimiser of a training, and the limit of its gradients."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim.adam import adam
from torch.optim.adamw import adamw

from gelgt.config import TrainConfig
from gelgt.nn import RelationalModel

Moments = dict[int, dict[str, Tensor]]  # by the number of their parameter
Group = dict[str, Any]


class Adam:
    """Adam, or AdamW, over a model's parameters: a fused pass over each group.

    PyTorch's function without its `Optimizer`, whose first use loads a compiler: a second of every
    training, more where other threads are busy. State has the names that it has there.

    Args:
        groups: Each of ``params``, ``lr`` and ``weight_decay``.
        is_decoupled: Whether weights decay apart from the gradient (AdamW).
        is_recorded: Whether steps are recorded as CUDA graphs; rates are then on the device.

    Attributes:
        state: Of each parameter that has taken a step.
    """

    betas, eps = (0.9, 0.999), 1e-8

    def __init__(
        self, groups: Sequence[Group], *, is_decoupled: bool = True, is_recorded: bool = False
    ) -> None:
        self.param_groups = [group | {"params": list(group["params"])} for group in groups]
        self.is_decoupled, self.is_recorded = is_decoupled, is_recorded
        self.state: defaultdict[Tensor, dict[str, Tensor]] = defaultdict(dict)

    @property
    def parameters(self) -> list[Tensor]:
        return [parameter for group in self.param_groups for parameter in group["params"]]

    @torch.no_grad()
    def step(self) -> None:
        """Take a step; a parameter without a gradient stays as it is."""
        for group in self.param_groups:
            moved = [p for p in group["params"] if p.grad is not None]
            if moved:
                self._step(group, moved, [self.state_of(p) for p in moved])

    def state_of(self, parameter: Tensor) -> dict[str, Tensor]:
        """Steps and moments of a parameter, 0 before its first step."""
        state = self.state[parameter]
        if not state:
            state["step"] = torch.zeros((), device=parameter.device)
            state["exp_avg"] = torch.zeros_like(parameter)
            state["exp_avg_sq"] = torch.zeros_like(parameter)
        return state

    def moments(self) -> Moments:
        """The state, for a checkpoint."""
        numbered = enumerate(self.parameters)
        return {number: self.state[p] for number, p in numbered if self.state.get(p)}

    def load_moments(self, moments: Moments) -> None:
        """Take the state of a checkpoint in the place of this one."""
        self.state.clear()
        for number, parameter in enumerate(self.parameters):
            for name, value in moments.get(number, {}).items():
                self.state[parameter][name] = value.to(parameter.device, torch.float32)

    def _step(
        self, group: Group, parameters: list[Tensor], states: list[dict[str, Tensor]]
    ) -> None:
        take = adamw if self.is_decoupled else adam
        take(
            parameters,
            [p.grad for p in parameters if p.grad is not None],
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
            [],
            [state["step"] for state in states],
            fused=True,
            capturable=self.is_recorded,
            amsgrad=False,
            beta1=self.betas[0],
            beta2=self.betas[1],
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            eps=self.eps,
            maximize=False,
        )


def make_optimiser(
    model: RelationalModel, config: TrainConfig, *, is_recorded: bool = False
) -> Adam:
    """Adam over a model's parameters.

    ``adamw`` decays weights apart from the gradient, and spares μ and σ. ``adam`` is the published
    form: weight decay is an L2 term in the gradient of every parameter, μ and σ among them.
    """
    groups = model.parameter_groups(config.rate, config.weight_decay)
    if config.optimizer == "adamw":
        return Adam(groups, is_recorded=is_recorded)
    same = [group | {"weight_decay": config.weight_decay} for group in groups]
    return Adam(same, is_decoupled=False, is_recorded=is_recorded)


def limit_gradients(parameters: Iterable[Tensor], clip: float | None) -> None:
    """Scale gradients down to a norm, if there is one to keep to."""
    if clip is not None:
        torch.nn.utils.clip_grad_norm_(parameters, clip)


def set_rates(optimiser: Adam, rates: list[float], factor: float) -> None:
    """Set the learning rate of each group to its own times a factor. A rate on the device is
    changed where it is: a recorded step reads it there."""
    for group, rate in zip(optimiser.param_groups, rates, strict=True):
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate * factor)
        else:
            group["lr"] = rate * factor
