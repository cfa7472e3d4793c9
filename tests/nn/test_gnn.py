"""Message passing in a fixed order gives what PyG's own aggregation gives."""

import torch
from torch_geometric.nn import GINConv, SAGEConv

from gelgt.nn.gnn import GNNBranch, Messages, SegmentSum, Way, WeightedSAGE, both_ways, messages


def edges_of(rows: int, count: int, seed: int) -> torch.Tensor:
    return torch.randint(0, rows, (2, count), generator=torch.Generator().manual_seed(seed))


def test_edges_go_both_ways_sorted_by_target() -> None:
    edges = both_ways(torch.tensor([[0, 2], [1, 1]]))
    assert edges.tolist() == [[1, 0, 2, 1], [0, 1, 1, 2]]


def test_segments_equal_pygs_sum() -> None:
    edges, x = both_ways(edges_of(20, 30, 0)), torch.randn(20, 8, dtype=torch.float64)
    ours, theirs = (
        GINConv(torch.nn.Identity(), aggr=aggregation) for aggregation in (SegmentSum(), "sum")
    )
    torch.testing.assert_close(ours(x, edges), theirs(x, edges), atol=1e-5, rtol=1e-5)


def test_the_mean_of_all_neighbours_is_pygs_graphsage() -> None:
    edges, x = edges_of(20, 30, 0), torch.randn(20, 8, dtype=torch.float64)
    ours, theirs = WeightedSAGE(8).double(), SAGEConv(8, 8, aggr="mean").double()
    theirs.load_state_dict(ours.state_dict())
    relation = torch.randint(0, 3, (30,), generator=torch.Generator().manual_seed(1))
    found = ours(x, messages(edges, relation, "all", 20))
    torch.testing.assert_close(found, theirs(x, both_ways(edges)), atol=1e-5, rtol=1e-5)


def test_one_mean_for_each_relation_and_direction() -> None:
    """Row 0 has three children by relation 0, one by relation 1, and a parent by relation 1."""
    edges = torch.tensor([[1, 2, 3, 4, 0], [0, 0, 0, 0, 5]])
    relation = torch.tensor([0, 0, 0, 1, 1])
    sent = messages(edges, relation, "relation", 6)
    received = as_matrix(sent.received)
    torch.testing.assert_close(as_matrix(sent.sent), received.T)
    torch.testing.assert_close(received[0], torch.tensor([0.0, 1 / 3, 1 / 3, 1 / 3, 1.0, 1.0]))
    assert received[1:, 0].tolist() == [1.0] * 5
    assert int((received > 0).sum()) == 10


def as_matrix(way: Way) -> torch.Tensor:
    """(T, T): what each row has to do with each other."""
    rows = len(way.starts)
    matrix, ends = torch.zeros(rows, rows), [*way.starts[1:].tolist(), len(way.other)]
    for row, (start, end) in enumerate(zip(way.starts.tolist(), ends)):
        matrix[row, way.other[start:end]] = way.weight[start:end]
    return matrix


def test_gradients_equal_finite_differences() -> None:
    edges, relation = (
        edges_of(6, 9, 3),
        torch.randint(0, 3, (9,), generator=torch.Generator().manual_seed(1)),
    )
    conv, sent = WeightedSAGE(3).double(), messages(edges, relation, "relation", 6)
    sent = Messages(
        *(Way(way.other, way.weight.double(), way.starts) for way in (sent.received, sent.sent))
    )
    assert torch.autograd.gradcheck(
        lambda x: conv(x, sent), torch.randn(6, 3, dtype=torch.float64, requires_grad=True)
    )


def test_rows_without_edges_and_graphs_without_edges() -> None:
    none = torch.zeros(2, 0, dtype=torch.int64)
    conv = GINConv(torch.nn.Identity(), aggr=SegmentSum())
    x = torch.randn(3, 4)
    torch.testing.assert_close(conv(x, both_ways(none)), x)
    for mean in ("all", "relation"):
        out = GNNBranch(4, 2, 0.0).eval()(x, messages(none, none[0], mean, 3))
        assert out.shape == (3, 4)
        assert torch.isfinite(out).all()


def test_gradients_reach_the_neighbours() -> None:
    x = torch.randn(3, 4, requires_grad=True)
    sent = messages(torch.tensor([[1], [0]]), torch.tensor([0]), "all", 3)
    GNNBranch(4, 1, 0.0)(x, sent)[0].sum().backward()
    assert x.grad is not None
    assert x.grad[1].abs().sum() > 0
    assert x.grad[2].abs().sum() == 0
