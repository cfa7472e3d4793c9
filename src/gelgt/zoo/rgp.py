"""`rgp`: the Relational Graph Perceiver (Lachi et al., 2025), on gelgt's neighbourhoods.

Kept: the rows around a seed come from two contexts, the rows that foreign keys lead to and the rows
that are near in time, linked or not (`sampling.strategy=recent`: half of the budget by
breadth-first search, half the newest rows of any table); a fixed number of learned latent vectors
attends to the tokens of both, so the cost is linear in the rows; the latents attend to each other;
a query of the task reads the answer from them.

    latents (L, d) ── attend to ──► tokens (N, d)      L · N pairs, once
    latents ── attend to ──► latents                   L · L pairs, `layers` times
    query (task + seed) ── attends to ──► latents      → (d,)

Simplified: nearness in time is that of rows, not of edges; one task at a time, so the query is one
learned vector, to which the seed's own token is added, since the latents are few and the seed is
one row of many; tokens are row, table, hop, age and context, without the original's further
position encodings. gelgt's bias over time (`model.bias=gaussian`) can be added to the first
attention: the latents stand at the seed time, so Δt is the age of a row.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from gelgt.config import AttentionConfig
from gelgt.nn.attention import FFN_RATIO, reference_attention, sdpa_attention
from gelgt.nn.base import ModelContext, RelationalModel
from gelgt.nn.dropout import Dropout
from gelgt.nn.encoders import AgeEncoder, HopEncoder, Mixer, RowEncoder
from gelgt.nn.layout import Rows, Tokens
from gelgt.nn.norms import LayerNorm


class RGPConfig(AttentionConfig):
    """The perceiver.

    Attributes:
        latents: Learned vectors that gather what the rows say.
        layers: Blocks in which they attend to each other.
    """

    latents: int = Field(default=32, ge=1)
    layers: int = Field(default=2, ge=0)


class RGP(RelationalModel):
    """Latents between the rows of two contexts and the query of a task."""

    config_type = RGPConfig
    is_static = True
    # The paper's own values are not listed in gelgt's paper; `paper` has the width, budget and
    # training of the others beside it.
    presets: ClassVar[Mapping[str, Mapping[str, Mapping[str, Any]]]] = {
        "cpu": {
            "model": {
                "width": 64,
                "latents": 16,
                "layers": 1,
                "row_width": 16,
                "row_layers": 1,
                "row_names": False,
                "row_times": False,
            },
            "sampling": {"strategy": "recent", "budget": 128},
        },
        "gpu": {"model": {"width": 256}, "sampling": {"strategy": "recent", "budget": 600}},
        "paper": {
            "model": {"width": 512, "layers": 4, "dropout": 0.3, "row_width": 128, "row_layers": 4},
            "sampling": {"strategy": "recent", "budget": 600},
        },
    }

    def __init__(self, config: RGPConfig, context: ModelContext) -> None:
        super().__init__(config, context)
        self.config: RGPConfig = config
        width = config.width
        self.row = RowEncoder(width, config.row_width, config.row_layers, "layer", self.columns)
        self.table = nn.Embedding(len(context.graph.tables), width)
        self.hop, self.age = HopEncoder(width), AgeEncoder(width)
        self.context = nn.Embedding(2, width)
        self.mixer = Mixer(5, width, config.dropout)
        self.latents = nn.Parameter(torch.randn(config.latents, width) * width**-0.5)
        self.query = nn.Parameter(torch.randn(width) * width**-0.5)
        self.biases = self.make_biases(1)
        self.gather = CrossAttention(config)
        self.blocks = nn.ModuleList(CrossAttention(config) for _ in range(config.layers))
        self.read = CrossAttention(config)
        self.add_head(context)

    @property
    def row_encoder(self) -> RowEncoder:
        return self.row

    def embed(self, inputs: Rows) -> Tensor:
        """Seed vectors (B, d)."""
        tokens = inputs.tokens(self.encode(inputs)).refined(self.config.keep)
        x = tokens.padded(tokens.h)
        latents = self.latents.to(x.dtype).expand(len(x), -1, -1)  # (B, L, d)
        latents = self.gather(latents, x, self.closed(tokens))
        for block in self.blocks:
            latents = block(latents, latents)
        query = tokens.at_seeds(tokens.h)[:, None] + self.query  # (B, 1, d)
        out: Tensor = self.read(query, latents)
        return out.squeeze(1)

    def encode(self, inputs: Rows) -> Tensor:
        """The elements of each row, mixed: (T, d)."""
        elements = [
            inputs.encoded(self.row),
            inputs.look_up(self.table, inputs.table),
            inputs.look_up(self.hop.embedding, self.hop.entry(inputs.hop)),
            self.age(inputs.age, inputs.has_time),
            inputs.look_up(self.context, is_linked(inputs).int()),
        ]
        out: Tensor = self.mixer(elements)
        return out

    def closed(self, tokens: Tokens) -> Tensor:
        """What the latents' scores get added: the bias over time, if any, and -∞ on padding: (B, H
        or 1, 1, N)."""
        open_to_all = torch.zeros(tokens.mask.shape, device=tokens.mask.device)
        closed = open_to_all.masked_fill(~tokens.mask, float("-inf"))[:, None, None]
        if self.time_bias is None:
            return closed
        age, has_time = tokens.padded_times()
        scores = self.time_bias.scores(age[:, None])  # (B, H, 1, N): the latents have age 0
        return closed + torch.where(has_time[:, None, None], scores, 0.0)


class CrossAttention(nn.Module):
    """x + Attention(LN(x), LN(context)), then x + FFN(LN(x)); over itself where the context is
    x."""

    def __init__(self, config: RGPConfig) -> None:
        super().__init__()
        width, hidden = config.width, FFN_RATIO * config.width
        self.heads, self.rate = config.heads, config.dropout
        self.norm_x, self.norm_context, self.norm_ffn = (
            LayerNorm(width),
            LayerNorm(width),
            LayerNorm(width),
        )
        self.q, self.kv, self.out = (
            nn.Linear(width, width),
            nn.Linear(width, 2 * width),
            nn.Linear(width, width),
        )
        self.ffn = nn.Sequential(
            nn.Linear(width, hidden), nn.GELU(), Dropout(config.dropout), nn.Linear(hidden, width)
        )
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Tensor, context: Tensor, bias: Tensor | None = None) -> Tensor:
        """(B, L, d), (B, N, d), (B, H or 1, 1, N) → (B, L, d)."""
        q = self.q(self.norm_x(x)).unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (B, H, L, d/H)
        k, v = (
            self.kv(self.norm_context(context))
            .unflatten(-1, (2, self.heads, -1))
            .permute(2, 0, 3, 1, 4)
        )
        # CUDA kernels want the last axis written out
        open_to_all = q.new_zeros(1, 1, 1, k.shape[2])
        rate = self.rate if self.training else 0.0
        # Attention that drops weights is written out: PyTorch's own draws from a generator that all
        # recorded steps share.
        attend = reference_attention if rate else sdpa_attention
        attended = attend(q, k, v, open_to_all if bias is None else bias, rate).to(q.dtype)
        x = x + self.dropout(self.out(attended.transpose(1, 2).flatten(2)))
        out: Tensor = x + self.dropout(self.ffn(self.norm_ffn(x)))
        return out


def is_linked(rows: Rows) -> Tensor:
    """(T,) which rows foreign keys lead to, step by step from the seed; the others only time has
    brought.

    A row is linked if a key joins it to a row that is nearer to the seed. The seed is.
    """
    return (rows.hop == 0) | rows.links().is_nearer(rows.hop)
