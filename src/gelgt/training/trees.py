"""LightGBM beside the network, over the same history: grown on what the network learns from,
weighed by validation.

Trees find thresholds in a column that a network smooths over, and err elsewhere (measured on
rel-f1: docs/research/rel-f1.md). How much of each is taken, validation says; where it says none,
nothing is left of the trees.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gelgt.baselines.lightgbm import has_lightgbm
from gelgt.config import TrainConfig
from gelgt.history.seed_history import for_fitting
from gelgt.nn.trees import Trees
from gelgt.presets import RunConfig
from gelgt.training.data import TrainingData
from gelgt.training.examples import learnable

SHARES = (0.0, 0.25, 0.5, 0.75)  # of the trees, among which validation chooses
SEEDS = 3  # forests whose mean is taken
MOST_ROWS = 200_000  # labels that trees are grown on
MOST_CLASSES = 50
ROUNDS, PATIENCE = 1000, 50
# labels in a leaf: a fiftieth of all, between these
LEAST_LEAF, MOST_LEAF, LEAVES_OF_ROWS = 20, 100, 50
PARAMETERS: dict[str, Any] = {
    "learning_rate": 0.03,
    "num_leaves": 7,
    "feature_fraction": 0.3,
    "bagging_fraction": 0.7,
    "bagging_freq": 1,
    "deterministic": True,
    "force_row_wise": True,
    "verbosity": -1,
}
OBJECTIVES = {
    "binary_classification": "binary",
    "regression": "l1",
    "multiclass_classification": "multiclass",
}


@dataclass(frozen=True)
class GrownTrees:
    """Trees and their share of the prediction, 0 where validation takes none of them, with the
    rounds that each of their forests took."""

    trees: Trees
    share: float
    rounds: tuple[int, ...]


def wants_trees(data: TrainingData, config: RunConfig) -> bool:
    """Whether trees are asked for, and there is something that they can be grown on."""
    target = data.target
    is_asked = config.model.trees and data.plan.hops > 0 and has_lightgbm()
    return is_asked and target.task_type in OBJECTIVES and target.outputs <= MOST_CLASSES


def choose_trees(network: Tensor, data: TrainingData, config: RunConfig) -> GrownTrees | None:
    """Trees beside a trained network, with the share that has the least validation loss, which may
    be 0; None where none can be grown.

    Args:
        network: (E, outputs) what the network puts out for the validation seeds that exist.
    """
    seeds, labels = data.seeds["val"], data.labels("val")
    there = np.flatnonzero(data.exists(seeds))
    usable = np.flatnonzero(np.isfinite(labels[there]))
    if not len(usable):
        return None
    seeds, truth = seeds.take(there[usable]), data.target.encode(labels[there[usable]])
    columns = data.history(seeds)
    assert columns is not None
    trees, rounds = grow(data, config.train, ("train",), (columns, truth))
    if trees is None:
        return None
    if max(rounds) == 1:
        # Stopped at once: nearly a constant, which would only blur the network's ranking.
        return GrownTrees(trees, 0.0, rounds)
    of_network, of_trees = network[torch.from_numpy(usable)], trees(columns).float()
    losses = [
        float(data.target.loss((1 - share) * of_network + share * of_trees, truth))
        for share in SHARES
    ]
    return GrownTrees(trees, SHARES[int(np.argmin(losses))], rounds)


def regrow_trees(
    grown: GrownTrees, data: TrainingData, config: RunConfig, splits: tuple[str, ...]
) -> GrownTrees:
    """The same share of trees that have learned the labels of other splits."""
    trees, rounds = grow(data, config.train, splits, rounds=grown.rounds)
    return grown if trees is None else GrownTrees(trees, grown.share, rounds)


def about_rows(data: TrainingData, config: TrainConfig) -> str | None:
    """What to say where trees are grown on a part of the labels."""
    rows = len(learnable(data, ("train",), config)[0])
    return (
        f"trees are grown on {MOST_ROWS:,} of {rows:,} labels, drawn at random"
        if rows > MOST_ROWS
        else None
    )


def grow(
    data: TrainingData,
    config: TrainConfig,
    splits: tuple[str, ...],
    watched: tuple[Tensor, Tensor] | None = None,
    rounds: tuple[int, ...] = (),
) -> tuple[Trees | None, tuple[int, ...]]:
    """Forests on the history of a split's seeds, as one; none where all labels are alike, or there
    are no columns.

    Args:
        watched: Columns and labels by whose loss each forest stops.
        rounds: Otherwise, how many rounds each takes.
    """
    import lightgbm

    seeds, labels = learnable(data, splits, config)
    if len(seeds) > MOST_ROWS:
        some = np.sort(
            np.random.default_rng(config.seed).choice(len(seeds), MOST_ROWS, replace=False)
        )
        seeds, labels = seeds.take(some), labels[some]
    truth = data.target.encode(labels)
    if len(torch.unique(truth)) < 2:
        return None, ()
    columns = data.history(seeds)
    assert columns is not None
    if not columns.shape[1]:
        return None, ()
    matrix = for_fitting(columns, seeds, data.plan).numpy()
    leaf = int(np.clip(len(seeds) // LEAVES_OF_ROWS, LEAST_LEAF, MOST_LEAF))
    dumps, taken = [], []
    for number in range(SEEDS):
        of_forest = {
            "min_data_in_leaf": leaf,
            "seed": (config.seed + 7_919 * number) % 2**31,
            "num_threads": torch.get_num_threads(),
        }
        table = lightgbm.Dataset(matrix, truth.numpy(), params={"verbosity": -1})
        more: dict[str, Any] = {}
        if watched is not None:
            held = lightgbm.Dataset(
                watched[0].numpy(), watched[1].numpy(), reference=table, params={"verbosity": -1}
            )
            more = {
                "valid_sets": [held],
                "callbacks": [lightgbm.early_stopping(PATIENCE, verbose=False)],
            }
        most = ROUNDS if watched is not None else rounds[number]
        model = lightgbm.train(PARAMETERS | _objective(data) | of_forest, table, most, **more)
        taken.append(model.best_iteration if watched is not None else most)
        dumps.append(model.dump_model(num_iteration=taken[-1]))
    return Trees.of(dumps, data.target.outputs), tuple(taken)


def _objective(data: TrainingData) -> dict[str, Any]:
    target = data.target
    objective: dict[str, Any] = {"objective": OBJECTIVES[target.task_type]}
    if target.task_type == "multiclass_classification":
        objective |= {"num_class": target.outputs}
    return objective
