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
from typing import Any, ClassVar

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
        arrivals = arriving_edges(directions, blocks.sizes)
        biases = direction_biases(self.time_bias, tokens, blocks, directions)
        h = blocks.split(tokens.h)
        for layer in self.layers:
            h = layer(h, directions, arrivals, biases)
        return tokens.at_seeds(blocks.join(h))


def arriving_edges(directions: list[DirectedEdges], sizes: list[int]) -> list[Index | None]:
    """For each table the edges that reach its rows, direction by direction; None where there are
    none."""
    arrivals: list[Index | None] = []
    for table, size in enumerate(sizes):
        reached = [edges.received for edges in directions if len(edges) and edges.target == table]
        if not reached:
            arrivals.append(None)
            continue
        masks = [index.is_item for index in reached if index.is_item is not None]
        rows = torch.cat([index.rows for index in reached])
        arrivals.append(Index.of(rows, size, torch.cat(masks) if masks else None))
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
        arrivals: list[Index | None],
        biases: list[Tensor | None],
    ) -> list[Tensor]:
        """For each table (rows, d) → (rows, d). `arrivals` are those of `arriving_edges`."""
        keys, queries, values = zip(
            *(
                linear(x).unflatten(1, (3, self.heads, -1)).unbind(1)
                for linear, x in zip(self.kqv, h)
            )
        )
        # for each table: scores, messages
        arrived: list[list[tuple[Tensor, Tensor]]] = [[] for _ in h]
        for number, (edges, bias) in enumerate(zip(directions, biases)):
            if len(edges):
                # (E', H, d/H)
                key = self._turned(keys[edges.source], self.attending[number], edges.sent)
                query = take(queries[edges.target].flatten(1), edges.received).view_as(key)
                # (E', H)
                score = (key * query).sum(2) * self.prior[number] / math.sqrt(key.shape[2])
                message = self._turned(values[edges.source], self.sending[number], edges.sent)
                arrived[edges.target].append((score if bias is None else score + bias, message))
        return [
            self._updated(table, x, arrived[table], arrivals[table]) for table, x in enumerate(h)
        ]

    def _turned(self, x: Tensor, weight: Tensor, sent: Index) -> Tensor:
        """A relation's matrices applied to the rows of its source table, read along its edges:
        (rows, H, d/H) → (E', H, d/H)."""
        turned = torch.einsum("nhi,hij->nhj", x, weight.to(x.dtype))
        return take(turned.flatten(1), sent).view(-1, *turned.shape[1:])

    def _updated(
        self, table: int, x: Tensor, arrived: list[tuple[Tensor, Tensor]], index: Index | None
    ) -> Tensor:
        """Rows with what has arrived at them, all relations together."""
        gathered = torch.zeros_like(x)
        if index is not None:
            scores, messages = (torch.cat(parts) for parts in zip(*arrived))
            weights = self.dropout(softmax_among(scores, index)).to(messages.dtype)
            gathered = total((weights[:, :, None] * messages).flatten(1), index)
        new = self.out[table](functional.gelu(gathered))
        share = torch.sigmoid(self.skip[table])
        out: Tensor = self.norms[table](share * self.dropout(new) + (1 - share) * x)
        return out
