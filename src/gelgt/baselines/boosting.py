"""LightGBM models of one task: a single one, or one for each label of a multilabel task."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gelgt.baselines.timed import timed_train
from gelgt.tasks.label_space import LabelSpace

MAX_CLASSES = 50  # one tree for each class and round: more would take hours
ROUNDS, PATIENCE = 1000, 50
TREES = 6000  # of a multiclass model at most
ROUNDS_WITHOUT_VALIDATION = 100
PARAMETERS: dict[str, Any] = {
    "learning_rate": 0.05,
    "num_leaves": 15,
    "min_data_in_leaf": 20,
    "feature_fraction": 0.5,
    "bagging_fraction": 0.8,
    "bagging_freq": 1,
    "lambda_l2": 1.0,
    "deterministic": True,
    "force_col_wise": True,  # each is added up by one thread: their number changes nothing
    "verbosity": -1,
}

Matrices = Mapping[str, NDArray[np.float32]]  # (S, F) by split
Outcome = tuple[dict[str, NDArray[Any]], NDArray[np.float64]]  # predictions by split, gains (F,)


@dataclass(frozen=True)
class Table:
    """Columns of S seeds.

    Attributes:
        names: Of the F columns.
        values: (S, F).
        codes: Places of the columns that number categories.
    """

    names: tuple[str, ...]
    values: NDArray[np.float32]
    codes: list[int]


@dataclass(frozen=True)
class _Labels:
    """What one model learns: training labels, validation labels (None without validation), the
    objective, and the number of the label in a multilabel task."""

    train: NDArray[Any]
    val: NDArray[Any] | None
    objective: dict[str, Any]
    number: int = 0


class Boosting:
    """Fits the models of a task and predicts with them.

    Args:
        space: What the labels mean.
        seed: Of the samples of rows and columns.
        threads: Of LightGBM.
        validation: Columns and labels by which each model stops early.
        rounds: Without validation, the rounds that each model takes, by the number of its label.
        deadline: When all models have to be trained, by `time.perf_counter`.
        is_stopped: Asked after every round; true ends them as the deadline does.

    Attributes:
        rounds: As given, or what early stopping chose.
        notices: What is not as usual.
        is_cut_off: Whether time ended the training of a model.
    """

    def __init__(
        self,
        space: LabelSpace,
        seed: int,
        threads: int,
        *,
        validation: tuple[NDArray[np.float32], NDArray[Any]] | None = None,
        rounds: Mapping[int, int] | None = None,
        deadline: float = math.inf,
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self.deadline, self._models_left, self.is_cut_off = deadline, 1, False
        self.is_stopped = is_stopped
        self.space, self.validation, self._given_rounds = space, validation, rounds
        self.rounds: dict[int, int] = dict(rounds or {})
        self.notices: list[str] = []
        self._parameters = PARAMETERS | {"seed": seed, "num_threads": threads}
        self._binning = {"verbosity": -1, "num_threads": threads}

    def run(self, table: Table, labels: NDArray[Any], matrices: Matrices) -> Outcome:
        """Learn the labels of a table, and predict some matrices."""
        val = None if self.validation is None else self.validation[1]
        if self.space.task_type == "regression":
            return self._regression(table, labels, val, matrices)
        if self.space.task_type == "multiclass_classification":
            return self._multiclass(table, labels, val, matrices)
        if self.space.width:
            return self._multilabel(table, labels, val, matrices)
        return self._binary(table, labels, val, matrices)

    def _regression(
        self, table: Table, train: NDArray[Any], val: NDArray[Any] | None, matrices: Matrices
    ) -> Outcome:
        """One model of the median; predictions stay within the training labels."""
        median = float(np.median(train)) if len(train) else 0.0
        labels = _Labels(train, val, {"objective": "l1", "metric": "l1"})
        predicted, gains = self._fit(table, labels, median, matrices)
        low, high = (float(train.min()), float(train.max())) if len(train) else (0.0, 0.0)
        return {split: np.clip(p, low, high) for split, p in predicted.items()}, gains

    def _multiclass(
        self, table: Table, train: NDArray[Any], val: NDArray[Any] | None, matrices: Matrices
    ) -> Outcome:
        """One model; classes beyond the most frequent ones are learned as one class, whose
        probability they divide as the training labels do."""
        classes = self.space.width
        counts = np.bincount(train, minlength=classes).astype(np.float64)
        shares = counts / counts.sum() if len(train) else np.full(classes, 1 / max(classes, 1))
        frequent = self._most_frequent(counts)
        rare = np.setdiff1d(np.arange(classes), frequent)
        place = np.full(classes, len(frequent), np.int64)
        place[frequent] = np.arange(len(frequent))
        learned: NDArray[np.float64] = np.bincount(place, shares, minlength=len(frequent)).astype(
            np.float64
        )
        objective = {"objective": "multiclass", "metric": "multi_logloss"}
        labels = _Labels(
            place[train],
            None if val is None else place[val],
            objective | {"num_class": len(learned)},
        )
        predicted, gains = self._fit(table, labels, learned, matrices)
        if len(rare) and learned[-1]:
            within = shares[rare] / learned[-1]
        else:
            within = np.full(len(rare), 1 / max(len(rare), 1))
        spread = {}
        for split, p in predicted.items():
            spread[split] = np.empty((len(p), classes))
            spread[split][:, frequent] = p[:, : len(frequent)]
            spread[split][:, rare] = p[:, -1:] * within
        return spread, gains

    def _multilabel(
        self, table: Table, train: NDArray[Any], val: NDArray[Any] | None, matrices: Matrices
    ) -> Outcome:
        """One model for each of the most frequent labels, the training share for the others."""
        shares = train.mean(axis=0) if len(train) else np.full(train.shape[1], 0.5)
        predicted = {
            split: np.tile(shares.astype(np.float64), (len(matrix), 1))
            for split, matrix in matrices.items()
        }
        gains = np.zeros(table.values.shape[1])
        frequent = self._most_frequent(train.sum(axis=0)).tolist()
        for place, number in enumerate(frequent):
            self._models_left = len(frequent) - place
            label = np.ascontiguousarray(train[:, number])
            val_label = None if val is None else np.ascontiguousarray(val[:, number])
            probabilities, gain = self._binary(table, label, val_label, matrices, number)
            for split, p in probabilities.items():
                predicted[split][:, number] = p
            gains += gain
        return predicted, gains

    def _binary(
        self,
        table: Table,
        train: NDArray[Any],
        val: NDArray[Any] | None,
        matrices: Matrices,
        number: int = 0,
    ) -> Outcome:
        # AUC does not exist for a single class.
        metric = "auc" if val is not None and len(np.unique(val)) > 1 else "binary_logloss"
        labels = _Labels(train, val, {"objective": "binary", "metric": metric}, number)
        rate = float(train.mean()) if len(train) else 0.5
        return self._fit(table, labels, rate, matrices)

    def _most_frequent(self, counts: NDArray[Any]) -> NDArray[np.int64]:
        if len(counts) <= MAX_CLASSES:
            return np.arange(len(counts))
        self.notices.append(
            f"LightGBM learned the {MAX_CLASSES} most frequent of {len(counts):,} classes"
        )
        return np.sort(np.argsort(-counts, kind="stable")[:MAX_CLASSES])

    def _fit(
        self,
        table: Table,
        labels: _Labels,
        constant: float | NDArray[np.float64],
        matrices: Matrices,
    ) -> Outcome:
        """Train one model; where there is nothing to learn, `constant` is the prediction for every
        seed."""
        columns, number = table.values.shape[1], labels.number
        is_constant = not columns or len(np.unique(labels.train)) < 2
        if is_constant:
            self.notices.append("LightGBM had nothing to learn from and predicts a constant")
        if is_constant or (self._given_rounds is not None and not self._given_rounds.get(number)):
            self.rounds[number] = 0
            row = np.asarray(constant, np.float64)
            constants = {
                split: np.broadcast_to(row, (len(matrix), *row.shape)).copy()
                for split, matrix in matrices.items()
            }
            return constants, np.zeros(columns)
        import lightgbm

        dataset = lightgbm.Dataset(
            table.values,
            labels.train,
            categorical_feature=table.codes,
            params=self._binning,
            free_raw_data=False,
        )
        most, held_out = self._stopping(dataset, labels)
        now = time.perf_counter()
        model = timed_train(
            self._parameters | labels.objective,
            dataset,
            most,
            held_out=held_out,
            patience=PATIENCE,
            deadline=now + (self.deadline - now) / self._models_left,
            is_stopped=self.is_stopped,
        )
        self.is_cut_off |= model.is_cut_off
        rounds = self.rounds[number] = model.rounds
        predicted = {
            split: self._predict(model.booster, matrix, rounds)
            for split, matrix in matrices.items()
        }
        return predicted, model.booster.feature_importance("gain", iteration=rounds)

    def _stopping(self, dataset: Any, labels: _Labels) -> tuple[int, Any]:
        """The rounds that training takes at most, and the data set by which it stops before; None
        for all rounds."""
        if self._given_rounds is not None:
            return self._given_rounds[labels.number], None
        import lightgbm

        usable = np.zeros(0, np.int64)
        if labels.val is not None:
            usable = np.flatnonzero(np.isfinite(labels.val))
        if self.validation is None or labels.val is None or not len(usable):
            self.notices.append(
                "LightGBM had no validation labels to stop by and trained "
                f"{ROUNDS_WITHOUT_VALIDATION} rounds"
            )
            return ROUNDS_WITHOUT_VALIDATION, None
        held_out = lightgbm.Dataset(
            self.validation[0][usable],
            labels.val[usable],
            reference=dataset,
            params=self._binning,
        )
        return min(ROUNDS, TREES // labels.objective.get("num_class", 1)), held_out

    def _predict(self, model: Any, matrix: NDArray[np.float32], rounds: int) -> NDArray[np.float64]:
        if not len(matrix):
            return np.zeros((0, model.params["num_class"]) if "num_class" in model.params else 0)
        predicted: NDArray[np.float64] = model.predict(
            matrix, num_iteration=rounds, num_threads=self._parameters["num_threads"]
        )
        return predicted
