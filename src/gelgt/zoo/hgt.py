"""`hgt`: the Heterogeneous Graph Transformer (Hu et al., 2020) over RelBench's row vectors.

    score of an edge  s → t K_s W_att Qᵀ_t · μ / √(d/H) softmax over all edges that reach t,
                      whatever their relation
    message                    V_s W_msg
    row                        skip · A(gelu(Σ weight · message)) + (1 - skip) · row, then layer
                               norm

Kept: K, Q, V, A and the skip are of a table, W_att, W_msg and the prior μ of a foreign key and a
direction, each head with its own.

Simplified: the published model shifts a source by an encoding of the time between both ends; here
rows carry their age, and `bias` can add gelgt's temporal bias to the scores. Its own sampler
(HGSampling) is replaced by gelgt's, so that all models see the same rows.
"""

import math
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from gelgt.config import AttentionConfig
from gelgt.graph import Graph
from gelgt.nn.base import ModelContext, RelationalModel
from gelgt.nn.bias import TemporalBias
from gelgt.nn.blocks import Blocks, DirectedEdges
from gelgt.nn.dropout import Dropout
from gelgt.nn.encoders import RowEncoder
from gelgt.nn.layout import Rows, Tokens
from gelgt.nn.norms import LayerNorm
from gelgt.nn.static.shape import Extras
from gelgt.nn.sums import Index, softmax_among, take, total
from gelgt.zoo.parts import TokenEncoder, block_extras, direction_tables, key_bias


class HGTConfig(AttentionConfig):
    """The Heterogeneous Graph Transformer.

    Attributes:
        layers: As many as hops reach the seed.
    """

    layers: int = Field(default=2, ge=1)


class HGT(RelationalModel):
    """Attention along foreign keys with weights of each table, relation and direction."""

    config_type = HGTConfig
    is_static = True
    presets: ClassVar[Mapping[str, Mapping[str, Mapping[str, Any]]]] = {
        "cpu": {
            "model": {
                "width": 64,
                "row_width": 16,
                "row_layers": 1,
                "row_names": False,
                "row_times": False,
            },
            "sampling": {"hops": 2, "budget": 96, "fanout": 48},
        },
        "gpu": {"sampling": {"hops": 2, "budget": 512, "fanout": 128}},
        "paper": {
            "model": {"width": 128, "heads": 8, "row_width": 128, "row_layers": 4, "dropout": 0.2},
            "sampling": {"hops": 2, "budget": 1024, "fanout": 128},
            "train": {
                "epochs": 10,
                "batch_size": 256,
                "steps_per_epoch": 1000,
                "rate": 1e-3,
                "weight_decay": 1e-2,
            },
        },
    }

    def __init__(self, config: HGTConfig, context: ModelContext) -> None:
        super().__init__(config, context)
        graph = context.graph
        self.pairs = direction_tables(graph.relations, graph.tables)
        self.tables = len(graph.tables)
        self.encoder = TokenEncoder(config, self.columns, graph.tables)
        self.biases = self.make_biases(1)
        self.layers = nn.ModuleList(
            HGTLayer(config, self.tables, len(self.pairs)) for _ in range(config.layers)
        )
        self.add_head(context)

    @property
    def row_encoder(self) -> RowEncoder:
        return self.encoder.rows

    def extras(self, graph: Graph) -> Extras:
        return block_extras(graph)

    def encode(self, inputs: Rows) -> Tokens:
        """Rows with their vectors."""
        tokens: Tokens = self.encoder(inputs)
        return tokens

    def embed(self, inputs: Rows) -> Tensor:
        """Seed vectors (B, d)."""
        tokens = self.encode(inputs)
        blocks = tokens.blocks(self.tables)
        directions = tokens.directions(blocks, self.pairs)
        biases = direction_biases(self.time_bias, tokens, blocks, directions)
        arrivals = arriving_edges(directions, biases, blocks.sizes)
        h = blocks.split(tokens.h)
        for layer in self.layers:
            h = layer(h, directions, arrivals)
        return tokens.at_seeds(blocks.join(h))


class Arrivals(NamedTuple):
    """The edges that reach the rows of one table, direction by direction: the target of each, and
    the bias (E, H) of attention along it."""

    targets: Index
    bias: Tensor | None


def arriving_edges(
    directions: list[DirectedEdges], biases: list[Tensor | None], sizes: list[int]
) -> list[Arrivals | None]:
    """The edges that reach each table; None where there are none.

    Args:
        biases: Of attention along the edges of each direction.
        sizes: Rows of each table.
    """
    arrivals: list[Arrivals | None] = []
    for table, size in enumerate(sizes):
        places = [n for n, edges in enumerate(directions) if len(edges) and edges.target == table]
        if not places:
            arrivals.append(None)
            continue
        reached = [directions[place].received for place in places]
        masks = [index.is_item for index in reached if index.is_item is not None]
        over_time = [bias for place in places if (bias := biases[place]) is not None]
        rows = torch.cat([index.rows for index in reached])
        index = Index.of(rows, size, torch.cat(masks) if masks else None)
        arrivals.append(Arrivals(index, torch.cat(over_time) if over_time else None))
    return arrivals


def direction_biases(
    bias: TemporalBias | None,
    tokens: Tokens,
    blocks: Blocks,
    directions: list[DirectedEdges],
) -> list[Tensor | None]:
    """The temporal bias (E', H) of the edges of each direction; None where there is none."""
    if bias is None:
        return [None for _ in directions]
    age, has_time = blocks.read(tokens.age), blocks.read(tokens.has_time)

    def at_ends(values: list[Tensor], edges: DirectedEdges) -> tuple[Tensor, Tensor]:
        ends = (edges.source, edges.sent), (edges.target, edges.received)
        source, target = (values[table].index_select(0, index.rows) for table, index in ends)
        return source, target

    return [key_bias(bias, at_ends(age, edges), at_ends(has_time, edges)) for edges in directions]


class HGTLayer(nn.Module):
    """One layer of heterogeneous mutual attention."""

    def __init__(self, config: HGTConfig, tables: int, directions: int) -> None:
        super().__init__()
        width, self.heads = config.width, config.heads
        inner = width // config.heads
        self.kqv = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(tables))
        self.out = nn.ModuleList(nn.Linear(width, width) for _ in range(tables))
        self.norms = nn.ModuleList(LayerNorm(width) for _ in range(tables))
        self.skip = nn.Parameter(torch.zeros(tables))  # sigmoid(0) takes half of either
        start = torch.eye(inner).repeat(directions, config.heads, 1, 1)  # (W, H, d/H, d/H)
        self.attending = nn.Parameter(start + torch.randn_like(start) / (2 * math.sqrt(inner)))
        self.sending = nn.Parameter(start + torch.randn_like(start) / (2 * math.sqrt(inner)))
        self.prior = nn.Parameter(torch.ones(directions, config.heads))
        self.dropout = Dropout(config.dropout)

    def forward(
        self,
        h: list[Tensor],
        directions: list[DirectedEdges],
        arrivals: list[Arrivals | None],
    ) -> list[Tensor]:
        """For each table (rows, d) → (rows, d). `arrivals` are those of `arriving_edges`."""
        keys, queries, values = zip(
            *(
                linear(x).unflatten(1, (3, self.heads, -1)).unbind(1)
                for linear, x in zip(self.kqv, h)
            )
        )
        # side by side, as both are read along the same edges: (rows, 2 H, d/H)
        sources = [torch.cat(pair, dim=1) for pair in zip(keys, values)]
        sent: list[list[Tensor]] = [[] for _ in h]
        for edges, turn in zip(directions, self.turns(sources[0].dtype)):
            if len(edges):
                turned = torch.einsum("nhi,hij->nhj", sources[edges.source], turn)
                sent[edges.target].append(take(turned.flatten(1), edges.sent))
        tables = zip(h, queries, sent, arrivals, torch.sigmoid(self.skip).unbind(0))
        return [self._updated(table, *of_table) for table, of_table in enumerate(tables)]

    def turns(self, dtype: torch.dtype) -> tuple[Tensor, ...]:
        """For each direction W_att, with the prior and the scale of scores in it, and W_msg: (2 H,
        d/H, d/H)."""
        scale = self.prior / math.sqrt(self.attending.shape[-1])  # (W, H)
        attending = self.attending * scale[:, :, None, None]
        turns: tuple[Tensor, ...] = torch.cat([attending, self.sending], dim=1).to(dtype).unbind(0)
        return turns

    def _updated(
        self,
        table: int,
        x: Tensor,
        query: Tensor,
        sent: list[Tensor],
        arrivals: Arrivals | None,
        share: Tensor,
    ) -> Tensor:
        """Rows with what has arrived at them, all relations together.

        Args:
            share: () of what has arrived, the skip.
            query: (rows, H, d/H).
            sent: Keys and messages of the edges of each direction, (E', 2 d).
        """
        gathered = torch.zeros_like(x)
        if arrivals is not None:
            targets, heads = arrivals.targets, (-1, self.heads, query.shape[2])
            key, message = torch.cat(sent).chunk(2, dim=1)  # (E, d)
            asked = take(query.flatten(1), targets)
            scores = (key * asked).view(heads).sum(2)  # (E, H)
            scores = scores if arrivals.bias is None else scores + arrivals.bias
            weights = self.dropout(softmax_among(scores, targets)).to(message.dtype)
            weighted = weights[:, :, None] * message.unflatten(1, heads[1:])  # type: ignore[no-untyped-call]
            gathered = total(weighted.flatten(1), targets)
        new = self.out[table](functional.gelu(gathered))
        out: Tensor = self.norms[table](share * self.dropout(new) + (1 - share) * x)
        return out
