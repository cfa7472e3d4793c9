"""④ The GNN branch: GraphSAGE over foreign keys in both directions (paper, hyper-parameter
appendix)."""

from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import SAGEConv
from torch_geometric.nn.aggr import Aggregation

from gelgt.nn.dropout import Dropout
from gelgt.nn.norms import LayerNorm


@dataclass(frozen=True)
class Way:
    """E' edges, those of one row behind each other.

    Attributes:
        other: (E',) the row at the other end.
        weight: (E',) share of a message in what its target receives.
        starts: (T,) where the edges of each row begin.
    """

    other: Tensor
    weight: Tensor
    starts: Tensor


@dataclass(frozen=True)
class Messages:
    """The edges along which messages go: `received` by target, for the forward pass, and `sent` by
    source, for the backward pass."""

    received: Way
    sent: Way

    def total(self, x: Tensor) -> Tensor:
        """What each row receives: (T, d) → (T, d)."""
        out: Tensor = _WeightedSum.apply(x, self)  # type: ignore[no-untyped-call]
        return out


class SendsMessages(Protocol):
    """Edges that know what each row receives along them."""

    def total(self, x: Tensor) -> Tensor: ...


class SegmentSum(Aggregation):  # type: ignore[misc]  # PyG is untyped
    """Sum of the messages of each row, over edges that are sorted by target.

    One segment is one sum in a fixed order. PyG's own scatter adds with atomics on CUDA, in another
    order each time, and a prediction would not give the same bits twice.
    """

    def forward(
        self,
        x: Tensor,
        index: Tensor,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
        dim: int = -2,
    ) -> Tensor:
        """(E, d), (E,) ascending → (dim_size, d)."""
        rows = int(index[-1]) + 1 if dim_size is None else dim_size
        bounds = torch.searchsorted(index, torch.arange(rows + 1, device=index.device))
        return torch.segment_reduce(x.float(), "sum", offsets=bounds, axis=0, initial=0.0).to(
            x.dtype
        )


class WeightedSAGE(SAGEConv):  # type: ignore[misc]  # PyG is untyped
    """GraphSAGE whose messages carry weights; with 1/degree it is the mean."""

    def __init__(self, width: int) -> None:
        super().__init__(width, width)

    def forward(self, x: Tensor, messages: SendsMessages) -> Tensor:
        """(T, d) → (T, d)."""
        out: Tensor = self.lin_l(messages.total(x)) + self.lin_r(x)
        return out


class _WeightedSum(torch.autograd.Function):
    """What each row receives, (T, d) → (T, d), one sum in a fixed order for each row, in both
    directions.

    No message is ever written to memory. Autograd's way would add up gradients with atomics on
    CUDA, in another order each time.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, messages: Messages) -> Tensor:
        ctx.sent = messages.sent
        return _sum_up(x, messages.received)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _sum_up(gradient, ctx.sent), None


def _sum_up(x: Tensor, way: Way) -> Tensor:
    if not len(way.other):
        return torch.zeros_like(x)
    return functional.embedding_bag(
        way.other, x.contiguous(), way.starts, mode="sum", per_sample_weights=way.weight.to(x.dtype)
    )


class GNNBranch(nn.Module):
    """Layers of message passing, LayerNorm, GELU, dropout, each with a residual connection."""

    def __init__(self, width: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(WeightedSAGE(width) for _ in range(layers))
        self.norms = nn.ModuleList(LayerNorm(width) for _ in range(layers))
        self.dropout = Dropout(dropout)

    def forward(self, h: Tensor, messages: SendsMessages) -> Tensor:
        """(T, d) → (T, d)."""
        for convolution, norm in zip(self.convolutions, self.norms):
            h = h + self.dropout(functional.gelu(norm(convolution(h, messages))))
        return h


def both_ways(edge_index: Tensor) -> Tensor:
    """Foreign keys carry messages in both directions: (2, E) → (2, 2E), sorted by target as
    `SegmentSum` needs it."""
    edges = torch.cat([edge_index, edge_index.flip(0)], dim=1)
    return edges[:, torch.argsort(edges[1], stable=True)]


def messages(
    edge_index: Tensor, relation: Tensor, mean: Literal["all", "relation"], rows: int
) -> Messages:
    """Messages along foreign keys in both directions.

    Args:
        edge_index: (2, E) child and parent.
        relation: (E,) relation ids.
        mean: ``all`` gives a row the mean of all its neighbours, as GraphSAGE does; ``relation``
            the sum of one mean for each relation and direction, so that a thousand page views do
            not drown the one order.
        rows: T.
    """
    edges = torch.cat([edge_index, edge_index.flip(0)], dim=1)
    group = (
        torch.zeros_like(edges[1]) if mean == "all" else torch.cat([2 * relation, 2 * relation + 1])
    )
    groups = 1 if mean == "all" or not len(relation) else 2 * (int(relation.max()) + 1)
    kind = edges[1] * groups + group
    weight = 1.0 / torch.bincount(kind, minlength=rows * groups)[kind]
    source, target = edges
    return Messages(_way(target, source, weight, rows), _way(source, target, weight, rows))


def _way(row: Tensor, other: Tensor, weight: Tensor, rows: int) -> Way:
    order = torch.argsort(row, stable=True)
    starts = torch.searchsorted(row[order], torch.arange(rows, device=row.device))
    return Way(other[order], weight[order], starts)
