"""The parts of the zoo: rows by table, keys by relation."""

import torch

from gelgt.graph.store import Relation
from gelgt.nn.bias import LinearDecayBias
from gelgt.nn.blocks import Blocks
from gelgt.nn.layout import PackedTokens
from gelgt.zoo.parts import direction_tables, key_bias

RELATIONS = [
    Relation("orders", "user_id", "users"),
    Relation("orders", "shop_id", "shops"),
    Relation("orders", "after_id", "orders"),
]
TABLES = ["shops", "users", "orders", "empty"]


def tokens() -> PackedTokens:
    """Two subgraphs: a user with two orders of a shop, the second after the first; and a user
    alone."""
    table = torch.tensor([1, 2, 2, 0, 1])
    age = torch.tensor([0.0, 5.0, 2.0, 0.0, 0.0])
    return PackedTokens(
        h=torch.arange(10.0).view(5, 2),
        age=age,
        has_time=age > 0,
        offsets=torch.tensor([0, 4, 5]),
        hop=torch.tensor([0, 1, 1, 2, 0]),
        table=table,
        node=table,
        edges=torch.tensor([[1, 2, 1, 2, 2], [0, 0, 3, 3, 1]]),
        relation=torch.tensor([0, 0, 1, 1, 2]),
    )


def rows_of(lengths: list[int]) -> PackedTokens:
    """Subgraphs of so many rows, of which nothing else is known."""
    none = torch.zeros(sum(lengths), dtype=torch.int64)
    return PackedTokens(
        h=none[:, None].float(),
        age=none.float(),
        has_time=none > 0,
        offsets=torch.tensor([0, *lengths]).cumsum(0),
        hop=none,
        table=none,
        node=none,
        edges=torch.zeros(2, 0, dtype=torch.int64),
        relation=none[:0],
    )


def test_blocks_take_apart_and_join() -> None:
    made = tokens()
    blocks = Blocks.of(made.table, 4)
    assert [rows.tolist() for rows in blocks.rows] == [[3], [0, 4], [1, 2], []]
    assert torch.equal(blocks.join(blocks.split(made.h)), made.h)


def test_ways_hold_every_key_in_both_directions() -> None:
    made = tokens()
    blocks, pairs = Blocks.of(made.table, 4), direction_tables(RELATIONS, TABLES)
    assert pairs == [(2, 1), (1, 2), (2, 0), (0, 2), (2, 2), (2, 2)]
    directions = made.directions(blocks, pairs)
    found = [
        (edges.source, edges.target, edges.sent.rows.tolist(), edges.received.rows.tolist())
        for edges in directions
    ]
    assert found == [
        (2, 1, [0, 1], [0, 0]),
        (1, 2, [0, 0], [0, 1]),
        (2, 0, [0, 1], [0, 0]),
        (0, 2, [0, 0], [0, 1]),
        (2, 2, [1], [0]),
        (2, 2, [0], [1]),
    ]


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
