"""`nodeformer`: all-pair attention at linear cost (NodeFormer; Wu et al., 2022), within each seed's
subgraph.

Kept: softmax attention of every row to every row, with its exponential kernel replaced by m
positive random features φ, so that sums over rows are taken once and not for each pair; Gumbel
noise g on the keys in training, which makes attention a relaxed choice of neighbours; and a
relational bias, by which the rows at the other end of a foreign key are added with a learned
strength.

    φ(x)_i = exp(w_i · x - |x|²/2)                                    E φ(q)·φ(k) = exp(q · k)
    z_u    = φ(q_u)ᵀ Σ_v e^{g_v/τ} φ(k_v) v_vᵀ / φ(q_u)ᵀ Σ_v e^{g_v/τ} φ(k_v) + Σ_{v linked to u}
           sigmoid(b) v_v / √(degree_u degree_v)

with q and k divided by τ^½ · (d/H)^¼, so that q·k is the usual score over the temperature τ.

Simplified: pairs are those of one subgraph, not of the whole database, so that a prediction knows
nothing of its batch; the random directions w are drawn once and kept with the weights, not anew in
each step, so that predictions repeat; the strength b of the bias is one for each head, foreign key
and direction, where the original has one for each power of its single adjacency matrix; the loss
that rewards attention along edges is left out. gelgt's bias over time needs scores of pairs, which
are never formed here.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from gelgt.config import ModelConfig
from gelgt.errors import GelgtError
from gelgt.graph import Graph
from gelgt.nn.base import ModelContext, RelationalModel
from gelgt.nn.blocks import Links
from gelgt.nn.dropout import Dropout, uniform_like
from gelgt.nn.encoders import RowEncoder
from gelgt.nn.layout import Rows, Tokens
from gelgt.nn.norms import LayerNorm
from gelgt.nn.static.ops import picked
from gelgt.nn.static.shape import Extras
from gelgt.nn.sums import take, total
from gelgt.zoo.parts import TokenEncoder, block_extras

LEAST = -1e30  # of a subgraph without rows: -∞ + ∞ is no number
FLOOR = 1e-6  # of a random feature, whose largest is 1: no row may divide by nothing


class NodeFormerConfig(ModelConfig):
    """NodeFormer.

    Attributes:
        layers: Of all-pair attention.
        heads: H.
        directions: m, random features of a head; more of them come closer to softmax.
        temperature: τ of the Gumbel softmax; smaller is nearer to choosing one row.
        samples: Draws of the Gumbel noise in a training step, whose results are averaged.
        has_links: Whether the relational bias is there.
    """

    layers: int = Field(default=2, ge=1)
    heads: int = Field(default=4, ge=1)
    directions: int = Field(default=30, ge=1)
    temperature: float = Field(default=0.25, gt=0)
    samples: int = Field(default=5, ge=1)
    has_links: bool = True

    def model_post_init(self, context: object) -> None:
        if self.width % self.heads:
            raise GelgtError(
                "bad_config",
                f"width = {self.width} is no multiple of heads = {self.heads}.",
                hint="Choose another width.",
            )


class NodeFormer(RelationalModel):
    """Layers of kernelised attention over the rows of a subgraph."""

    config_type = NodeFormerConfig
    is_static = True
    presets: ClassVar[Mapping[str, Mapping[str, Mapping[str, Any]]]] = {
        "cpu": {
            "model": {
                "width": 64,
                "samples": 1,
                "row_width": 16,
                "row_layers": 1,
                "row_names": False,
                "row_times": False,
            },
            "sampling": {"budget": 128},
        },
        "gpu": {"model": {"width": 256}, "sampling": {"budget": 600}},
        "paper": {
            "model": {"width": 128, "layers": 2, "samples": 10, "row_width": 128, "row_layers": 4},
            "sampling": {"budget": 300},
        },
    }

    def __init__(self, config: NodeFormerConfig, context: ModelContext) -> None:
        super().__init__(config, context)
        graph = context.graph
        self.config: NodeFormerConfig = config
        self.encoder = TokenEncoder(config, self.columns, graph.tables)
        self.layers = nn.ModuleList(
            NodeFormerLayer(config, len(graph.relations)) for _ in range(config.layers)
        )
        self.add_head(context)

    @property
    def row_encoder(self) -> RowEncoder:
        return self.encoder.rows

    def extras(self, graph: Graph) -> Extras:
        return replace(block_extras(graph), has_kinds=self.config.has_links)

    def embed(self, inputs: Rows) -> Tensor:
        """Seed vectors (B, d)."""
        tokens: Tokens = self.encoder(inputs)
        links = tokens.links() if self.config.has_links else None
        for layer in self.layers:
            tokens = replace(tokens, h=layer(tokens, links))
        return tokens.at_seeds(tokens.h)


class NodeFormerLayer(nn.Module):
    """Attention of all pairs and along links, then a linear map, a residual connection, layer norm
    and ELU."""

    directions: Tensor

    def __init__(self, config: NodeFormerConfig, relations: int) -> None:
        super().__init__()
        width, self.heads = config.width, config.heads
        self.temperature, self.samples = config.temperature, config.samples
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        # b
        self.strength = (
            nn.Parameter(torch.zeros(max(1, 2 * relations), config.heads))
            if config.has_links
            else None
        )
        self.norm, self.dropout = LayerNorm(width), Dropout(config.dropout)
        self.register_buffer(
            "directions", random_directions(config.directions, width // config.heads)
        )

    def forward(self, tokens: Tokens, links: Links | None) -> Tensor:
        """→ (T, d)."""
        qkv: Tensor = self.qkv(tokens.h)
        q, k, v = qkv.view(len(qkv), 3, self.heads, -1).unbind(1)  # (T, H, d/H)
        with torch.autocast(q.device.type, enabled=False):
            z = self.all_pairs(q.float(), k.float(), v.float(), tokens)
            if links is not None and self.strength is not None:
                z = z + self.along(links, v.float(), self.strength)
        out: Tensor = self.dropout(functional.elu(self.norm(tokens.h + self.out(z.flatten(1)))))
        return out

    def all_pairs(self, q: Tensor, k: Tensor, v: Tensor, tokens: Tokens) -> Tensor:
        """Kernelised softmax attention within each subgraph: (T, H, d/H) each → (T, H, d/H)."""
        scale = self.temperature**-0.5 * q.shape[-1] ** -0.25
        query, key = self.exponents(scale * q), self.exponents(scale * k)  # (T, H, m)
        query = (query - query.detach().amax(-1, keepdim=True)).exp() + FLOOR

        def side_by_side(x: Tensor) -> Tensor:  # (T, H, n) → (B, H, N, n)
            padded = tokens.padded(x.flatten(1))
            return padded.view(*tokens.mask.shape, self.heads, -1).transpose(1, 2)

        out = self.attended(
            side_by_side(query), side_by_side(key), side_by_side(v), tokens.mask[:, None, :, None]
        )
        return tokens.unpadded(out.transpose(1, 2).flatten(2)).view(v.shape)

    def attended(self, query: Tensor, key: Tensor, value: Tensor, there: Tensor) -> Tensor:
        """The mean of all draws: φ(q) (B, H, N, m), exponents of φ(k), values (B, H, N, d/H), rows
        (B, 1, N, 1) → (B, H, N, d/H).

        Draws lie beside each other, so that one product takes the sums of all of them, and another
        one their mean: nothing as large as the values is made for each draw.
        """
        noise = key.new_zeros(*key.shape[:3], self.samples if self.training else 1)
        if self.training:
            noise = gumbel_like(noise) / self.temperature
        noise = noise.masked_fill(~there, float("-inf"))  # (B, H, N, s)
        # a factor of all rows of a head leaves the quotient as it is
        largest = (key.detach().amax(-1, keepdim=True) + noise).amax(2, keepdim=True)
        largest = largest.clamp(min=LEAST)
        floor = there[..., None] * FLOOR
        keys = (key[..., None, :] + (noise - largest)[..., None]).exp() + floor  # (B, H, N, s, m)
        # (B, H, s · m, d/H): each row is read once, whatever asks for it
        sums = keys.flatten(3).transpose(-1, -2) @ value
        # padding asks nothing: 0 / 0 would spoil every gradient
        shares = (query @ keys.sum(2).transpose(-1, -2)).masked_fill(~there, 1.0)  # (B, H, N, s)
        queries = query[..., None, :] / (shares * noise.shape[-1])[..., None]
        return queries.flatten(3) @ sums

    def exponents(self, x: Tensor) -> Tensor:
        """log φ: (T, H, d/H) → (T, H, m)."""
        return x @ self.directions.T - x.square().sum(-1, keepdim=True) / 2

    def along(self, links: Links, v: Tensor, strength: Tensor) -> Tensor:
        """What comes along foreign keys: (T, H, d/H) → (T, H, d/H)."""
        assert links.kind is not None
        # (2E, H)
        weight = links.shares()[:, None] * picked(torch.sigmoid(strength.float()), links.kind)
        sent = (
            take(v.flatten(1), links.source).view(len(weight), self.heads, v.shape[2])
            * weight[..., None]
        )
        return total(sent.flatten(1), links.target).view(v.shape)


def gumbel_like(x: Tensor) -> Tensor:
    """Standard Gumbel noise."""
    return -torch.log(-torch.log(uniform_like(x).clamp(1e-6, 1 - 1e-6)))


def random_directions(count: int, width: int) -> Tensor:
    """(count, width) directions w: orthogonal in blocks, which spreads less than independent ones,
    with the lengths of normal vectors."""
    blocks = []
    for _ in range(-(-count // width)):
        turned, rest = torch.linalg.qr(torch.randn(width, width))
        # without it some signs are always the same, and the kernel would be another
        blocks.append(turned * rest.diagonal().sign())
    lengths: Tensor = torch.linalg.vector_norm(torch.randn(count, width), dim=1, keepdim=True)
    return torch.cat(blocks)[:count] * lengths
