"""`hgt-pe`: HGT with Laplacian positions (the baseline "HGT+PE" of RelGT's and GelGT's tables).

Kept: the smoothest eigenvectors of the sampled subgraph's normalised Laplacian, all relations
alike, through a linear map, are added to the rows' vectors. An eigenvector has no sign of its own:
in training each is flipped at random, once for a whole subgraph, and in evaluation its largest
entry is positive.

Simplified: nothing of HGT changes (`zoo/hgt.py`). Eigenvectors are computed on the CPU
(`nn/laplacian.py`), which makes the first epoch of this model the slowest for its size: its budgets
are small.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from gelgt.config import SamplingConfig
from gelgt.features import Features
from gelgt.graph import Graph
from gelgt.nn.base import ModelContext
from gelgt.nn.dropout import dropout
from gelgt.nn.layout import Rows, Tokens
from gelgt.nn.static.shape import Extras
from gelgt.zoo.hgt import HGT, HGTConfig


class HGTWithPositionsConfig(HGTConfig):
    """HGT with Laplacian positions.

    Attributes:
        positions: Eigenvectors.
    """

    positions: int = Field(default=8, ge=1)


class HGTWithPositions(HGT):
    """HGT whose rows know their place in the subgraph."""

    config_type = HGTWithPositionsConfig
    presets: ClassVar[Mapping[str, Mapping[str, Mapping[str, Any]]]] = {
        "cpu": {**HGT.presets["cpu"], "sampling": {"hops": 2, "budget": 48, "fanout": 24}},
        "gpu": {"sampling": {"hops": 2, "budget": 96, "fanout": 64}},
        "paper": {**HGT.presets["paper"], "sampling": {"hops": 2, "budget": 300, "fanout": 128}},
    }

    def __init__(self, config: HGTWithPositionsConfig, context: ModelContext) -> None:
        super().__init__(config, context)
        self.positions = nn.Linear(config.positions, config.width)

    def extras(self, graph: Graph) -> Extras:
        return replace(super().extras(graph), positions=self.config.positions)

    def why_not_static(
        self, sampling: SamplingConfig, features: Features, free: float
    ) -> str | None:
        if self.config.keep is not None and self.config.keep < sampling.budget:
            return "the positions of rows that refinement keeps are only known when it has chosen"
        return super().why_not_static(sampling, features, free)

    def encode(self, inputs: Rows) -> Tokens:
        """Rows with their vectors, positions added."""
        tokens = super().encode(inputs)
        vectors = tokens.laplacian(self.config.positions)
        if self.training:
            vectors = vectors * random_signs(tokens, vectors.shape[1])
        return replace(tokens, h=tokens.h + self.positions(vectors).to(tokens.h.dtype))


def random_signs(tokens: Tokens, vectors: int) -> Tensor:
    """±1 for each eigenvector of each subgraph: (T, k). Drawn as dropout is, and so repeated by a
    run that is repeated."""
    # 0 or 2
    drawn = dropout(torch.ones(len(tokens.offsets) - 1, vectors, device=tokens.h.device), 0.5)
    return tokens.of_subgraph(drawn - 1)
