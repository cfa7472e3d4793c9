"""`relgnn`: composite message passing over atomic routes (Chen, Kanatsoulis, Leskovec, RelGNN,
2025).

A table with two foreign keys or more stands between others: an order joins a customer and a
product. Ordinary message passing needs two layers from product to customer, and the first of them
mixes what all customers sent to the order into what it passes on. Here a route goes from one parent
through the bridge row to the other parent in one step:

    fused = W_bridge · bridge + W_source · source            target ← attention over the fused rows
                                                             of its bridge rows

Kept: routes follow from the schema alone. For a table with several keys there is one for each
ordered pair of them, for a table with one key one from child to parent and one from parent to
child. Each route has its own weights and, where a target has several sources, multi-head attention;
what arrives by all routes is added to the row's own, then layer norm and ReLU.

Added: a bridge row hears from each of its parents directly, without which it could be no seed; and
one whose other key is empty, or whose other parent was not sampled, still passes on itself. `bias`
can add gelgt's temporal bias (target and bridge row) to the scores. Simplified: gelgt's sampler in
place of RelBench's, and gelgt's head.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from gelgt.config import AttentionConfig
from gelgt.graph import Graph
from gelgt.graph.store import Relation
from gelgt.nn.base import ModelContext, RelationalModel
from gelgt.nn.blocks import DirectedEdges
from gelgt.nn.dropout import Dropout
from gelgt.nn.encoders import RowEncoder
from gelgt.nn.layout import Rows, Tokens
from gelgt.nn.norms import LayerNorm
from gelgt.nn.static.shape import Extras
from gelgt.nn.sums import Index, Segments, softmax_among, take, total
from gelgt.zoo.hgt import direction_biases
from gelgt.zoo.parts import TokenEncoder, block_extras, direction_tables


class RelGNNConfig(AttentionConfig):
    """Composite message passing.

    Attributes:
        layers: Steps along routes; one crosses a bridge.
    """

    layers: int = Field(default=2, ge=1)


@dataclass(frozen=True)
class Route:
    """An atomic route.

    Attributes:
        direction: Of its last edge, from the bridge row (or the only source) to the target: a
            number of `direction_tables`.
        key: The relation by which the bridge row names the source; None where there is no bridge.
    """

    direction: int
    key: int | None = None


def atomic_routes(relations: Sequence[Relation]) -> list[Route]:
    """The routes of a schema, in a fixed order.

    Example:
        >>> keys = (("customer_id", "customers"), ("product_id", "products"))
        >>> relations = [Relation("orders", column, parent) for column, parent in keys]
        >>> [(route.direction, route.key) for route in atomic_routes(relations)]
        [(0, 1), (1, None), (2, 0), (3, None)]
    """
    routes = []
    for number, relation in enumerate(relations):
        others = [
            other
            for other, r in enumerate(relations)
            if r.child == relation.child and other != number
        ]
        routes += [Route(2 * number, other) for other in others] or [Route(2 * number)]
        routes.append(Route(2 * number + 1))
    return routes


class RelGNN(RelationalModel):
    """Attention along atomic routes."""

    config_type = RelGNNConfig
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
            "model": {"width": 128, "row_width": 128, "row_layers": 4, "heads": 4, "dropout": 0.0},
            "sampling": {"hops": 2, "budget": 4096, "fanout": 128},
            "train": {
                "epochs": 10,
                "batch_size": 512,
                "steps_per_epoch": 2000,
                "rate": 5e-3,
                "weight_decay": 0.0,
                "warmup": 0,
            },
        },
    }

    def __init__(self, config: RelGNNConfig, context: ModelContext) -> None:
        super().__init__(config, context)
        graph = context.graph
        self.pairs = direction_tables(graph.relations, graph.tables)
        self.tables = len(graph.tables)
        self.routes = atomic_routes(graph.relations)
        self.encoder = TokenEncoder(config, self.columns, graph.tables)
        self.biases = self.make_biases(1)
        self.layers = nn.ModuleList(
            RelGNNLayer(config, self.tables, self.routes) for _ in range(config.layers)
        )
        self.add_head(context)

    @property
    def row_encoder(self) -> RowEncoder:
        return self.encoder.rows

    def extras(self, graph: Graph) -> Extras:
        return block_extras(graph)

    def embed(self, inputs: Rows) -> Tensor:
        """Seed vectors (B, d)."""
        tokens: Tokens = self.encoder(inputs)
        blocks = tokens.blocks(self.tables)
        directions = tokens.directions(blocks, self.pairs)
        biases = direction_biases(self.time_bias, tokens, blocks, directions)
        legs = [Leg.of(route, directions, biases[route.direction]) for route in self.routes]
        h = blocks.split(tokens.h)
        for layer in self.layers:
            h = layer(h, legs)
        return tokens.at_seeds(blocks.join(h))


@dataclass(frozen=True)
class Leg:
    """A route in a batch: E' bridge rows, or single sources, that reach a target.

    Attributes:
        edges: The edges from them to their targets.
        source: The table behind the bridge; None where there is none.
        behind: For each edge the row of that table; fillers for those that have none.
        bias: (E', H) of attention.
    """

    edges: DirectedEdges
    source: int | None
    behind: Index | None
    bias: Tensor | None

    @classmethod
    def of(cls, route: Route, directions: list[DirectedEdges], bias: Tensor | None) -> "Leg":
        edges = directions[route.direction]
        if route.key is None:
            return cls(edges, None, None, bias)
        other = directions[2 * route.key]  # from the same bridge rows to the source
        if not len(edges) or not len(other):
            return cls(edges, None, None, bias)
        item, has_source = only_edges(other, edges.sent)
        back, is_passed = only_edges(edges, other.sent)
        # the edges behind a source: those of the bridge rows that name it
        named = other.received.items
        passed = is_passed.index_select(0, named.other).to(torch.float32)
        items = Segments(
            back.index_select(0, named.other).to(named.other.dtype),
            named.start,
            named.end,
            passed if named.weight is None else passed * named.weight,
        )
        behind = Index(other.received.rows.index_select(0, item), items, has_source)
        return cls(edges, other.target, behind, bias)


def only_edges(edges: DirectedEdges, rows: Index) -> tuple[Tensor, Tensor]:
    """For each item of an index of child rows its row's only edge from child to parent, and whether
    it has one: (n,), (n,). A row has one parent by a key at most."""
    items = edges.sent.items
    start = items.start.index_select(0, rows.rows)
    has_edge = items.end.index_select(0, rows.rows) > start
    edge = items.other.index_select(0, start.clamp(max=len(items.other) - 1))
    if rows.is_item is not None:
        has_edge = has_edge & rows.is_item
    if edges.sent.is_item is not None:
        has_edge = has_edge & edges.sent.is_item.index_select(0, edge)
    return edge, has_edge


class RelGNNLayer(nn.Module):
    """One step along every route."""

    def __init__(self, config: RelGNNConfig, tables: int, routes: Sequence[Route]) -> None:
        super().__init__()
        width, self.heads = config.width, config.heads
        self.root = nn.ModuleList(nn.Linear(width, width) for _ in range(tables))
        self.norms = nn.ModuleList(LayerNorm(width) for _ in range(tables))
        # From parent to child there is one source and nothing to choose among: values alone, no
        # keys and queries.
        self.is_single = [route.direction % 2 == 1 for route in routes]
        self.queries = nn.ModuleList(
            nn.Identity() if single else nn.Linear(width, width) for single in self.is_single
        )
        self.bridge = nn.ModuleList(
            nn.Linear(width, width if single else 2 * width) for single in self.is_single
        )
        self.behind = nn.ModuleList(
            nn.Linear(width, 2 * width, bias=False) if r.key is not None else nn.Identity()
            for r in routes
        )
        self.dropout = Dropout(config.dropout)

    def forward(self, h: list[Tensor], legs: list[Leg]) -> list[Tensor]:
        """For each table (rows, d) → (rows, d)."""
        out = [root(x) for root, x in zip(self.root, h)]
        used = [number for number, leg in enumerate(legs) if len(leg.edges)]
        bridge = projected(self.bridge, {n: legs[n].edges.source for n in used}, h)
        several = {n: legs[n] for n in used if not self.is_single[n]}
        queries = projected(self.queries, {n: leg.edges.target for n, leg in several.items()}, h)
        sources = {n: leg.source for n, leg in several.items() if leg.source is not None}
        behind = projected(self.behind, sources, h)
        for number in used:
            edges = legs[number].edges
            if self.is_single[number]:
                arrived = total(take(bridge[number], edges.sent), edges.received)
            else:
                sides = bridge[number], queries[number], behind.get(number)
                arrived = self._attended(legs[number], *sides)
            out[edges.target] = out[edges.target] + arrived
        return [self.dropout(functional.relu(norm(x))) for norm, x in zip(self.norms, out)]

    def _attended(self, leg: Leg, bridge: Tensor, query: Tensor, behind: Tensor | None) -> Tensor:
        """What the rows of the target table receive along a route with several sources: (rows, d).

        Args:
            bridge: (rows, 2 d) keys and values of the bridge table.
            query: (rows, d) of the target table.
            behind: (rows, 2 d) of the table behind the bridge; None where there is none.
        """
        edges = leg.edges
        fused = take(bridge, edges.sent)  # (E', 2 d)
        if behind is not None and leg.behind is not None and leg.behind.is_item is not None:
            passed = take(behind, leg.behind)
            fused = fused + torch.where(leg.behind.is_item[:, None], passed, 0.0)
        key, value = fused.view(len(fused), 2, self.heads, -1).unbind(1)  # (E', H, d/H)
        asked = take(query, edges.received).view_as(key)
        score = (key * asked).sum(2) / math.sqrt(key.shape[2])
        score = score if leg.bias is None else score + leg.bias
        weights = softmax_among(score, edges.received).to(value.dtype)
        return total((weights[:, :, None] * value).flatten(1), edges.received)


def projected(
    layers: nn.ModuleList, tables: Mapping[int, int], h: list[Tensor]
) -> dict[int, Tensor]:
    """Some linear layers, each over the rows of a table; those over the same rows are one product.

    Args:
        tables: Numbers of layers, and the table that each is over.
    """
    out: dict[int, Tensor] = {}
    for table in dict.fromkeys(tables.values()):
        numbers = [number for number, other in tables.items() if other == table]
        linears: list[Any] = [layers[number] for number in numbers]
        weight = torch.cat([linear.weight for linear in linears])
        biases = [linear.bias for linear in linears if linear.bias is not None]
        product = functional.linear(h[table], weight, torch.cat(biases) if biases else None)
        widths = [len(linear.weight) for linear in linears]
        out.update(zip(numbers, torch.split(product, widths, dim=1)))
    return out
