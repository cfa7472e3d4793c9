"""Structure encoder: a GIN over the subgraph's foreign keys, from noise.

The noise of a row is keyed by (run seed, entity, seed time, place in the sample), never by its
number, so it is the same in every process, in every batch, and whether or not later rows exist. Its
entries are ±1: 64 signs from 64 hashed bits.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from gelgt.nn.linear import Linear
from gelgt.nn.norms import LayerNorm
from gelgt.nn.sums import Messages

LAYERS = 2  # of the GIN
# SplitMix64's constants as signed numbers
SPLIT_MIX = _A, _B, _C = -7046029254386353131, -4658895280553007687, -7723592293110705685


def hashed(z: Tensor) -> Tensor:
    """SplitMix64's finaliser on int64 tensors; right shifts are made logical by masks."""
    z = z + _A
    z = (z ^ ((z >> 30) & 0x3FFFFFFFF)) * _B
    z = (z ^ ((z >> 27) & 0x1FFFFFFFFF)) * _C
    return z ^ ((z >> 31) & 0x1FFFFFFFF)


def structure_noise(
    seed_key: Tensor, seed_time: Tensor, place: Tensor, batch: Tensor, width: int, seed: int = 0
) -> Tensor:
    """±1 noise for each row.

    Args:
        seed_key: (B,) identities of the seeds.
        seed_time: (B,) seconds.
        place: (T,) place of each row in its subgraph.
        batch: (T,) subgraph of each row.
        width: A multiple of 64.
    """
    start = hashed(hashed(seed_key ^ hashed(torch.full_like(seed_key, seed))) ^ seed_time)  # (B,)
    words = torch.arange(width // 64, device=place.device)
    bits = hashed(
        start[batch][:, None] ^ hashed(place[:, None] * 1_000_003 + words)
    )  # (T, width/64)
    signs = (bits[:, :, None] >> torch.arange(64, device=place.device)) & 1
    return (2 * signs - 1).reshape(len(place), width).to(torch.float32)


Normalise = Callable[[nn.Module, Tensor], Tensor]


def plainly(norm: nn.Module, x: Tensor) -> Tensor:
    """A norm over all rows: (T, d) → (T, d)."""
    out: Tensor = norm(x)
    return out


class StructureEncoder(nn.Module):
    """GIN layers with residuals; their outputs side by side through a linear map to d (paper,
    encoder appendix)."""

    def __init__(self, width: int, structure_width: int, norm: str) -> None:
        super().__init__()
        inner = structure_width

        def normalise() -> nn.Module:
            return nn.BatchNorm1d(inner) if norm == "batch" else LayerNorm(inner)

        self.project = Linear(inner, inner)
        self.layers = nn.ModuleList(
            GIN(nn.Sequential(Linear(inner, inner), normalise(), nn.ReLU(), Linear(inner, inner)))
            for _ in range(LAYERS)
        )
        self.out = Linear(inner * (LAYERS + 1), width)

    def forward(
        self, start: Tensor, neighbours: Messages, normalise: Normalise = plainly
    ) -> Tensor:
        """(T, structure_width) → (T, d).

        Args:
            start: The noise of each row.
            neighbours: Messages of weight 1.
            normalise: Applies a norm; over fixed shapes it leaves filler rows out.
        """
        x = self.project(start.to(self.project.weight.dtype))
        seen = [x]
        for layer in self.layers:
            x = x + layer(x, neighbours, normalise)
            seen.append(x)
        out: Tensor = self.out(torch.cat(seen, dim=1))
        return out


class GIN(nn.Module):
    """PyG's GIN layer with a learned ε, over messages that are summed in a fixed order."""

    def __init__(self, layers: nn.Sequential) -> None:
        super().__init__()
        self.nn = layers
        self.eps = nn.Parameter(torch.zeros(1))
        for layer in (layers[0], layers[-1]):
            layer.reset_parameters()  # type: ignore[operator]  # drawn twice, as in PyG

    def forward(self, x: Tensor, neighbours: Messages, normalise: Normalise) -> Tensor:
        """(T, structure_width) → (T, structure_width)."""
        first, norm, bend, last = self.nn
        out: Tensor = last(bend(normalise(norm, first(neighbours.total(x) + (1 + self.eps) * x))))
        return out
