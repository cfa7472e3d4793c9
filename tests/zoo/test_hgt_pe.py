"""HGT with positions: sees what lies in the structure alone, which attention does not."""

from pathlib import Path

import torch
from planted_keys import gatherings
from test_parts import tokens

from gelgt.nn.dropout import own_dropout
from gelgt.zoo.hgt_pe import random_signs


def test_structure_is_seen_where_attention_alone_is_blind(tmp_path: Path) -> None:
    """Attention averages what arrives, and four equal visits have the mean of one."""
    world = gatherings(tmp_path / "db")
    blind = world.train("hgt", train__epochs=2)
    assert blind.entity_mean < 0.55
    assert blind.auc < 0.6
    assert world.train("hgt-pe", train__epochs=8).auc > 0.9


def test_signs_are_one_for_a_vector_of_a_subgraph_and_can_be_repeated() -> None:
    made = tokens()
    with own_dropout(3):
        signs = [random_signs(made, 64) for _ in range(2)]
    with own_dropout(3):
        again = random_signs(made, 64)
    assert torch.equal(signs[0], again)
    assert not torch.equal(signs[0], signs[1])
    assert set(signs[0].unique().tolist()) == {-1.0, 1.0}
    assert all(torch.equal(signs[0][0], row) for row in signs[0][:4]), "the rows of one subgraph"
    assert not torch.equal(signs[0][0], signs[0][4])
