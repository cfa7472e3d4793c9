"""`Bucket`: the gradients of a step as one tensor, which is what workers add up."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

Gradients = list[Tensor | None]


class Slope(NamedTuple):
    """The loss of some rows, (), and its gradients; None for a parameter that it does not depend
    on."""

    loss: Tensor
    gradients: Gradients


class Bucket:
    """Packs gradients, which of them there are, and the loss.

    Args:
        parameters: Whose gradients.
    """

    def __init__(self, parameters: Sequence[Tensor]) -> None:
        self.shapes = [parameter.shape for parameter in parameters]
        self.sizes = [parameter.numel() for parameter in parameters]
        self.device = parameters[0].device

    @property
    def length(self) -> int:
        return sum(self.sizes) + len(self.sizes) + 1

    def empty(self) -> Tensor:
        """Of a worker that has no rows in a step."""
        return torch.zeros(self.length, device=self.device)

    def packed(self, slope: Slope) -> Tensor:
        """(length,) gradients behind each other, 1 for each that there is, the loss."""
        flat = [
            torch.zeros(size, device=self.device) if each is None else each.float().flatten()
            for each, size in zip(slope.gradients, self.sizes)
        ]
        there = [float(each is not None) for each in slope.gradients]
        flags = torch.stack([torch.full((), value, device=self.device) for value in there])
        return torch.cat([*flat, flags, slope.loss.float().reshape(1)])

    def unpacked(self, flat: Tensor) -> Slope:
        """What was packed, or the sum of it."""
        there = self.there(flat)
        return Slope(
            flat[-1], [g if is_there else None for g, is_there in zip(self.all(flat), there)]
        )

    def there(self, flat: Tensor) -> list[bool]:
        """Which gradients there are; waits for the device."""
        return [value > 0 for value in flat[sum(self.sizes) : -1].tolist()]

    def all(self, flat: Tensor) -> list[Tensor]:
        """Every gradient, 0 where there is none."""
        gradients = torch.split(flat[: sum(self.sizes)], self.sizes)
        return [g.view(shape) for g, shape in zip(gradients, self.shapes)]
