"""Weights besides those in training: their moving average, and those of the best epochs."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from gelgt.metrics import is_better

Weights = dict[str, Tensor]


class MovingAverage:
    """The exponential moving average of a model's parameters, which is evaluated instead of them.

    Args:
        model: Whose parameters are averaged.
        decay: How much of the average stays in a step; 0 keeps none, and evaluates the parameters
            themselves.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.model, self.decay = model, decay
        self.share = 1 - decay
        self.values: Weights = (
            {name: p.detach().clone() for name, p in model.named_parameters()} if decay else {}
        )

    def begin(self, step: int) -> None:
        """Set the share of the parameters in the average after so many steps; young averages forget
        faster."""
        self.share = 1 - min(self.decay, step / (step + 9))

    @torch.no_grad()
    def update(self, step: Tensor | None = None) -> None:
        """Move towards the parameters, by the share of `begin`, or by that after so many steps ()
        where these are counted on the device."""
        if not self.values:
            return
        names, parameters = zip(*self.model.named_parameters())
        values = [self.values[name] for name in names]
        if step is None:
            torch._foreach_lerp_(values, list(parameters), self.share)
            return
        steps = torch._foreach_sub(list(parameters), values)
        torch._foreach_mul_(steps, 1 - (step / (step + 9)).clamp(max=self.decay))
        torch._foreach_add_(values, steps)

    @contextmanager
    def evaluated(self) -> Iterator[None]:
        """The model with its averaged parameters, for as long as it is evaluated."""
        trained = (
            {name: p.detach().clone() for name, p in self.model.named_parameters()}
            if self.values
            else {}
        )
        self._set(self.values)
        yield
        self._set(trained)

    def keep(self) -> None:
        """Leave the model with its averaged parameters."""
        self._set(self.values)

    @torch.no_grad()
    def _set(self, values: Weights) -> None:
        for name, parameter in self.model.named_parameters():
            if name in values:
                parameter.copy_(values[name])


class BestEpochs:
    """The weights of the best epochs.

    Args:
        metric: By which epochs are compared.
        most: How many are kept.
        asked: The epochs whose weights are kept where nothing is compared; none: the newest.
    """

    def __init__(self, metric: str, most: int, asked: tuple[int, ...] = ()) -> None:
        self.metric, self.most, self.asked = metric, most, asked
        self.weights: list[Weights] = []

    def keep(
        self,
        kept: list[tuple[int, float | None]],
        epoch: int,
        value: float | None,
        model: nn.Module,
    ) -> None:
        """Keep a model's weights if its epoch is among the best, and enter it in the list of kept
        epochs and their scores, best first."""
        if value is None:
            asked = [place for place, (number, _) in enumerate(kept) if number in self.asked]
            if asked and epoch not in self.asked:
                return
            kept[:] = [kept[place] for place in asked]
            self.weights = [self.weights[place] for place in asked]
            place, most = len(asked), len(asked) + 1
        else:
            worse = (p for p, (_, s) in enumerate(kept) if is_better(self.metric, value, s))
            place, most = next(worse, len(kept)), self.most
        if place >= most:
            return
        kept.insert(place, (epoch, value))
        self.weights.insert(place, _copied(model))
        del kept[most:], self.weights[most:]


def _copied(model: nn.Module) -> Weights:
    """A copy of everything that a model's predictions depend on."""
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def mean_weights(weights: list[Weights]) -> Weights:
    """The mean of some weights; counters and the like are those of the first."""
    return {
        name: torch.stack([each[name] for each in weights]).mean(0)
        if tensor.is_floating_point()
        else tensor
        for name, tensor in weights[0].items()
    }


def moved(weights: Weights, device: torch.device) -> Weights:
    """The same weights on a device."""
    return {name: tensor.to(device) for name, tensor in weights.items()}
