"""`GelGTModel`: encoders → ③ refinement → ④ GNN ∥ ⑤ Gaussian attention → ⑥ fusion → head.

The formulas are written once, over `Rows` and `Tokens` (`nn/layout.py`): rows behind each other,
packed or in fixed shapes. Padding exists only inside the attention blocks, where it is masked. Norm
layers see one row at a time (or, in the paper's preset, running statistics in evaluation): a
prediction does not depend on the batch it is made in.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace

import torch
from torch import Tensor, nn

from gelgt.config import GelGTConfig, SamplingConfig
from gelgt.features import Features
from gelgt.graph import Graph
from gelgt.nn.attention import AttentionBlock, ReadOut, attend, choose_backend, pair_bias
from gelgt.nn.base import ModelContext, RelationalModel
from gelgt.nn.centroids import GlobalModule
from gelgt.nn.encoders import AgeEncoder, HopEncoder, Mixer, RecencyEncoder, RowEncoder
from gelgt.nn.gnn import GNNBranch
from gelgt.nn.layout import PackedTokens, Rows, Tokens
from gelgt.nn.rows import ModelInput
from gelgt.nn.static.form import StaticForm
from gelgt.nn.structure import StructureEncoder


class GelGTModel(RelationalModel):
    """The Gaussian Relational Graph Transformer."""

    config_type = GelGTConfig
    is_static = True

    def __init__(self, config: GelGTConfig, context: ModelContext) -> None:
        super().__init__(config, context)
        self.config: GelGTConfig = config
        width = config.width
        self.encoders = nn.ModuleDict(
            {name: self._make_encoder(name, len(context.graph.tables)) for name in config.encoders}
        )
        self.mixer = Mixer(len(config.encoders), width, config.dropout)
        self.biases = self.make_biases(min(1, config.layers))  # one for all blocks
        self.blocks = nn.ModuleList(AttentionBlock(config) for _ in range(config.layers))
        self.read_out = ReadOut(width) if config.layers else None
        self.gnn = (
            GNNBranch(width, config.gnn_layers, config.gnn_dropout) if config.gnn_layers else None
        )
        # η = sigmoid(balance)
        self.balance = (
            nn.Parameter(torch.zeros(())) if self.gnn is not None and config.layers else None
        )
        self.everyone = GlobalModule(width, config.centroids) if config.centroids else None
        self.add_head(context)

    def _make_encoder(self, name: str, tables: int) -> nn.Module:
        config = self.config
        if name == "table":
            return nn.Embedding(tables, config.width)
        if name == "hop":
            return HopEncoder(config.width)
        if name == "age":
            return AgeEncoder(config.width)
        if name == "recency":
            return RecencyEncoder(config.width)
        if name == "row":
            return RowEncoder(
                config.width, config.row_width, config.row_layers, config.norm, self.columns
            )
        return StructureEncoder(config.width, config.structure_width, config.norm)

    # The forward pass.
    def seed_vectors(self, inputs: Rows) -> Tensor:
        """What the head sees of each seed, its history and the global module included: (B, d)."""
        seeds = super().seed_vectors(inputs)
        return seeds if self.everyone is None else seeds + self.everyone(seeds, inputs.is_seed)

    def embed(self, inputs: Rows) -> Tensor:
        """⑥ Fusion of the branches: (B, d)."""
        tokens, passed = self.branches(inputs)
        if self.read_out is None:
            assert passed is not None  # the configuration has one branch at least
            return passed
        padded = attend(self.blocks, self.time_bias, tokens, self.config)
        attended: Tensor = self.read_out(padded, tokens.mask)
        if self.balance is None or passed is None:
            return attended
        share = torch.sigmoid(self.balance)
        return share * attended + (1 - share) * passed

    def branches(self, inputs: Rows) -> tuple[Tokens, Tensor | None]:
        """The tokens that attention sees, and the seeds (B, d) as message passing leaves them."""
        tokens = self.sampled_tokens(inputs)
        refined = tokens.refined(self.config.keep)
        if self.gnn is None:
            return refined, None
        if self.config.wiring == "stacked":
            return refined, tokens.at_seeds(tokens.h)
        messages = refined.messages(self.config.gnn_mean)
        return refined, self.gnn.at(refined.offsets[:-1], refined.h, messages)

    def sampled_tokens(self, inputs: Rows) -> Tokens:
        """All sampled rows, among which refinement chooses.

        Parallel branches both see the rows that refinement keeps. Stacked, message passing sees
        every sampled row, and refinement chooses among what it made of them.
        """
        tokens = inputs.tokens(self.encode(inputs))
        if self.gnn is None or self.config.wiring != "stacked":
            return tokens
        return replace(tokens, h=self.pass_messages(tokens))

    def pass_messages(self, tokens: Tokens) -> Tensor:
        """④ Message passing among tokens: (T, d)."""
        assert self.gnn is not None
        out: Tensor = self.gnn(tokens.h, tokens.messages(self.config.gnn_mean))
        return out

    def encode(self, inputs: Rows) -> Tensor:
        """Each row as a vector: (T, d)."""
        parts = [self._encoded(encoder, inputs) for encoder in self.encoders.values()]
        out: Tensor = self.mixer(parts)
        return out

    def _encoded(self, encoder: nn.Module, inputs: Rows) -> Tensor:
        """What one encoder makes of each row: (T, d)."""
        out: Tensor
        if isinstance(encoder, nn.Embedding):
            out = inputs.look_up(encoder, inputs.table)
        elif isinstance(encoder, HopEncoder):
            out = inputs.look_up(encoder.embedding, encoder.entry(inputs.hop))
        elif isinstance(encoder, RowEncoder):
            out = inputs.encoded(encoder)
        elif isinstance(encoder, StructureEncoder):
            noise = inputs.noise(self.config.structure_width, self.noise_seed)
            out = encoder(noise, inputs.neighbours(), inputs.normalise)
        elif isinstance(encoder, RecencyEncoder):
            entry = encoder.entry(inputs.recency(), inputs.has_time)
            out = encoder(inputs.look_up(encoder.rank, entry), inputs.age, inputs.has_time)
        else:
            out = encoder(inputs.age, inputs.has_time)
        return out

    # What it can do besides.
    @property
    def is_coupled(self) -> bool:
        return self.config.norm == "batch" or bool(self.config.centroids)

    @property
    def shows_attention(self) -> bool:
        return bool(self.config.layers)

    @torch.no_grad()
    def seed_attention(self, inputs: ModelInput) -> tuple[PackedTokens, Tensor]:
        """The mean over blocks and heads of the seed's own row of attention weights, over the rows
        that refinement keeps: (T,)."""
        tokens, weights = self.padded_attention(inputs)
        assert isinstance(tokens, PackedTokens)
        return tokens, weights[tokens.mask]

    @torch.no_grad()
    def padded_attention(self, inputs: Rows) -> tuple[Tokens, Tensor]:
        """The tokens that attention sees, and the same as a rectangle (B, N)."""
        tokens, _ = self.branches(inputs)
        x = tokens.padded(tokens.h)
        bias = pair_bias(self.time_bias, tokens, x.dtype)
        weights = []
        for block in self.blocks:
            assert isinstance(block, AttentionBlock)
            weights.append(block.seed_weights(x, bias))
            x = block(x, bias)
        return tokens, torch.stack(weights).mean(dim=(0, 2))

    @property
    def fusion_share(self) -> float | None:
        return None if self.balance is None else float(torch.sigmoid(self.balance.detach()))

    @property
    def backend(self) -> str:
        """Of attention, where the model's parameters are now."""
        return choose_backend(self.config, next(self.parameters()).device)[0]

    @property
    def backend_reason(self) -> str:
        return choose_backend(self.config, next(self.parameters()).device)[1]

    @property
    def facts(self) -> str:
        return f"attention by {self.backend}"

    @property
    def row_encoder(self) -> RowEncoder | None:
        encoder = dict(self.encoders.items()).get("row")
        return encoder if isinstance(encoder, RowEncoder) else None

    def static_form(
        self,
        graph: Graph,
        sampling: SamplingConfig,
        features: Features,
        hide: Mapping[str, Collection[str]],
    ) -> StaticForm:
        by_relation = self.config.gnn_mean == "relation"
        return StaticForm(self, self.row_encoder, graph, sampling, features, hide, by_relation)
