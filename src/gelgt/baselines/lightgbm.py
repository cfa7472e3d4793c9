"""LightGBM on causal aggregates: the baseline that a careful engineer would build in an afternoon.

    result = lightgbm_baseline(db, db.graph(), db.features(), task, SamplingConfig())
    result.predictions["test"]

It trains on the training split, stops early on the validation split by the task's own metric (AUC,
mean absolute error, log loss), and has never seen the test labels. Beside a model that learns more
than the training split it is given what that model learns (`Examples`): overlapping windows, and
for the test split a retrain on every label that is known at the test time. Columns that number
categories are categorical features. The same call gives the same predictions.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gelgt.config import SamplingConfig
from gelgt.features import Features
from gelgt.graph import Graph
from gelgt.history.aggregates import Aggregates, aggregates
from gelgt.sampling.seeds import Seeds, task_seeds
from gelgt.sources.database import Database
from gelgt.tasks.label_space import LabelSpace, label_space, targets
from gelgt.tasks.task import SPLITS, Task

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
class Examples:
    """Seeds with their labels.

    Attributes:
        seeds: (S,) whom, and when.
        labels: (S,) or (S, L), as `targets` gives them.
        further: Columns by name, (S,) each, that stand beside the aggregates, such as the calendar.
    """

    seeds: Seeds
    labels: NDArray[Any]
    further: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)

    def take(self, places: NDArray[np.int64]) -> "Examples":
        return Examples(
            self.seeds.take(places),
            self.labels[places],
            {name: values[places] for name, values in self.further.items()},
        )


@dataclass(frozen=True)
class LightGBMResult:
    """What the baseline says.

    Attributes:
        predictions: For `val` and `test`, in the order of the label tables or of the examples:
            probabilities (S,), values (S,), or probabilities (S, classes) or (S, labels).
        features: Names of the columns that it saw.
        importance: Total gain of each column that was used in the first fit, falling.
        rounds: Trees that early stopping kept (one for each class; the mean over the labels of a
            multilabel task).
        train_rows: Labels that the first fit learned; it predicts `val`.
        known_rows: Labels that the retrain learned, which predicts `test`; None without a retrain.
        notices: What is not as usual: rows left out, nothing to learn from, nothing to stop by.
    """

    predictions: Mapping[str, NDArray[Any]]
    features: tuple[str, ...]
    importance: Mapping[str, float]
    rounds: int
    train_rows: int
    known_rows: int | None = None
    notices: tuple[str, ...] = ()


def lightgbm_baseline(
    db: Database,
    graph: Graph,
    features: Features,
    task: Task,
    sampling: SamplingConfig,
    *,
    examples: Mapping[str, Examples] | None = None,
    hops: int = 1,
    seed: int = 0,
    threads: int = 2,
) -> LightGBMResult:
    """Train LightGBM on the aggregates of seeds and predict `val` and `test`.

    Args:
        db: The database.
        graph: Its graph.
        features: Its features.
        task: Any task with labels and seed times.
        sampling: Causality, visibility and horizon: the rows that the model may see.
        examples: What is learned (``train``), stopped by and predicted (``val``), predicted
            (``test``), and, where the test split is to be predicted by a retrain, every label that it
            may learn (``known``). The task's own splits by default, without a retrain.
        hops: 1 or 2; see `history/aggregates.py`.
        seed: Of the samples of rows and columns.
        threads: Of LightGBM; the result does not depend on it.
    """
    space = label_space(task)
    examples = examples or {
        split: Examples(task_seeds(task, graph, split), targets(task, split, space))
        for split in SPLITS
    }
    notices: list[str] = []

    def table(part: Examples) -> _Table:
        rows = part.seeds.node - graph.offsets[graph.table_number(task.entity_table)]
        return _Table.of(
            aggregates(db, graph, features, task, sampling, rows, part.seeds.time, hops=hops),
            part.further,
        )

    learned = _usable(examples["train"], seed, notices)
    val, test = table(examples["val"]), table(examples["test"])
    fit = _Fit(
        table(learned),
        learned.labels,
        space,
        seed,
        threads,
        watched=(val.values, examples["val"].labels),
    )
    predictions, gains = fit.run({"val": val.values, "test": test.values})
    notices += fit.notices
    known = None
    if "known" in examples:
        known = _usable(examples["known"], seed, notices)
        again = _Fit(table(known), known.labels, space, seed, threads, rounds=fit.rounds)
        predictions["test"] = again.run({"test": test.values})[0]["test"]
        notices += again.notices
    used = np.argsort(-gains, kind="stable")[: np.count_nonzero(gains)]
    return LightGBMResult(
        predictions,
        val.names,
        {val.names[i]: float(gains[i]) for i in used},
        round(float(np.mean(list(fit.rounds.values())))) if fit.rounds else 0,
        len(learned.seeds),
        None if known is None else len(known.seeds),
        tuple(dict.fromkeys(notices)),
    )


def _usable(examples: Examples, seed: int, notices: list[str]) -> Examples:
    """The examples that have a label, at most `MAX_TRAIN_ROWS` of them."""
    is_known = np.isfinite(examples.labels)
    usable = np.flatnonzero(is_known.all(axis=1) if is_known.ndim > 1 else is_known)
    if len(usable) > MAX_TRAIN_ROWS:
        notices.append(
            f"LightGBM, the baseline, learned {MAX_TRAIN_ROWS:,} of {len(usable):,} labels, drawn "
            "at random"
        )
        usable = np.sort(np.random.default_rng(seed).choice(usable, MAX_TRAIN_ROWS, replace=False))
    return examples.take(usable)


@dataclass(frozen=True)
class _Table:
    """(S, F) columns, and which of them number categories."""

    names: tuple[str, ...]
    values: NDArray[np.float32]
    codes: list[int]

    @classmethod
    def of(cls, found: Aggregates, further: Mapping[str, NDArray[np.float32]]) -> "_Table":
        values = (
            np.column_stack([found.values, *further.values()]).astype(np.float32, copy=False)
            if further
            else found.values
        )
        return cls((*found.names, *further), values, np.flatnonzero(found.is_code).tolist())


# predictions by split, gain by column
Outcome = tuple[dict[str, NDArray[Any]], NDArray[np.float64]]


class _Fit:
    """Fits one model, or one for each label of a multilabel task.

    Args:
        table: What is learned from.
        labels: Of its rows.
        watched: Columns and labels by which each model stops early.
        rounds: Otherwise, how many rounds each model takes, by its label.

    Attributes:
        rounds: What was given, or what early stopping chose.
    """

    def __init__(
        self,
        table: _Table,
        labels: NDArray[Any],
        space: LabelSpace,
        seed: int,
        threads: int,
        *,
        watched: tuple[NDArray[np.float32], NDArray[Any]] | None = None,
        rounds: Mapping[int, int] | None = None,
    ) -> None:
        self.table, self.labels, self.space = table, labels, space
        self.watched, self.given = watched, rounds
        self.rounds: dict[int, int] = dict(rounds or {})
        self.fixed = PARAMETERS | {
            "seed": seed,
            "num_threads": threads,
            "deterministic": True,
            "force_row_wise": True,
            "verbosity": -1,
        }
        self.notices: list[str] = []

    def run(self, asked: Mapping[str, NDArray[np.float32]]) -> Outcome:
        """Fit, and predict the rows that are asked for."""
        train = self.labels
        val = None if self.watched is None else self.watched[1]
        if self.space.task_type == "regression":
            middle = float(np.median(train)) if len(train) else 0.0
            predicted, gains = self._fit(
                train, val, {"objective": "l1", "metric": "l1"}, middle, asked
            )
            low, high = (float(train.min()), float(train.max())) if len(train) else (0.0, 0.0)
            return {split: np.clip(p, low, high) for split, p in predicted.items()}, gains
        if self.space.task_type == "multiclass_classification":
            return self._multiclass(train, val, asked)
        return (
            self._multilabel(train, val, asked)
            if self.space.width
            else self._binary(train, val, asked)
        )

    def _multiclass(
        self,
        train: NDArray[Any],
        val: NDArray[Any] | None,
        asked: Mapping[str, NDArray[np.float32]],
    ) -> Outcome:
        """One model; classes beyond the most frequent ones are learned as one and share it as
        training does."""
        counts = np.bincount(train, minlength=self.space.width).astype(np.float64)
        shares = (
            counts / counts.sum() if len(train) else np.full(len(counts), 1 / max(len(counts), 1))
        )
        own = self._most_frequent(counts)
        rest = np.setdiff1d(np.arange(len(counts)), own)
        place = np.full(len(counts), len(own), np.int64)
        place[own] = np.arange(len(own))
        folded: NDArray[np.float64] = np.bincount(place, shares, minlength=len(own)).astype(
            np.float64
        )
        parameters = {
            "objective": "multiclass",
            "metric": "multi_logloss",
            "num_class": len(folded),
        }
        predicted, gains = self._fit(
            place[train], None if val is None else place[val], parameters, folded, asked
        )
        within = (
            shares[rest] / folded[-1]
            if len(rest) and folded[-1]
            else np.full(len(rest), 1 / max(len(rest), 1))
        )
        spread = {}
        for split, p in predicted.items():
            spread[split] = np.empty((len(p), len(counts)))
            spread[split][:, own], spread[split][:, rest] = p[:, : len(own)], p[:, -1:] * within
        return spread, gains

    def _multilabel(
        self,
        train: NDArray[Any],
        val: NDArray[Any] | None,
        asked: Mapping[str, NDArray[np.float32]],
    ) -> Outcome:
        """One model for each of the most frequent labels, the training share for the others."""
        shares = train.mean(axis=0) if len(train) else np.full(train.shape[1], 0.5)
        predicted = {s: np.tile(shares.astype(np.float64), (len(x), 1)) for s, x in asked.items()}
        gains = np.zeros(self.table.values.shape[1])
        for label in self._most_frequent(train.sum(axis=0)).tolist():
            own, theirs = (
                None if part is None else np.ascontiguousarray(part[:, label])
                for part in (train, val)
            )
            assert own is not None
            found, gain = self._binary(own, theirs, asked, label)
            for split, p in found.items():
                predicted[split][:, label] = p
            gains += gain
        return predicted, gains

    def _most_frequent(self, counts: NDArray[Any]) -> NDArray[np.int64]:
        if len(counts) <= MAX_CLASSES:
            return np.arange(len(counts))
        self.notices.append(
            f"LightGBM learned the {MAX_CLASSES} most frequent of {len(counts):,} classes"
        )
        return np.sort(np.argsort(-counts, kind="stable")[:MAX_CLASSES])

    def _binary(
        self,
        train: NDArray[Any],
        val: NDArray[Any] | None,
        asked: Mapping[str, NDArray[np.float32]],
        label: int = 0,
    ) -> Outcome:
        # AUC does not exist for a single class.
        metric = "auc" if val is not None and len(np.unique(val)) > 1 else "binary_logloss"
        rate = float(train.mean()) if len(train) else 0.5
        return self._fit(train, val, {"objective": "binary", "metric": metric}, rate, asked, label)

    def _fit(
        self,
        train: NDArray[Any],
        val: NDArray[Any] | None,
        parameters: dict[str, Any],
        constant: float | NDArray[np.float64],
        asked: Mapping[str, NDArray[np.float32]],
        label: int = 0,
    ) -> Outcome:
        """Train one model; where there is nothing to learn, `constant` is the prediction for every
        seed."""
        columns = self.table.values.shape[1]
        is_constant = not columns or len(np.unique(train)) < 2
        if is_constant or (self.given is not None and not self.given.get(label)):
            if is_constant:
                self.notices.append("LightGBM had nothing to learn from and predicts a constant")
            self.rounds[label] = 0
            width = np.shape(constant)
            fixed = {
                s: np.broadcast_to(np.asarray(constant, np.float64), (len(x), *width)).copy()
                for s, x in asked.items()
            }
            return fixed, np.zeros(columns)
        import lightgbm

        data = lightgbm.Dataset(
            self.table.values,
            train,
            categorical_feature=self.table.codes,
            params={"verbosity": -1},
            free_raw_data=False,
        )
        most, watching = self._ends(data, val, parameters.get("num_class", 1), label)
        model = lightgbm.train(self.fixed | parameters, data, most, **watching)
        self.rounds[label] = model.best_iteration if watching else most
        predicted = {s: self._predict(model, x, self.rounds[label]) for s, x in asked.items()}
        return predicted, model.feature_importance("gain", iteration=self.rounds[label])

    def _ends(
        self, data: Any, val: NDArray[Any] | None, classes: int, label: int
    ) -> tuple[int, dict[str, Any]]:
        """How many rounds it takes at most, and what lets it stop before."""
        if self.given is not None:
            return self.given[label], {}
        import lightgbm

        seen = np.zeros(0, np.int64) if val is None else np.flatnonzero(np.isfinite(val))
        if self.watched is None or val is None or not len(seen):
            self.notices.append(
                f"LightGBM had no validation labels to stop by and trained {ROUNDS_UNWATCHED} "
                "rounds"
            )
            return ROUNDS_UNWATCHED, {}
        held = lightgbm.Dataset(
            self.watched[0][seen], val[seen], reference=data, params={"verbosity": -1}
        )
        return min(ROUNDS, TREES // classes), {
            "valid_sets": [held],
            "callbacks": [lightgbm.early_stopping(PATIENCE, verbose=False)],
        }

    def _predict(self, model: Any, matrix: NDArray[np.float32], rounds: int) -> NDArray[np.float64]:
        if not len(matrix):
            return np.zeros((0, model.params["num_class"]) if "num_class" in model.params else 0)
        predicted: NDArray[np.float64] = model.predict(
            matrix, num_iteration=rounds, num_threads=self.fixed["num_threads"]
        )
        return predicted
