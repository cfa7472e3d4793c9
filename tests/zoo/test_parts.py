"""The parts of the zoo: sums and their gradients, rows by table, keys by relation."""

import pytest
import torch

from gelgt.graph.store import Relation
from gelgt.nn.bias import LinearDecayBias
from gelgt.nn.model import Tokens
from gelgt.zoo.parts import (
    Blocks,
    Index,
    key_bias,
    key_ways,
    mean,
    padded,
    refined,
    shares,
    subgraph_of,
    take,
    total,
    way_tables,
)

ROWS = torch.tensor([3, 0, 3, 1, 3])


def test_take_and_total_are_each_others_gradient() -> None:
    torch.manual_seed(0)
    index = Index.of(ROWS, 5)  # row 2 has no item, row 4 either
    items, x = (
        torch.randn(5, 2, dtype=torch.float64, requires_grad=True),
        torch.randn(5, 2, dtype=torch.float64, requires_grad=True),
    )
    expected = torch.zeros(5, 2, dtype=torch.float64).index_add(0, ROWS, items)
    torch.testing.assert_close(total(items, index), expected)
    torch.testing.assert_close(take(x, index), x[ROWS])
    assert torch.autograd.gradcheck(lambda v: total(v, index), items)
    assert torch.autograd.gradcheck(lambda v: take(v, index), x)
    assert index.counts.tolist() == [1, 1, 0, 3, 0]
    assert mean(items, index)[2].tolist() == [0, 0]
    torch.testing.assert_close(mean(items, index)[3], items[[0, 2, 4]].mean(0))


def test_shares_are_a_softmax_among_the_items_of_a_row() -> None:
    scores = torch.tensor(
        [[1.0, 90.0], [5.0, -3.0], [2.0, 91.0], [0.0, 0.0], [-4.0, 95.0]], requires_grad=True
    )
    found = shares(scores, Index.of(ROWS, 5))
    torch.testing.assert_close(found[[0, 2, 4]], torch.softmax(scores[[0, 2, 4]], 0))
    torch.testing.assert_close(found[[1, 3]], torch.ones(2, 2))
    assert torch.autograd.gradcheck(
        lambda s: shares(s, Index.of(ROWS, 5)), scores.double(), eps=1e-3, atol=1e-3
    )


@pytest.mark.parametrize("size", [0, 3])
def test_nothing_to_sum_up(size: int) -> None:
    index = Index.of(torch.zeros(0, dtype=torch.int64), size)
    items = torch.zeros(0, 4, requires_grad=True)
    total(items, index).sum().backward()
    assert total(items, index).shape == (size, 4)
    assert take(torch.ones(size, 4, requires_grad=True), index).shape == (0, 4)


RELATIONS = [
    Relation("orders", "user_id", "users"),
    Relation("orders", "shop_id", "shops"),
    Relation("orders", "after_id", "orders"),
]
TABLES = ["shops", "users", "orders", "empty"]


def tokens() -> Tokens:
    """Two subgraphs: a user with two orders of a shop, the second after the first; and a user
    alone."""
    table = torch.tensor([1, 2, 2, 0, 1])
    edges = torch.tensor([[1, 2, 1, 2, 2], [0, 0, 3, 3, 1]])
    relation = torch.tensor([0, 0, 1, 1, 2])
    age = torch.tensor([0.0, 5.0, 2.0, 0.0, 0.0])
    h = torch.arange(10.0).view(5, 2)
    return Tokens(
        h,
        age,
        age > 0,
        torch.tensor([0, 1, 1, 2, 0]),
        table,
        table,
        torch.tensor([0, 4, 5]),
        edges,
        relation,
    )


def test_blocks_take_apart_and_join() -> None:
    made = tokens()
    blocks = Blocks.of(made, 4)
    assert [rows.tolist() for rows in blocks.rows] == [[3], [0, 4], [1, 2], []]
    assert blocks.place.tolist() == [0, 0, 1, 0, 1]
    assert torch.equal(blocks.join(blocks.split(made.h)), made.h)


def test_ways_hold_every_key_in_both_directions() -> None:
    made = tokens()
    blocks, pairs = Blocks.of(made, 4), way_tables(RELATIONS, TABLES)
    assert pairs == [(2, 1), (1, 2), (2, 0), (0, 2), (2, 2), (2, 2)]
    ways = key_ways(made, blocks, pairs)
    found = [
        (way.source, way.target, way.sent.rows.tolist(), way.received.rows.tolist()) for way in ways
    ]
    assert found == [
        (2, 1, [0, 1], [0, 0]),
        (1, 2, [0, 0], [0, 1]),
        (2, 0, [0, 1], [0, 0]),
        (0, 2, [0, 0], [0, 1]),
        (2, 2, [1], [0]),
        (2, 2, [0], [1]),
    ]


def test_refinement_keeps_the_keys_among_what_it_keeps() -> None:
    kept = refined(tokens(), 3)
    assert kept.offsets.tolist() == [0, 3, 4]
    assert kept.table.tolist() == [1, 2, 2, 1]
    assert kept.edges.tolist() == [[1, 2, 2], [0, 0, 1]]
    assert kept.relation.tolist() == [0, 0, 2]
    assert subgraph_of(kept).tolist() == [0, 0, 0, 1]
    x, mask = padded(kept)
    assert mask.tolist() == [[True] * 3, [True, False, False]]
    assert x[1, 1:].abs().sum() == 0


def test_a_bias_along_keys_is_that_of_the_pair() -> None:
    bias = LinearDecayBias(2)
    age, known = torch.tensor([[1.0, 5.0, 3.0]]), torch.tensor([[True, True, False]])
    whole = bias(age, known)[0]  # (H, 3, 3)
    pairs = torch.tensor([[0, 1, 2], [1, 1, 0]])
    found = key_bias(
        bias, (age[0, pairs[0]], age[0, pairs[1]]), (known[0, pairs[0]], known[0, pairs[1]])
    )
    torch.testing.assert_close(found, whole[:, pairs[0], pairs[1]].T)
    assert found[2].tolist() == [0, 0]
