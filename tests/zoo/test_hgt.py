"""HGT: attention chooses among neighbours by what they are, and a layer is PyG's."""

from pathlib import Path

import torch
from planted_keys import visits
from test_parts import RELATIONS, TABLES, tokens
from torch_geometric.nn import HGTConv

from gelgt.nn.bias import GaussianBias
from gelgt.nn.blocks import Blocks
from gelgt.zoo.hgt import HGTConfig, HGTLayer, arriving_edges
from gelgt.zoo.parts import direction_tables


def test_the_rows_of_one_kind_are_found_among_others(tmp_path: Path) -> None:
    found = visits(tmp_path / "db", "kind").train("hgt", train__epochs=6)
    assert found.entity_mean < 0.55
    assert found.auc > 0.8


def test_a_layer_is_pygs() -> None:
    torch.manual_seed(0)
    made = tokens()
    blocks, pairs = Blocks.of(made.table, len(TABLES)), direction_tables(RELATIONS, TABLES)
    directions = made.directions(blocks, pairs)
    names = [(TABLES[s], str(number), TABLES[t]) for number, (s, t) in enumerate(pairs)]
    layer = HGTLayer(HGTConfig(width=8, heads=2, dropout=0.0), len(TABLES), len(pairs))
    layer.norms = torch.nn.ModuleList(torch.nn.Identity() for _ in TABLES)
    theirs = HGTConv(dict.fromkeys(TABLES, 8), 8, (TABLES, names), heads=2)
    with torch.no_grad():
        layer.prior.normal_()
        for number, table in enumerate(TABLES):
            for linear, own in (
                (theirs.kqv_lin, layer.kqv[number]),
                (theirs.out_lin, layer.out[number]),
            ):
                linear.lins[table].weight.copy_(own.weight)
                linear.lins[table].bias.copy_(own.bias)
            theirs.skip[table].copy_(layer.skip[number])
        # by head, then by relation
        theirs.k_rel.weight.copy_(layer.attending.transpose(0, 1).flatten(0, 1))
        theirs.v_rel.weight.copy_(layer.sending.transpose(0, 1).flatten(0, 1))
        for number, name in enumerate(names):
            theirs.p_rel["__".join(name)].copy_(layer.prior[number])
    h = [torch.randn(len(rows), 8) for rows in blocks.rows]
    theirs_edges = {
        name: torch.stack([edges.sent.rows, edges.received.rows])
        for name, edges in zip(names, directions)
    }
    expected = theirs(dict(zip(TABLES, h)), theirs_edges)
    arrivals = arriving_edges(directions, [None] * len(directions), blocks.sizes)
    found = layer(h, directions, arrivals)
    for table in ("shops", "users", "orders"):
        torch.testing.assert_close(
            found[TABLES.index(table)], expected[table], atol=1e-5, rtol=1e-5
        )


def test_the_temporal_bias_can_be_switched_on(tmp_path: Path) -> None:
    found = visits(tmp_path / "db", "value", users=300).train(
        "hgt", model__bias="gaussian", train__epochs=1, train__warmup=0
    )
    assert len(found.model.temporal_profile()[0]) == 4
    (bias,) = found.model.biases
    start = GaussianBias(found.model.config)
    start.start_from(found.data.ages())
    assert isinstance(bias, GaussianBias)
    assert not torch.allclose(bias.mu, start.mu, rtol=1e-3), "the centres are learned"
