"""Message passing in a fixed order gives what PyG's own aggregation gives."""

import torch
from torch_geometric.nn import GINConv, SAGEConv

from gelgt.nn.gnn import GNNBranch, SegmentAggregation, both_ways


def edges_of(rows: int, count: int, seed: int) -> torch.Tensor:
    return torch.randint(0, rows, (2, count), generator=torch.Generator().manual_seed(seed))


def test_edges_go_both_ways_sorted_by_target() -> None:
    edges = both_ways(torch.tensor([[0, 2], [1, 1]]))
    assert edges.tolist() == [[1, 0, 2, 1], [0, 1, 1, 2]]


def test_segments_equal_pygs_mean_and_sum() -> None:
    edges, x = both_ways(edges_of(20, 30, 0)), torch.randn(20, 8, dtype=torch.float64)
    for is_mean, name in ((True, "mean"), (False, "sum")):
        torch.manual_seed(0)
        ours = SAGEConv(8, 8, aggr=SegmentAggregation(is_mean)).double()
        torch.manual_seed(0)
        theirs = SAGEConv(8, 8, aggr=name).double()
        torch.testing.assert_close(ours(x, edges), theirs(x, edges), atol=1e-5, rtol=1e-5)


def test_rows_without_edges_and_graphs_without_edges() -> None:
    none = torch.zeros(2, 0, dtype=torch.int64)
    conv = GINConv(torch.nn.Identity(), aggr=SegmentAggregation(is_mean=False))
    x = torch.randn(3, 4)
    torch.testing.assert_close(conv(x, both_ways(none)), x)
    out = GNNBranch(4, 2, 0.0).eval()(x, both_ways(none), torch.tensor([1]))
    assert torch.isfinite(out).all()


def test_gradients_reach_the_neighbours() -> None:
    x = torch.randn(3, 4, requires_grad=True)
    GNNBranch(4, 1, 0.0)(x, both_ways(torch.tensor([[1], [0]])), torch.tensor([0])).sum().backward()
    assert x.grad is not None
    assert x.grad[1].abs().sum() > 0
    assert x.grad[2].abs().sum() == 0
