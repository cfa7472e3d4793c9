"""④ The GNN branch: GraphSAGE over foreign keys in both directions (paper, hyper-parameter
appendix).

The layer has the parameters of PyG's, under the same names. PyG itself is not imported: that takes
longer than a prediction.
"""

from itertools import islice
from typing import Literal

import torch
from torch import Tensor, nn

from gelgt.nn.dropout import Dropout
from gelgt.nn.linear import Linear, bent
from gelgt.nn.norms import LayerNorm
from gelgt.nn.sums import Messages, Segments


class WeightedSAGE(nn.Module):
    """GraphSAGE whose messages carry weights; with 1/degree it is the mean."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.lin_l, self.lin_r = Linear(width, width), Linear(width, width, bias=False)
        # PyG draws the weights twice; seeds keep their meaning
        self.lin_l.reset_parameters()
        self.lin_r.reset_parameters()

    def forward(self, x: Tensor, messages: Messages) -> Tensor:
        """(T, d) → (T, d)."""
        return self._joined(messages.total(x), x)

    def at(self, rows: Tensor, x: Tensor, messages: Messages) -> Tensor:
        """The same of some rows (n,) alone, without a gradient: (T, d) → (n, d)."""
        return self._joined(messages.received.sum_at(x, rows), x.index_select(0, rows))

    def _joined(self, received: Tensor, x: Tensor) -> Tensor:
        if x.is_cuda and not torch.is_grad_enabled():  # added where the product is written
            out: Tensor = self.lin_l(received)
            return out.addmm_(x.to(out.dtype), self.lin_r.weight.to(out.dtype).t())
        added: Tensor = self.lin_l(received) + self.lin_r(x)
        return added


class GNNBranch(nn.Module):
    """Layers of message passing, LayerNorm, GELU, dropout, each with a residual connection."""

    def __init__(self, width: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(WeightedSAGE(width) for _ in range(layers))
        self.norms = nn.ModuleList(LayerNorm(width) for _ in range(layers))
        self.dropout = Dropout(dropout)

    def forward(self, h: Tensor, messages: Messages) -> Tensor:
        """(T, d) → (T, d)."""
        return self._passed(h, messages, len(self.norms))

    def at(self, rows: Tensor, h: Tensor, messages: Messages) -> Tensor:
        """The same of some rows (n,) alone, such as the seeds: (T, d) → (n, d). While nothing is
        learned, the last layer leaves the others out."""
        if self.training or torch.is_grad_enabled():
            return self._passed(h, messages, len(self.norms)).index_select(0, rows)
        h = self._passed(h, messages, len(self.norms) - 1)
        last = self.convolutions[-1]
        assert isinstance(last, WeightedSAGE)
        normed = self.norms[-1](last.at(rows, h, messages))
        return bent(normed, h.index_select(0, rows), self.dropout)

    def _passed(self, h: Tensor, messages: Messages, layers: int) -> Tensor:
        """Through the first layers."""
        for convolution, norm in islice(zip(self.convolutions, self.norms), layers):
            h = bent(norm(convolution(h, messages)), h, self.dropout)
        return h


def averaged_messages(
    edge_index: Tensor, relation: Tensor, mean: Literal["all", "relation"], rows: int
) -> Messages:
    """Messages along foreign keys in both directions, averaged.

    Args:
        edge_index: (2, E) child and parent.
        relation: (E,) relation ids.
        mean: ``all`` gives a row the mean of all its neighbours, as GraphSAGE does; ``relation``
            the sum of one mean for each relation and direction, so that a thousand page views do
            not drown the one order.
        rows: T.
    """
    source, target = torch.cat([edge_index, edge_index.flip(0)], dim=1)
    group = (
        torch.zeros_like(target) if mean == "all" else torch.cat([2 * relation, 2 * relation + 1])
    )
    groups = 1 if mean == "all" or not len(relation) else 2 * (int(relation.max()) + 1)
    kind = target * groups + group
    weight = 1.0 / torch.bincount(kind, minlength=rows * groups)[kind]
    return _both(source, target, rows, weight)


def neighbour_messages(edge_index: Tensor, rows: int) -> Messages:
    """Messages along foreign keys (2, E) in both directions, each with weight 1."""
    source, target = torch.cat([edge_index, edge_index.flip(0)], dim=1)
    return _both(source, target, rows, None)


def _both(source: Tensor, target: Tensor, rows: int, weight: Tensor | None) -> Messages:
    return Messages(
        Segments.by_row(target, source, rows, weight), Segments.by_row(source, target, rows, weight)
    )
