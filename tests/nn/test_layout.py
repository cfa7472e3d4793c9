"""Packed tokens: refinement keeps the keys among what it keeps, and padding holds nothing."""

import torch

from gelgt.nn.layout import PackedTokens


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


def test_refinement_keeps_the_keys_among_what_it_keeps() -> None:
    kept = tokens().refined(3)
    assert kept.offsets.tolist() == [0, 3, 4]
    assert kept.table.tolist() == [1, 2, 2, 1]
    assert kept.edges.tolist() == [[1, 2, 2], [0, 0, 1]]
    assert kept.relation.tolist() == [0, 0, 2]
    assert kept.subgraph.tolist() == [0, 0, 0, 1]
    assert kept.mask.tolist() == [[True] * 3, [True, False, False]]
    assert kept.padded(kept.h)[1, 1:].abs().sum() == 0
    assert kept.at_seeds(kept.h).tolist() == [[0.0, 1.0], [8.0, 9.0]]
    age, has_time = kept.padded_times()
    assert age.tolist() == [[0.0, 5.0, 2.0], [0.0, 0.0, 0.0]]
    assert not has_time[1].any()
