"""What the models of the zoo share: rows as vectors, rows by table, foreign keys by relation and
direction.

    tokens = self.encoder(inputs)                      `PackedTokens`: rows with their vectors
                                                       (T, d), refined where `config.keep` says so
    blocks = Blocks.of(tokens, tables)                 rows table by table, for models with weights
                                                       of their own for each table
    directions = directed_edges(tokens, blocks, pairs) edges relation by relation, from child to
                                                       parent and from parent to child

Sums along them are those of `gelgt.nn.sums`: a GPU gives the same bits twice.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gelgt.config import ModelConfig
from gelgt.graph.store import Relation
from gelgt.nn.bias import TemporalBias
from gelgt.nn.encoders import AgeEncoder, RowEncoder, TableColumns
from gelgt.nn.layout import PackedTokens
from gelgt.nn.rows import ModelInput
from gelgt.nn.sums import Index


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

    def forward(self, inputs: ModelInput) -> PackedTokens:
        """Packed rows with their vectors (T, d); only those that refinement keeps, where it is
        wanted."""
        h = inputs.encoded(self.rows)
        if self.ages is not None:
            table = by_table(inputs.table, len(self.ages))
            parts = [
                encoder(inputs.age[rows], inputs.has_time[rows])
                for encoder, rows in zip(self.ages, table)
            ]
            h = h + torch.cat(parts)[torch.argsort(torch.cat(table))].to(h.dtype)
        return inputs.tokens(h).refined(self.keep)


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
    def of(cls, tokens: PackedTokens, tables: int) -> "Blocks":
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
class DirectedEdges:
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


def direction_tables(relations: Sequence[Relation], tables: Sequence[str]) -> list[tuple[int, int]]:
    """Source and target table of each of the 2R directions: relation 0 from child to parent, from
    parent to child, relation 1, …"""
    number = {name: place for place, name in enumerate(tables)}
    ends = [(number[relation.child], number[relation.parent]) for relation in relations]
    return [pair for child, parent in ends for pair in ((child, parent), (parent, child))]


def directed_edges(
    tokens: PackedTokens, blocks: Blocks, pairs: Sequence[tuple[int, int]]
) -> list[DirectedEdges]:
    """The edges of each direction, in the order of `direction_tables`; some have none."""
    order = torch.argsort(tokens.relation, stable=True)
    sizes = torch.bincount(tokens.relation, minlength=len(pairs) // 2).tolist()
    child, parent = (torch.split(places, sizes) for places in blocks.place[tokens.edges[:, order]])
    directions = []
    for number, (source, target) in enumerate(pairs):
        ends = (child[number // 2], parent[number // 2])
        sent, received = ends if number % 2 == 0 else ends[::-1]
        directions.append(
            DirectedEdges(
                source,
                target,
                Index.of(sent, len(blocks.rows[source])),
                Index.of(received, len(blocks.rows[target])),
            )
        )
    return directions


def key_bias(
    bias: TemporalBias, age: tuple[Tensor, Tensor], has_time: tuple[Tensor, Tensor]
) -> Tensor:
    """The temporal bias of attention along n keys, from the ages (n,) of both ends: (n, H), 0 where
    either has no time."""
    scores = bias.scores((age[0] - age[1]).abs()[None, None])[0, :, 0].T
    return torch.where((has_time[0] & has_time[1])[:, None], scores, 0.0)
