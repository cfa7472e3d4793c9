"""Several models that differ by their seed, as one: the mean of what they put out."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gelgt.nn.base import RelationalModel
from gelgt.nn.rows import ModelInput

PREFIX = "members."


class Ensemble(nn.Module):
    """Members of one shape. Their mean predicts; the first one shows what is looked at, and gives seed vectors."""

    def __init__(self, members: Sequence[RelationalModel]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    @property
    def first(self) -> RelationalModel:
        member = self.members[0]
        assert isinstance(member, RelationalModel)
        return member

    def forward(self, inputs: ModelInput) -> Tensor:
        """Mean logits or standardised values (B, outputs)."""
        return torch.stack([member(inputs).float() for member in self.members]).mean(0)

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
