"""Structure encoder: a GIN over the subgraph's foreign keys, from noise or from Laplacian vectors.

The noise of a row is keyed by (run seed, entity, seed time, place in the sample), never by its
number, so it is the same in every process, in every batch, and whether or not later rows exist. Its
entries are ±1: 64 signs from 64 hashed bits.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch_geometric.nn import GINConv

from gelgt.nn.gnn import SegmentSum, SendsMessages

# SplitMix64's constants as signed numbers
LAYERS = 2  # of the GIN
_A, _B, _C = -7046029254386353131, -4658895280553007687, -7723592293110705685


def mix(z: Tensor) -> Tensor:
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
    start = mix(mix(seed_key ^ mix(torch.full_like(seed_key, seed))) ^ seed_time)  # (B,)
    words = torch.arange(width // 64, device=place.device)
    bits = mix(start[batch][:, None] ^ mix(place[:, None] * 1_000_003 + words))  # (T, width/64)
    signs = (bits[:, :, None] >> torch.arange(64, device=place.device)) & 1
    return (2 * signs - 1).reshape(len(place), width).to(torch.float32)


def laplacian_vectors(edge_index: Tensor, offsets: Tensor, width: int) -> Tensor:
    """The `width` smoothest eigenvectors of each subgraph's normalised Laplacian, signs fixed,
    zeros where there are fewer: (T, width)."""
    out = torch.zeros(int(offsets[-1]), width, device=offsets.device)
    owner = torch.searchsorted(offsets, edge_index[0], right=True) - 1
    for b in range(len(offsets) - 1):
        start, stop = int(offsets[b]), int(offsets[b + 1])
        size = stop - start
        source, target = edge_index[:, owner == b] - start
        adjacency = torch.zeros(size, size, dtype=torch.float64, device=offsets.device)
        adjacency[source, target] = 1.0
        adjacency[target, source] = 1.0
        scale = adjacency.sum(1).clamp(min=1.0).rsqrt()
        _, vectors = torch.linalg.eigh(
            torch.eye(size, dtype=torch.float64, device=offsets.device)
            - scale[:, None] * adjacency * scale
        )
        vectors = vectors[:, :width]
        largest = vectors.abs().argmax(0)
        vectors = (
            vectors * vectors[largest, torch.arange(vectors.shape[1], device=offsets.device)].sign()
        )
        out[start:stop, : vectors.shape[1]] = vectors.float()
    return out


class StructureEncoder(nn.Module):
    """GIN layers with residuals; their outputs side by side through a linear map to d (paper,
    encoder appendix)."""

    def __init__(self, width: int, structure_width: int, norm: str) -> None:
        super().__init__()
        inner = structure_width

        def normalise() -> nn.Module:
            return nn.BatchNorm1d(inner) if norm == "batch" else nn.LayerNorm(inner)

        self.project = nn.Linear(inner, inner)
        self.layers = nn.ModuleList(
            GINConv(
                nn.Sequential(
                    nn.Linear(inner, inner), normalise(), nn.ReLU(), nn.Linear(inner, inner)
                ),
                train_eps=True,
                aggr=SegmentSum(),
            )
            for _ in range(LAYERS)
        )
        self.out = nn.Linear(inner * (LAYERS + 1), width)

    def forward(self, start: Tensor, edge_index: Tensor) -> Tensor:
        """(T, structure_width), (2, E) in both directions, sorted by target → (T, d)."""
        x = self.project(start.to(self.project.weight.dtype))
        seen = [x]
        for layer in self.layers:
            x = x + layer(x, edge_index)
            seen.append(x)
        out: Tensor = self.out(torch.cat(seen, dim=1))
        return out

    def over(
        self,
        start: Tensor,
        messages: SendsMessages,
        normalise: Callable[[nn.Module, Tensor], Tensor],
    ) -> Tensor:
        """The same over messages of weight 1, with norms as the caller applies them: (T,
        structure_width) → (T, d)."""
        x = self.project(start.to(self.project.weight.dtype))
        seen = [x]
        for layer in self.layers:
            assert isinstance(layer, GINConv)
            first, norm, bend, last = layer.nn
            x = x + last(bend(normalise(norm, first((1 + layer.eps) * x + messages.total(x)))))
            seen.append(x)
        out: Tensor = self.out(torch.cat(seen, dim=1))
        return out
