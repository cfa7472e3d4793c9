"""What the models of the zoo share: rows as vectors, rows by table, foreign keys by relation and
direction.

    tokens = self.encoder(inputs)                  `Tokens`: rows with their vectors (T, d), refined
                                                   where `config.keep` says so
    blocks = tokens.blocks(tables)                 rows table by table, for models with weights of
                                                   their own for each table
    directions = tokens.directions(blocks, pairs)  edges relation by relation, from child to parent
                                                   and from parent to child

All of them are there for packed rows and for fixed shapes (`nn/layout.py`), and a model that uses
nothing else is recorded as a CUDA graph. Sums along edges are those of `gelgt.nn.sums`: a GPU gives
the same bits twice.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from gelgt.config import ModelConfig
from gelgt.graph.store import Graph, Relation
from gelgt.nn.bias import TemporalBias
from gelgt.nn.encoders import AgeEncoder, RowEncoder, TableColumns
from gelgt.nn.layout import Rows, Tokens
from gelgt.nn.static.shape import Extras


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

    def forward(self, inputs: Rows) -> Tokens:
        """Rows with their vectors (T, d); only those that refinement keeps, where it is wanted."""
        h = inputs.encoded(self.rows)
        if self.ages is not None:
            blocks = inputs.blocks(len(self.ages))
            times = zip(self.ages, blocks.read(inputs.age), blocks.read(inputs.has_time))
            parts = [encoder(age, has_time) for encoder, age, has_time in times]
            h = h + blocks.join(parts).to(h.dtype)
        return inputs.tokens(h).refined(self.keep)


# Keys by relation.
def direction_tables(relations: Sequence[Relation], tables: Sequence[str]) -> list[tuple[int, int]]:
    """Source and target table of each of the 2R directions: relation 0 from child to parent, from
    parent to child, relation 1, …"""
    number = {name: place for place, name in enumerate(tables)}
    ends = [(number[relation.child], number[relation.parent]) for relation in relations]
    return [pair for child, parent in ends for pair in ((child, parent), (parent, child))]


def block_extras(graph: Graph) -> Extras:
    """What a model reads of a batch of fixed shapes that looks at rows table by table and at keys
    relation by relation."""
    return Extras(keys=tuple(direction_tables(graph.relations, graph.tables)[::2]))


def key_bias(
    bias: TemporalBias, age: tuple[Tensor, Tensor], has_time: tuple[Tensor, Tensor]
) -> Tensor:
    """The temporal bias of attention along n keys, from the ages (n,) of both ends: (n, H), 0 where
    either has no time."""
    scores = bias.scores((age[0] - age[1]).abs()[None, None])[0, :, 0].T
    return torch.where((has_time[0] & has_time[1])[:, None], scores, 0.0)
