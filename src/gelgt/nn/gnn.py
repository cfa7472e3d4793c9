"""④ The GNN branch: GraphSAGE over foreign keys in both directions, read at the seed (paper, hyper-parameter appendix)."""

import torch
from torch import Tensor, nn
from torch_geometric.nn import SAGEConv
from torch_geometric.nn.aggr import Aggregation


class SegmentAggregation(Aggregation):  # type: ignore[misc]  # PyG is untyped
    """Sum or mean of the messages of each row, over edges that are sorted by target.

    One segment is one sum in a fixed order. PyG's own scatter adds with atomics on CUDA, in another order each time, and a prediction would
    not give the same bits twice.
    """

    def __init__(self, is_mean: bool) -> None:
        super().__init__()
        self.is_mean = is_mean

    def forward(self, x: Tensor, index: Tensor, ptr: Tensor | None = None, dim_size: int | None = None, dim: int = -2) -> Tensor:
        """(E, d), (E,) ascending → (dim_size, d)."""
        rows = int(index[-1]) + 1 if dim_size is None else dim_size
        bounds = torch.searchsorted(index, torch.arange(rows + 1, device=index.device))
        sums = torch.segment_reduce(x.float(), "sum", offsets=bounds, axis=0, initial=0.0)
        if self.is_mean:
            sums = sums / (bounds[1:] - bounds[:-1]).clamp(min=1)[:, None]
        return sums.to(x.dtype)


class GNNBranch(nn.Module):
    """Layers of message passing, LayerNorm, GELU, dropout, each with a residual connection."""

    def __init__(self, width: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(SAGEConv(width, width, aggr=SegmentAggregation(is_mean=True)) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(layers))
        self.dropout = nn.Dropout(dropout)

    def forward(self, h: Tensor, edge_index: Tensor, seeds: Tensor) -> Tensor:
        """(T, d), (2, E) in both directions, sorted by target, (B,) → (B, d)."""
        for convolution, norm in zip(self.convolutions, self.norms):
            h = h + self.dropout(nn.functional.gelu(norm(convolution(h, edge_index))))
        return h[seeds]


def both_ways(edge_index: Tensor) -> Tensor:
    """Foreign keys carry messages in both directions: (2, E) → (2, 2E), sorted by target as `SegmentAggregation` needs it."""
    edges = torch.cat([edge_index, edge_index.flip(0)], dim=1)
    return edges[:, torch.argsort(edges[1], stable=True)]
