"""⑤ Gaussian attention: pre-norm blocks of softmax(QKᵀ/√(d/H) + bias) V and a feed-forward network,
and the read-out.

Backends compute the same: `reference` writes the formula out and works in any precision, `sdpa` is
PyTorch's fused attention with the bias as its mask. Both take the bias as a tensor of all pairs of
padded rows. `fused` (`nn/kernels/`) takes a `TimeBias` instead and works on packed rows: it
computes the bias of a pair where it needs it.
"""

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from gelgt.config import GelGTConfig
from gelgt.errors import GelgtError
from gelgt.nn.bias import GaussianBias, TemporalBias
from gelgt.nn.dropout import Dropout
from gelgt.nn.dropout import dropout as dropped
from gelgt.nn.kernels import FAR, why_not
from gelgt.nn.layout import Tokens
from gelgt.nn.linear import FeedForward, Linear
from gelgt.nn.norms import LayerNorm

# q, k, v (B, H, N, d/H), bias (B, H or 1, N, N) with -inf on padded keys, dropout → (B, H, N, d/H)
Backend = Callable[[Tensor, Tensor, Tensor, Tensor, float], Tensor]

FFN_RATIO = 2  # hidden width of a block's feed-forward network over d


def reference_attention(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor, dropout: float = 0.0
) -> Tensor:
    """softmax(QKᵀ/√(d/H) + bias) V, as it is written."""
    scores = (q / math.sqrt(q.shape[-1])) @ k.transpose(-1, -2) + bias
    weights = torch.softmax(scores, dim=-1)
    return dropped(weights, dropout) @ v if dropout else weights @ v


def sdpa_attention(q: Tensor, k: Tensor, v: Tensor, bias: Tensor, dropout: float = 0.0) -> Tensor:
    """PyTorch's fused attention with the bias as its additive mask."""
    # not fused on a CPU, and half as fast
    if not q.is_cuda and (dropout or (bias.requires_grad and torch.is_grad_enabled())):
        return reference_attention(q, k, v, bias.to(q.dtype), dropout)
    return functional.scaled_dot_product_attention(
        q, k, v, attn_mask=bias.to(q.dtype), dropout_p=dropout
    )


BACKENDS: dict[str, Backend] = {"reference": reference_attention, "sdpa": sdpa_attention}


CPU = torch.device("cpu")


def choose_backend(
    config: GelGTConfig, device: torch.device = CPU, dtype: torch.dtype = torch.float32
) -> tuple[str, str]:
    """The backend for tensors of a device and type, and the reason for it."""
    if config.backend in BACKENDS:
        return config.backend, "named by the configuration"
    problem = why_not(
        device,
        dtype,
        config.width // config.heads,
        config.num_kernels if config.bias == "gaussian" else 0,
    )
    if problem is None and config.bias not in ("gaussian", "none"):
        problem = f"the fused kernel has no {config.bias} bias"
    if config.backend == "fused":
        if problem is not None:
            raise GelgtError(
                "bad_backend",
                f"{problem[0].upper()}{problem[1:]}.",
                hint="Leave the backend at auto, or set it to sdpa.",
            )
        return "fused", "named by the configuration"
    if problem is None and device.type == "cuda":
        return "fused", "one kernel with the bias inside"
    return (
        "sdpa",
        f"{problem or 'the interpreter is for tests'}; PyTorch's own is exact on every device, "
        "with the bias written once",
    )


class TimeBias(NamedTuple):
    """What `fused` needs to know of B packed subgraphs to compute the bias of any two rows.

    Attributes:
        time: (T,) float32 ages; `FAR` where a row has none.
        offsets: (B + 1,) first row of each subgraph.
        longest: Rows of the longest, or more.
        kernels: μ (G,), s (G,), W (H, G), b (H,); None for no bias.
        is_log: Whether differences are taken as log(1 + days).
    """

    time: Tensor
    offsets: Tensor
    longest: int
    kernels: tuple[Tensor, Tensor, Tensor, Tensor] | None
    is_log: bool

    @classmethod
    def of(
        cls, bias: TemporalBias | None, age: Tensor, has_time: Tensor, offsets: Tensor, longest: int
    ) -> "TimeBias":
        """From packed ages (T,) and flags (T,)."""
        time = torch.where(has_time, age, FAR).float()
        if not isinstance(bias, GaussianBias):
            return cls(time, offsets, longest, None, False)
        with torch.autocast(age.device.type, enabled=False):
            mu, scale, weight, shift = (c.float() for c in bias.coefficients())
        return cls(time, offsets, longest, (mu, scale, weight, shift), bias.is_log_time)

    def attend(self, qkv: Tensor, dropout: float) -> Tensor:
        """(T, 3, H, d/H) → (T, H, d/H)."""
        from gelgt.nn.kernels.op import gaussian_attention  # imports Triton

        return gaussian_attention(
            qkv, self.time, self.offsets, self.longest, self.kernels, self.is_log, dropout
        )


class AttentionBlock(nn.Module):
    """x + Attention(LN(x)), then x + FFN(LN(x))."""

    def __init__(self, config: GelGTConfig) -> None:
        super().__init__()
        width = config.width
        self.heads = config.heads
        self.rate = config.dropout if config.attention_dropout is None else config.attention_dropout
        self.attend = BACKENDS.get(config.backend, sdpa_attention)  # of a bias that is a tensor
        self.norm_1, self.norm_2 = LayerNorm(width), LayerNorm(width)
        self.qkv, self.out = Linear(width, 3 * width), Linear(width, width)
        self.ffn = FeedForward(width, FFN_RATIO * width, width, config.dropout)
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Tensor, bias: Tensor | TimeBias) -> Tensor:
        """Padded (B, N, d) with a bias (B, H or 1, N, N), or packed (T, d) with a `TimeBias` → the
        same shape."""
        rate = self.rate if self.training else 0.0
        x, normed = self.norm_1.beside(x)
        qkv = self.qkv(normed).unflatten(-1, (3, self.heads, -1))  # (…, 3, H, d/H)
        if isinstance(bias, TimeBias):
            attended = bias.attend(qkv, rate)
        else:
            q, k, v = qkv.permute(2, 0, 3, 1, 4)
            attended = self.attend(q, k, v, bias, rate).transpose(1, 2)
        x = self.out.added(x, attended.reshape(x.shape), self.dropout)
        x, normed = self.norm_2.beside(x)
        return self.ffn.added(x, normed, self.dropout)

    def seed_weights(self, x: Tensor, bias: Tensor) -> Tensor:
        """The attention weights of the seeds, the first rows: (B, N, d), (B, H or 1, N, N) → (B, H,
        N)."""
        seeds, rows, width = x.shape
        q, k, _ = (
            self.qkv(self.norm_1(x))
            .view(seeds, rows, 3, self.heads, width // self.heads)
            .permute(2, 0, 3, 1, 4)
        )
        scores = (q[:, :, :1] @ k.transpose(-2, -1)).squeeze(2) / (
            width // self.heads
        ) ** 0.5 + bias[:, :, 0]
        return torch.softmax(scores.float(), dim=-1)


class ReadOut(nn.Module):
    """The seed's token plus an attention-weighted sum of its neighbours; the seed alone where there
    are none."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.score = nn.Linear(2 * width, 1)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """(B, N, d), (B, N) → (B, d)."""
        seed, others = x[:, 0], x[:, 1:]
        # of (seed, other) side by side, which need not be written
        for_seed, for_others = self.score.weight.chunk(2, dim=1)
        of_seed = functional.linear(seed, for_seed, self.score.bias).float()  # (B, 1)
        # of all rows, which lie behind each other as a product wants them
        scores = of_seed + functional.linear(x, for_others)[:, 1:, 0].float()  # (B, N - 1)
        scores = scores.masked_fill(~mask[:, 1:], float("-inf"))
        alone = ~mask[:, 1:].any(1, keepdim=True)
        weights = torch.softmax(scores.masked_fill(alone, 0.0), dim=1).masked_fill(alone, 0.0)
        return seed + (weights.to(x.dtype)[:, None] @ others).squeeze(1)


def mask_bias(bias: Tensor | None, mask: Tensor, dtype: torch.dtype) -> Tensor:
    """The bias with -∞ on padded keys. What a padded query attends to is never read.

    Args:
        bias: (B, H, N, N), or None.
        mask: (B, N) true for rows.
    """
    # A finite floor for padded queries is not needed: every subgraph has its seed, so no row of
    # scores is -∞ throughout.
    # (B, 1, 1, N)
    closed = torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(
        ~mask, float("-inf")
    )[:, None, None, :]
    return closed.expand(-1, 1, mask.shape[1], -1) if bias is None else bias.to(dtype) + closed


def pair_bias(bias: TemporalBias | None, tokens: Tokens, dtype: torch.dtype) -> Tensor:
    """The bias of all pairs of padded tokens, -∞ on padded keys: (B, H or 1, N, N)."""
    over_time = None if bias is None else bias(*tokens.padded_times())
    return mask_bias(over_time, tokens.mask, dtype)


def attend(
    blocks: Iterable[nn.Module], bias: TemporalBias | None, tokens: Tokens, config: GelGTConfig
) -> Tensor:
    """Tokens through attention blocks that share a bias: padded (B, N, d).

    The fused backend works on the rows as they are laid out, which are padded afterwards. The
    others need padded rows and the whole bias.
    """
    x = tokens.h
    if choose_backend(config, x.device, x.dtype)[0] == "fused":
        over_time = TimeBias.of(bias, tokens.age, tokens.has_time, tokens.spans, tokens.longest)
        for block in blocks:
            x = block(x, over_time)
        return tokens.padded(x)
    x = tokens.padded(x)
    over_pairs = pair_bias(bias, tokens, x.dtype)
    for block in blocks:
        x = block(x, over_pairs)
    return x
