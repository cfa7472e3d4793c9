"""What a seed's whole history says in numbers: causal aggregates, each brought to a normal scale by
its training quantiles.

A subgraph holds at most K rows of an entity's past; an aggregate summarises all of it in one
number. LightGBM reads the same columns (`gelgt.history.aggregates`); here they are a branch of
their own, added to the seed's vector.
"""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gelgt.nn.dropout import Dropout
from gelgt.nn.linear import Linear
from gelgt.nn.norms import LayerNorm

QUANTILES = 128
MOST = 2.5  # standard deviations, so that a value beyond all training values is not far beyond them
MOST_ROWS = 100_000  # whose quantiles are taken, from all over the training seeds
COLUMN_DROPOUT = 0.1  # at most: a column can be the one that matters


class HistoryEncoder(nn.Module):
    """(B, F) aggregates, NaN where there is none → (B, d)."""

    edges: Tensor

    def __init__(self, columns: int, width: int, dropout: float) -> None:
        super().__init__()
        self.register_buffer("edges", torch.zeros(columns, QUANTILES))  # (F, Q), ascending
        self.layers = nn.Sequential(
            Dropout(min(COLUMN_DROPOUT, dropout)),
            Linear(2 * columns, width),
            nn.GELU(),
            LayerNorm(width),
            Dropout(dropout),
            Linear(width, width),
            nn.GELU(),
            Dropout(dropout),
            Linear(width, width),
        )

    def forward(self, values: Tensor) -> Tensor:
        missing = torch.isnan(values)
        scaled = torch.where(missing, 0.0, self.normal(values))
        out: Tensor = self.layers(torch.cat([scaled, missing.to(scaled.dtype)], dim=1))
        return out

    def normal(self, values: Tensor) -> Tensor:
        """Values by their place among the training values, as if these were normal: (B, F) → (B,
        F), about -2.5 to 2.5."""
        return normal_places(values, self.edges)

    @torch.no_grad()
    def fit(self, values: Tensor) -> None:
        """Take the quantiles of training values (S, F); zeros for a column without any."""
        self.edges.copy_(quantiles(values).nan_to_num())


def normal_places(values: Tensor, edges: Tensor) -> Tensor:
    """The places of values (B, F) among quantiles (F, Q), as if what these were taken of was
    normal: (B, F), about -2.5 to 2.5."""
    x = values.nan_to_num().T.contiguous()  # (F, B)
    low = torch.searchsorted(edges, x, right=False)
    high = torch.searchsorted(edges, x, right=True)
    after = low.clamp(1, QUANTILES - 1)
    left, right = edges.gather(1, after - 1), edges.gather(1, after)
    between = (after - 1) + ((x - left) / (right - left).clamp(min=1e-12)).clamp(0, 1)
    # A value that many rows share lies in the middle of them.
    place = torch.where(high > low, (low + high - 1) / 2, between) / (QUANTILES - 1)  # [0, 1]
    # What never differed in training was never learned from; whatever it is now, it says nothing.
    place = torch.where(edges[:, :1] < edges[:, -1:], place, 0.5)
    inner = 0.5 * math.erfc(MOST / math.sqrt(2))
    return (math.sqrt(2) * torch.erfinv(2 * place.clamp(inner, 1 - inner) - 1)).T


def quantiles(values: Tensor) -> Tensor:
    """(F, Q) ascending quantiles of values (S, F), NaN for a column that has none."""
    some = torch.from_numpy(
        np.linspace(0, len(values) - 1, min(len(values), MOST_ROWS)).astype(np.int64)
    )
    columns = values[some].float().T.contiguous().numpy()  # (F, S)
    edges = np.full((len(columns), QUANTILES), np.nan, np.float32)
    for column, edge in zip(columns, edges):
        finite = column[np.isfinite(column)]
        if len(finite):
            finite.sort()
            edge[:] = _between(finite)
    return torch.from_numpy(edges)


def _between(ascending: NDArray[np.float32]) -> NDArray[np.float64]:
    """(Q,) the quantiles of sorted values, to the bit those that `numpy.quantile` interpolates in
    float64. It looks for each of them among all values, which takes four times as long as to sort
    these once in float32."""
    place = np.linspace(0, 1, QUANTILES) * (len(ascending) - 1)
    below = np.floor(place).astype(np.int64)
    above = np.minimum(below + 1, len(ascending) - 1)
    left, right = ascending[below].astype(np.float64), ascending[above].astype(np.float64)
    share, gap = place - below, right - left
    return np.where(share < 0.5, left + gap * share, right - gap * (1 - share))
