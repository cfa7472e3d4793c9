"""Message passing in a fixed order gives what PyG's own aggregation gives."""

from dataclasses import replace

import pytest
import torch
from torch_geometric.nn import GINConv, SAGEConv

from gelgt.nn.gnn import GNNBranch, WeightedSAGE, averaged_messages, neighbour_messages
from gelgt.nn.structure import GIN
from gelgt.nn.sums import Messages, Segments


def edges_of(rows: int, count: int, seed: int) -> torch.Tensor:
    return torch.randint(0, rows, (2, count), generator=torch.Generator().manual_seed(seed))


def both_ways(edges: torch.Tensor) -> torch.Tensor:
    return torch.cat([edges, edges.flip(0)], dim=1)


def test_edges_go_both_ways_sorted_by_target() -> None:
    sent = neighbour_messages(torch.tensor([[0, 2], [1, 1]]), 3)
    for segments in (sent.received, sent.sent):
        assert segments.other.tolist() == [1, 0, 2, 1]
        assert segments.start.tolist() == [0, 1, 3]
        assert segments.end.tolist() == [1, 3, 4]


def test_segments_equal_pygs_sum() -> None:
    edges, x = edges_of(20, 30, 0), torch.randn(20, 8, dtype=torch.float64)
    theirs = GINConv(torch.nn.Identity(), aggr="sum")
    found = x + neighbour_messages(edges, 20).total(x)
    torch.testing.assert_close(found, theirs(x, both_ways(edges)), atol=1e-5, rtol=1e-5)


def test_the_mean_of_all_neighbours_is_pygs_graphsage() -> None:
    edges, x = edges_of(20, 30, 0), torch.randn(20, 8, dtype=torch.float64)
    ours, theirs = WeightedSAGE(8).double(), SAGEConv(8, 8, aggr="mean").double()
    theirs.load_state_dict(ours.state_dict())
    relation = torch.randint(0, 3, (30,), generator=torch.Generator().manual_seed(1))
    found = ours(x, averaged_messages(edges, relation, "all", 20))
    torch.testing.assert_close(found, theirs(x, both_ways(edges)), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("width", [8, 48, 64, 100])
def test_weights_start_as_pygs(width: int) -> None:
    """Under the same names, from the same seed, and with the generator in the same place after."""

    def layers() -> list[torch.nn.Module]:
        linear = torch.nn.Linear
        return [linear(width, width), torch.nn.LayerNorm(width), torch.nn.ReLU(), linear(width, 3)]

    pairs = [
        (lambda: WeightedSAGE(width), lambda: SAGEConv(width, width)),
        (
            lambda: GIN(torch.nn.Sequential(*layers())),
            lambda: GINConv(torch.nn.Sequential(*layers()), train_eps=True),
        ),
    ]
    for ours, theirs in pairs:
        drawn = []
        for make in (ours, theirs):
            torch.manual_seed(5)
            state = make().state_dict()
            drawn.append([*state.items(), ("next", torch.rand(1))])
        for (name, mine), (other, value) in zip(*drawn, strict=True):
            assert name == other
            assert torch.equal(mine, value)


def test_one_mean_for_each_relation_and_direction() -> None:
    """Row 0 has three children by relation 0, one by relation 1, and a parent by relation 1."""
    edges = torch.tensor([[1, 2, 3, 4, 0], [0, 0, 0, 0, 5]])
    relation = torch.tensor([0, 0, 0, 1, 1])
    sent = averaged_messages(edges, relation, "relation", 6)
    received = as_matrix(sent.received)
    torch.testing.assert_close(as_matrix(sent.sent), received.T)
    torch.testing.assert_close(received[0], torch.tensor([0.0, 1 / 3, 1 / 3, 1 / 3, 1.0, 1.0]))
    assert received[1:, 0].tolist() == [1.0] * 5
    assert int((received > 0).sum()) == 10


def as_matrix(segments: Segments) -> torch.Tensor:
    """(T, T): what each row has to do with each other."""
    rows = len(segments.start)
    matrix = torch.zeros(rows, rows)
    assert segments.weight is not None
    for row, (start, end) in enumerate(zip(segments.start.tolist(), segments.end.tolist())):
        matrix[row, segments.other[start:end]] = segments.weight[start:end]
    return matrix


def test_gradients_equal_finite_differences() -> None:
    edges, relation = (
        edges_of(6, 9, 3),
        torch.randint(0, 3, (9,), generator=torch.Generator().manual_seed(1)),
    )
    conv, sent = WeightedSAGE(3).double(), averaged_messages(edges, relation, "relation", 6)
    sent = Messages(
        *(replace(side, weight=side.weight.double()) for side in (sent.received, sent.sent))  # type: ignore[union-attr]
    )
    assert torch.autograd.gradcheck(
        lambda x: conv(x, sent), torch.randn(6, 3, dtype=torch.float64, requires_grad=True)
    )


def test_rows_without_edges_and_graphs_without_edges() -> None:
    none = torch.zeros(2, 0, dtype=torch.int64)
    x = torch.randn(3, 4)
    assert neighbour_messages(none, 3).total(x).tolist() == torch.zeros(3, 4).tolist()
    for mean in ("all", "relation"):
        out = GNNBranch(4, 2, 0.0).eval()(x, averaged_messages(none, none[0], mean, 3))
        assert out.shape == (3, 4)
        assert torch.isfinite(out).all()


@pytest.mark.parametrize("layers", [1, 3])
def test_some_rows_alone(layers: int) -> None:
    """What all rows give, without the last layer of the others where nothing is learned."""
    torch.manual_seed(0)
    branch, x = GNNBranch(8, layers, 0.0).eval(), torch.randn(5, 8)
    edges = torch.tensor([[1, 2, 3, 4], [0, 0, 1, 1]])
    messages = averaged_messages(edges, torch.zeros(4, dtype=torch.int64), "all", 5)
    rows = torch.tensor([1, 0, 1])
    expected = branch(x, messages)[rows]
    torch.testing.assert_close(branch.at(rows, x, messages), expected)
    with torch.no_grad():
        torch.testing.assert_close(branch.at(rows, x, messages), expected)


def test_gradients_reach_the_neighbours() -> None:
    x = torch.randn(3, 4, requires_grad=True)
    sent = averaged_messages(torch.tensor([[1], [0]]), torch.tensor([0]), "all", 3)
    GNNBranch(4, 1, 0.0)(x, sent)[0].sum().backward()
    assert x.grad is not None
    assert x.grad[1].abs().sum() > 0
    assert x.grad[2].abs().sum() == 0
