"""RelBench's baseline: finds what lies one and two keys away, and is PyG's heterogeneous
GraphSAGE."""

from pathlib import Path
from typing import Any

import pytest
import torch
from planted_keys import visits
from test_parts import RELATIONS, TABLES, tokens
from torch_geometric.nn import HeteroConv, SAGEConv

from gelgt.nn.blocks import Blocks
from gelgt.zoo.parts import direction_tables
from gelgt.zoo.rdl import HeteroSAGE, RDLConfig


@pytest.mark.parametrize("signal", ["value", "weight"])
def test_a_number_one_or_two_keys_away_is_found(tmp_path: Path, signal: str) -> None:
    found = visits(tmp_path / "db", signal).train("rdl", train__epochs=8)
    assert found.entity_mean < 0.55, "every user has one label; those of others before say nothing"
    assert found.auc > 0.9


def test_one_layer_does_not_reach_two_keys_away(tmp_path: Path) -> None:
    assert (
        visits(tmp_path / "db", "weight").train("rdl", train__epochs=4, model__layers=1).auc < 0.65
    )


@pytest.mark.parametrize("aggregation", ["sum", "mean"])
def test_a_layer_is_pygs(aggregation: Any) -> None:
    torch.manual_seed(0)
    made = tokens()
    blocks, pairs = Blocks.of(made.table, len(TABLES)), direction_tables(RELATIONS, TABLES)
    directions = made.directions(blocks, pairs)
    layer = HeteroSAGE(
        RDLConfig(width=8, aggregation=aggregation, dropout=0.0), len(TABLES), len(pairs)
    )
    theirs = {
        (TABLES[s], str(n), TABLES[t]): SAGEConv((8, 8), 8, aggr=aggregation)
        for n, (s, t) in enumerate(pairs)
    }
    for linear, ((_, _, target), convolution) in zip(layer.arriving, theirs.items()):
        own, share = layer.root[TABLES.index(target)], sum(t == target for _, _, t in theirs)
        with torch.no_grad():
            convolution.lin_l.weight.copy_(linear.weight)
            convolution.lin_l.bias.copy_(own.bias / share)
            # their matrices for the row itself are added up
            convolution.lin_r.weight.copy_(own.weight / share)
    h = [torch.randn(len(rows), 8) for rows in blocks.rows]
    theirs_edges = {
        name: torch.stack([edges.sent.rows, edges.received.rows])
        for name, edges in zip(theirs, directions)
    }
    expected = HeteroConv(theirs, aggr="sum")(dict(zip(TABLES, h)), theirs_edges)
    found = layer(h, directions)
    for table in ("shops", "users", "orders"):
        norm = layer.norms[TABLES.index(table)]
        torch.testing.assert_close(
            found[TABLES.index(table)], torch.relu(norm(expected[table])), atol=1e-5, rtol=1e-5
        )
