"""Scores of a suite in points, larger is better, and the same on resampled entities.

    binary       100 · AUC
    regression   100 · (1 - MAE / MAE of the constant), the constant being the median of the
                 training labels: 0 is no better than it, 100 is perfect

A score is the mean over seeds. A resample draws entities with replacement, with all their rows, the
same ones for every column and seed. A draw without both classes is drawn again.
"""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gelgt.bench.cells import Cell, Outcome
from gelgt.bench.suite.columns import Column
from gelgt.bench.suite.folders import Unit
from gelgt.errors import GelgtError

DRAWS, FEW_DRAWS = 1000, 100
MOST_ROWS = 200_000_000  # rows × draws of a column and seed; larger tests need fewer draws
CHUNK = 64  # draws at once
Values = NDArray[np.float64]


@dataclass(frozen=True)
class Predicted:
    """What the columns predict for the scored rows of a unit.

    Attributes:
        unit: The task and its origin.
        labels: (S,)
        entities: (S,) numbers from 0 on.
        constant: The median of the training labels.
        columns: For each column, (S,) by seed; only those with finished runs.
    """

    unit: Unit
    labels: Values
    entities: NDArray[np.int64]
    constant: float
    columns: Mapping[str, Mapping[int, Values]]

    @property
    def is_binary(self) -> bool:
        return self.unit.task.task_type == "binary_classification"


def read_predictions(
    unit: Unit, columns: Sequence[Column], cells: Sequence[Cell]
) -> Predicted | None:
    """The predictions of a unit's finished cells; None where there are none.

    Raises:
        GelgtError: cells of one unit hold other labels than the others.
    """
    train = unit.task.table("train").column(unit.task.label_col).to_numpy().astype(np.float64)
    labels: Values | None = None
    entities: NDArray[np.int64] | None = None
    by_column: dict[str, dict[int, Values]] = {}
    for cell in cells:
        outcome = Outcome.of(cell)
        for column in columns:
            if column.variant != cell.variant or (column.part and column.part not in outcome.parts):
                continue
            truth, values = outcome.predictions("test", column.part)
            truth = truth.astype(np.float64)
            if labels is None:
                labels, entities = truth, outcome.entities("test")
            elif not np.array_equal(labels, truth, equal_nan=True):
                raise GelgtError(
                    "other_run",
                    f"{cell.folder} holds a run on other labels than the runs beside it.",
                    hint="Choose another --out.",
                )
            by_column.setdefault(column.name, {})[cell.seed] = values.astype(np.float64)
    if labels is None:
        return None
    usable = np.flatnonzero(np.isfinite(labels))
    numbers = np.arange(len(labels)) if entities is None else entities
    return Predicted(
        unit,
        labels[usable],
        np.unique(numbers[usable], return_inverse=True)[1].astype(np.int64),
        float(np.nanmedian(train)),
        {
            column.name: {seed: v[usable] for seed, v in by_column[column.name].items()}
            for column in columns
            if column.name in by_column
        },
    )


def raw_score(points: float, is_binary: bool) -> float:
    """Points as the metric that tables show: AUC, or MAE over the MAE of the constant."""
    return points / 100 if is_binary else 1 - points / 100


def seed_points(predicted: Predicted) -> dict[str, dict[int, float]]:
    """The points of each column by seed."""
    ones = np.ones((1, int(predicted.entities.max()) + 1), np.int64)
    return {
        name: {seed: float(_points(predicted, [v], ones)[0]) for seed, v in by_seed.items()}
        for name, by_seed in predicted.columns.items()
    }


def resampled_points(predicted: Predicted, draws: int = DRAWS) -> dict[str, Values]:
    """(draws,) points of each column, the mean over its seeds, on the same resamples."""
    unit, rows = predicted.unit, len(predicted.labels)
    computed = max(min(draws, FEW_DRAWS), min(draws, MOST_ROWS // max(rows, 1)))
    generator = np.random.default_rng(zlib.crc32(f"{unit.title}@{unit.origin}".encode()))
    parts: dict[str, list[Values]] = {name: [] for name in predicted.columns}
    for start in range(0, computed, CHUNK):
        counts = _drawn(predicted, min(CHUNK, computed - start), generator)
        for name, by_seed in predicted.columns.items():
            parts[name].append(_points(predicted, list(by_seed.values()), counts))
    # a large test has few draws, which are taken several times
    places = np.arange(draws) % computed
    return {name: np.concatenate(each)[places] for name, each in parts.items()}


def _drawn(predicted: Predicted, draws: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """(draws, E) how often each entity was drawn, both classes always among them."""
    units = int(predicted.entities.max()) + 1
    counts = np.empty((draws, units), np.int64)
    has = [
        np.bincount(predicted.entities, predicted.labels == value, units) > 0
        for value in ((0, 1) if predicted.is_binary else ())
    ]
    for draw in range(draws):
        while True:
            counts[draw] = np.bincount(generator.integers(0, units, units), minlength=units)
            if all(counts[draw][of_class].any() for of_class in has):
                break
    return counts


def _points(predicted: Predicted, seeds: Sequence[Values], counts: NDArray[np.int64]) -> Values:
    """(D,) points on draws of entities, the mean over seeds."""
    if predicted.is_binary:
        areas: Values = np.mean([_auc(predicted, values, counts) for values in seeds], axis=0)
        return 100 * areas
    error = np.mean([np.abs(values - predicted.labels) for values in seeds], axis=0)
    of_constant = np.abs(predicted.constant - predicted.labels)
    units = counts.shape[1]
    ours, theirs = (
        counts @ np.bincount(predicted.entities, each, units) for each in (error, of_constant)
    )
    # a draw of labels that all equal the constant has no scale: the constant is right there
    points: Values = np.where(theirs > 0, 100 * (1 - ours / np.where(theirs > 0, theirs, 1)), 0.0)
    return points


def _auc(predicted: Predicted, values: Values, counts: NDArray[np.int64]) -> Values:
    from gelgt.bench.suite.kernels import resampled_auc

    order = np.argsort(values, kind="stable")
    ordered = values[order]
    ends_tie = np.append(ordered[1:] != ordered[:-1], True)
    areas: Values = resampled_auc(
        predicted.entities[order], predicted.labels[order] > 0.5, ends_tie, counts
    )
    return areas
