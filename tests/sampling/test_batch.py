"""Batches: two layouts that hold the same, and a PyG mini-batch that holds it too."""

from pathlib import Path

import numpy as np
import pytest
import torch

from gelgt.config import SamplingConfig
from gelgt.graph import Graph
from gelgt.sampling import Sampler
from gelgt.sampling.batch import MULTIPLE, SubgraphBatch, from_sample
from gelgt.testing.graphs import write_graph

DAY = 86_400


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    """Two customers, four orders (the last from the future), three items without a time of their
    own."""
    times = {"customers": 2, "orders": [10 * DAY, 20 * DAY, 30 * DAY, 99 * DAY], "items": 3}
    keys = [
        ("orders", "customer", "customers", [0, 0, 1, 0]),
        ("items", "order", "orders", [0, 1, 3]),
    ]
    return write_graph(tmp_path, times, keys)


@pytest.fixture
def batch(graph: Graph) -> SubgraphBatch:
    nodes, times = np.array([0, 1, 0]), np.array([40 * DAY, 40 * DAY, 15 * DAY])
    sample = Sampler(graph, SamplingConfig()).sample(nodes, times)
    return from_sample(
        sample, graph, times, np.array([5, 6, 2**63 + 1], np.uint64), np.array([7, 8, 9])
    )


def test_rows_of_each_seed(batch: SubgraphBatch) -> None:
    assert batch.lengths.tolist() == [5, 2, 3]
    assert batch.node.tolist() == [0, 3, 2, 7, 6, 1, 4, 0, 2, 6]
    assert batch.hop.tolist() == [0, 1, 1, 2, 2, 0, 1, 0, 1, 2]
    assert batch.table.tolist() == [0, 1, 1, 2, 2, 0, 1, 0, 1, 2]
    assert batch.age.tolist() == [0, 20, 30, 0, 0, 0, 10, 0, 5, 0]
    assert batch.has_time.tolist() == [
        True,
        True,
        True,
        False,
        False,
        True,
        True,
        True,
        True,
        False,
    ]
    assert batch.edge_index.tolist() == [[1, 2, 3, 4, 6, 8, 9], [0, 0, 1, 2, 5, 7, 8]]
    assert batch.edge_relation.tolist() == [0, 0, 1, 1, 0, 0, 1]
    assert batch.index.tolist() == [7, 8, 9]
    assert batch.seed_key.numpy().view(np.uint64).tolist() == [5, 6, 2**63 + 1]


def test_the_same_entity_at_two_times_has_two_neighbourhoods(batch: SubgraphBatch) -> None:
    first, third = (
        set(batch.node[slice(*batch.offsets[b : b + 2].tolist())].tolist()) for b in (0, 2)
    )
    assert third < first


def test_layouts_convert_into_each_other(batch: SubgraphBatch) -> None:
    padded = batch.to_padded()
    assert padded.node.shape == (3, MULTIPLE)
    assert padded.mask is not None
    assert padded.mask.sum(1).tolist() == [5, 2, 3]
    assert (padded.node == -1).equal(~padded.mask)
    assert not padded.has_time[~padded.mask].any()
    assert padded.node.flatten()[padded.seed_position].tolist() == [0, 1, 0]
    for end in range(2):
        assert padded.node.flatten()[padded.edge_index[end]].equal(
            batch.node[batch.edge_index[end]]
        )
    back = padded.to_packed()
    for name in (
        "node",
        "hop",
        "table",
        "age",
        "has_time",
        "edge_index",
        "edge_relation",
        "offsets",
    ):
        assert getattr(back, name).equal(getattr(batch, name)), name
    assert padded.to_padded() is padded
    assert batch.to_packed() is batch


def test_width_is_a_multiple_of_the_longest(batch: SubgraphBatch) -> None:
    assert batch.to_padded(multiple=2).node.shape == (3, 6)
    assert batch.to_padded(multiple=64).node.shape == (3, 64)


def test_to_device_moves_every_tensor(batch: SubgraphBatch) -> None:
    moved = batch.to_padded().to("meta")
    assert moved.node.device.type == "meta"
    assert moved.mask is not None
    assert (
        moved.mask.device.type
        == moved.edge_index.device.type
        == moved.seed_key.device.type
        == "meta"
    )


def test_hetero_mini_batch(batch: SubgraphBatch) -> None:
    data = batch.to_padded().to_hetero()
    assert data["customers"].n_id.tolist() == [0, 1, 0]
    assert data["customers"].batch_size == 3
    assert data["customers"].seed_position.tolist() == [0, 1, 2]
    assert data["orders"].n_id.tolist() == [1, 0, 2, 0]
    assert data["orders"].batch.tolist() == [0, 0, 1, 2]
    edges = data["orders", "f2p_customer", "customers"].edge_index
    assert edges.tolist() == [[0, 1, 2, 3], [0, 0, 1, 2]]
    assert data["customers", "rev_f2p_customer", "orders"].edge_index.equal(edges.flip(0))
    assert data.validate()


def test_seeds_come_first_in_their_table(tmp_path: Path) -> None:
    """A seed's own table may also hold neighbours: a parent of the seed is no seed."""
    graph = write_graph(tmp_path, {"people": 3}, [("people", "boss", "people", [None, 0, 0])])
    sample = Sampler(graph, SamplingConfig()).sample([1, 2], [0, 0])
    data = from_sample(
        sample, graph, np.zeros(2, np.int64), np.zeros(2, np.uint64), np.arange(2)
    ).to_hetero()
    assert data["people"].n_id[: data["people"].batch_size].tolist() == [1, 2]
    assert data["people"].seed_batch.tolist() == [0, 1]
    source, target = data["people", "f2p_boss", "people"].edge_index
    names = data["people"].n_id
    assert set(zip(names[source].tolist(), names[target].tolist())) == {(1, 0), (2, 0)}


def test_pinning_needs_no_change_of_values(batch: SubgraphBatch) -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs CUDA to pin memory")
    assert batch.pin_memory().node.is_pinned()
