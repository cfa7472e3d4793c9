"""Several models that differ by their seed, as one: the mean of what they put out, and of what
trees put out beside them."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gelgt.nn.base import RelationalModel
from gelgt.nn.rows import ModelInput
from gelgt.nn.trees import Trees

PREFIX = "members."


class Ensemble(nn.Module):
    """Members of one shape. Their mean predicts; the first one shows what is looked at, and gives
    seed vectors.

    Args:
        members: At least one.
        trees: Predict beside them, from the same history.
        share: Of the trees in the prediction.
    """

    share: Tensor

    def __init__(
        self, members: Sequence[RelationalModel], trees: Trees | None = None, share: float = 0.0
    ) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        self.trees = trees
        if trees is not None:
            self.register_buffer("share", torch.tensor(share))

    @property
    def first(self) -> RelationalModel:
        member = self.members[0]
        assert isinstance(member, RelationalModel)
        return member

    def forward(self, inputs: ModelInput) -> Tensor:
        """Mean logits or standardised values (B, outputs)."""
        found = torch.stack([member(inputs).float() for member in self.members]).mean(0)
        if self.trees is None:
            return found
        assert inputs.history is not None  # trees are grown on nothing else
        beside: Tensor = self.trees(inputs.history)
        return (1 - self.share) * found + self.share * beside.float()

    def embed(self, inputs: ModelInput) -> Tensor:
        """Seed vectors (B, d) of the first member: those of two members have no common axes."""
        return self.first.embed(inputs)

    def temporal_profile(self) -> list[list[dict[str, Any]]]:
        return self.first.temporal_profile()


def first_of(model: "RelationalModel | Ensemble") -> RelationalModel:
    """The model itself, or the first of several."""
    return model.first if isinstance(model, Ensemble) else model


def members_in(weights: Mapping[str, Tensor]) -> int:
    """How many members some weights are of."""
    return len({name.split(".")[1] for name in weights if name.startswith(PREFIX)}) or 1
