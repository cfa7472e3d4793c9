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

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from gelgt.nn.base import ModelContext
from gelgt.nn.dropout import dropout
from gelgt.nn.layout import PackedTokens
from gelgt.nn.rows import ModelInput
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

    def encode(self, inputs: ModelInput) -> PackedTokens:
        """Packed rows with their vectors, positions added."""
        tokens = super().encode(inputs)
        vectors = self.scaled_vectors(tokens)
        if self.training:
            vectors = vectors * random_signs(tokens, vectors.shape[1])
        return replace(tokens, h=tokens.h + self.positions(vectors).to(tokens.h.dtype))

    def scaled_vectors(self, tokens: PackedTokens) -> Tensor:
        """Eigenvectors (T, k) with entries of about one: those of a unit vector shrink with the
        size of the subgraph."""
        lengths = (tokens.offsets[1:] - tokens.offsets[:-1])[tokens.subgraph]
        # A GPU's solver would choose others, and a model that was trained there could not be used
        # here.
        vectors = laplacian_vectors(
            tokens.edges.cpu(), tokens.offsets.cpu(), self.config.positions
        ).to(lengths.device)
        return vectors * lengths.sqrt()[:, None]


def random_signs(tokens: PackedTokens, vectors: int) -> Tensor:
    """±1 for each eigenvector of each subgraph: (T, k). Drawn as dropout is, and so repeated by a
    run that is repeated."""
    # 0 or 2
    drawn = dropout(torch.ones(len(tokens.offsets) - 1, vectors, device=tokens.h.device), 0.5)
    return (drawn - 1)[tokens.subgraph]


def laplacian_vectors(edge_index: Tensor, offsets: Tensor, width: int) -> Tensor:
    """The `width` smoothest eigenvectors of each subgraph's normalised Laplacian, signs fixed,
    zeros where there are fewer: (T, width)."""
    out = torch.zeros(int(offsets[-1]), width, device=offsets.device)
    owner = torch.searchsorted(offsets, edge_index[0], right=True) - 1
    for b in range(len(offsets) - 1):
        start, stop = int(offsets[b]), int(offsets[b + 1])
        size = stop - start
        source, target = edge_index[:, owner == b] - start
        adjacency = torch.zeros(size, size, dtype=torch.float64, device=offsets.device)
        adjacency[source, target] = 1.0
        adjacency[target, source] = 1.0
        scale = adjacency.sum(1).clamp(min=1.0).rsqrt()
        _, vectors = torch.linalg.eigh(
            torch.eye(size, dtype=torch.float64, device=offsets.device)
            - scale[:, None] * adjacency * scale
        )
        vectors = vectors[:, :width]
        largest = vectors.abs().argmax(0)
        vectors = (
            vectors * vectors[largest, torch.arange(vectors.shape[1], device=offsets.device)].sign()
        )
        out[start:stop, : vectors.shape[1]] = vectors.float()
    return out
