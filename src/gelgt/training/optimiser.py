"""The optimiser of a training, and the limit of its gradients."""

from collections.abc import Iterable

import torch
from torch import Tensor

from gelgt.config import TrainConfig
from gelgt.nn import RelationalModel


def make_optimiser(
    model: RelationalModel, config: TrainConfig, *, is_recorded: bool = False
) -> torch.optim.Optimizer:
    """Adam over a model's parameters.

    ``adamw`` decays weights apart from the gradient, and spares μ and σ. ``adam`` is the published
    form: weight decay is an L2 term in the gradient of every parameter, μ and σ among them.
    """
    groups = model.parameter_groups(config.rate, config.weight_decay)
    if config.optimizer == "adamw":
        return torch.optim.AdamW(groups, fused=True, capturable=is_recorded)
    same = [group | {"weight_decay": config.weight_decay} for group in groups]
    return torch.optim.Adam(same, fused=True, capturable=is_recorded)


def limit_gradients(parameters: Iterable[Tensor], clip: float | None) -> None:
    """Scale gradients down to a norm, if there is one to keep to."""
    if clip is not None:
        torch.nn.utils.clip_grad_norm_(parameters, clip)


def set_rates(optimiser: torch.optim.Optimizer, rates: list[float], factor: float) -> None:
    """Set the learning rate of each group to its own times a factor. A rate on the device is
    changed where it is: a recorded step reads it there."""
    for group, rate in zip(optimiser.param_groups, rates, strict=True):
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate * factor)
        else:
            group["lr"] = rate * factor
