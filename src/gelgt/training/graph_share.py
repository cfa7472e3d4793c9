"""How much of what the networks over subgraphs say is added to the columns network: validation
decides, and where it takes nothing, no subgraph is sampled for a prediction."""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from gelgt.nn.ensemble import Ensemble
from gelgt.training.ensemble import Trained
from gelgt.training.job import Job

SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)


def with_graph(job: Job, trained: Trained) -> tuple[Trained, Tensor]:
    """The networks with the share that has the least validation loss, and what they then put out
    for the validation seeds that exist: (E, outputs)."""
    outputs = job.outputs(Ensemble(trained.networks), "val")
    if trained.columns is None:
        return trained, outputs
    data = job.data
    seeds, labels = data.seeds["val"], data.labels("val")
    there = np.flatnonzero(data.exists(seeds))
    columns = trained.columns.network.outputs(data.columns_of(seeds.take(there)))
    usable = np.flatnonzero(np.isfinite(labels[there]).reshape(len(there), -1).all(1))
    if not len(usable):
        return trained, columns + outputs
    truth, some = data.target.encode(labels[there[usable]]), torch.from_numpy(usable)
    losses = [
        float(data.target.loss(columns[some] + share * outputs[some], truth)) for share in SHARES
    ]
    graph = SHARES[int(np.argmin(losses))]
    job.progress.notice(_words(graph))
    return replace(trained, graph=graph), columns + graph * outputs if graph else columns


def _words(graph: float) -> str:
    if not graph:
        return "graph: validation takes nothing of it, the columns predict alone"
    return f"graph: {graph:.0%} of what it says is added to the columns"
