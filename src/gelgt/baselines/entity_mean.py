"""The entity mean: the average of an entity's past labels, the simplest baseline.

A label counts once its window has closed, label time + timedelta ≤ min(seed time, horizon), in
whichever split it is: at a prediction time the outcome of every earlier window is known, also in
the test split. A label without a window is known after its seed time. Classification predicts
shares, regression medians, which minimise the mean absolute error.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gelgt.errors import TaskError
from gelgt.tasks.label_space import LabelSpace, label_space, targets
from gelgt.tasks.task import SPLITS, Task

# The splits whose closed windows count; the window of the seed itself closes after its seed time.
HISTORY = {"val": ("train", "val"), "test": ("train", "val", "test")}
MICROSECONDS = 1_000_000


def entity_mean(task: Task, horizon: int | None = None) -> dict[str, NDArray[Any]]:
    """Predictions for `val` and `test` from the past labels of each entity.

    Args:
        task: Any task with labels.
        horizon: Seconds since 1970 after which nothing is known: the test time in the frozen
            regime.

    Returns:
        For each split, in the order of its label table: probabilities (S,) of a binary task, values
        (S,) of a regression, shares (S, classes) or (S, labels) otherwise. An entity without known
        labels gets the average over all entities at that time, and before any window has closed
        that of the training labels.

    Raises:
        TaskError: the task recommends rows; what an entity has had is `LinkRankings.past`.
    """
    if task.task_type == "recommendation":
        raise TaskError(
            "no_baseline",
            f"'{task.name}' recommends rows, of which there is no mean.",
            hint="Rank what the entity has had (gelgt.baselines.ranking).",
        )
    space = label_space(task)
    return {split: _predict(task, space, split, horizon) for split in HISTORY}


@dataclass(frozen=True)
class _Places:
    """Where the known labels of each seed's entity lie, and how many are known of all entities.

    H known and future labels, S seeds.
    """

    by_entity: NDArray[np.int64]  # (H,) order of the history by (entity, closing time)
    by_time: NDArray[np.int64]  # (H,) order by closing time
    first: NDArray[np.int64]  # (S,)
    last: NDArray[np.int64]  # (S,)
    known: NDArray[np.int64]  # (S,)
    starts: NDArray[np.int64]  # where each entity's labels begin, and H


def _predict(task: Task, space: LabelSpace, split: str, horizon: int | None) -> NDArray[Any]:
    past = [_rows(task, name) for name in HISTORY[split]]
    labels = np.concatenate([targets(task, name, space) for name in HISTORY[split]])
    entities, closing = np.concatenate([p[0] for p in past]), np.concatenate([p[1] for p in past])
    usable = np.isfinite(labels) if labels.ndim == 1 else np.isfinite(labels).all(axis=1)
    window = (
        0 if task.timedelta is None or task.time_col is None else int(task.timedelta.value // 1000)
    )
    # Without a window a label at the seed time itself is not known yet.
    closing = closing + window if window else closing + 1
    seeds, moments = _rows(task, split)
    cutoff = moments if horizon is None else np.minimum(moments, horizon * MICROSECONDS)
    places = _places(entities[usable], closing[usable], seeds, cutoff)
    train = targets(task, "train", space)
    labels = labels[usable]
    if space.task_type == "regression":
        return _medians(labels, places, train)
    if not space.width:
        return _shares(labels, places, train)
    if space.task_type == "multiclass_classification":
        return np.stack(
            [_shares(labels == c, places, train == c) for c in range(space.width)], axis=1
        )
    return np.stack(
        [_shares(labels[:, c], places, train[:, c]) for c in range(space.width)], axis=1
    )


def _rows(task: Task, split: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Entities and times in microseconds; without times, the splits themselves are in order."""
    table = task.table(split)
    entities = table.column(task.entity_col).to_numpy().astype(np.int64)
    if task.time_col is None:
        return entities, np.full(len(entities), SPLITS.index(split), np.int64)
    return entities, table.column(task.time_col).cast("timestamp[us]").cast("int64").to_numpy()


def _places(
    entities: NDArray[np.int64],
    closing: NDArray[np.int64],
    seeds: NDArray[np.int64],
    cutoff: NDArray[np.int64],
) -> _Places:
    distinct, rank = np.unique(closing, return_inverse=True)
    # One number for (entity, closing time): both searches are then one each, whatever the number of
    # entities.
    step = len(distinct) + 1
    key = entities * step + rank
    by_entity = np.argsort(key, kind="stable")
    ordered = key[by_entity]
    first = np.searchsorted(ordered, seeds * step)
    last = np.searchsorted(ordered, seeds * step + np.searchsorted(distinct, cutoff, side="right"))
    by_time = np.argsort(closing, kind="stable")
    known = np.searchsorted(closing[by_time], cutoff, side="right")
    starts = np.append(np.flatnonzero(np.diff(ordered // step, prepend=-1)), len(ordered))
    return _Places(by_entity, by_time, first, last, known, starts)


def _shares(labels: NDArray[Any], places: _Places, train: NDArray[Any]) -> NDArray[np.float64]:
    sums = _running(labels[places.by_entity])
    everyone = _running(labels[places.by_time])
    count = places.last - places.first
    prior = float(train.mean()) if len(train) else 0.5
    fallback = np.where(
        places.known > 0, everyone[places.known] / np.maximum(places.known, 1), prior
    )
    mean: NDArray[np.float64] = (sums[places.last] - sums[places.first]) / np.maximum(count, 1)
    return np.where(count > 0, mean, fallback)


def _running(labels: NDArray[Any]) -> NDArray[np.float64]:
    return np.concatenate([[0.0], np.cumsum(labels, dtype=np.float64)])  # of 0 and 1: exact


def _medians(
    labels: NDArray[np.float64], places: _Places, train: NDArray[np.float64]
) -> NDArray[np.float64]:
    from gelgt.history.kernels import prefix_medians

    finite = train[np.isfinite(train)]
    prior = float(np.median(finite)) if len(finite) else 0.0
    medians = np.append(prefix_medians(labels[places.by_entity], places.starts), prior)
    everyone = np.append(prefix_medians(labels[places.by_time], np.array([0, len(labels)])), prior)
    # The last place holds the prior, which is where an index of -1 points.
    fallback = everyone[places.known - 1]
    return np.where(places.last > places.first, medians[places.last - 1], fallback)
