"""LightGBM beside the network, over the same history: grown on what the network learns from,
weighed by validation.

Trees find thresholds in a column that a network smooths over, and err elsewhere (measured on
rel-f1: docs/research/rel-f1.md). How much of each is taken, validation says; where it says none,
nothing is left of the trees.
"""

import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gelgt.baselines.lightgbm import has_lightgbm
from gelgt.baselines.timed import TimedModel, timed_train
from gelgt.config import TrainConfig
from gelgt.history.seed_history import for_fitting
from gelgt.nn.trees import Trees
from gelgt.presets import RunConfig
from gelgt.training.data import TrainingData
from gelgt.training.examples import MOST_TABULAR, learnable, tabular

SEEDS = 3  # forests whose mean is taken
MOST_CLASSES = 50
ROUNDS, PATIENCE = 1000, 50
# labels in a leaf: a fiftieth of all, between these
LEAST_LEAF, MOST_LEAF, LEAVES_OF_ROWS = 20, 100, 50
# From so many training labels on, a forest has half as many trees at most, which learn a little
# faster: small steps would not come to an end (docs/research/quality.md).
MANY = 50_000
OF_MANY: dict[str, Any] = {"learning_rate": 0.06}
PARAMETERS: dict[str, Any] = {
    "learning_rate": 0.05,
    "num_leaves": 10,
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
    rounds that each of their forests took, the seconds for all, and whether time ended one."""

    trees: Trees
    share: float
    rounds: tuple[int, ...]
    seconds: float = 0.0
    is_cut_off: bool = False

    @property
    def has_learned(self) -> bool:
        """Forests that stopped at once are nearly a constant, which would only blur a ranking."""
        return max(self.rounds) > 1


def wants_trees(data: TrainingData, config: RunConfig) -> bool:
    """Whether trees are asked for, and there is something that they can be grown on."""
    target = data.target
    is_asked = config.model.trees and data.plan.hops > 0 and has_lightgbm()
    return is_asked and target.task_type in OBJECTIVES and target.outputs <= MOST_CLASSES


def grow_trees(
    data: TrainingData,
    config: RunConfig,
    seconds: float | None = None,
    is_stopped: Callable[[], bool] = lambda: False,
) -> GrownTrees | None:
    """Trees that stop by the validation loss, without a share yet; None where none can be grown.

    Args:
        seconds: Within which they have to be grown, as far as they got; None for no limit.
        is_stopped: Asked after every round; true ends them.
    """
    usable, columns, truth = _validation(data)
    if not len(usable):
        return None
    until = Watched(columns, truth, seconds)
    return grow(data, config.train, ("train",), until, is_stopped)


def _validation(data: TrainingData) -> tuple[NDArray[np.int64], Tensor, Tensor]:
    """The validation seeds that have a label, by their places among those that exist, with their
    columns and labels."""
    seeds, labels = data.seeds["val"], data.labels("val")
    there = np.flatnonzero(data.exists(seeds))
    usable = np.flatnonzero(np.isfinite(labels[there]))
    columns = data.history(seeds.take(there[usable]))
    assert columns is not None
    return usable, columns, data.target.encode(labels[there[usable]])


def regrow_trees(
    grown: GrownTrees,
    data: TrainingData,
    config: RunConfig,
    splits: tuple[str, ...],
    is_stopped: Callable[[], bool] = lambda: False,
) -> GrownTrees:
    """The same share of trees that have learned the labels of other splits."""
    again = grow(data, config.train, splits, grown.rounds, is_stopped)
    return grown if again is None else replace(grown, trees=again.trees)


def about_rows(data: TrainingData, config: TrainConfig) -> str | None:
    """What to say where trees are grown on a part of the labels."""
    rows = len(learnable(data, ("train",), config)[0])
    return (
        f"trees are grown on {MOST_TABULAR:,} of {rows:,} labels, drawn at random"
        if rows > MOST_TABULAR
        else None
    )


class Watched(NamedTuple):
    """Columns and labels by whose loss each forest stops, the seconds for all of them, and the
    rounds of each at most."""

    columns: Tensor
    labels: Tensor
    seconds: float | None = None
    rounds: int = ROUNDS


def grow(
    data: TrainingData,
    config: TrainConfig,
    splits: tuple[str, ...],
    until: Watched | tuple[int, ...],
    is_stopped: Callable[[], bool] = lambda: False,
) -> GrownTrees | None:
    """Forests on the history of a split's seeds, as one, without a share yet; None where all labels
    are alike, or there are no columns.

    Args:
        until: What ends each forest: a set to watch, or a number of rounds for each.
        is_stopped: Asked after every round; true ends all of them.
    """
    import lightgbm

    seeds, labels = tabular(data, splits, config)
    truth = data.target.encode(labels)
    columns = data.history(seeds)
    assert columns is not None
    if len(torch.unique(truth)) < 2 or not columns.shape[1]:
        return None
    # Retrained forests are of the kind that validation has ended.
    is_large = len(learnable(data, ("train",), config)[0]) >= MANY
    shared = PARAMETERS | (OF_MANY if is_large else {}) | _objective(data)
    shared |= _sizes(len(seeds), config.seed)
    matrix = for_fitting(columns, seeds, data.plan).numpy()
    table = lightgbm.Dataset(matrix, truth.numpy(), params=shared)
    watched = None
    if isinstance(until, Watched):
        until = until._replace(rounds=ROUNDS // 2 if is_large else ROUNDS)
        held_out = (until.columns.numpy(), until.labels.numpy())
        watched = lightgbm.Dataset(*held_out, reference=table, params=shared)
    outputs = data.target.outputs
    return _forests(shared, config.seed, table, watched, until, is_stopped, outputs)


def _forests(
    shared: dict[str, Any],
    seed: int,
    table: Any,
    watched: Any,
    until: Watched | tuple[int, ...],
    is_stopped: Callable[[], bool],
    outputs: int,
) -> GrownTrees:
    """Forests of different seeds on one table, whose columns are binned once for all.

    They grow side by side, with few threads each: threads that share a forest wait for each other
    at every split, which on a busy machine takes ten times as long and more.
    """
    lanes, began = min(SEEDS, torch.get_num_threads()), time.perf_counter()
    is_left = threading.Event()
    limit = until.seconds if isinstance(until, Watched) else None

    def grown(number: int) -> TimedModel | None:
        most = until.rounds if isinstance(until, Watched) else until[number]
        deadline = math.inf
        if limit is not None:
            turns = math.ceil(SEEDS / lanes)
            deadline = began + limit * (number // lanes + 1) / turns
            if number and time.perf_counter() > deadline:
                return None
        parameters = shared | {"seed": (seed + 7_919 * number) % 2**31}
        return timed_train(
            parameters,
            table,
            most,
            held_out=watched,
            patience=PATIENCE,
            deadline=deadline,
            is_stopped=lambda: is_left.is_set() or is_stopped(),
        )

    table.construct()
    if watched is not None:
        watched.construct()
    count = SEEDS if isinstance(until, Watched) else len(until)  # time may have ended some
    with ThreadPoolExecutor(lanes) as pool:
        try:
            models = [model for model in pool.map(grown, range(count)) if model is not None]
        finally:  # after Ctrl-C nobody waits for the others
            is_left.set()
    dumps = [model.booster.dump_model(num_iteration=model.rounds) for model in models]
    rounds = tuple(model.rounds for model in models)
    is_cut_off = len(models) < count or any(model.is_cut_off for model in models)
    seconds = time.perf_counter() - began
    return GrownTrees(Trees.of(dumps, outputs), 0.0, rounds, seconds, is_cut_off)


def _sizes(rows: int, seed: int) -> dict[str, Any]:
    return {
        "min_data_in_leaf": int(np.clip(rows // LEAVES_OF_ROWS, LEAST_LEAF, MOST_LEAF)),
        "data_random_seed": seed,  # of the sample that decides the bins
        "num_threads": forest_threads(),
    }


@cache  # LightGBM has one number of threads for all that it does at the same time
def forest_threads() -> int:
    """Threads of a forest: half of the cores, for all forests together. Trees are the same bits
    whatever their number."""
    return max(1, torch.get_num_threads() // (2 * SEEDS))


def _objective(data: TrainingData) -> dict[str, Any]:
    target = data.target
    objective: dict[str, Any] = {"objective": OBJECTIVES[target.task_type]}
    if target.task_type == "multiclass_classification":
        objective |= {"num_class": target.outputs}
    return objective
