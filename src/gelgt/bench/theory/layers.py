"""The theorems about refinement and the Gaussian bias, on the model's own layers."""

from dataclasses import replace

import torch
from torch import Tensor

from gelgt.config import GelGTConfig
from gelgt.nn.attention import BACKENDS
from gelgt.nn.bias import GaussianBias, KernelForm
from gelgt.nn.refinement import refine, semantic_scores


def relevance_to_noise(
    relevance: Tensor, weight: Tensor, seed_norm: float = 1.0, noise: float = 1.0
) -> float:
    """‖h_v‖² (Σ w_u μ_u)² / (σ² Σ w_u²), the paper's ratio for an aggregation with weights w."""
    return float(seed_norm**2 * (weight * relevance).sum() ** 2 / (noise**2 * (weight**2).sum()))


def planted_ratio(
    relevance: Tensor, keep: int, noise: float, width: int, generator: torch.Generator
) -> tuple[float, float]:
    """The ratio over second-hop rows h_u = μ_u h_v + noise, all with equal weights, before and
    after refinement.

    Args:
        relevance: (K,) planted μ of each row.
        keep: How many of them refinement keeps.
    """
    seed = torch.randn(width, generator=generator)
    others = relevance[:, None] * seed + noise * torch.randn(
        len(relevance), width, generator=generator
    )
    h = torch.cat([seed[None], others])
    offsets, batch = torch.tensor([0, len(h)]), torch.zeros(len(h), dtype=torch.int64)
    hop = torch.tensor([0] + [2] * len(relevance))
    refined = refine(semantic_scores(h, offsets, batch), hop, offsets, batch, keep + 1)[1:]
    norm, weight = float(seed.norm()), torch.ones(len(relevance))
    return relevance_to_noise(relevance, weight, norm, noise), relevance_to_noise(
        relevance[refined], weight[refined], norm, noise
    )


def one_kernel(centre: float, width: float, form: KernelForm | None = None) -> GaussianBias:
    """The lemma's bias in float64: one kernel, one head, W = 1, b = 0."""
    free = replace(form or KernelForm(), has_positive_weights=False)
    config = GelGTConfig(width=8, heads=1, kernels=1, time_scale="linear")
    bias = GaussianBias(config, free).double()
    with torch.no_grad():
        bias.mix.weight.fill_(1.0)
        bias.mix.bias.zero_()
    bias.start(
        torch.tensor([centre], dtype=torch.float64), torch.tensor([width], dtype=torch.float64)
    )
    return bias


def ascend(bias: GaussianBias, target: float, rate: float, steps: int) -> list[float]:
    """μ after each step of gradient ascent on the bias at Δt = target."""
    path = [float(bias.mu.detach())]
    difference = torch.full((1, 1, 1), target, dtype=bias.centre.dtype)
    for _ in range(steps):
        (slope,) = torch.autograd.grad(bias.scores(difference).sum(), bias.centre)
        with torch.no_grad():
            bias.centre.add_(slope, alpha=rate)
        path.append(float(bias.mu.detach()))
    return path


def attention_factor(
    bias: GaussianBias, relevant: float, noise: float, backend: str, generator: torch.Generator
) -> float:
    """The factor by which the bias raises α_relevant / α_noise, the attention of a seed to two rows
    of these ages, whatever their q and k."""
    # two of (B, H, N, d/H)
    q, k = torch.randn(2, 1, 1, 3, 3, dtype=torch.float64, generator=generator)
    ages = torch.tensor([[0.0, relevant, noise]], dtype=torch.float64)
    added = bias(ages, torch.ones(1, 3, dtype=torch.bool)).detach()
    v = torch.eye(3, dtype=torch.float64)[None, None]  # so that what comes out is the weights
    with_bias, without = (
        BACKENDS[backend](q, k, v, b, 0.0)[0, 0, 0] for b in (added, torch.zeros_like(added))
    )
    return float((with_bias[1] / with_bias[2]) / (without[1] / without[2]))
