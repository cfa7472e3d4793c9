"""`rdl`: RelBench's baseline, heterogeneous GraphSAGE over PyTorch Frame's row vectors (Robinson et
al., RelBench, 2024).

Kept: a ResNet for each table over its columns; the age of a row, through a linear map of its table,
added to its vector; then layers of GraphSAGE with a weight matrix for each foreign key and
direction, whose results are added up, layer norm and ReLU; the seed is read. One matrix for each
table stands for the sum of the matrices that each relation has for the row itself: it is the same
function.

Simplified: neighbours are those of gelgt's sampler, so that all models see the same rows. The
published sampler takes up to 128 rows for each relation at the first hop and 64 at the second,
uniformly; here the newest `fanout` children of a row are taken (all relations together) up to
`budget` rows. The head is gelgt's.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from gelgt.config import ModelConfig
from gelgt.graph import Graph
from gelgt.nn.base import ModelContext, RelationalModel
from gelgt.nn.blocks import DirectedEdges
from gelgt.nn.dropout import Dropout
from gelgt.nn.encoders import RowEncoder
from gelgt.nn.layout import Rows, Tokens
from gelgt.nn.norms import LayerNorm
from gelgt.nn.static.shape import Extras
from gelgt.nn.sums import mean, take, total
from gelgt.zoo.parts import TokenEncoder, block_extras, direction_tables


class RDLConfig(ModelConfig):
    """RelBench's baseline.

    Attributes:
        layers: Of GraphSAGE; as many as hops reach the seed.
        aggregation: Of the messages of one relation: ``sum`` (RelBench's default) counts them,
            ``mean`` does not.
    """

    layers: int = Field(default=2, ge=1)
    aggregation: Literal["sum", "mean"] = "sum"


class RDL(RelationalModel):
    """Heterogeneous GraphSAGE."""

    config_type = RDLConfig
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
            "sampling": {"hops": 2, "budget": 128, "fanout": 64},
        },
        "gpu": {"sampling": {"hops": 2, "budget": 1024, "fanout": 128}},
        "paper": {
            "model": {"width": 128, "row_width": 128, "row_layers": 4, "dropout": 0.0},
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

    def __init__(self, config: RDLConfig, context: ModelContext) -> None:
        super().__init__(config, context)
        graph = context.graph
        self.config: RDLConfig = config
        self.pairs = direction_tables(graph.relations, graph.tables)
        self.tables = len(graph.tables)
        self.encoder = TokenEncoder(config, self.columns, graph.tables)
        self.layers = nn.ModuleList(
            HeteroSAGE(config, self.tables, len(self.pairs)) for _ in range(config.layers)
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
        h = blocks.split(tokens.h)
        for layer in self.layers:
            h = layer(h, directions)
        return tokens.at_seeds(blocks.join(h))


class HeteroSAGE(nn.Module):
    """One layer: for each table a matrix for the row itself (`root`), for each relation and
    direction one for what arrives along it."""

    def __init__(self, config: RDLConfig, tables: int, directions: int) -> None:
        super().__init__()
        self.gather = total if config.aggregation == "sum" else mean
        self.root = nn.ModuleList(nn.Linear(config.width, config.width) for _ in range(tables))
        self.arriving = nn.ModuleList(
            nn.Linear(config.width, config.width, bias=False) for _ in range(directions)
        )
        self.norms = nn.ModuleList(LayerNorm(config.width) for _ in range(tables))
        self.dropout = Dropout(config.dropout)

    def forward(self, h: list[Tensor], directions: list[DirectedEdges]) -> list[Tensor]:
        """For each table (rows, d) → (rows, d)."""
        out = [root(x) for root, x in zip(self.root, h)]
        for linear, edges in zip(self.arriving, directions):
            if len(edges):
                out[edges.target] = out[edges.target] + linear(
                    self.gather(take(h[edges.source], edges.sent), edges.received)
                )
        return [self.dropout(functional.relu(norm(x))) for norm, x in zip(self.norms, out)]
