"""Points of curves, thinned for drawing; every number on the page is computed from all rows."""

import numpy as np

from gelgt.runs.predictions import Array

POINTS = 250


def roc(label: Array, score: Array) -> tuple[list[float], list[float]]:
    """False and true positive rates at every threshold.

    >>> roc(np.array([0, 1, 1]), np.array([0.2, 0.2, 0.9]))
    ([0.0, 0.0, 1.0], [0.0, 0.5, 1.0])
    """
    true, false = _counts(label, score)
    return _thin(np.r_[0, false / max(false[-1], 1)], np.r_[0, true / max(true[-1], 1)])


def precision_recall(label: Array, score: Array) -> tuple[list[float], list[float]]:
    """Recall and precision at every threshold, from the strictest."""
    true, false = _counts(label, score)
    recall, precision = true / max(true[-1], 1), true / (true + false)
    return _thin(np.r_[0, recall], np.r_[precision[0], precision])


def wilson(share: float, rows: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share of rows, which also holds for few rows and for shares of 0
    and 1.

    >>> [round(end, 3) for end in wilson(0.9, 100)]
    [0.826, 0.945]
    """
    z = 1.96
    middle = share + z * z / (2 * rows)
    half = z * float(np.sqrt(share * (1 - share) / rows + z * z / (4 * rows * rows)))
    return max((middle - half) / (1 + z * z / rows), 0.0), min(
        (middle + half) / (1 + z * z / rows), 1.0
    )


def _counts(label: Array, score: Array) -> tuple[Array, Array]:
    """Positives and negatives at or above each distinct score, the highest first."""
    order = np.argsort(-score, kind="stable")
    last = np.r_[np.flatnonzero(np.diff(score[order])), len(score) - 1]
    true = np.cumsum(label[order] > 0.5)[last].astype(float)
    return true, last + 1 - true


def _thin(xs: Array, ys: Array) -> tuple[list[float], list[float]]:
    """Points evenly along the curve, its ends included."""
    if len(xs) > POINTS:
        length = np.r_[0, np.cumsum(np.hypot(np.diff(xs), np.diff(ys)))]
        near = np.searchsorted(length, np.linspace(0, length[-1], POINTS)).clip(0, len(xs) - 1)
        drawn = np.unique(np.r_[0, near, len(xs) - 1])
        xs, ys = xs[drawn], ys[drawn]
    return xs.tolist(), ys.tolist()


def robust_range(values: Array) -> tuple[float, float]:
    """The range of the values, without outliers that would squeeze all others."""
    low, high = float(values.min()), float(values.max())
    inner_low, inner_high = (float(q) for q in np.quantile(values, [0.005, 0.995]))
    span = inner_high - inner_low
    if span > 0 and high - low > 2 * span:
        return max(low, inner_low - 0.1 * span), min(high, inner_high + 0.1 * span)
    return low, high


def deciles(score: Array, parts: int = 10) -> list[Array]:
    """Row positions in ascending groups of the score, of equal size, ties kept together."""
    order = np.argsort(score, kind="stable")
    cuts = [round(len(score) * i / parts) for i in range(1, parts)]
    ranked = score[order]
    starts = sorted({int(np.searchsorted(ranked, ranked[c])) for c in cuts if c < len(score)} | {0})
    return [group for group in np.split(order, starts[1:]) if len(group)]
