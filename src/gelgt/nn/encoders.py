"""Table, hop, age and row encoders, and the MLP that mixes them (paper, encoder appendix)."""

import math
from collections.abc import Mapping
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch_frame import NAStrategy, stype
from torch_frame.nn import (
    EmbeddingEncoder,
    LinearEmbeddingEncoder,
    LinearEncoder,
    MultiCategoricalEmbeddingEncoder,
    TimestampEncoder,
)
from torch_frame.nn.models import ResNet

from gelgt.nn.linear import FeedForward, Linear
from gelgt.nn.norms import BatchNorm, LayerNorm, side_by_side
from gelgt.nn.rows import RowFrames

MAX_HOP = 20
MAX_RANK = 31


class HopEncoder(nn.Module):
    """A learned vector for each distance from the seed; distances are shifted by one, so that 0
    stays free."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(MAX_HOP + 2, width)

    def forward(self, hop: Tensor) -> Tensor:
        """(T,) → (T, d)."""
        out: Tensor = self.embedding(self.entry(hop))
        return out

    def entry(self, hop: Tensor) -> Tensor:
        """(T,) the entry of the embedding for each distance."""
        return (hop + 1).clamp(max=MAX_HOP + 1)


class AgeEncoder(nn.Module):
    """Sinusoids of the age with fixed frequencies, then a linear map; a learned vector where a row
    has no time.

    Wave lengths run from hours to centuries, evenly in the logarithm.
    """

    frequencies: Tensor

    def __init__(self, width: int, shortest: float = 0.25, longest: float = 36_500.0) -> None:
        super().__init__()
        lengths = torch.exp(torch.linspace(math.log(shortest), math.log(longest), width // 2))
        self.register_buffer("frequencies", 2 * math.pi / lengths, persistent=False)
        self.linear = Linear(2 * (width // 2), width)
        self.timeless = nn.Parameter(torch.zeros(width))

    def forward(self, age: Tensor, has_time: Tensor) -> Tensor:
        """(T,), (T,) → (T, d)."""
        timed = self.linear(self._waves(age))
        return torch.where(has_time[:, None], timed, self.timeless.to(timed.dtype))

    @torch.no_grad()
    def _waves(self, age: Tensor) -> Tensor:
        """Sines and cosines beside each other, written once and in the precision in which they are
        read: (T,) → (T, d)."""
        angle = age.float()[:, None] * self.frequencies  # (T, d/2)
        half = angle.shape[1]
        waves = angle.new_empty(len(angle), 2 * half, dtype=self.linear.weight.dtype)
        torch.sin(angle, out=waves[:, :half])
        torch.cos(angle, out=waves[:, half:])
        return waves


class RecencyEncoder(nn.Module):
    """How recent a row is among those of its table around the seed: a learned vector for its rank,
    newest first, and log(1 + age).

    The newest order and the newest payment both have rank 0, whatever their age; rows of one moment
    share a rank.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.rank = nn.Embedding(MAX_RANK + 2, width)
        self.linear = Linear(1, width)

    def entry(self, rank: Tensor, has_time: Tensor) -> Tensor:
        """(T,) the entry of the embedding for each rank; one of its own where there is no time."""
        return torch.where(has_time, rank.clamp(max=MAX_RANK), MAX_RANK + 1)

    def forward(self, ranked: Tensor, age: Tensor, has_time: Tensor) -> Tensor:
        """The entries of the embedding (T, d), and (T,), (T,) → (T, d)."""
        passed = self.linear(torch.log1p(age.float())[:, None].to(self.linear.weight.dtype))
        return ranked + torch.where(has_time[:, None], passed, 0.0)


class ColumnEncoders(Protocol):
    """The column encoders of each table, by PyTorch Frame (`StypeWiseFeatureEncoder`)."""

    @property
    def names(self) -> list[str]: ...  # of the tables
    @property
    def columns(self) -> list[Any]: ...


class RowEncoder(nn.Module):
    """PyTorch Frame's column encoders and a ResNet for each table, over the distinct rows of a
    batch."""

    def __init__(
        self, width: int, inner: int, layers: int, norm: str, columns: Mapping[str, "TableColumns"]
    ) -> None:
        super().__init__()
        self.width = width
        self.names = list(columns)  # module names cannot hold dots, so tables are numbered
        self.tables = nn.ModuleList(
            ResNet(
                channels=inner,
                out_channels=width,
                num_layers=layers,
                col_stats=table.stats,
                col_names_dict=table.names,
                stype_encoder_dict=_column_encoders(table.names),
                normalization=f"{norm}_norm",
                dropout_prob=0.0,  # of cells; tokens have their own
            )
            for table in columns.values()
        )
        for module in self.tables.modules():
            if type(module) is nn.BatchNorm1d:  # PyTorch Frame makes them itself
                module.__class__ = BatchNorm

    @property
    def columns(self) -> list[Any]:
        """The column encoders of each table."""
        return [table.encoder for table in self.tables]

    def forward(self, rows: RowFrames) -> Tensor:
        """Distinct rows → (U, d)."""
        parts = {
            name: module(rows.frames[name])
            for name, module in zip(self.names, self.tables)
            if name in rows.frames
        }
        out: Tensor = next(iter(parts.values())).new_zeros(rows.num_rows, self.width)
        for name, encoded in parts.items():
            out = out.index_copy(0, rows.places[name], encoded)
        return out


class TableColumns:
    """What the encoders of one table need to know of its columns."""

    def __init__(self, stats: dict[str, dict[Any, Any]], names: dict[stype, list[str]]) -> None:
        self.stats = stats
        self.names = names


def _column_encoders(names: Mapping[stype, list[str]]) -> dict[stype, Any]:
    encoders: dict[stype, Any] = {
        stype.categorical: EmbeddingEncoder(),
        stype.numerical: LinearEncoder(na_strategy=NAStrategy.MEAN),
        stype.multicategorical: MultiCategoricalEmbeddingEncoder(),
        stype.embedding: LinearEmbeddingEncoder(),
        stype.timestamp: TimestampEncoder(),
    }
    return {kind: encoders[kind] for kind in names}


class Mixer(nn.Module):
    """Each encoder's output normalised, all side by side, through a two-layer MLP to d."""

    def __init__(self, parts: int, width: int, dropout: float) -> None:
        super().__init__()
        self.norms = nn.ModuleList(LayerNorm(width) for _ in range(parts))
        self.mlp = FeedForward(parts * width, width, width, dropout)

    def forward(self, parts: list[Tensor]) -> Tensor:
        """[(T, d), …] → (T, d)."""
        out: Tensor = self.mlp(side_by_side(list(self.norms), parts))
        return out
