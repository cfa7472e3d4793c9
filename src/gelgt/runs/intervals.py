"""Bootstrap intervals of scores, over the entities of a run's predictions.

A bootstrap draws how often each row counts. Rows of one entity are alike, so where entities come
more than once whole entities are drawn: rows drawn one by one would count as independent, and
intervals come out too narrow. Metrics are functions of those counts (row weights): `scorer`
prepares everything that does not depend on them (the order of the scores, the error of each row),
and what it returns costs O(n) a call. Without resampling, all weights are one.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from gelgt.runs.predictions import Array, Predictions
from gelgt.runs.rankings import average_precision

Scorer = Callable[[Array], float]
RESAMPLES, FEW_ROWS, RESAMPLES_FEW, MOST_ROWS = 200, 5_000, 1_000, 25_000


def scorer(metric: str, label: Array, score: Array) -> Scorer | None:
    """The metric as a function of row weights, or None for one that the predictions do not give.

    Example:
        >>> auc = scorer("roc_auc", np.array([0, 1, 0, 1]), np.array([0.1, 0.4, 0.4, 0.9]))
        >>> auc(np.ones(4))
        0.875
    """
    if label.ndim == 2:
        name = {"macro_auprc": "average_precision", "macro_roc_auc": "roc_auc"}.get(metric)
        return _mean_of_labels(name, label, score) if name else None
    if metric in ("roc_auc", "average_precision"):
        return _ranked(metric, label, score) if score.ndim == 1 else None
    if metric == "rmse" and score.ndim == 1:
        mean = _mean((score - label) ** 2)
        return lambda weights: float(np.sqrt(mean(weights)))
    values = _row_values(metric, label, score)
    return None if values is None else _mean(values)


def value(metric: str, predictions: Predictions, model: str) -> float | None:
    """The metric over all rows; None where it is undefined (one class only) or cannot be
    computed."""
    if model not in predictions.scores or not len(predictions):
        return None
    measure = scorer(metric, predictions.label, predictions.scores[model])
    result = measure(np.ones(len(predictions))) if measure else float("nan")
    return result if np.isfinite(result) else None


def _row_values(metric: str, label: Array, score: Array) -> Array | None:
    """The metrics that are a mean over rows."""
    if metric == "map" and score.ndim == 2:
        return average_precision(label, score)
    if metric == "mae" and score.ndim == 1:
        return np.asarray(np.abs(score - label))
    if metric == "mse" and score.ndim == 1:
        return np.asarray((score - label) ** 2)
    if metric == "accuracy":
        return np.asarray(
            (score > 0.5) == (label > 0.5) if score.ndim == 1 else score.argmax(axis=1) == label,
            dtype=float,
        )
    if metric == "mrr" and score.ndim == 2:
        true = np.take_along_axis(score, np.maximum(label, 0).astype(int)[:, None], axis=1)
        # classes that tie share the mean of their ranks
        rank = (score > true).sum(axis=1) + ((score == true).sum(axis=1) + 1) / 2
        # a class that training never saw has no rank
        return np.where(label >= 0, 1 / rank, 0.0)
    return None


def _mean(values: Array) -> Scorer:
    # not @: BLAS threads cost more than they save here
    return lambda weights: float((values * weights).sum() / weights.sum())


def _mean_of_labels(name: str, label: Array, score: Array) -> Scorer:
    each = [_ranked(name, label[:, c], score[:, c]) for c in range(label.shape[1])]

    def mean(weights: Array) -> float:
        values = np.array([one(weights) for one in each])
        return float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")

    return mean


def _ranked(name: str, label: Array, score: Array) -> Scorer:
    """ROC-AUC or average precision, ties counted once: rows of one score form one group, groups
    descend."""
    _, group = np.unique(-score, return_inverse=True)
    groups = int(group.max()) + 1 if len(group) else 0
    # bincount over sorted groups reads and writes memory in order
    order = np.argsort(group, kind="stable")
    group, positive = group[order], label[order] > 0.5

    def result(weights: Array) -> float:
        counted = weights[order]
        true = np.bincount(group, counted * positive, groups)
        false = np.bincount(group, counted * ~positive, groups)
        positives, negatives = true.sum(), false.sum()
        if positives == 0 or negatives == 0:
            return float("nan")
        if name == "roc_auc":  # a negative below or, by half, beside each positive
            return float(
                (true * (negatives - np.cumsum(false) + false / 2)).sum() / (positives * negatives)
            )
        above, total = np.cumsum(true), np.cumsum(true + false)
        precision = np.divide(above, total, out=np.zeros(groups), where=total > 0)
        return float((true * precision).sum() / positives)

    return result


@dataclass(frozen=True)
class Interval:
    """A score and the 95 % of its bootstrap distribution."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Bootstrap:
    """Intervals of each model's score, and of the run's model minus each baseline, on the same
    resamples.

    Attributes:
        models: Model to its interval.
        gains: Baseline to the interval of (run's model - baseline), in units of the metric.
        rows: How many rows were resampled; fewer than there are where the file is large.
        resamples: How many times.
        over_entities: Whether whole entities were drawn, because some come more than once.
    """

    models: dict[str, Interval]
    gains: dict[str, Interval]
    rows: int
    resamples: int
    over_entities: bool = False


def resampled(
    entity: Array | None, rows: int, resamples: int, generator: np.random.Generator
) -> Iterator[Array]:
    """Yields for each resample (rows,) how often each row counts; entities are drawn, with all
    their rows.

    Args:
        entity: (rows,) numbers from 0 on; None where no entity comes twice.
    """
    units = rows if entity is None else int(entity.max(initial=-1)) + 1
    for _ in range(resamples):
        counts = np.bincount(generator.integers(0, units, units), minlength=units).astype(float)
        yield counts if entity is None else counts[entity]


def bootstrap(metric: str, predictions: Predictions, seed: int = 0) -> Bootstrap | None:
    """95 % percentile intervals over resampled entities, the same ones each time for the same file.

    Of a large file m of n entities are resampled and the deviations scaled by √(m/n), which is how
    the error of a mean shrinks (m-out-of-n bootstrap), so that a million rows take as long as 25
    thousand.
    """
    full = {
        model: score
        for model in predictions.scores
        if (score := value(metric, predictions, model)) is not None
    }
    first = next(iter(predictions.scores), None)
    if first not in full or len(predictions) < 10:
        return None
    models, generator = list(full), np.random.default_rng(seed)
    sample, share = _sampled(predictions, generator)
    resamples = RESAMPLES_FEW if len(predictions) <= FEW_ROWS else RESAMPLES
    scorers = [scorer(metric, sample.label, sample.scores[model]) for model in models]
    drawn = np.empty((resamples, len(models)))
    for i, weights in enumerate(resampled(sample.entity, len(sample), resamples, generator)):
        drawn[i] = [measure(weights) for measure in scorers if measure]
    # so few positives that most resamples have no score
    if np.isfinite(drawn).all(axis=1).mean() < 0.5:
        return None
    centre = np.array([value(metric, sample, model) or 0.0 for model in models])
    exact = np.array(list(full.values()))
    scaled = dict(zip(models, (exact + (drawn - centre) * np.sqrt(share)).T))
    gains = {model: scaled[first] - scaled[model] for model in models if model != first}
    return Bootstrap(
        {model: _interval(full[model], scaled[model]) for model in models},
        {model: _interval(full[first] - full[model], gain) for model, gain in gains.items()},
        len(sample),
        resamples,
        predictions.entity is not None,
    )


def _sampled(predictions: Predictions, generator: np.random.Generator) -> tuple[Predictions, float]:
    """All rows, or about `MOST_ROWS` rows of entities drawn at random; and the share of entities
    that were drawn."""
    total = len(predictions)
    if total <= MOST_ROWS:
        return predictions, 1.0
    if predictions.entity is None:
        return predictions.take(
            np.sort(generator.choice(total, MOST_ROWS, replace=False))
        ), MOST_ROWS / total
    units = int(predictions.entity.max()) + 1
    count = max(1, units * MOST_ROWS // total)
    is_drawn = np.zeros(units, bool)
    is_drawn[generator.choice(units, count, replace=False)] = True
    return predictions.take(is_drawn[predictions.entity]), count / units


def _interval(exact: float, drawn: Array) -> Interval:
    low, high = np.nanquantile(drawn, [0.025, 0.975])
    return Interval(exact, float(low), float(high))
