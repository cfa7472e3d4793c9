"""`StaticForm`: a model over batches of fixed shapes, with the model's own parameters."""

from collections.abc import Collection, Mapping
from copy import copy
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gelgt.config import SamplingConfig
from gelgt.features import Features
from gelgt.graph import Graph
from gelgt.nn.encoders import ColumnEncoders
from gelgt.nn.static.cells import make_cells, why_not_cells
from gelgt.nn.static.input import StaticInput
from gelgt.nn.static.layout import StaticRows, StaticTokens
from gelgt.nn.static.shape import PLAIN, Extras

if TYPE_CHECKING:
    from gelgt.nn.base import RelationalModel

MOST_ROWS = 4096  # of a subgraph; longer ones are few to a batch, and launches no longer what costs


def why_not_static(
    encoder: ColumnEncoders | None, sampling: SamplingConfig, features: Features, free: float
) -> str | None:
    """Why a model with a row encoder cannot work on fixed shapes on a device with so many free
    bytes; None if it can."""
    if sampling.strategy == "full":
        return "subgraphs without a budget have no largest size"
    if sampling.budget > MOST_ROWS:
        return f"subgraphs of up to {sampling.budget:,} rows are larger than {MOST_ROWS:,}"
    return None if encoder is None else why_not_cells(encoder, features, free)


class StaticForm:
    """Computes what a model computes, from packed batches.

    Args:
        model: Its parameters are used where they are. Its formulas are over `Rows` and `Tokens`.
        encoder: Its row encoder, if it has one.
        graph: For the order of its tables.
        sampling: For the largest subgraph.
        features: Are brought to the model's device once.
        hide: For each table, columns that the task must not see.
        by_relation: Whether messages are averaged by relation and direction, or all together.
        extras: What else the model reads of a batch.
    """

    def __init__(
        self,
        model: "RelationalModel",
        encoder: ColumnEncoders | None,
        graph: Graph,
        sampling: SamplingConfig,
        features: Features,
        hide: Mapping[str, Collection[str]],
        by_relation: bool = False,
        extras: Extras = PLAIN,
    ) -> None:
        self.model, self.budget = model, sampling.budget
        self.by_relation, self.extras = by_relation, extras
        self.cells = []
        if encoder is not None:
            cells = make_cells(encoder, features, hide, next(model.parameters()).device)
            assert encoder.names == list(graph.tables)
            self.cells = [cells[name] for name in graph.tables]

    def beside(self, model: "RelationalModel") -> "StaticForm":
        """The same for another model of one configuration, which reads the same features."""
        other = copy(self)
        other.model = model
        return other

    def rows(self, inputs: StaticInput) -> StaticRows:
        """A packed batch as a model reads it."""
        return StaticRows(inputs, self.cells, self.budget)

    @property
    def keep(self) -> int | None:
        """Rows of a subgraph that refinement keeps; None for all."""
        keep: int | None = self.model.config.keep
        return keep

    def seed_vectors(self, inputs: StaticInput) -> Tensor:
        """Seed vectors (B, d); those of filler seeds mean nothing."""
        return self.model.seed_vectors(self.rows(inputs))

    def seed_attention(self, inputs: StaticInput) -> Tensor:
        """How the only seed of a batch spreads its attention, where the model `shows_attention`:
        (2, N) rows of the batch, -1 behind the last, and their shares."""
        tokens, weights = self.model.padded_attention(self.rows(inputs))
        assert isinstance(tokens, StaticTokens)
        place = torch.arange(tokens.longest, device=weights.device)
        row = place if tokens.selection is None else tokens.selection.source[place]
        return torch.stack([torch.where(tokens.mask[0], row, -1).float(), weights[0]])

    def __call__(self, inputs: StaticInput) -> Tensor:
        """Predictions (B, outputs); those of filler seeds mean nothing."""
        rows = self.rows(inputs)
        out: Tensor = self.model(rows)
        rows.move_running_statistics()
        return out
