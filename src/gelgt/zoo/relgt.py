"""`relgt`: the Relational Graph Transformer (Dwivedi et al., 2025), on gelgt's neighbourhoods.

Kept: each sampled row is a token of five elements (its columns, its table, its distance from the
seed, its age, its place in the subgraph), mixed by an MLP; local blocks let every token attend to
every other; a learned pooling reads the seed and its rows; beside them the seed attends to a
codebook of centroids that follow all seeds of training by moving averages; local and global
vectors, side by side, go through one more network to the head.

Simplified: the noise that the structure GNN starts from is keyed by seed and place instead of drawn
anew in every step, so that predictions repeat; layer norms stand where its code has batch norms, so
that a row does not depend on the rest of its batch; rows are gelgt's own samples
(`sampling.strategy=random` comes closest to RelGT's, which draws its K rows from two hops; the
presets use it).

The paper's generality experiment switches gelgt's parts on:
``--set sampling.strategy=bfs --set model.keep=200 --set model.bias=gaussian``.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from gelgt.config import AttentionConfig, GelGTConfig
from gelgt.nn.attention import AttentionBlock, ReadOut, attend, choose_backend
from gelgt.nn.base import ModelContext, RelationalModel
from gelgt.nn.centroids import GlobalModule
from gelgt.nn.dropout import Dropout
from gelgt.nn.encoders import AgeEncoder, HopEncoder, Mixer, RowEncoder
from gelgt.nn.layout import Rows
from gelgt.nn.norms import LayerNorm
from gelgt.nn.structure import StructureEncoder


class RelGTConfig(AttentionConfig):
    """RelGT; gelgt's bias and refinement (`bias`, `keep`) are off unless they are asked for.

    Attributes:
        layers: Local attention blocks.
        attention_dropout: Of attention weights; as `dropout` if None.
        backend: Of attention: ``auto``, ``reference``, ``sdpa`` or ``fused`` (CUDA, or Triton's
            interpreter).
        structure_width: Width of the structure GNN and of the noise it starts from.
        centroids: Of the global module; 0 leaves the local blocks alone.
    """

    layers: int = Field(default=4, ge=1)
    attention_dropout: float | None = Field(default=None, ge=0, lt=1)
    backend: Literal["auto", "reference", "sdpa", "fused"] = "auto"
    structure_width: int = Field(default=64, ge=64, multiple_of=64)
    centroids: int = Field(default=4096, ge=0)

    def as_gelgt(self) -> GelGTConfig:
        """The same blocks in the terms of gelgt's own configuration, which its attention reads."""
        shared = {
            name: getattr(self, name)
            for name in type(self).model_fields
            if name in GelGTConfig.model_fields
        }
        return GelGTConfig(**shared)


class RelGT(RelationalModel):
    """Five-element tokens, full attention over them, and a global codebook beside it."""

    config_type = RelGTConfig
    is_static = True
    presets: ClassVar[Mapping[str, Mapping[str, Mapping[str, Any]]]] = {
        "cpu": {
            "model": {
                "width": 64,
                "layers": 1,
                "centroids": 256,
                "attention_dropout": 0.0,
                "row_width": 16,
                "row_layers": 1,
                "row_names": False,
                "row_times": False,
            },
            "sampling": {"strategy": "random", "budget": 80, "fanout": None},
        },
        "gpu": {
            "model": {"width": 256, "layers": 2, "row_width": 64, "row_layers": 2},
            "sampling": {"strategy": "random", "budget": 300},
        },
        "paper": {
            "model": {
                "width": 512,
                "layers": 4,
                "heads": 4,
                "dropout": 0.3,
                "row_width": 128,
                "row_layers": 4,
                "structure_width": 128,
            },
            "sampling": {"strategy": "random", "budget": 300, "hops": 2},
            "train": {"batch_size": 256},
        },
    }

    def __init__(self, config: RelGTConfig, context: ModelContext) -> None:
        super().__init__(config, context)
        self.config: RelGTConfig = config
        self.blocks_config = config.as_gelgt()
        width = config.width
        self.row = RowEncoder(width, config.row_width, config.row_layers, "layer", self.columns)
        self.table = nn.Embedding(len(context.graph.tables), width)
        self.hop, self.age = HopEncoder(width), AgeEncoder(width)
        self.structure = StructureEncoder(width, config.structure_width, "layer")
        self.mixer = Mixer(5, width, config.dropout)
        self.biases = self.make_biases(1)
        self.blocks = nn.ModuleList(
            AttentionBlock(self.blocks_config) for _ in range(config.layers)
        )
        self.pool = ReadOut(width)
        self.everyone = GlobalModule(width, config.centroids) if config.centroids else None
        sides = 2 if self.everyone is not None else 1
        self.join = nn.Sequential(
            LayerNorm(sides * width),
            nn.Linear(sides * width, width),
            nn.GELU(),
            Dropout(config.dropout),
        )
        self.add_head(context)

    @property
    def is_coupled(self) -> bool:
        return self.everyone is not None  # the centroids follow all seeds of a step together

    @property
    def facts(self) -> str:
        return f"attention by {choose_backend(self.blocks_config, self.table.weight.device)[0]}"

    @property
    def row_encoder(self) -> RowEncoder:
        return self.row

    def embed(self, inputs: Rows) -> Tensor:
        """Seed vectors (B, d)."""
        tokens = inputs.tokens(self.encode(inputs)).refined(self.config.keep)
        attended = attend(self.blocks, self.time_bias, tokens, self.blocks_config)
        sides = [self.pool(attended, tokens.mask)]
        if self.everyone is not None:
            sides.append(self.everyone(tokens.at_seeds(tokens.h), inputs.is_seed))
        out: Tensor = self.join(torch.cat(sides, dim=1))
        return out

    def encode(self, inputs: Rows) -> Tensor:
        """The five elements of each row, mixed: (T, d)."""
        noise = inputs.noise(self.config.structure_width, self.noise_seed)
        elements = [
            inputs.encoded(self.row),
            inputs.look_up(self.table, inputs.table),
            inputs.look_up(self.hop.embedding, self.hop.entry(inputs.hop)),
            self.age(inputs.age, inputs.has_time),
            self.structure(noise, inputs.neighbours(), inputs.normalise),
        ]
        out: Tensor = self.mixer(elements)
        return out
