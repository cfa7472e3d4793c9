"""Griffin: rows ask their cells, messages are averaged within a relation and compared across
relations."""

from pathlib import Path

import pytest
import torch
from planted_keys import visits
from test_parts import RELATIONS, TABLES, tokens

import gelgt
from gelgt.nn.blocks import Blocks
from gelgt.zoo.griffin import GriffinConfig, GriffinLayer
from gelgt.zoo.parts import direction_tables


def test_the_cell_that_another_cell_names_is_found(tmp_path: Path) -> None:
    found = visits(tmp_path / "db", "cell").train("griffin", train__epochs=8)
    assert found.entity_mean < 0.55
    assert found.auc > 0.9


@pytest.mark.slow
def test_a_number_behind_a_bridge_is_found(tmp_path: Path) -> None:
    assert visits(tmp_path / "db", "weight").train("griffin", train__epochs=8).auc > 0.8


def make_layer() -> GriffinLayer:
    torch.manual_seed(0)
    return GriffinLayer(
        GriffinConfig(width=8, row_width=8, heads=2, dropout=0.0), 2 * len(RELATIONS)
    )


@torch.no_grad()
def test_a_row_asks_by_what_it_knows() -> None:
    """Of a cell that changes, a row learns as much as its question has to do with the column's
    name."""
    layer = make_layer()
    names = 10 * torch.eye(3, 8).roll(1, 0)
    question = torch.nn.Linear(8, 8, bias=False)
    layer.question = torch.nn.Sequential(question)
    question.weight.copy_(10 * torch.eye(8))
    # the first row asks for the first column, the second for the third; heads that ask nothing take
    # the mean
    x = names[[0, 2]] / 10
    cells = torch.randn(2, 3, 8)
    other = cells.clone()
    other[:, 0, :4] += 1  # the first column's cells, as the first head sees them
    before, after = (layer.ask(x, [c], [names]) for c in (cells, other))
    moved = (after - before).norm(dim=1)
    expected = layer.answer.weight[:, :4].sum(1).norm()
    assert moved[0] == pytest.approx(float(expected), rel=1e-3)
    assert moved[1] < 1e-3


def test_means_within_a_relation_and_the_largest_across_them() -> None:
    layer = make_layer()
    made = tokens()
    blocks = Blocks.of(made.table, len(TABLES))
    directions = made.directions(blocks, direction_tables(RELATIONS, TABLES))
    h = [torch.randn(len(rows), 8) for rows in blocks.rows]
    sent = [layer.message(x) for x in h]
    found = torch.split(layer.arriving(torch.cat(h), directions, blocks.sizes), blocks.sizes)
    users, shops, orders = (TABLES.index(name) for name in ("users", "shops", "orders"))
    torch.testing.assert_close(found[users][0], layer.relations[0] * sent[orders].mean(0))
    assert found[users][1].abs().sum() == 0, "a row without neighbours receives nothing"
    first = torch.stack(
        [
            layer.relations[1] * sent[users][0],
            layer.relations[3] * sent[shops][0],
            layer.relations[4] * sent[orders][1],
        ]
    )
    torch.testing.assert_close(found[orders][0], first.max(0).values)


@pytest.mark.parametrize(
    ("changes", "word"), [({"row_width": 15}, "row_width"), ({"bias": "gaussian"}, "bias")]
)
def test_configs_that_cannot_be(changes: dict[str, object], word: str) -> None:
    with pytest.raises(gelgt.GelgtError, match=word):
        GriffinConfig(**changes)
