"""The share of the networks over subgraphs beside the columns network: validation decides, and
where it takes nothing of them, no subgraph is sampled for a prediction.

A larger share has to earn it: of all shares whose validation loss is within one standard error of
the least, the smallest is taken. Few validation rows say little, and a share that they gave by luck
cost up to a point in the period after them (docs/research/quality.md).
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gelgt.nn.ensemble import Ensemble
from gelgt.training.ensemble import Trained
from gelgt.training.job import Job

SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
Floats = NDArray[np.float64]


def with_graph(job: Job, trained: Trained) -> tuple[Trained, Tensor]:
    """The networks with their share, and what they then put out for the validation seeds that
    exist: (E, outputs)."""
    outputs = job.outputs(Ensemble(trained.networks), "val")
    if trained.columns is None:
        return trained, outputs
    data = job.data
    seeds, labels = data.seeds["val"], data.labels("val")
    there = np.flatnonzero(data.exists(seeds))
    columns = trained.columns.network.outputs(data.columns_of(seeds.take(there)))
    usable = np.flatnonzero(np.isfinite(labels[there]).reshape(len(there), -1).all(1))
    if not len(usable):
        return trained, outputs
    truth, some = data.target.encode(labels[there[usable]]), torch.from_numpy(usable)
    mixed = {share: (1 - share) * columns + share * outputs for share in SHARES}
    losses = {
        share: data.target.losses(out[some], truth).double().numpy() for share, out in mixed.items()
    }
    graph = earned_share(losses, seeds.node[there[usable]])
    job.progress.notice(_words(graph))
    return replace(trained, graph=graph), mixed[graph]


def earned_share(losses: Mapping[float, Floats], entities: NDArray[np.int64]) -> float:
    """The smallest share whose mean loss is within one standard error of the least.

    Args:
        losses: For each share, smallest first, (S,) the loss of each seed.
        entities: (S,) whose seeds they are; those of one entity are not independent.
    """
    best = min(losses, key=lambda share: losses[share].mean())
    place = np.unique(entities, return_inverse=True)[1]
    for share, values in losses.items():
        more = values - losses[best]  # (S,)
        of_entities = np.bincount(place, more - more.mean())
        error = np.sqrt(np.square(of_entities).sum()) / len(more)
        if more.mean() <= error:
            return share
    return best


def _words(graph: float) -> str:
    if not graph:
        return "graph: validation takes nothing of it, the columns predict alone"
    return f"graph: {graph:.0%} of the network, columns: {1 - graph:.0%}"
