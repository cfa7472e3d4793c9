"""`Ensemble`: networks that differ by their seed, the columns network and trees beside them, as
one.

Raw outputs are added and averaged:

    network = (1 - graph) · columns network + graph · mean of the members
    together = (1 - share) · network + share · trees

One member without the others is an ensemble of one.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from gelgt.nn.base import RelationalModel
from gelgt.nn.columns import ColumnsNetwork
from gelgt.nn.layout import Rows
from gelgt.nn.trees import Trees

PREFIX = "members."


class Ensemble(nn.Module):
    """Members of one shape. Their mean predicts; the first one gives seed vectors, and shows what
    is looked at.

    Args:
        members: At least one.
        trees: Predict beside them, from the same history.
        share: Of the trees in the prediction.
        columns: The columns network, which predicts beside them.
        graph: Share of the members, where there is a columns network.
    """

    share: Tensor
    graph: Tensor

    def __init__(
        self,
        members: Sequence[RelationalModel],
        trees: Trees | None = None,
        share: float = 0.0,
        columns: ColumnsNetwork | None = None,
        graph: float = 1.0,
    ) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        self.trees = trees
        self.columns = columns
        self.register_buffer("share", torch.tensor(share))
        self.register_buffer("graph", torch.tensor(graph))

    @classmethod
    def of(cls, model: "RelationalModel | Ensemble") -> "Ensemble":
        """A single network as an ensemble of one."""
        return model if isinstance(model, Ensemble) else cls([model])

    @classmethod
    def from_weights(
        cls, weights: Mapping[str, Tensor], make: Callable[[int], RelationalModel], outputs: int
    ) -> "Ensemble":
        """The ensemble that some weights are of.

        Args:
            weights: As `state_dict` gives them.
            make: A network for so many columns of history.
            outputs: Width of the prediction.

        Raises:
            RuntimeError: the weights do not fit.
        """
        numbers = {name.split(".")[1] for name in weights if name.startswith(PREFIX)}
        edges = weights.get(f"{PREFIX}0.history.edges")
        members = [make(0 if edges is None else len(edges)) for _ in numbers]
        ensemble = cls(
            members, Trees.shaped(weights, outputs), columns=ColumnsNetwork.shaped(weights)
        )
        ensemble.load_state_dict(weights)
        return ensemble

    @property
    def networks(self) -> list[RelationalModel]:
        """The members as what they are, which a `ModuleList` does not say."""
        return [cast(RelationalModel, member) for member in self.members]

    @property
    def first(self) -> RelationalModel:
        return self.networks[0]

    def forward(self, inputs: Rows) -> Tensor:
        """Mean logits or standardised values (B, outputs)."""
        mean = torch.stack([member(inputs).float() for member in self.members]).mean(0)
        if self.columns is not None:
            assert inputs.history is not None  # it reads nothing else
            columns = self.columns(inputs.history).float()
            mean = (1 - self.graph) * columns + self.graph * mean
        if self.trees is None:
            return mean
        assert inputs.history is not None  # trees are grown on nothing else
        beside: Tensor = self.trees(inputs.history)
        return (1 - self.share) * mean + self.share * beside.float()

    def seed_vectors(self, inputs: Rows) -> Tensor:
        """Seed vectors (B, d) of the first member: those of two members have no common axes."""
        return self.first.seed_vectors(inputs)

    def temporal_profile(self) -> list[list[dict[str, Any]]]:
        return self.first.temporal_profile()
