"""`Recommender`: from a seed's vector to a score for every row of the recommended table.

    every destination   s(u, i) = (W h_u) · q_i + a(W h_u)
    candidates          s(u, i) + local(h_u, q_i, ties of u and i, past of i)

q_i comes from the destination's own columns, so that rows that training never saw have one too, and
from a lookup by its key. Lookups start near 0, so that what ties a seed to a candidate is heard
first. After ContextGNN (Yuan et al., 2024), which puts the local score in the place of the other;
here it is added, and reads counts, ages and paths instead of the vectors of a subgraph's rows.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from gelgt.nn.dropout import Dropout
from gelgt.nn.encoders import RowEncoder, TableColumns
from gelgt.nn.history import QUANTILES, normal_places, quantiles
from gelgt.nn.norms import LayerNorm

LOOKUP_SCALE = 0.01
BLOCK = 1_024  # destinations at a time in evaluation
DROPOUT = 0.3  # of what is read of candidates
NAME = "recommender"


@dataclass(frozen=True)
class PairInput:
    """Candidates of B seeds, M each, as the recommender reads them.

    Attributes:
        row: (B, M) destination rows; -1 behind the last.
        columns: (B, M, F) what ties seeds to them, and their past, on the scale of
            `Recommender.normal`; NaN for what is missing.
    """

    row: Tensor
    columns: Tensor


class Recommender(nn.Module):
    """Scores destinations.

    Args:
        width: Of seed vectors.
        pairs: Columns of a candidate.
        lookups: Destinations that have a vector of their own.
        columns: The destination table's columns.
    """

    edges: Tensor
    keys: Tensor

    def __init__(self, width: int, pairs: int, lookups: int, columns: TableColumns) -> None:
        super().__init__()
        self.width = width
        self.register_buffer("edges", torch.zeros(pairs, QUANTILES))
        self.register_buffer("keys", torch.zeros(lookups, dtype=torch.int64))  # ascending
        self.lookup = nn.Parameter(LOOKUP_SCALE * torch.randn(lookups, width))
        self.rows = RowEncoder(width, min(32, width), 1, "layer", {"destination": columns})
        self.row_norm = LayerNorm(width)
        self.query = nn.Linear(width, width)
        self.base = nn.Linear(width, 1)
        self.pairs = nn.Linear(2 * pairs, width)
        self.of_item = nn.Linear(width, width, bias=False)
        self.of_seed = nn.Linear(width, width, bias=False)
        self.local = nn.Sequential(
            nn.GELU(),
            Dropout(DROPOUT),
            nn.Linear(width, width),
            nn.GELU(),
            nn.Linear(width, 1),
        )

    @classmethod
    def shaped(
        cls, weights: Mapping[str, Tensor], prefix: str, columns: TableColumns
    ) -> "Recommender | None":
        """A recommender of the shape that some weights have; None where they have none."""
        lookup = weights.get(f"{prefix}lookup")
        if lookup is None:
            return None
        pairs = len(weights[f"{prefix}edges"])
        return cls(lookup.shape[1], pairs, len(lookup), columns)

    # Destinations.
    def vectors(self, frame: Any, place: Tensor) -> Tensor:
        """(N, d) of destinations.

        Args:
            frame: Their columns, as a TensorFrame.
            place: (N,) where each stands in the lookup, as `places` gives it; -1 for nowhere.
        """
        out: Tensor = self.row_norm(self.rows.tables[0](frame))
        if not len(self.lookup):
            return out
        own = self.lookup.index_select(0, place.clamp(min=0))
        return out + torch.where(place[:, None] >= 0, own, 0.0)

    def places(self, keys: Tensor) -> Tensor:
        """(N,) where destinations stand in the lookup by their keys' identities; -1 for unknown
        ones."""
        if not len(self.keys):
            return torch.full_like(keys, -1)
        at = torch.searchsorted(self.keys, keys).clamp(max=len(self.keys) - 1)
        return torch.where(self.keys[at] == keys, at, -1)

    # Scores.
    def normal(self, columns: Tensor, first: int = 0) -> Tensor:
        """Columns (…, F) by their places among the training values, NaN kept.

        Args:
            first: Which of the columns comes first, where only some are given.
        """
        flat = columns.reshape(-1, columns.shape[-1])
        edges = self.edges[first : first + columns.shape[-1]].to(columns.device)
        out = normal_places(flat, edges).view_as(columns)
        return torch.where(torch.isnan(columns), torch.nan, out)

    def everywhere(self, seeds: Tensor, items: Tensor) -> Tensor:
        """(B, N) scores of destinations without their ties."""
        query: Tensor = self.query(seeds)
        base: Tensor = self.base(query)
        if self.training:
            return self._products(query, items) + base
        # Always as many at a time, so that a destination gets the same bits beside any others.
        blocks = [
            self._products(query, functional.pad(part, (0, 0, 0, BLOCK - len(part))))
            for part in torch.split(items, BLOCK)
        ]
        scores = torch.cat(blocks, 1)[:, : len(items)] if blocks else query.new_zeros(len(query), 0)
        return scores + base

    def _products(self, query: Tensor, items: Tensor) -> Tensor:
        return torch.matmul(query, items.T) / math.sqrt(self.width)

    def candidates(self, seeds: Tensor, items: Tensor, columns: Tensor) -> Tensor:
        """(B, M) what is added for candidates.

        Args:
            seeds: (B, d)
            items: (B, M, d) vectors of the candidates.
            columns: (B, M, F) as `normal` gives them.
        """
        missing = torch.isnan(columns)
        scaled = torch.where(missing, 0.0, columns)
        read = self.pairs(torch.cat([scaled, missing.to(scaled.dtype)], -1))
        mixed = read + self.of_item(items) + self.of_seed(seeds)[:, None]
        out: Tensor = self.local(mixed)[..., 0]
        return out

    def scores(self, seeds: Tensor, items: Tensor, pairs: PairInput) -> Tensor:
        """(B, N) scores of all destinations, whose vectors are given."""
        row = pairs.row.clamp(min=0)
        added = self.candidates(seeds, items[row], pairs.columns)
        return with_added(self.everywhere(seeds, items), pairs.row, added)

    @torch.no_grad()
    def start(self, columns: Tensor, keys: Tensor) -> None:
        """Take the quantiles of training pairs (n, F), and the identities that lookups are for."""
        self.edges.copy_(quantiles(columns).nan_to_num())
        self.keys.copy_(keys)
        last = self.local[-1]
        assert isinstance(last, nn.Linear)
        last.weight.zero_()
        last.bias.zero_()


def with_added(scores: Tensor, row: Tensor, added: Tensor, first: int = 0) -> Tensor:
    """Scores (B, n) of the destinations from `first` on, with what is added (B, M) for candidates
    (B, M), -1 for none."""
    here = (row >= first) & (row < first + scores.shape[1])
    place = torch.where(here, row - first, 0)
    return scores.float().scatter_add(1, place, torch.where(here, added.float(), 0.0))
