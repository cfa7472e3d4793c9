"""The graph as a PyG `HeteroData` with RelBench's names, for models that are written for PyG."""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from torch_geometric.data import HeteroData

    from gelgt.graph.store import Graph


def to_hetero_data(graph: "Graph") -> "HeteroData":
    """Node counts, times and both directions of every foreign key; callers attach features
    themselves.

    `time` holds whole seconds for every table with times; a row without one holds the largest
    int64, so that a temporal sampler never reaches it.
    """
    import torch
    from torch_geometric.data import HeteroData

    from gelgt.graph.store import TIMELESS

    data = HeteroData()
    for number, name in enumerate(graph.tables):
        first, last = graph.offsets[number], graph.offsets[number + 1]
        data[name].num_nodes = int(last - first)
        times = graph.node_time[first:last]
        if len(times) and times[0] != TIMELESS:
            data[name].time = torch.from_numpy(times.copy())
        block = graph.table_parents(name)
        for key, relation in enumerate(graph.relation_of[number]):
            column, parent = graph.relations[relation].column, graph.relations[relation].parent
            child_rows = np.flatnonzero(block[:, key] >= 0)  # (edges,), ascending as PyG wants them
            parent_rows = (
                block[child_rows, key].astype(np.int64) - graph.offsets[graph.table_number(parent)]
            )
            data[name, f"f2p_{column}", parent].edge_index = torch.from_numpy(
                np.stack([child_rows, parent_rows])
            )
            order = np.argsort(parent_rows, kind="stable")
            data[parent, f"rev_f2p_{column}", name].edge_index = torch.from_numpy(
                np.stack([parent_rows[order], child_rows[order]])
            )
    return data
