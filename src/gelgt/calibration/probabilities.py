"""`ProbabilityMap`: a monotone map of probabilities, fitted on validation where it helps.

    binary       sigmoid(slope · logit(p) + shift)     temperature (shift 0) or Platt scaling
    multiclass   softmax(slope · log p)                temperature

The slope is above 0, so the order of rows, and of the classes of a row, stays what it was: ROC-AUC,
MRR and every other metric of ranks do not change. Isotonic regression, which makes ties, is not
offered. A map is taken where its log loss on held-out entities is below that of the probabilities
themselves by more than the standard error of that gain, and, where validation has several seed
times, below it on held-out times too: what helps in one period only does not help in the next.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gelgt.calibration.folds import LEAST, folds, time_folds
from gelgt.calibration.scales import Array

NONE, TEMPERATURE, PLATT = "none", "temperature", "platt"
MOST_ROWS = 100_000  # that decide; of more, some at equal distances
STEEPEST = 3.0  # |log slope| at most: a factor of 20
TINY = 1e-300  # whose logarithm is finite


@dataclass(frozen=True)
class ProbabilityMap:
    """What is done to probabilities.

    Attributes:
        kind: ``none``, ``temperature`` or ``platt``.
        slope: Of log-odds, or of log-probabilities; above 0.
        shift: Of log-odds.
        gain: Log loss of a row on held-out entities, before minus after.
        error: Standard error of the gain, over entities.
        rows: Validation rows that decided.
    """

    kind: str = NONE
    slope: float = 1.0
    shift: float = 0.0
    gain: float = 0.0
    error: float = 0.0
    rows: int = 0

    @property
    def words(self) -> str:
        """Its name in a sentence."""
        return "Platt scaling" if self.kind == PLATT else f"{self.kind} scaling"

    def __call__(self, probabilities: Array) -> Array:
        """(S,) of a binary or (S, C) of a multiclass task."""
        if self.kind == NONE:
            return probabilities
        return _mapped(probabilities, self.slope, self.shift)

    def before(self, probabilities: Array) -> Array:
        """The probabilities that the map was applied to."""
        if self.kind == NONE:
            return probabilities
        return _mapped(probabilities, 1 / self.slope, -self.shift / self.slope)


def fit_probabilities(
    probabilities: Array,
    labels: NDArray[Any],
    entity: NDArray[Any],
    times: NDArray[np.int64],
    can_shift: bool = True,
) -> ProbabilityMap:
    """The map that validation rows ask for, or none.

    Args:
        probabilities: (S,) of the event, or (S, C) of each class, of a model that has not learned
            the labels.
        labels: (S,) 0 or 1, or the number of a class.
        entity: (S,) whole numbers that identify entities.
        times: (S,) seed times in seconds since 1970.
        can_shift: Whether Platt scaling may be taken. A model that is retrained learns the rate of
            the event in validation itself; shifted besides, it would be corrected twice.
    """
    if len(labels) > MOST_ROWS:
        some = np.linspace(0, len(labels) - 1, MOST_ROWS).astype(np.int64)
        probabilities, labels = probabilities[some], labels[some]
        entity, times = entity[some], times[some]
    best = ProbabilityMap(rows=len(labels))
    if len(labels) < LEAST or len(np.unique(labels)) < 2:
        return best
    has_shift = probabilities.ndim == 1 and can_shift
    for kind in (TEMPERATURE, PLATT) if has_shift else (TEMPERATURE,):
        gains = _held_out_gains(kind, probabilities, labels, folds(entity))
        later = _held_out_gains(kind, probabilities, labels, time_folds(times))
        gain, error = _mean_and_error(gains, entity)
        has_times = len(np.unique(times)) > 1
        helps = gain > error and (float(later.mean()) > 0 or not has_times)
        if helps and gain > best.gain:
            slope, shift = _fit(kind, probabilities, labels)
            best = ProbabilityMap(kind, slope, shift, gain, error, len(labels))
    return best


def _held_out_gains(
    kind: str,
    probabilities: Array,
    labels: NDArray[Any],
    parts: Iterable[tuple[NDArray[np.int64], NDArray[np.int64]]],
) -> Array:
    """(S,) log loss of each row before minus after a map that was fitted without its fold."""
    before = _losses(probabilities, labels)
    after = before.copy()
    for learned, held_out in parts:
        mapped = _mapped(
            probabilities[held_out], *_fit(kind, probabilities[learned], labels[learned])
        )
        after[held_out] = _losses(mapped, labels[held_out])
    return before - after


def _mapped(probabilities: Array, slope: float, shift: float) -> Array:
    """In numpy alone: a prediction does without scipy."""
    if probabilities.ndim == 1:
        with np.errstate(divide="ignore"):  # 0 and 1 stay what they are
            odds = slope * (np.log(probabilities) - np.log1p(-probabilities)) + shift
        small = np.exp(-np.abs(odds))
        return np.asarray(np.where(odds >= 0, 1, small) / (1 + small))
    logs = slope * np.log(np.maximum(probabilities, TINY))
    powers = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def _losses(probabilities: Array, labels: NDArray[Any]) -> Array:
    """(S,) log loss of each row, as `metrics.score` has it."""
    if probabilities.ndim == 1:
        true = np.where(labels > 0.5, probabilities, 1 - probabilities)
    else:
        true = np.take_along_axis(probabilities, labels[:, None].astype(np.int64), axis=1)[:, 0]
    return np.asarray(-np.log(np.clip(true, 1e-7, 1)))


def _fit(kind: str, probabilities: Array, labels: NDArray[Any]) -> tuple[float, float]:
    """The slope and the shift of the least log loss."""
    from scipy.optimize import minimize

    def loss(at: Array) -> float:
        shift = float(at[1]) if kind == PLATT else 0.0
        mapped = _mapped(probabilities, float(np.exp(at[0])), shift)
        return float(_losses(mapped, labels).mean())

    bounds = [(-STEEPEST, STEEPEST), (None, None)][: 2 if kind == PLATT else 1]
    found = minimize(loss, np.zeros(len(bounds)), bounds=bounds, method="L-BFGS-B").x
    return float(np.exp(found[0])), float(found[1]) if kind == PLATT else 0.0


def _mean_and_error(gains: Array, entity: NDArray[Any]) -> tuple[float, float]:
    """The mean over rows, and its standard error with whole entities drawn."""
    mean = float(gains.mean())
    place = np.unique(entity, return_inverse=True)[1]
    deviations = np.bincount(place, gains - mean)
    return mean, float(np.sqrt((deviations**2).sum())) / len(gains)
