"""A `SubgraphBatch` as a PyG `HeteroData` mini-batch, for models that speak PyG."""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gelgt.sampling.batch import SubgraphBatch

if TYPE_CHECKING:
    from torch_geometric.data import HeteroData


def to_hetero(batch: SubgraphBatch) -> "HeteroData":
    """The subgraphs side by side, disjoint, with RelBench's edge names and their reverses.

    For each table: `n_id` (row numbers), `batch` (the subgraph of each row), `age`, `has_time`,
    `hop`. Seeds come first in their table, in the order of the batch, so `out[:batch_size]` are the
    seeds where all are of one table. Where they are not, `seed_position` and `seed_batch` of each
    table say which of its rows are seeds, and of which subgraphs.
    """
    from torch_geometric.data import HeteroData

    batch = batch.to_packed()
    data = HeteroData()
    local = torch.empty_like(batch.node)  # (T,) the position of each row within its table
    for number, name in enumerate(batch.graph.tables):
        _add_table(data[name], batch, number, local)
    for number, relation in enumerate(batch.graph.relations):
        edges = local[batch.edge_index[:, batch.edge_relation == number]]
        name, reverse = f"f2p_{relation.column}", f"rev_f2p_{relation.column}"
        data[relation.child, name, relation.parent].edge_index = edges
        data[relation.parent, reverse, relation.child].edge_index = edges.flip(0)
    return data


def _add_table(store: Any, batch: SubgraphBatch, number: int, local: Tensor) -> None:
    """The rows of one table, seeds first."""
    is_seed = torch.zeros(len(batch.node), dtype=torch.bool, device=local.device)
    is_seed[batch.offsets[:-1]] = True
    rows = torch.nonzero(batch.table == number).flatten()
    rows = torch.cat([rows[is_seed[rows]], rows[~is_seed[rows]]])
    local[rows] = torch.arange(len(rows), device=local.device)
    store.num_nodes = len(rows)
    store.n_id = batch.node[rows] - int(batch.graph.offsets[number])
    store.batch = batch.batch[rows]
    store.age, store.has_time, store.hop = batch.age[rows], batch.has_time[rows], batch.hop[rows]
    seeds = int(is_seed[rows].sum())
    if seeds:
        store.batch_size = seeds
        store.seed_position = torch.arange(seeds, device=local.device)
        store.seed_batch = store.batch[:seeds]
        store.seed_time = batch.seed_time[store.seed_batch]
