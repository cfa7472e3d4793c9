"""The optional global module: a codebook of moving averages that every seed attends to (the paper's
table lists it; RelGT needs it)."""

import math

import torch
from torch import Tensor, nn

from gelgt.nn.linear import Linear

DECAY = 0.99  # of the moving averages


class GlobalModule(nn.Module):
    """Seeds attend to centroids, which follow the seeds seen in training by exponential moving
    averages.

    In evaluation the centroids stand still, so a prediction does not depend on its batch.
    """

    centroids: Tensor
    counts: Tensor

    def __init__(self, width: int, centroids: int) -> None:
        super().__init__()
        self.register_buffer(
            "centroids",
            torch.randn(centroids, width, generator=torch.Generator().manual_seed(0))
            / math.sqrt(width),
        )
        self.register_buffer("counts", torch.ones(centroids))
        self.query, self.key, self.value = (Linear(width, width) for _ in range(3))

    def forward(self, seeds: Tensor, valid: Tensor | None = None) -> Tensor:
        """(B, d) → (B, d). Centroids follow the seeds that are valid, (B,); all if None."""
        # the update below must not change what backward needs
        book = self.centroids.to(seeds.dtype, copy=True)
        scores = self.query(seeds) @ self.key(book).T / math.sqrt(seeds.shape[-1])  # (B, C)
        # Centroids that stand for more seeds weigh more.
        out: Tensor = torch.softmax(
            scores + self.counts.to(scores.dtype).clamp(min=1e-3).log(), dim=-1
        ) @ self.value(book)
        if self.training:
            with torch.autocast(seeds.device.type, enabled=False):
                self.update(seeds.detach().float(), valid)
        return out

    @torch.no_grad()
    def update(self, seeds: Tensor, valid: Tensor | None = None) -> None:
        """Move each seed's nearest centroid towards it. Sums are products with a one-hot matrix:
        the order of additions is fixed."""
        nearest = torch.cdist(seeds, self.centroids).argmin(1)
        chosen = nearest == torch.arange(len(self.counts), device=seeds.device)[:, None]  # (C, B)
        chosen = (chosen if valid is None else chosen & valid).to(self.counts.dtype)
        counts = chosen.sum(1)
        means = chosen @ seeds / counts.clamp(min=1.0)[:, None]
        self.centroids.lerp_(means, ((1 - DECAY) * (counts > 0))[:, None])
        self.counts.mul_(DECAY).add_(counts, alpha=1 - DECAY)
