"""`hgt-pe`: HGT with Laplacian positions (the baseline "HGT+PE" of RelGT's and GelGT's tables).

Kept: the smoothest eigenvectors of the sampled subgraph's normalised Laplacian, all relations
alike, through a linear map, are added to the rows' vectors. An eigenvector has no sign of its own:
in training each is flipped at random, once for a whole subgraph, and in evaluation its largest
entry is positive.

Simplified: nothing of HGT changes (`zoo/hgt.py`). Among eigenvectors of one eigenvalue the solver
chooses; the same subgraph always gets the same ones, wherever the model is, since they are always
computed on the CPU. That is done for each subgraph anew, which makes this the slowest model for its
size: its budgets are small.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from gelgt.features import Features
from gelgt.graph import Graph
from gelgt.nn.dropout import dropout
from gelgt.nn.model import Tokens
from gelgt.nn.rows import ModelInput
from gelgt.nn.structure import laplacian_vectors
from gelgt.zoo.hgt import HGT, HGTConfig
from gelgt.zoo.parts import subgraph_of


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

    def __init__(
        self,
        config: HGTWithPositionsConfig,
        graph: Graph,
        features: Features,
        outputs: int = 1,
        hide: Mapping[str, Iterable[str]] | None = None,
        noise_seed: int = 0,
    ) -> None:
        super().__init__(config, graph, features, outputs, hide, noise_seed)
        self.positions = nn.Linear(config.positions, config.width)

    def encode(self, inputs: ModelInput) -> Tokens:
        """Packed rows with their vectors, positions added."""
        tokens = super().encode(inputs)
        vectors = self.scaled_vectors(tokens)
        if self.training:
            vectors = vectors * random_signs(tokens, vectors.shape[1])
        return replace(tokens, h=tokens.h + self.positions(vectors).to(tokens.h.dtype))

    def scaled_vectors(self, tokens: Tokens) -> Tensor:
        """Eigenvectors (T, k) with entries of about one: those of a unit vector shrink with the
        size of the subgraph."""
        lengths = (tokens.offsets[1:] - tokens.offsets[:-1])[subgraph_of(tokens)]
        # A GPU's solver would choose others, and a model that was trained there could not be used
        # here.
        vectors = laplacian_vectors(
            tokens.edges.cpu(), tokens.offsets.cpu(), self.config.positions
        ).to(lengths.device)
        return vectors * lengths.sqrt()[:, None]


def random_signs(tokens: Tokens, vectors: int) -> Tensor:
    """±1 for each eigenvector of each subgraph: (T, k). Drawn as dropout is, and so repeated by a
    run that is repeated."""
    # 0 or 2
    drawn = dropout(torch.ones(len(tokens.offsets) - 1, vectors, device=tokens.h.device), 0.5)
    return (drawn - 1)[subgraph_of(tokens)]
