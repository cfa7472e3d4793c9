"""⑤ Gaussian attention: pre-norm blocks of softmax(QKᵀ/√(d/H) + bias) V and a feed-forward network, and the read-out.

Backends compute the same: `reference` writes the formula out and works in any precision, `sdpa` is PyTorch's fused attention with the
bias as its mask. A fused kernel that never writes the bias to memory joins `BACKENDS` under a name of its own.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from gelgt.config import GelGTConfig
from gelgt.nn.dropout import Dropout
from gelgt.nn.dropout import dropout as dropped

# q, k, v (B, H, N, d/H), bias (B, H or 1, N, N) with -inf on padded keys, dropout → (B, H, N, d/H)
Backend = Callable[[Tensor, Tensor, Tensor, Tensor, float], Tensor]


def reference_attention(q: Tensor, k: Tensor, v: Tensor, bias: Tensor, dropout: float = 0.0) -> Tensor:
    """softmax(QKᵀ/√(d/H) + bias) V, as it is written."""
    scores = (q / math.sqrt(q.shape[-1])) @ k.transpose(-1, -2) + bias
    weights = torch.softmax(scores, dim=-1)
    return dropped(weights, dropout) @ v if dropout else weights @ v


def sdpa_attention(q: Tensor, k: Tensor, v: Tensor, bias: Tensor, dropout: float = 0.0) -> Tensor:
    """PyTorch's fused attention with the bias as its additive mask."""
    if not q.is_cuda and (dropout or (bias.requires_grad and torch.is_grad_enabled())):  # not fused on a CPU, and half as fast
        return reference_attention(q, k, v, bias.to(q.dtype), dropout)
    return functional.scaled_dot_product_attention(q, k, v, attn_mask=bias.to(q.dtype), dropout_p=dropout)


BACKENDS: dict[str, Backend] = {"reference": reference_attention, "sdpa": sdpa_attention}


def choose_backend(config: GelGTConfig) -> tuple[str, str]:
    """The backend and the reason for it."""
    if config.backend != "auto":
        return config.backend, "named by the configuration"
    return "sdpa", "fused and exact on every device; the bias is written once per forward"


class AttentionBlock(nn.Module):
    """x + Attention(LN(x)), then x + FFN(LN(x))."""

    def __init__(self, config: GelGTConfig) -> None:
        super().__init__()
        width = config.width
        self.heads = config.heads
        self.rate = config.dropout if config.attention_dropout is None else config.attention_dropout
        self.attend = BACKENDS[choose_backend(config)[0]]
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        hidden = config.ffn_ratio * width
        self.ffn = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), Dropout(config.dropout), nn.Linear(hidden, width))
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        """(B, N, d), (B, H or 1, N, N) → (B, N, d)."""
        seeds, rows, width = x.shape
        q, k, v = self.qkv(self.norm_1(x)).view(seeds, rows, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        attended = self.attend(q, k, v, bias, self.rate if self.training else 0.0)  # (B, H, N, d/H)
        x = x + self.dropout(self.out(attended.transpose(1, 2).reshape(seeds, rows, width)))
        out: Tensor = x + self.dropout(self.ffn(self.norm_2(x)))
        return out

    def seed_weights(self, x: Tensor, bias: Tensor) -> Tensor:
        """The attention weights of the seeds, the first rows: (B, N, d), (B, H or 1, N, N) → (B, H, N)."""
        seeds, rows, width = x.shape
        q, k, _ = self.qkv(self.norm_1(x)).view(seeds, rows, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        scores = (q[:, :, :1] @ k.transpose(-2, -1)).squeeze(2) / (width // self.heads) ** 0.5 + bias[:, :, 0]
        return torch.softmax(scores.float(), dim=-1)


class ReadOut(nn.Module):
    """The seed's token plus an attention-weighted sum of its neighbours; the seed alone where there are none."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.score = nn.Linear(2 * width, 1)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """(B, N, d), (B, N) → (B, d)."""
        seed, others = x[:, 0], x[:, 1:]
        scores = self.score(torch.cat([seed[:, None].expand_as(others), others], dim=-1)).squeeze(-1).float()  # (B, N - 1)
        scores = scores.masked_fill(~mask[:, 1:], float("-inf"))
        alone = ~mask[:, 1:].any(1, keepdim=True)
        weights = torch.softmax(scores.masked_fill(alone, 0.0), dim=1).masked_fill(alone, 0.0)
        return seed + (weights.to(x.dtype)[:, :, None] * others).sum(1)


def mask_bias(bias: Tensor | None, mask: Tensor, dtype: torch.dtype) -> Tensor:
    """The bias with -∞ on padded keys. A padded query may attend to anything; nobody reads it.

    Args:
        bias: (B, H, N, N), or None.
        mask: (B, N) true for rows.
    """
    # A finite floor for padded queries is not needed: every subgraph has its seed, so no row of scores is -∞ throughout.
    closed = torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(~mask, float("-inf"))[:, None, None, :]  # (B, 1, 1, N)
    return closed.expand(-1, 1, mask.shape[1], -1) if bias is None else bias.to(dtype) + closed
