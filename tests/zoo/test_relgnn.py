"""RelGNN: one step crosses a bridge table; routes follow from the schema."""

from pathlib import Path

import torch
from planted_keys import visits
from test_parts import RELATIONS, TABLES, tokens

from gelgt.graph.store import Relation
from gelgt.nn.blocks import Blocks
from gelgt.zoo.parts import direction_tables
from gelgt.zoo.relgnn import Leg, RelGNNConfig, RelGNNLayer, Route, atomic_routes


def test_one_step_crosses_a_bridge(tmp_path: Path) -> None:
    """Where one layer of other message passing gets no further than the bridge row."""
    world = visits(tmp_path / "db", "weight")
    found = world.train("relgnn", model__layers=1, train__epochs=6)
    assert found.entity_mean < 0.55
    assert found.auc > 0.9
    assert world.train("hgt", model__layers=1, train__epochs=3).auc < 0.65


def test_routes_follow_from_the_schema() -> None:
    single = [Relation("notes", "order_id", "orders")]
    assert atomic_routes(single) == [Route(0), Route(1)], "one key: from child to parent and back"
    assert [route.key for route in atomic_routes(RELATIONS) if route.direction == 0] == [1, 2], (
        "to the user, from the shop and the order before"
    )
    assert len([r for r in atomic_routes(RELATIONS) if r.key is not None]) == 6, (
        "ordered pairs of three keys"
    )
    assert atomic_routes([]) == []


def layer_and_legs(routes: list[Route]) -> tuple[RelGNNLayer, list[torch.Tensor], list[Leg]]:
    torch.manual_seed(0)
    made = tokens()
    blocks = Blocks.of(made.table, len(TABLES))
    directions = made.directions(blocks, direction_tables(RELATIONS, TABLES))
    layer = RelGNNLayer(RelGNNConfig(width=8, heads=2, dropout=0.0), len(TABLES), routes)
    return (
        layer,
        [torch.randn(len(rows), 8) for rows in blocks.rows],
        [Leg.of(route, directions, None) for route in routes],
    )


def test_a_bridge_fuses_itself_with_what_lies_behind() -> None:
    """The user of two orders, by the route from the order before: the first order comes after none
    and passes on itself alone."""
    layer, h, legs = layer_and_legs([Route(0, 2)])
    orders = h[TABLES.index("orders")]
    fused = layer.bridge[0](orders)
    fused = torch.stack([fused[0], fused[1] + layer.behind[0](orders)[0]])
    key, value = fused.view(2, 2, 2, 4).unbind(1)  # (orders, H, d/H)
    query = layer.queries[0](h[TABLES.index("users")])[0].view(2, 4)
    weights = torch.softmax((key * query).sum(2) / 2, dim=0)
    expected = (weights[:, :, None] * value).sum(0).flatten()
    sides = (
        layer.bridge[0](orders),
        layer.queries[0](h[TABLES.index("users")]),
        layer.behind[0](orders),
    )
    found = layer._attended(legs[0], *sides)
    torch.testing.assert_close(found[0], expected)
    assert found[1].abs().sum() == 0, "the user alone receives nothing"


def test_what_lies_behind_reaches_the_target_in_one_step() -> None:
    layer, h, legs = layer_and_legs(atomic_routes(RELATIONS))
    changed = [x + 1 if table == "shops" else x for table, x in zip(TABLES, h)]
    users = TABLES.index("users")
    before, after = layer(h, legs)[users], layer(changed, legs)[users]
    assert not torch.equal(before[0], after[0])
    assert torch.equal(before[1], after[1]), "the user alone"
