"""LightGBM on causal aggregates: the baseline that a careful engineer would build in an afternoon.

    result = lightgbm_baseline(db, db.graph(), db.features(), task, SamplingConfig())
    result.predictions["test"]

It trains on the training split, stops early on the validation split by the task's own metric (AUC, mean absolute
error, log loss), and has never seen the test labels. The same call gives the same predictions.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
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
MAX_CLASSES = 50  # a tree for each class and round: more would take hours
ROUNDS, PATIENCE = 1000, 50
TREES = 6000  # of a multiclass model
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


def has_lightgbm() -> bool:
    """Whether LightGBM can be run here."""
    return find_spec("lightgbm") is not None


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
            return self._multiclass(train, val)
        return self._multilabel(train, val) if self.space.width else self._binary(train, val)

    def _multiclass(self, train: NDArray[Any], val: NDArray[Any]) -> Outcome:
        """One model; classes beyond the most frequent ones are learned as one and share it as training does."""
        counts = np.bincount(train, minlength=self.space.width).astype(np.float64)
        shares = counts / counts.sum() if len(train) else np.full(len(counts), 1 / max(len(counts), 1))
        own = self._most_frequent(counts)
        rest = np.setdiff1d(np.arange(len(counts)), own)
        place = np.full(len(counts), len(own), np.int64)
        place[own] = np.arange(len(own))
        folded: NDArray[np.float64] = np.bincount(place, shares, minlength=len(own)).astype(np.float64)
        parameters = {"objective": "multiclass", "metric": "multi_logloss", "num_class": len(folded)}
        predicted, gains, rounds = self._fit(place[train], place[val], parameters, folded)
        within = shares[rest] / folded[-1] if len(rest) and folded[-1] else np.full(len(rest), 1 / max(len(rest), 1))
        spread = {}
        for split, p in predicted.items():
            spread[split] = np.empty((len(p), len(counts)))
            spread[split][:, own], spread[split][:, rest] = p[:, : len(own)], p[:, -1:] * within
        return spread, gains, rounds

    def _multilabel(self, train: NDArray[Any], val: NDArray[Any]) -> Outcome:
        """One model for each of the most frequent labels, the training share for the others."""
        shares = train.mean(axis=0) if len(train) else np.full(train.shape[1], 0.5)
        predicted = {s: np.tile(shares.astype(np.float64), (len(self.matrices[s]), 1)) for s in ("val", "test")}
        gains = np.zeros(self.matrices["train"].shape[1])
        rounds: list[int] = []
        for label in self._most_frequent(train.sum(axis=0)):
            found, gain, kept = self._binary(*(np.ascontiguousarray(part[:, label]) for part in (train, val)))
            for split, p in found.items():
                predicted[split][:, label] = p
            gains += gain
            rounds.append(kept)
        self.notices = list(dict.fromkeys(self.notices))
        return predicted, gains, round(float(np.mean(rounds))) if rounds else 0

    def _most_frequent(self, counts: NDArray[Any]) -> NDArray[np.int64]:
        if len(counts) <= MAX_CLASSES:
            return np.arange(len(counts))
        self.notices.append(f"LightGBM learned the {MAX_CLASSES} most frequent of {len(counts):,} classes")
        return np.sort(np.argsort(-counts, kind="stable")[:MAX_CLASSES])

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
        most = min(ROUNDS, TREES // parameters.get("num_class", 1)) if watched else ROUNDS_UNWATCHED
        model = lightgbm.train(self.fixed | parameters, data, most, **watched)
        rounds = model.best_iteration if watched else most
        predicted = {s: self._predict(model, x[s], rounds) for s in ("val", "test")}
        return predicted, model.feature_importance("gain", iteration=rounds), rounds

    def _predict(self, model: Any, matrix: NDArray[np.float32], rounds: int) -> NDArray[np.float64]:
        if not len(matrix):
            return np.zeros((0, model.params["num_class"]) if "num_class" in model.params else 0)
        predicted: NDArray[np.float64] = model.predict(matrix, num_iteration=rounds, num_threads=self.fixed["num_threads"])
        return predicted
