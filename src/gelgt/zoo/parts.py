"""What the models of the zoo share: rows as vectors, rows by table, foreign keys by relation and
direction, sums in a fixed order.

    tokens = self.encoder(inputs)               Tokens: packed rows (T, d), refined where
                                                `config.keep` says so
    x, mask = padded(tokens)                    (B, N, d) and (B, N), for models that attend over
                                                all rows
    blocks = Blocks.of(tokens, tables)          rows table by table, for models with weights of
                                                their own for each table
    ways = key_ways(tokens, blocks, relations)  edges relation by relation, from child to parent and
                                                from parent to child

`take` reads rows along edges and `total` sums up along them. Each is the other's gradient, and both
add in one fixed order, so that a GPU gives the same bits twice; PyTorch's own scatters add with
atomics there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from gelgt.config import ModelConfig
from gelgt.graph.store import Relation
from gelgt.nn.bias import TemporalBias
from gelgt.nn.encoders import AgeEncoder, RowEncoder, TableColumns
from gelgt.nn.model import Tokens, pad_rows
from gelgt.nn.refinement import refine, restrict, semantic_scores
from gelgt.nn.rows import ModelInput, RowFrames


# Sums in a fixed order.
@dataclass(frozen=True)
class Index:
    """For each of n items, one of `size` rows.

    Attributes:
        rows: (n,) the row of each item.
        order: (n,) the items sorted by row; those of one row keep their order.
        starts: (size,) where the items of each row begin in `order`.
    """

    rows: Tensor
    order: Tensor
    starts: Tensor

    @classmethod
    def of(cls, rows: Tensor, size: int) -> "Index":
        if not len(rows):  # most relations are absent from most batches: nothing to launch on a GPU
            return cls(rows, rows, rows.new_zeros(size))
        order = torch.argsort(rows, stable=True)
        return cls(
            rows, order, torch.searchsorted(rows[order], torch.arange(size, device=rows.device))
        )

    @property
    def counts(self) -> Tensor:
        """(size,) items of each row."""
        ends = (
            torch.cat([self.starts[1:], self.starts.new_tensor([len(self.rows)])])
            if len(self.starts)
            else self.starts
        )
        return ends - self.starts


def take(x: Tensor, index: Index) -> Tensor:
    """The row of each item: (size, d) → (n, d)."""
    out: Tensor = _Take.apply(x, index)  # type: ignore[no-untyped-call]
    return out


def total(items: Tensor, index: Index) -> Tensor:
    """The sum of each row's items: (n, d) → (size, d)."""
    out: Tensor = _Total.apply(items, index)  # type: ignore[no-untyped-call]
    return out


def mean(items: Tensor, index: Index) -> Tensor:
    """The mean of each row's items, 0 where there are none: (n, d) → (size, d)."""
    return total(items, index) / index.counts.clamp(min=1)[:, None].to(items.dtype)


def shares(scores: Tensor, index: Index) -> Tensor:
    """Softmax of scores among the items of each row: (n, H) → (n, H), in float32."""
    scores = scores.float()
    largest = scores.new_full((len(index.starts), scores.shape[1]), -torch.inf)
    place = index.rows[:, None].expand_as(scores)
    # no order changes a maximum
    largest = largest.scatter_reduce(0, place, scores.detach(), "amax")
    weights = (scores - largest[index.rows]).exp()
    return weights / take(total(weights, index), index)


def key_bias(
    bias: TemporalBias, age: tuple[Tensor, Tensor], has_time: tuple[Tensor, Tensor]
) -> Tensor:
    """The temporal bias of attention along n keys, from the ages (n,) of both ends: (n, H), 0 where
    either has no time."""
    scores = bias.scores((age[0] - age[1]).abs()[None, None])[0, :, 0].T
    return torch.where((has_time[0] & has_time[1])[:, None], scores, 0.0)


class _Take(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, index: Index) -> Tensor:
        ctx.index = index
        return x[index.rows]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _sum_up(gradient, ctx.index), None


class _Total(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, items: Tensor, index: Index) -> Tensor:
        ctx.index = index
        return _sum_up(items, index)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient[ctx.index.rows], None


def _sum_up(items: Tensor, index: Index) -> Tensor:
    if not len(index.rows) or not len(index.starts):
        return items.new_zeros(len(index.starts), items.shape[1])
    return functional.embedding_bag(index.order, items.contiguous(), index.starts, mode="sum")


# Rows as vectors.
class TokenEncoder(nn.Module):
    """Rows of a batch as vectors: PyTorch Frame's ResNet of their table, plus their age through a
    linear map of their table.

    As in RelBench's baseline. Rows without a time get a learned vector of their table instead. The
    seed has age 0.

    Args:
        config: Whose `width`, `row_width`, `row_layers` and `keep` are used.
        columns: Of each table, as `RelationalModel.columns` has them.
        tables: Names by number, as `Graph.tables` has them.
        has_age: Whether ages are added.
    """

    def __init__(
        self,
        config: ModelConfig,
        columns: Mapping[str, TableColumns],
        tables: Sequence[str],
        has_age: bool = True,
    ) -> None:
        super().__init__()
        self.keep = config.keep
        self.rows = RowEncoder(config.width, config.row_width, config.row_layers, "layer", columns)
        self.ages = nn.ModuleList(AgeEncoder(config.width) for _ in tables) if has_age else None

    def forward(self, inputs: ModelInput) -> Tokens:
        """Packed rows with their vectors (T, d); only those that refinement keeps, where it is
        wanted."""
        h = row_vectors(self.rows, inputs.rows)
        batch = inputs.batch.to_packed()
        if self.ages is not None:
            table = by_table(batch.table, len(self.ages))
            parts = [
                encoder(batch.age[rows], batch.has_time[rows])
                for encoder, rows in zip(self.ages, table)
            ]
            h = h + torch.cat(parts)[torch.argsort(torch.cat(table))].to(h.dtype)
        return refined(tokens_of(inputs, h), self.keep)


def row_vectors(encoder: nn.Module, rows: RowFrames) -> Tensor:
    """Each distinct row is encoded once, and then read wherever it was sampled: → (T, d)."""
    return take(encoder(rows), Index.of(rows.inverse, rows.num_rows))


def tokens_of(inputs: ModelInput, h: Tensor) -> Tokens:
    """The rows of a batch, packed, with their vectors (T, d)."""
    batch = inputs.batch.to_packed()
    return Tokens(
        h,
        batch.age,
        batch.has_time,
        batch.hop,
        batch.table,
        batch.node,
        batch.offsets,
        batch.edge_index,
        batch.edge_relation,
    )


def refined(tokens: Tokens, keep: int | None) -> Tokens:
    """The `keep` rows of each subgraph that semantic refinement chooses, with the keys among them;
    all if None."""
    if keep is None:
        return tokens
    subgraph = subgraph_of(tokens)
    kept = refine(
        semantic_scores(tokens.h, tokens.offsets, subgraph),
        tokens.hop,
        tokens.offsets,
        subgraph,
        keep,
    )
    offsets, edges, inside = restrict(kept, tokens.offsets, tokens.edges)
    rows = {
        name: getattr(tokens, name)[kept]
        for name in ("h", "age", "has_time", "hop", "table", "node")
    }
    return replace(tokens, offsets=offsets, edges=edges, relation=tokens.relation[inside], **rows)


def subgraph_of(tokens: Tokens) -> Tensor:
    """(T,) the subgraph of each row."""
    lengths = tokens.offsets[1:] - tokens.offsets[:-1]
    return torch.repeat_interleave(
        torch.arange(len(lengths), device=lengths.device), lengths, output_size=len(tokens.table)
    )


def seeds_of(tokens: Tokens, h: Tensor) -> Tensor:
    """The seeds among packed rows: (T, d) → (B, d)."""
    return h[tokens.offsets[:-1]]


def padded(tokens: Tokens) -> tuple[Tensor, Tensor]:
    """Rows as a rectangle: vectors (B, N, d), zeros on padding, and the mask (B, N) that is true
    for rows.

    `gelgt.sampling.batch.spread(tokens.age, mask, 0)` brings ages and the like into the same shape.
    """
    lengths = tokens.offsets[1:] - tokens.offsets[:-1]
    mask = torch.arange(int(lengths.max()), device=lengths.device)[None, :] < lengths[:, None]
    return pad_rows(tokens.h, tokens.offsets, mask), mask


# Rows by table, keys by relation.
def by_table(table: Tensor, tables: int) -> list[Tensor]:
    """For each table the packed places of its rows, in their order."""
    return list(
        torch.split(
            torch.argsort(table, stable=True), torch.bincount(table, minlength=tables).tolist()
        )
    )


@dataclass(frozen=True)
class Blocks:
    """Packed rows taken apart by table.

    Attributes:
        rows: For each table number, the packed places of its rows; possibly none.
        place: (T,) the place of each packed row in the block of its table.
        joined: (T,) its place when all blocks are laid behind each other.
    """

    rows: list[Tensor]
    place: Tensor
    joined: Tensor

    @classmethod
    def of(cls, tokens: Tokens, tables: int) -> "Blocks":
        rows = by_table(tokens.table, tables)
        joined = torch.argsort(torch.cat(rows))
        starts = torch.bincount(tokens.table, minlength=tables).cumsum(0)
        return cls(
            rows, joined - torch.cat([starts.new_zeros(1), starts[:-1]])[tokens.table], joined
        )

    def split(self, h: Tensor) -> list[Tensor]:
        """(T, d) → for each table (rows, d)."""
        return list(torch.split(h[torch.cat(self.rows)], [len(rows) for rows in self.rows]))

    def join(self, parts: Sequence[Tensor]) -> Tensor:
        """For each table (rows, d) → (T, d)."""
        return torch.cat(list(parts))[self.joined]


@dataclass(frozen=True)
class KeyWay:
    """The edges of one relation in one direction.

    Attributes:
        source, target: Table numbers.
        sent, received: For each edge its source and its target, as places in the blocks of those
            tables.
    """

    source: int
    target: int
    sent: Index
    received: Index

    def __len__(self) -> int:
        return len(self.sent.rows)


def way_tables(relations: Sequence[Relation], tables: Sequence[str]) -> list[tuple[int, int]]:
    """Source and target table of each of the 2R ways: relation 0 from child to parent, from parent
    to child, relation 1, …"""
    number = {name: place for place, name in enumerate(tables)}
    ends = [(number[relation.child], number[relation.parent]) for relation in relations]
    return [pair for child, parent in ends for pair in ((child, parent), (parent, child))]


def key_ways(tokens: Tokens, blocks: Blocks, pairs: Sequence[tuple[int, int]]) -> list[KeyWay]:
    """The 2R ways of a batch in the order of `way_tables`, those without an edge included."""
    order = torch.argsort(tokens.relation, stable=True)
    sizes = torch.bincount(tokens.relation, minlength=len(pairs) // 2).tolist()
    child, parent = (torch.split(places, sizes) for places in blocks.place[tokens.edges[:, order]])
    ways = []
    for number, (source, target) in enumerate(pairs):
        ends = (child[number // 2], parent[number // 2])
        sent, received = ends if number % 2 == 0 else ends[::-1]
        ways.append(
            KeyWay(
                source,
                target,
                Index.of(sent, len(blocks.rows[source])),
                Index.of(received, len(blocks.rows[target])),
            )
        )
    return ways
