"""`griffin`: cells as tokens, and messages by a mean within and a maximum across relations (Wang et
al., Griffin, 2025).

    row ← row + attention(query: row, keys: names of its columns, values: its cells)
    row ← row + max over relations of  E_relation ⊙ mean over neighbours(W · row)

Kept: a row is not a fixed mix of its columns. In every layer it asks its cells anew, by the names
of their columns, and its question is what it knows so far; it starts from a vector that stands for
task and table. Messages are averaged within each relation and direction, so that a hub does not
drown the rest, and the largest is taken across them. All neighbours count: presets set large
budgets, `paper` takes the whole neighbourhood (`strategy` ``full``).

Simplified: Griffin is pretrained across databases and reads names and values with a language model.
Here one model is trained for one task, so names, relations and the task are learned vectors, and
values go through PyTorch Frame's column encoders. The age of a row is one more cell. The head is
gelgt's.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn
from torch_frame import NAStrategy, stype
from torch_frame.nn import (
    EmbeddingEncoder,
    LinearEmbeddingEncoder,
    LinearEncoder,
    MultiCategoricalEmbeddingEncoder,
    StypeWiseFeatureEncoder,
    TimestampEncoder,
)

from gelgt.config import AttentionConfig
from gelgt.errors import GelgtError
from gelgt.graph import Graph
from gelgt.nn.base import ModelContext, RelationalModel
from gelgt.nn.blocks import Blocks, DirectedEdges
from gelgt.nn.dropout import Dropout
from gelgt.nn.encoders import AgeEncoder, TableColumns
from gelgt.nn.layout import Rows, Tokens
from gelgt.nn.norms import LayerNorm
from gelgt.nn.static.shape import Extras
from gelgt.nn.sums import mean, take
from gelgt.zoo.parts import block_extras, direction_tables


class GriffinConfig(AttentionConfig):
    """Griffin. Heads attend over the cells of a row, where there are no ages to compare: `bias` can
    only be ``none``.

    Attributes:
        layers: Of asking the cells and passing messages.
    """

    layers: int = Field(default=3, ge=1)

    def model_post_init(self, context: object) -> None:
        super().model_post_init(context)
        if self.row_width % self.heads:
            raise GelgtError(
                "bad_config",
                f"row_width = {self.row_width} is no multiple of heads = {self.heads}.",
                hint="Choose another row_width.",
            )
        if self.bias != "none":
            raise GelgtError(
                "bad_config",
                f"bias = {self.bias!r} has no place: Griffin attends over cells, not over rows.",
                hint="Set none.",
            )


class Griffin(RelationalModel):
    """Cell attention and hierarchical aggregation."""

    config_type = GriffinConfig
    is_static = True
    presets: ClassVar[Mapping[str, Mapping[str, Mapping[str, Any]]]] = {
        "cpu": {
            "model": {
                "width": 64,
                "row_width": 16,
                "row_layers": 1,
                "layers": 2,
                "row_names": False,
                "row_times": False,
            },
            "sampling": {"hops": 2, "budget": 160, "fanout": None},
        },
        "gpu": {"sampling": {"hops": 2, "budget": 2048, "fanout": None}},
        "paper": {
            "model": {"width": 512, "row_width": 128, "layers": 4, "heads": 8, "dropout": 0.0},
            "sampling": {"strategy": "full", "hops": 2, "fanout": None},
            "train": {"epochs": 10, "batch_size": 64, "rate": 3e-4, "weight_decay": 2e-4},
        },
    }

    def __init__(self, config: GriffinConfig, context: ModelContext) -> None:
        super().__init__(config, context)
        graph = context.graph
        self.config: GriffinConfig = config
        self.pairs = direction_tables(graph.relations, graph.tables)
        self.names = list(graph.tables)
        self.start_vectors = nn.Embedding(len(self.names), config.width)  # of task and table
        self.cells = nn.ModuleList(Cells(config, self.columns[name]) for name in self.names)
        self.age = AgeEncoder(config.row_width)
        self.layers = nn.ModuleList(
            GriffinLayer(config, len(self.pairs)) for _ in range(config.layers)
        )
        self.add_head(context)

    @property
    def row_encoder(self) -> "CellEncoders":
        return CellEncoders(self.names, [cells.values for cells in self.cells])

    def extras(self, graph: Graph) -> Extras:
        return block_extras(graph)

    def embed(self, inputs: Rows) -> Tensor:
        """Seed vectors (B, d)."""
        h = inputs.look_up(self.start_vectors, inputs.table)
        tokens, distinct = inputs.tokens(h), inputs.cells(self.row_encoder)
        blocks = tokens.blocks(len(self.names))
        if self.config.keep is not None:
            cells = self.read(tokens, blocks, inputs, distinct)
            asked = self.layers[0].ask(self.start_rows(blocks), *cells)  # type: ignore[operator]
            tokens = replace(tokens, h=blocks.by_row(asked)).refined(self.config.keep)
            blocks = tokens.blocks(len(self.names))
        directions = tokens.directions(blocks, self.pairs)
        cells = self.read(tokens, blocks, inputs, distinct)
        x = self.start_rows(blocks)
        for layer in self.layers:
            x = layer(x, *cells, directions)
        return tokens.at_seeds(blocks.by_row(x))

    def start_rows(self, blocks: Blocks) -> Tensor:
        """What rows know before they have asked, block by block: (R, d)."""
        starts = zip(self.start_vectors.weight.unbind(0), blocks.sizes)
        return torch.cat([start.expand(rows, -1) for start, rows in starts])

    def read(
        self, tokens: Tokens, blocks: Blocks, inputs: Rows, distinct: Sequence[Tensor | None]
    ) -> tuple[list[Tensor], list[Tensor]]:
        """For each table the cells of its rows (rows, columns, w), the age last, and the vectors of
        its columns' names (columns, w).

        Args:
            distinct: For each table the cells of its distinct rows (U, columns, w).
        """
        cells, names = [], []
        times = zip(blocks.read(tokens.age), blocks.read(tokens.has_time))
        rows = zip(distinct, inputs.distinct(tokens, blocks))
        for encoder, (age, has_time), (values, index) in zip(self.cells, times, rows):
            assert isinstance(encoder, Cells)
            last = self.age(age, has_time)[:, None]  # (rows, 1, w)
            if values is None or index is None:
                cells.append(last)
                names.append(encoder.names[-1:])
                continue
            mixed = encoder(values)
            columns = take(mixed.flatten(1), index).view(len(age), *mixed.shape[1:])
            cells.append(torch.cat([columns, last.to(mixed.dtype)], dim=1))
            names.append(encoder.names)
        return cells, names


class CellEncoders(NamedTuple):
    """The column encoders of each table (`gelgt.nn.encoders.ColumnEncoders`)."""

    names: list[str]
    columns: list[Any]


class Cells(nn.Module):
    """The cells of a table's rows as vectors, and a vector for the name of each column, that of the
    age last."""

    def __init__(self, config: GriffinConfig, columns: TableColumns) -> None:
        super().__init__()
        width = config.row_width
        encoders = {
            stype.categorical: EmbeddingEncoder(),
            stype.numerical: LinearEncoder(na_strategy=NAStrategy.MEAN),
            stype.multicategorical: MultiCategoricalEmbeddingEncoder(),
            stype.embedding: LinearEmbeddingEncoder(),
            stype.timestamp: TimestampEncoder(),
        }
        used = {kind: encoders[kind] for kind in columns.names}
        self.values = StypeWiseFeatureEncoder(width, columns.stats, columns.names, used)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                LayerNorm(width), nn.Linear(width, width), nn.GELU(), nn.Linear(width, width)
            )
            for _ in range(config.row_layers)
        )
        self.names = nn.Parameter(torch.randn(sum(map(len, columns.names.values())) + 1, width))

    def forward(self, x: Tensor) -> Tensor:
        """What `values` makes of each cell, through the blocks: (U, columns, w) → the same."""
        for block in self.blocks:
            x = x + block(x)
        return x


class GriffinLayer(nn.Module):
    """Ask the cells, then the neighbours."""

    def __init__(self, config: GriffinConfig, directions: int) -> None:
        super().__init__()
        width, cell, self.heads = config.width, config.row_width, config.heads
        self.question = nn.Sequential(
            LayerNorm(width), nn.Linear(width, width), nn.GELU(), nn.Linear(width, cell)
        )
        self.answer = nn.Linear(cell, width)
        self.message = nn.Sequential(LayerNorm(width), nn.Linear(width, width))
        self.relations = nn.Parameter(
            torch.ones(directions, width) + 0.1 * torch.randn(directions, width)
        )
        self.feed = nn.Sequential(
            LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )
        self.dropout = Dropout(config.dropout)

    def forward(
        self,
        h: Tensor,
        cells: list[Tensor],
        names: list[Tensor],
        directions: list[DirectedEdges],
    ) -> Tensor:
        """The rows of all tables behind each other: (R, d) → (R, d)."""
        h = self.ask(h, cells, names)
        h = h + self.dropout(self.arriving(h, directions, [len(rows) for rows in cells]))
        out: Tensor = h + self.dropout(self.feed(h))
        return out

    def ask(self, h: Tensor, cells: list[Tensor], names: list[Tensor]) -> Tensor:
        """Rows with what they find in their cells: (R, d) → (R, d)."""
        questions = torch.split(self.question(h), [len(rows) for rows in cells])
        answers = torch.cat([self._answer(*table) for table in zip(questions, cells, names)])
        out: Tensor = h + self.dropout(self.answer(answers))
        return out

    def _answer(self, question: Tensor, cells: Tensor, names: Tensor) -> Tensor:
        """What the cells of one table say: (rows, w) → (rows, w)."""
        query = question.view(len(question), self.heads, question.shape[1] // self.heads)
        key = names.to(query.dtype).view(len(names), self.heads, -1)  # (columns, H, w/H)
        weights = torch.softmax(
            torch.einsum("nhi,chi->nhc", query, key) / math.sqrt(key.shape[2]), dim=2
        ).to(cells.dtype)
        # (rows, columns, H, w/H)
        value = cells.view(*cells.shape[:2], self.heads, cells.shape[2] // self.heads)
        return (weights.transpose(1, 2)[..., None] * value).sum(1).flatten(1)

    def arriving(self, h: Tensor, directions: list[DirectedEdges], sizes: list[int]) -> Tensor:
        """The mean of each relation's messages, the largest of all relations; 0 where there is no
        neighbour: (R, d) → (R, d).

        Args:
            sizes: Rows of each table.
        """
        sent = torch.split(self.message(h), sizes)
        gates = self.relations.to(sent[0].dtype).unbind(0)
        best: list[Tensor | None] = [None for _ in sizes]
        for edges, gate in zip(directions, gates):
            if len(edges):
                means = mean(take(sent[edges.source], edges.sent), edges.received)
                means = (means * gate).masked_fill(edges.received.is_empty, -torch.inf)
                before = best[edges.target]
                best[edges.target] = means if before is None else torch.maximum(before, means)
        largest = torch.cat([torch.zeros_like(x) if b is None else b for x, b in zip(sent, best)])
        return torch.where(largest == -torch.inf, 0.0, largest)
