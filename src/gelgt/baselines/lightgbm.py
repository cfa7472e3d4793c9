"""LightGBM on causal aggregates: the baseline that a careful engineer would build in an afternoon.

    data = TaskData(db, db.graph(), db.features(), task, SamplingConfig())
    result = lightgbm_baseline(data)
    result.predictions["test"]

It trains on the training split, stops early on the validation split by the task's metric (AUC, mean
absolute error, log loss), and never sees the test labels. Beside a model that learns more than the
training split it is given what that model learns (`Examples`): overlapping windows, and for the
test split a retrain on every label that is known at the test time. Columns that number categories
are categorical features. The same call gives the same predictions.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gelgt.baselines.boosting import Boosting, Table
from gelgt.history.aggregates import aggregates
from gelgt.history.task_data import TaskData
from gelgt.sampling.seeds import Seeds, task_seeds
from gelgt.tasks.label_space import label_space, targets
from gelgt.tasks.task import SPLITS, Task

MAX_TRAIN_ROWS = 500_000
MANY_ROWS = 50_000  # labels from which two threads are faster than one
RETRAINED_TIME = 0.5  # of the seconds, for the first fit, where a retrain follows


def has_lightgbm() -> bool:
    """Whether LightGBM is installed."""
    return find_spec("lightgbm") is not None


@dataclass(frozen=True)
class Examples:
    """Seeds with their labels.

    Attributes:
        seeds: (S,) entities and times.
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
    """What the baseline predicts, and what it learned from.

    Attributes:
        predictions: For `val` and `test`, in the order of the label tables or of the examples:
            probabilities (S,), values (S,), or probabilities (S, classes) or (S, labels).
        features: Names of the columns that it saw.
        importance: Total gain of each column that the first fit used, falling.
        rounds: Rounds at which early stopping ended (one tree for each class; the mean over the
            labels of a multilabel task).
        train_rows: Labels that the first fit learned; it predicts `val`.
        known_rows: Labels that the retrain learned, which predicts `test`; None without a retrain.
        notices: What is not as usual: rows left out, nothing to learn from, nothing to stop by.
        is_cut_off: Whether it ran out of time.
    """

    predictions: Mapping[str, NDArray[Any]]
    features: tuple[str, ...]
    importance: Mapping[str, float]
    rounds: int
    train_rows: int
    known_rows: int | None = None
    notices: tuple[str, ...] = ()
    is_cut_off: bool = False


def lightgbm_baseline(
    data: TaskData,
    *,
    examples: Mapping[str, Examples] | None = None,
    hops: int = 1,
    columns: Sequence[str] | None = None,
    seed: int = 0,
    threads: int | None = None,
    seconds: float | None = None,
    is_stopped: Callable[[], bool] = lambda: False,
) -> LightGBMResult:
    """Train LightGBM on the aggregates of seeds and predict `val` and `test`.

    Args:
        data: What the seeds may see; its task has labels and seed times.
        examples: The labels to learn (``train``), to stop by and predict (``val``), to predict
            (``test``), and, where the test split is to be predicted by a retrain, every label that
            it may learn (``known``). By default the task's splits, without a retrain.
        hops: 1 or 2; see `history/aggregates.py`.
        columns: Only these aggregates.
        seed: Of the samples of rows and columns.
        threads: Of LightGBM; by default two where there are many labels. The result does not depend
            on them.
        seconds: Within which it has to end, as far as it got; None for no limit.
        is_stopped: Asked after every round; true ends it as far as it got.
    """
    assert isinstance(data.task, Task), "a definition alone has no labels"
    space, notices = label_space(data.task), list[str]()
    examples = examples or _splits(data.task, data)
    train = _usable(examples["train"], seed, notices)
    if threads is None:  # of small trees they would mostly wait for each other
        threads = 2 if len(train.seeds) >= MANY_ROWS else 1
    began = time.perf_counter()
    table = partial(_table, data, hops=hops, columns=columns)
    val, test = (table(examples[split]) for split in ("val", "test"))
    deadline = math.inf
    if seconds is not None:  # the retrain learns more labels, for as many rounds
        deadline = began + seconds * (RETRAINED_TIME if "known" in examples else 1.0)
    validation = (val.values, examples["val"].labels)
    made = partial(Boosting, space, seed, threads, is_stopped=is_stopped)
    first = made(validation=validation, deadline=deadline)
    predictions, gains = first.run(
        table(train), train.labels, {"val": val.values, "test": test.values}
    )
    notices += first.notices
    known = None
    if "known" in examples:
        known = _usable(examples["known"], seed, notices)
        retrain = made(rounds=first.rounds)
        again, _ = retrain.run(table(known), known.labels, {"test": test.values})
        predictions["test"] = again["test"]
        notices += retrain.notices
        first.is_cut_off |= retrain.is_cut_off
    used = np.argsort(-gains, kind="stable")[: np.count_nonzero(gains)]
    rounds = list(first.rounds.values())
    return LightGBMResult(
        predictions,
        val.names,
        importance={val.names[i]: float(gains[i]) for i in used},
        rounds=round(float(np.mean(rounds))) if rounds else 0,
        train_rows=len(train.seeds),
        known_rows=None if known is None else len(known.seeds),
        notices=tuple(dict.fromkeys(notices)),
        is_cut_off=first.is_cut_off,
    )


def _splits(task: Task, data: TaskData) -> dict[str, Examples]:
    return {
        split: Examples(task_seeds(task, data.graph, split), targets(task, split))
        for split in SPLITS
    }


def _table(data: TaskData, examples: Examples, hops: int, columns: Sequence[str] | None) -> Table:
    """The columns of examples: their aggregates, and what they bring along."""
    first = data.graph.offsets[data.graph.table_number(data.task.entity_table)]
    rows, times = examples.seeds.node - first, examples.seeds.time
    table = aggregates(data, rows, times, hops=hops, names=columns)
    values = table.values
    if examples.further:
        values = np.column_stack([values, *examples.further.values()])
    return Table(
        (*table.names, *examples.further),
        values.astype(np.float32, copy=False),
        np.flatnonzero(table.is_code).tolist(),
    )


def _usable(examples: Examples, seed: int, notices: list[str]) -> Examples:
    """The examples that have a label, at most `MAX_TRAIN_ROWS` of them."""
    has_label = np.isfinite(examples.labels)
    usable = np.flatnonzero(has_label.all(axis=1) if has_label.ndim > 1 else has_label)
    if len(usable) > MAX_TRAIN_ROWS:
        notices.append(
            f"LightGBM, the baseline, learned {MAX_TRAIN_ROWS:,} of {len(usable):,} labels, drawn "
            "at random"
        )
        usable = np.sort(np.random.default_rng(seed).choice(usable, MAX_TRAIN_ROWS, replace=False))
    return examples.take(usable)
