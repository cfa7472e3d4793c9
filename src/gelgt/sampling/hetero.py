"""A `SubgraphBatch` as a PyG `HeteroData` mini-batch, for models that speak PyG."""

from typing import TYPE_CHECKING

import torch

from gelgt.sampling.batch import SubgraphBatch

if TYPE_CHECKING:
    from torch_geometric.data import HeteroData


def to_hetero(batch: SubgraphBatch) -> "HeteroData":
    """The subgraphs side by side, disjoint, with RelBench's edge names and their reverses.

    For each table: `n_id` (row numbers), `batch` (the subgraph of each row), `age`, `has_time`,
    `hop`. Seeds come first in their table, in the order of the batch, so `out[:batch_size]` are the
    seeds where all are of one table; `seed_position` and `seed_batch` say it in general.
    """
    from torch_geometric.data import HeteroData

    batch = batch.to_packed()
    graph, data = batch.graph, HeteroData()
    rows, subgraph = len(batch.node), batch.batch
    is_seed = torch.zeros(rows, dtype=torch.bool, device=batch.node.device)
    is_seed[batch.offsets[:-1]] = True
    local = torch.empty(rows, dtype=torch.int64, device=batch.node.device)
    for number, name in enumerate(graph.tables):
        members = torch.nonzero(batch.table == number).flatten()
        members = torch.cat([members[is_seed[members]], members[~is_seed[members]]])
        seeds = int(is_seed[members].sum())
        local[members] = torch.arange(len(members), device=local.device)
        store = data[name]
        store.num_nodes = len(members)
        store.n_id = batch.node[members] - int(graph.offsets[number])
        store.batch, store.age, store.has_time, store.hop = (
            subgraph[members],
            batch.age[members],
            batch.has_time[members],
            batch.hop[members],
        )
        if seeds:
            store.batch_size = seeds
            store.seed_position, store.seed_batch = (
                torch.arange(seeds, device=local.device),
                subgraph[members[:seeds]],
            )
            store.seed_time = batch.seed_time[store.seed_batch]
    for number, relation in enumerate(graph.relations):
        source, target = batch.edge_index[:, batch.edge_relation == number]
        edges = torch.stack([local[source], local[target]])
        data[relation.child, f"f2p_{relation.column}", relation.parent].edge_index = edges
        data[relation.parent, f"rev_f2p_{relation.column}", relation.child].edge_index = edges.flip(
            0
        )
    return data
