"""How much of a prediction the columns network, the networks over subgraphs and the trees each make
up.

Together they are better than each of them where their errors differ, and no validation set is large
enough to say by how much: the shares of its least loss change from one period to the next. So there
are usual shares, and validation has to show that others are better. Of all shares whose validation
loss is within one and a half standard errors of the least, those nearest to the usual ones are
taken. Seeds of one entity are not independent, and those of one seed time neither: what a period
brings is the same for all (docs/research/quality.md).

Where the graph has no share, no subgraph is sampled for a prediction.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gelgt.nn.ensemble import Ensemble
from gelgt.nn.target import Target
from gelgt.sampling import Seeds
from gelgt.scoring.scorer import tree_outputs
from gelgt.training.ensemble import Trained
from gelgt.training.job import Job

STEPS = 8  # of a share: eighths are exact in the float32 of a run's weights
ERRORS, ERRORS_OF_ONE_TIME = 1.5, 2.0  # standard errors; where nothing is known of other times
Floats = NDArray[np.float64]


class Shares(NamedTuple):
    """Of the networks over subgraphs in the network, and of the trees in the prediction."""

    graph: float
    trees: float

    @property
    def parts(self) -> Floats:
        """(3,) the shares of columns network, graph and trees in the prediction."""
        network = 1 - self.trees
        return np.array([network * (1 - self.graph), network * self.graph, self.trees])


USUAL = Shares(2 / STEPS, 3 / STEPS)


class Outputs(NamedTuple):
    """What the parts of a model put out for S seeds, (S, outputs) each; None where there is no such
    part."""

    columns: Tensor | None
    graph: Tensor
    trees: Tensor | None

    def take(self, places: Tensor) -> "Outputs":
        columns = None if self.columns is None else self.columns[places]
        trees = None if self.trees is None else self.trees[places]
        return Outputs(columns, self.graph[places], trees)

    def network(self, shares: Shares) -> Tensor:
        """What the network puts out."""
        if self.columns is None:
            return self.graph
        return (1 - shares.graph) * self.columns + shares.graph * self.graph

    def mixed(self, shares: Shares) -> Tensor:
        """What all of them put out."""
        if self.trees is None:
            return self.network(shares)
        return (1 - shares.trees) * self.network(shares) + shares.trees * self.trees

    @property
    def possible(self) -> list[Shares]:
        """Every share of the parts that there are; networks always have one."""
        graph = range(STEPS + 1) if self.columns is not None else (STEPS,)
        trees = range(STEPS) if self.trees is not None else (0,)
        return [Shares(one / STEPS, other / STEPS) for one in graph for other in trees]


def with_shares(job: Job, trained: Trained) -> tuple[Trained, Tensor]:
    """What was trained with the share of each part, and what the networks then put out for the
    validation seeds that exist: (E, outputs)."""
    data, seeds = job.data, job.data.seeds["val"]
    there = np.flatnonzero(data.exists(seeds))
    existing, labels = seeds.take(there), data.labels("val")[there]
    columns = trees = None
    if trained.columns is not None:
        columns = trained.columns.network.outputs(data.columns_of(existing))
    if trained.trees is not None and trained.trees.has_learned:
        trees = tree_outputs(trained.trees.trees, data, existing)
    outputs = Outputs(columns, job.outputs(Ensemble(trained.networks), "val"), trees)
    usable = np.flatnonzero(np.isfinite(labels).reshape(len(labels), -1).all(1))
    if len(outputs.possible) == 1 or not len(usable):
        return trained, outputs.graph
    some = outputs.take(torch.from_numpy(usable))
    shares = choose_shares(some, data.target, labels[usable], existing.take(usable))
    job.progress.notice(_words(outputs, shares))
    if columns is not None:
        trained = replace(trained, graph=shares.graph)
    if trained.trees is not None:
        trained = replace(trained, trees=replace(trained.trees, share=shares.trees))
    return trained, outputs.network(shares)


def choose_shares(outputs: Outputs, target: Target, labels: NDArray[Any], seeds: Seeds) -> Shares:
    """The shares that validation gives the parts.

    Args:
        outputs: Of S seeds.
        labels: (S,) or (S, L) of the same seeds.
        seeds: These.
    """
    truth = target.encode(labels)
    losses = {
        shares: target.losses(outputs.mixed(shares), truth).double().numpy()
        for shares in outputs.possible
    }
    return nearest_earned(losses, seeds.node, seeds.time)


def nearest_earned(
    losses: Mapping[Shares, Floats], entities: NDArray[np.int64], times: NDArray[np.int64]
) -> Shares:
    """Of the shares whose mean loss is not shown to be above the least, those nearest to the usual
    ones.

    Args:
        losses: For all shares, (S,) the loss of each seed.
        entities: (S,) whose seeds they are.
        times: (S,) when.
    """
    best = min(losses, key=lambda shares: float(losses[shares].mean()))
    entity, time = (np.unique(each, return_inverse=True)[1] for each in (entities, times))

    def is_earned(shares: Shares) -> bool:
        more = losses[shares] - losses[best]  # (S,)
        return bool(more.mean() <= _doubt(more, entity, time))

    def distance(shares: Shares) -> float:
        return float(np.square(shares.parts - USUAL.parts).sum())

    return min(filter(is_earned, losses), key=distance)


def _doubt(more: Floats, entity: NDArray[np.int64], time: NDArray[np.int64]) -> float:
    """Some standard errors of a mean over (S,) seeds of some entities at some times, clustered both
    ways: the variance over entities, and that over times, without what both count.

    Args:
        entity: (S,) whose seeds they are, from 0 on.
        time: (S,) when, from 0 on.
    """
    apart = more - more.mean()
    of_entities, of_times, of_seeds = (
        float(np.square(sums).sum()) / len(more) ** 2
        for sums in (np.bincount(entity, apart), np.bincount(time, apart), apart)
    )
    count = int(time.max()) + 1
    if count == 1:
        return ERRORS_OF_ONE_TIME * float(np.sqrt(of_entities))
    further = of_times * count / (count - 1) - of_seeds
    return ERRORS * float(np.sqrt(of_entities + max(0.0, further)))


def _words(outputs: Outputs, shares: Shares) -> str:
    graph = "graph" if outputs.columns is not None else "network"
    parts = [
        f"{name} {share:.0%}"
        for name, share, out in zip(("columns", graph, "trees"), shares.parts, outputs)
        if out is not None
    ]
    return f"the prediction is made up of {', '.join(parts)}"
