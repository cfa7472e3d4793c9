"""LightGBM on causal aggregates: the baseline that a careful engineer would build in an afternoon.

    result = lightgbm_baseline(db, db.graph(), db.features(), task, SamplingConfig())
    result.predictions["test"]

It trains on the training split, stops early on the validation split by the task's own metric (AUC, mean absolute
error, log loss), and has never seen the test labels. The same call gives the same predictions.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gelgt.config import SamplingConfig
from gelgt.features import Features
from gelgt.graph import Graph
from gelgt.sampling.seeds import task_seeds
from gelgt.sources.database import Database
from gelgt.tasks.task import SPLITS, Task
from gelgt.zoo.aggregates import aggregates
from gelgt.zoo.labels import LabelSpace, label_space, targets

MAX_TRAIN_ROWS = 500_000
ROUNDS, PATIENCE = 1000, 50
ROUNDS_UNWATCHED = 100  # where there is nothing to stop by
PARAMETERS: dict[str, Any] = {
    "learning_rate": 0.05,
    "num_leaves": 15,
    "min_data_in_leaf": 20,
    "feature_fraction": 0.5,
    "bagging_fraction": 0.8,
    "bagging_freq": 1,
    "lambda_l2": 1.0,
}


@dataclass(frozen=True)
class LightGBMResult:
    """What the baseline says.

    Attributes:
        predictions: For `val` and `test`, in the order of the label tables: probabilities (S,), values (S,), or
            probabilities (S, classes) or (S, labels).
        features: Names of the columns that it saw.
        importance: Total gain of each column that was used, falling.
        rounds: Trees that early stopping kept (one for each class; the mean over the labels of a multilabel task).
        train_rows: Training rows that were used.
        notices: What is not as usual: rows left out, nothing to learn from, nothing to stop by.
    """

    predictions: Mapping[str, NDArray[Any]]
    features: tuple[str, ...]
    importance: Mapping[str, float]
    rounds: int
    train_rows: int
    notices: tuple[str, ...] = ()


def lightgbm_baseline(
    db: Database,
    graph: Graph,
    features: Features,
    task: Task,
    sampling: SamplingConfig,
    *,
    hops: int = 1,
    seed: int = 0,
    threads: int = 2,
) -> LightGBMResult:
    """Train LightGBM on the aggregates of a task's seeds and predict `val` and `test`.

    Args:
        db: The database.
        graph: Its graph.
        features: Its features.
        task: Any task with labels and seed times.
        sampling: Causality, visibility and horizon: the rows that the model may see.
        hops: 1 or 2; see `zoo/aggregates.py`.
        seed: Of the samples of rows and columns.
        threads: Of LightGBM; the result does not depend on it.
    """
    space = label_space(task)
    seeds = {split: task_seeds(task, graph, split) for split in SPLITS}
    labels = {split: targets(task, split, space) for split in SPLITS}
    known = np.isfinite(labels["train"])
    usable = np.flatnonzero(known.all(axis=1) if known.ndim > 1 else known)
    notices = []
    if len(usable) > MAX_TRAIN_ROWS:
        notices.append(f"LightGBM trained on {MAX_TRAIN_ROWS:,} of {len(usable):,} rows")
        usable = np.sort(np.random.default_rng(seed).choice(usable, MAX_TRAIN_ROWS, replace=False))
    seeds["train"], labels["train"] = seeds["train"].take(usable), labels["train"][usable]
    first = graph.offsets[graph.table_number(task.entity_table)]
    rows = np.concatenate([seeds[s].node - first for s in SPLITS])
    times = np.concatenate([seeds[s].time for s in SPLITS])
    found = aggregates(db, graph, features, task, sampling, rows, times, hops=hops)
    ends = np.cumsum([len(seeds[s]) for s in SPLITS])
    matrices = dict(zip(SPLITS, np.split(found.values, ends[:-1])))
    trainer = _Trainer(matrices, labels, space, seed, threads)
    predictions, gains, rounds = trainer.run()
    used = np.argsort(-gains, kind="stable")[: np.count_nonzero(gains)] if len(gains) else np.zeros(0, np.int64)
    importance = {found.names[i]: float(gains[i]) for i in used}
    return LightGBMResult(predictions, found.names, importance, rounds, len(usable), (*notices, *trainer.notices))


Outcome = tuple[dict[str, NDArray[Any]], NDArray[np.float64], int]


class _Trainer:
    """Fits one model, or one for each label."""

    def __init__(
        self, matrices: Mapping[str, NDArray[np.float32]], labels: Mapping[str, NDArray[Any]], space: LabelSpace, seed: int, threads: int
    ) -> None:
        self.matrices, self.labels, self.space = matrices, labels, space
        self.fixed = PARAMETERS | {
            "seed": seed,
            "num_threads": threads,
            "deterministic": True,
            "force_row_wise": True,
            "verbosity": -1,
        }
        self.notices: list[str] = []

    def run(self) -> Outcome:
        train, val = self.labels["train"], self.labels["val"]
        if self.space.task_type == "regression":
            predicted, gains, rounds = self._fit(
                train, val, {"objective": "l1", "metric": "l1"}, float(np.median(train)) if len(train) else 0.0
            )
            low, high = (float(train.min()), float(train.max())) if len(train) else (0.0, 0.0)
            return {split: np.clip(p, low, high) for split, p in predicted.items()}, gains, rounds
        if self.space.task_type == "multiclass_classification":
            classes = self.space.width
            shares = np.bincount(train, minlength=classes)[:classes] / len(train) if len(train) else np.full(classes, 1 / classes)
            return self._fit(train, val, {"objective": "multiclass", "metric": "multi_logloss", "num_class": classes}, shares)
        if not self.space.width:
            return self._binary(train, val)
        parts = [self._binary(train[:, label], val[:, label]) for label in range(self.space.width)]
        if not parts:
            return {s: np.zeros((len(self.matrices[s]), 0)) for s in ("val", "test")}, np.zeros(self.matrices["train"].shape[1]), 0
        stacked = {split: np.stack([p[0][split] for p in parts], axis=1) for split in ("val", "test")}
        self.notices = list(dict.fromkeys(self.notices))
        return stacked, np.sum([p[1] for p in parts], axis=0), round(float(np.mean([p[2] for p in parts])))

    def _binary(self, train: NDArray[Any], val: NDArray[Any]) -> Outcome:
        # AUC does not exist for a single class.
        metric = "auc" if len(np.unique(val)) > 1 else "binary_logloss"
        return self._fit(train, val, {"objective": "binary", "metric": metric}, float(train.mean()) if len(train) else 0.5)

    def _fit(self, train: NDArray[Any], val: NDArray[Any], parameters: dict[str, Any], constant: float | NDArray[np.float64]) -> Outcome:
        """Train one model; where there is nothing to learn, `constant` is the prediction for every seed."""
        x = self.matrices
        if not x["train"].shape[1] or len(np.unique(train)) < 2:
            self.notices.append("LightGBM had nothing to learn from and predicts a constant")
            width = np.shape(constant)
            fixed = {s: np.broadcast_to(np.asarray(constant, np.float64), (len(x[s]), *width)).copy() for s in ("val", "test")}
            return fixed, np.zeros(x["train"].shape[1]), 0
        import lightgbm

        data = lightgbm.Dataset(x["train"], train, params={"verbosity": -1}, free_raw_data=False)
        watched = {}
        if len(val) and np.isfinite(val).all():
            watched = {
                "valid_sets": [lightgbm.Dataset(x["val"], val, reference=data, params={"verbosity": -1})],
                "callbacks": [lightgbm.early_stopping(PATIENCE, verbose=False)],
            }
        else:
            self.notices.append(f"LightGBM had no validation labels to stop by and trained {ROUNDS_UNWATCHED} rounds")
        model = lightgbm.train(self.fixed | parameters, data, ROUNDS if watched else ROUNDS_UNWATCHED, **watched)
        rounds = model.best_iteration if watched else ROUNDS_UNWATCHED
        predicted = {s: self._predict(model, x[s], rounds) for s in ("val", "test")}
        return predicted, model.feature_importance("gain", iteration=rounds), rounds

    def _predict(self, model: Any, matrix: NDArray[np.float32], rounds: int) -> NDArray[np.float64]:
        if not len(matrix):
            return np.zeros((0, self.space.width) if self.space.task_type == "multiclass_classification" else 0)
        predicted: NDArray[np.float64] = model.predict(matrix, num_iteration=rounds, num_threads=self.fixed["num_threads"])
        return predicted
