"""How a model sees the rows of a batch: what depends on their layout, so that formulas do not.

    Rows     the sampled rows of B subgraphs, behind each other, before they have vectors
    Tokens   rows with their vectors (T, d), all of them or those that refinement keeps

Each is there twice: for packed batches, whose sizes are read from the batch (`ModelInput`,
`PackedTokens`), and for batches of fixed shapes, where filler rows stand behind the real ones and
no value is read on the host (`nn/static/layout.py`). A model that uses nothing but these operations
runs on both.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal, Protocol

import torch
from torch import Tensor, nn

from gelgt.nn.gnn import averaged_messages
from gelgt.nn.refinement import refine, restrict, semantic_scores
from gelgt.nn.sums import Messages
from gelgt.sampling.batch import spread

if TYPE_CHECKING:
    from gelgt.nn.encoders import RowEncoder


class Rows(Protocol):
    """T sampled rows of B subgraphs; the first row of each is its seed."""

    @property
    def table(self) -> Tensor: ...  # (T,), as in `SubgraphBatch`
    @property
    def hop(self) -> Tensor: ...
    @property
    def age(self) -> Tensor: ...
    @property
    def has_time(self) -> Tensor: ...
    @property
    def subgraph(self) -> Tensor: ...  # (T,) the subgraph of each row
    @property
    def history(self) -> Tensor | None: ...  # (B, F) aggregates of the seeds
    @property
    def is_seed(self) -> Tensor | None: ...  # (B,) which seeds are real; None if all are

    def look_up(self, embedding: nn.Embedding, index: Tensor) -> Tensor:
        """Entries of an embedding: (T,) → (T, d)."""

    def encoded(self, encoder: "RowEncoder") -> Tensor:
        """The columns of each row, each distinct row encoded once: (T, d)."""

    def recency(self) -> Tensor:
        """(T,) how many distinct ages among the rows of the same table and subgraph are smaller."""

    def noise(self, width: int, seed: int) -> Tensor:
        """What the structure encoder starts from: (T, width)."""

    def neighbours(self) -> Messages:
        """Messages of weight 1 along foreign keys in both directions."""

    def normalise(self, norm: nn.Module, x: Tensor) -> Tensor:
        """A norm over the real rows: (T, d) → (T, d)."""

    def tokens(self, h: Tensor) -> "Tokens":
        """The rows with their vectors (T, d)."""


def recency_rank(age: Tensor, table: Tensor, subgraph: Tensor) -> Tensor:
    """How many distinct ages among the rows of the same table and subgraph are smaller: (T,) each →
    (T,)."""
    order = torch.argsort(age, stable=True)
    order = order[torch.argsort(table[order], stable=True)]
    order = order[torch.argsort(subgraph[order], stable=True)]
    group, ages = (subgraph[order].long() << 32) + table[order], age[order]
    is_first = torch.ones_like(group, dtype=torch.bool)
    is_first[1:] = group[1:] != group[:-1]
    is_new = is_first.clone()
    is_new[1:] |= ages[1:] != ages[:-1]
    distinct = is_new.long().cumsum(0) - 1
    start = torch.where(is_first, distinct, 0).cummax(0).values
    rank = torch.empty_like(distinct)
    rank[order] = distinct - start
    return rank


@dataclass(frozen=True)
class Tokens(ABC):
    """T rows of B subgraphs with their vectors.

    Attributes:
        h: (T, d).
        age, has_time: (T,) of each row.
        offsets: (B + 1,) first row of each subgraph, its seed.
    """

    h: Tensor
    age: Tensor
    has_time: Tensor
    offsets: Tensor

    def at_seeds(self, x: Tensor) -> Tensor:
        """The seeds among the rows: (T, d) → (B, d)."""
        return x.index_select(0, self.offsets[:-1])

    @abstractmethod
    def refined(self, keep: int | None) -> "Tokens":
        """The `keep` rows of each subgraph that semantic refinement chooses; all if None."""

    @abstractmethod
    def messages(self, mean: Literal["all", "relation"]) -> Messages:
        """Averaged messages along the foreign keys among these rows (`averaged_messages`)."""

    @property
    @abstractmethod
    def mask(self) -> Tensor:
        """(B, N) which places of a padded rectangle hold rows."""

    @abstractmethod
    def padded(self, x: Tensor) -> Tensor:
        """Rows as a rectangle: (T, d) → (B, N, d). What stands outside the mask means nothing."""

    @abstractmethod
    def padded_times(self) -> tuple[Tensor, Tensor]:
        """Ages (B, N), and where they mean something (B, N); nowhere outside the mask."""

    @property
    @abstractmethod
    def spans(self) -> Tensor:
        """(S + 1,) borders of the spans of rows that attend to each other: the subgraphs, and spans
        of filler rows behind them."""

    @property
    @abstractmethod
    def longest(self) -> int:
        """N, rows of the longest span."""


@dataclass(frozen=True)
class PackedTokens(Tokens):
    """Rows of ragged subgraphs, without padding.

    Attributes:
        hop, table, node: (T,) as in `SubgraphBatch`.
        edges: (2, E) child and parent of the foreign keys among the rows.
        relation: (E,) their relations.
    """

    hop: Tensor
    table: Tensor
    node: Tensor
    edges: Tensor
    relation: Tensor

    @cached_property
    def subgraph(self) -> Tensor:
        """(T,) the subgraph of each row."""
        lengths = self.offsets[1:] - self.offsets[:-1]
        return torch.repeat_interleave(
            torch.arange(len(lengths), device=lengths.device), lengths, output_size=len(self.table)
        )

    def refined(self, keep: int | None) -> "PackedTokens":
        """The rows that refinement keeps, with the keys among them."""
        if keep is None:
            return self
        scores = semantic_scores(self.h, self.offsets, self.subgraph)
        is_kept = refine(scores, self.hop, self.offsets, self.subgraph, keep)
        offsets, edges, inside = restrict(is_kept, self.offsets, self.edges)
        rows = {
            name: getattr(self, name)[is_kept]
            for name in ("h", "age", "has_time", "hop", "table", "node")
        }
        return replace(self, offsets=offsets, edges=edges, relation=self.relation[inside], **rows)

    def messages(self, mean: Literal["all", "relation"]) -> Messages:
        return averaged_messages(self.edges, self.relation, mean, len(self.table))

    @cached_property
    def mask(self) -> Tensor:
        lengths = self.offsets[1:] - self.offsets[:-1]
        places = torch.arange(int(lengths.max()), device=lengths.device)
        return places[None, :] < lengths[:, None]

    def padded(self, x: Tensor) -> Tensor:
        """(T, d) → (B, N, d), zeros outside the mask."""
        seeds, rows = self.mask.shape
        # packed place → padded place
        shift = torch.arange(seeds, device=x.device) * rows - self.offsets[:-1]
        place = torch.arange(len(x), device=x.device) + torch.repeat_interleave(
            shift, self.offsets[1:] - self.offsets[:-1], output_size=len(x)
        )
        return x.new_zeros(seeds * rows, x.shape[1]).index_copy(0, place, x).view(seeds, rows, -1)

    def padded_times(self) -> tuple[Tensor, Tensor]:
        return spread(self.age, self.mask, 0), spread(self.has_time, self.mask, 0)

    @property
    def spans(self) -> Tensor:
        return self.offsets

    @property
    def longest(self) -> int:
        return self.mask.shape[1]
