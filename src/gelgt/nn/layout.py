"""How a model sees the rows of a batch: what depends on their layout, so that formulas do not.

    Rows     the sampled rows of B subgraphs, behind each other, before they have vectors
    Tokens   rows with their vectors (T, d), all of them or those that refinement keeps

Each is there twice: for packed batches, whose sizes are read from the batch (`ModelInput`,
`PackedTokens`), and for batches of fixed shapes, where filler rows stand behind the real ones and
no value is read on the host (`nn/static/layout.py`). A model that uses nothing but these operations
runs on both.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal, Protocol

import torch
from torch import Tensor, nn

from gelgt.nn.blocks import Blocks, DirectedEdges, Links, packed_directions
from gelgt.nn.gnn import averaged_messages
from gelgt.nn.laplacian import laplacian_vectors
from gelgt.nn.refinement import refine, restrict, semantic_scores
from gelgt.nn.sums import Index, Messages, take_once
from gelgt.sampling.batch import spread

if TYPE_CHECKING:
    from gelgt.nn.encoders import ColumnEncoders, RowEncoder


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

    def blocks(self, tables: int) -> Blocks:
        """The rows by table."""

    def links(self) -> Links:
        """Foreign keys in both directions."""

    def cells(self, encoders: "ColumnEncoders") -> list[Tensor | None]:
        """For each table the cells of its distinct rows, (U, columns, w); None where it has
        none."""

    def distinct(self, tokens: "Tokens", blocks: Blocks) -> list[Index | None]:
        """For each table and each row of its block the distinct row that `cells` holds.

        Args:
            tokens: These rows, or those of them that refinement keeps.
            blocks: Of the tokens.
        """

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

    @abstractmethod
    def blocks(self, tables: int) -> Blocks:
        """The rows by table. In fixed shapes those that refinement dropped keep their place; what
        stands there means nothing."""

    @abstractmethod
    def directions(self, blocks: Blocks, pairs: Sequence[tuple[int, int]]) -> list[DirectedEdges]:
        """The foreign keys among these rows, by relation and direction.

        Args:
            pairs: Source and target table of each direction.
        """

    @abstractmethod
    def links(self) -> Links:
        """The foreign keys among these rows in both directions."""

    @abstractmethod
    def unpadded(self, x: Tensor) -> Tensor:
        """The rows of a rectangle, `padded` undone: (B, N, d) → (T, d)."""

    @abstractmethod
    def of_subgraph(self, values: Tensor) -> Tensor:
        """What belongs to the subgraph of each row: (B, k) → (T, k), without a gradient."""

    @abstractmethod
    def laplacian(self, width: int) -> Tensor:
        """The smoothest eigenvectors of each subgraph's Laplacian (`nn/laplacian.py`): (T,
        width)."""

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
        distinct: (T,) which distinct row of the batch each one is.
        edges: (2, E) child and parent of the foreign keys among the rows.
        relation: (E,) their relations.
    """

    hop: Tensor
    table: Tensor
    node: Tensor
    edges: Tensor
    relation: Tensor
    distinct: Tensor | None = None

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
            for name in ("h", "age", "has_time", "hop", "table", "node", "distinct")
            if getattr(self, name) is not None
        }
        return replace(self, offsets=offsets, edges=edges, relation=self.relation[inside], **rows)

    def messages(self, mean: Literal["all", "relation"]) -> Messages:
        return averaged_messages(self.edges, self.relation, mean, len(self.table))

    @cached_property
    def mask(self) -> Tensor:
        lengths = self.offsets[1:] - self.offsets[:-1]
        places = torch.arange(int(lengths.max()), device=lengths.device)
        return places[None, :] < lengths[:, None]

    def blocks(self, tables: int) -> Blocks:
        return Blocks.of(self.table, tables)

    def directions(self, blocks: Blocks, pairs: Sequence[tuple[int, int]]) -> list[DirectedEdges]:
        return packed_directions(self.table, (self.edges, self.relation), blocks, pairs)

    def links(self) -> Links:
        return Links.of(self.edges, self.relation, len(self.table))

    def of_subgraph(self, values: Tensor) -> Tensor:
        return values.index_select(0, self.subgraph)

    def laplacian(self, width: int) -> Tensor:
        # On the CPU: a GPU's solver would choose others, and a model that was trained there could
        # not be used here.
        edges, offsets = (tensor.cpu().numpy() for tensor in (self.edges, self.offsets))
        return torch.from_numpy(laplacian_vectors(edges, offsets, width)).to(self.h.device)

    @cached_property
    def _padded_place(self) -> Tensor:
        """(T,) the place of each row in the rectangle."""
        seeds, rows = self.mask.shape
        shift = torch.arange(seeds, device=self.offsets.device) * rows - self.offsets[:-1]
        places = torch.arange(len(self.table), device=self.offsets.device)
        return places + shift.index_select(0, self.subgraph)

    def padded(self, x: Tensor) -> Tensor:
        """(T, d) → (B, N, d), zeros outside the mask."""
        seeds, rows = self.mask.shape
        out = x.new_zeros(seeds * rows, x.shape[1]).index_copy(0, self._padded_place, x)
        return out.view(seeds, rows, -1)

    def unpadded(self, x: Tensor) -> Tensor:
        rows = self.mask.shape[1]
        row = self.offsets[:-1, None] + torch.arange(rows, device=x.device)  # (B, N)
        return take_once(x.flatten(0, 1), self._padded_place, row.flatten(), self.mask.flatten())

    def padded_times(self) -> tuple[Tensor, Tensor]:
        return spread(self.age, self.mask, 0), spread(self.has_time, self.mask, 0)

    @property
    def spans(self) -> Tensor:
        return self.offsets

    @property
    def longest(self) -> int:
        return self.mask.shape[1]
