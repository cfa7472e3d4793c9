"""Weights in the precision in which products read them, all converted at once.

Autocast converts every weight by itself, and its gradient back: hundreds of launches of a few
microseconds. The values are the same.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from gelgt.nn.base import RelationalModel


class LowWeights:
    """Copies of the weights of a model's linear layers in a lower precision, with which it can
    compute.

    Attributes:
        leaves: For each parameter that is trained, what to take the gradient of: its copy, or
            itself.
    """

    def __init__(self, model: RelationalModel, dtype: torch.dtype | None) -> None:
        self.places: list[tuple[nn.Module, str]] = []
        # a Gaussian bias is computed in float32 throughout
        bias_layers = set(model.biases.modules())
        if dtype is not None:
            for module in model.modules():
                if isinstance(module, nn.Linear) and module not in bias_layers:
                    self.places += [
                        (module, name)
                        for name, value in module.named_parameters(recurse=False)
                        if value is not None
                    ]
        self.originals: list[Tensor] = [getattr(module, name) for module, name in self.places]
        self.copies = [
            torch.empty_like(p, dtype=dtype).requires_grad_(p.requires_grad) for p in self.originals
        ]
        self.copy_of = {id(p): copy for p, copy in zip(self.originals, self.copies)}
        self.leaves = [self.copy_of.get(id(p), p) for p in model.parameters() if p.requires_grad]
        self._versions: list[int] = []

    @contextmanager
    def used(self) -> Iterator[None]:
        """The model computes with the copies, which are made now."""
        self.convert()
        with self.swapped():
            yield

    def convert(self) -> None:
        """Make the copies anew."""
        if self.copies:
            with torch.no_grad():
                torch._foreach_copy_(self.copies, self.originals)

    def renew(self) -> None:
        """Make the copies anew if a weight has changed, but for those who change both. PyTorch
        counts the changes of a tensor: whoever loads or restores weights, or takes an ordinary
        step, need not know of copies."""
        versions = [p._version for p in self.originals]
        if versions != self._versions:
            self.convert()
            self._versions = versions

    @contextmanager
    def swapped(self) -> Iterator[None]:
        """The model computes with the copies as they are."""
        for (module, name), copy in zip(self.places, self.copies):
            module._parameters[name] = copy  # type: ignore[assignment]
        try:
            yield
        finally:
            for (module, name), original in zip(self.places, self.originals):
                module._parameters[name] = original  # type: ignore[assignment]


def raised(gradients: list[Tensor | None], parameters: list[nn.Parameter]) -> list[Tensor | None]:
    """Gradients in the precision of their parameters, contiguous, all converted at once."""
    wide = [None if g is None else g.contiguous() for g in gradients]
    low = [
        place
        for place, (g, p) in enumerate(zip(wide, parameters))
        if g is not None and g.dtype != p.dtype
    ]
    if low:
        copies = [torch.empty_like(parameters[place]) for place in low]
        torch._foreach_copy_(copies, [g for place in low if (g := wide[place]) is not None])
        for place, copy in zip(low, copies):
            wide[place] = copy
    return wide
