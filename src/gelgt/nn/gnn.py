"""④ The GNN branch: GraphSAGE over foreign keys in both directions, read at the seed (paper, hyper-parameter appendix)."""

import torch
from torch import Tensor, nn
from torch_geometric.nn import SAGEConv


class GNNBranch(nn.Module):
    """Layers of message passing, LayerNorm, GELU, dropout, each with a residual connection."""

    def __init__(self, width: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(SAGEConv(width, width) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(layers))
        self.dropout = nn.Dropout(dropout)

    def forward(self, h: Tensor, edge_index: Tensor, seeds: Tensor) -> Tensor:
        """(T, d), (2, E) in both directions, (B,) → (B, d)."""
        for convolution, norm in zip(self.convolutions, self.norms):
            h = h + self.dropout(nn.functional.gelu(norm(convolution(h, edge_index))))
        return h[seeds]


def both_ways(edge_index: Tensor) -> Tensor:
    """Foreign keys carry messages in both directions: (2, E) → (2, 2E)."""
    return torch.cat([edge_index, edge_index.flip(0)], dim=1)
