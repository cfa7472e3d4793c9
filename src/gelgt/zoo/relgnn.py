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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from gelgt.config import AttentionConfig
from gelgt.features import Features
from gelgt.graph import Graph
from gelgt.graph.store import Relation
from gelgt.nn.base import RelationalModel
from gelgt.nn.dropout import Dropout
from gelgt.nn.norms import LayerNorm
from gelgt.nn.rows import ModelInput
from gelgt.zoo.hgt import way_biases
from gelgt.zoo.parts import (
    Blocks,
    Index,
    KeyWay,
    TokenEncoder,
    key_ways,
    seeds_of,
    shares,
    take,
    total,
    way_tables,
)


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
        way: Its last edge, from the bridge row (or the only source) to the target: a number of
            `way_tables`.
        key: The relation by which the bridge row names the source; None where there is no bridge.
    """

    way: int
    key: int | None = None


def atomic_routes(relations: Sequence[Relation]) -> list[Route]:
    """The routes of a schema, in a fixed order.

    Example:
        >>> orders = [Relation("orders", "customer_id", "customers"), Relation("orders", "product_id", "products")]
        >>> [(route.way, route.key) for route in atomic_routes(orders)]
        [(0, 1), (1, None), (2, 0), (3, None)]
    """
    found = []
    for number, relation in enumerate(relations):
        others = [
            other
            for other, r in enumerate(relations)
            if r.child == relation.child and other != number
        ]
        found += [Route(2 * number, other) for other in others] or [Route(2 * number)]
        found.append(Route(2 * number + 1))
    return found


class RelGNN(RelationalModel):
    """Attention along atomic routes."""

    config_type = RelGNNConfig
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

    def __init__(
        self,
        config: RelGNNConfig,
        graph: Graph,
        features: Features,
        outputs: int = 1,
        hide: Mapping[str, Iterable[str]] | None = None,
        noise_seed: int = 0,
    ) -> None:
        super().__init__(config, graph, features, outputs, hide, noise_seed)
        self.pairs = way_tables(graph.relations, graph.tables)
        self.tables = len(graph.tables)
        self.routes = atomic_routes(graph.relations)
        self.encoder = TokenEncoder(config, self.columns, graph.tables)
        self.biases = self.make_biases(1)
        self.layers = nn.ModuleList(
            RelGNNLayer(config, self.tables, self.routes) for _ in range(config.layers)
        )
        self.head = self.make_head(outputs)

    def embed(self, inputs: ModelInput) -> Tensor:
        """Seed vectors (B, d)."""
        tokens = self.encoder(inputs)
        blocks = Blocks.of(tokens, self.tables)
        ways = key_ways(tokens, blocks, self.pairs)
        biases = way_biases(self.time_biases(), tokens, blocks, ways)
        legs = [Leg.of(route, ways, biases[route.way]) for route in self.routes]
        h = blocks.split(tokens.h)
        for layer in self.layers:
            h = layer(h, legs)
        return seeds_of(tokens, blocks.join(h))


@dataclass(frozen=True)
class Leg:
    """A route in a batch: E' bridge rows, or single sources, that reach a target.

    Attributes:
        way: The edges from them to their targets.
        source: The table behind the bridge.
        behind: (E'') rows of that table, for the edges that have one.
        has_source: (E'',) which edges those are.
        bias: (E', H) of attention.
    """

    way: KeyWay
    source: int | None
    behind: Index | None
    has_source: Tensor
    bias: Tensor | None

    @classmethod
    def of(cls, route: Route, ways: list[KeyWay], bias: Tensor | None) -> "Leg":
        way = ways[route.way]
        if route.key is None:
            return cls(way, None, None, way.sent.rows[:0], bias)
        other = ways[2 * route.key]  # from the same bridge rows to the source
        # (bridge rows,); a row has one parent by a key at most
        parent = torch.full_like(way.sent.starts, -1)
        parent[other.sent.rows] = other.received.rows
        behind = parent[way.sent.rows]
        has_source = torch.nonzero(behind >= 0).flatten()
        return cls(
            way,
            other.target,
            Index.of(behind[has_source], len(other.received.starts)),
            has_source,
            bias,
        )


class RelGNNLayer(nn.Module):
    """One step along every route."""

    def __init__(self, config: RelGNNConfig, tables: int, routes: Sequence[Route]) -> None:
        super().__init__()
        width, self.heads = config.width, config.heads
        self.own = nn.ModuleList(nn.Linear(width, width) for _ in range(tables))
        self.norms = nn.ModuleList(LayerNorm(width) for _ in range(tables))
        # From parent to child there is one source and nothing to choose among: values alone, no
        # keys and queries.
        self.is_single = [route.way % 2 == 1 for route in routes]
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
        out = [own(x) for own, x in zip(self.own, h)]
        for number, leg in enumerate(legs):
            if len(leg.way):
                out[leg.way.target] = out[leg.way.target] + self._arriving(number, h, leg)
        return [self.dropout(functional.relu(norm(x))) for norm, x in zip(self.norms, out)]

    def _arriving(self, number: int, h: list[Tensor], leg: Leg) -> Tensor:
        """What the rows of the target table receive along a route: (rows, d)."""
        way = leg.way
        if self.is_single[number]:
            return total(take(self.bridge[number](h[way.source]), way.sent), way.received)
        fused = take(self.bridge[number](h[way.source]), way.sent)  # (E', 2 d), keys and values
        if leg.source is not None and leg.behind is not None:
            passed = take(self.behind[number](h[leg.source]), leg.behind)  # (E'', 2 d)
            fused = fused.index_add(0, leg.has_source, passed.to(fused.dtype))
        key, value = fused.view(len(fused), 2, self.heads, -1).unbind(1)  # (E', H, d/H)
        query = take(self.queries[number](h[way.target]), way.received).view_as(key)
        score = (key * query).sum(2) / math.sqrt(key.shape[2])
        weights = shares(score if leg.bias is None else score + leg.bias, way.received).to(
            value.dtype
        )
        return total((weights[:, :, None] * value).flatten(1), way.received)
