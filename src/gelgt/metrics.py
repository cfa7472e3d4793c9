"""Scores of predictions: every metric of a kind of task, and the one that decides.

    binary_classification       roc_auc          average_precision, accuracy, f1, log_loss
    regression                  mae rmse, r2, nmae (MAE over the labels' standard deviation)
    multiclass_classification   mrr              accuracy, macro_f1, log_loss
    multilabel_classification   macro_auprc      micro_auprc, macro_roc_auc, accuracy
    recommendation              map              precision, recall, ndcg, each of the first k

A metric that the labels leave undefined (one class only) is left out, never guessed.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAIN = {
    "binary_classification": "roc_auc",
    "regression": "mae",
    "multiclass_classification": "mrr",
    "multilabel_classification": "macro_auprc",
    "recommendation": "map",
}
SMALLER_IS_BETTER = frozenset({"mae", "rmse", "nmae", "log_loss"})
# Metrics as they are called in a sentence.
WORDS = {
    "roc_auc": "ROC-AUC",
    "average_precision": "average precision",
    "accuracy": "accuracy",
    "f1": "F1",
    "log_loss": "log loss",
    "mae": "MAE",
    "nmae": "normalised MAE",
    "rmse": "RMSE",
    "r2": "R²",
    "mrr": "MRR",
    "macro_f1": "macro F1",
    "macro_roc_auc": "macro ROC-AUC",
    "macro_auprc": "macro average precision",
    "micro_auprc": "micro average precision",
    "map": "MAP",
    "precision": "precision",
    "recall": "recall",
    "ndcg": "NDCG",
}


def is_better(metric: str, new: float, old: float | None) -> bool:
    """Whether a score beats another; anything beats none."""
    if old is None:
        return True
    return new < old if metric in SMALLER_IS_BETTER else new > old


def score(task_type: str, labels: NDArray[Any], predictions: NDArray[Any]) -> dict[str, float]:
    """All metrics of some predictions, the deciding one first.

    Args:
        labels: (S,) 0 or 1, values, or class numbers; (S, L) of 0 and 1 for a multilabel task;
            (S, Y) rows of a recommendation, -1 behind the last.
        predictions: (S,) probabilities or values, (S, C) class probabilities, (S, L) label
            probabilities, or (S, k) recommended rows, the best first.
    """
    if len(labels) == 0:
        return {}
    values = _METRICS[task_type](labels, predictions)
    return {
        name: float(value)
        for name, value in values.items()
        if value is not None and np.isfinite(value)
    }


def uncertainty(task_type: str, value: float, labels: NDArray[Any]) -> float:
    """Roughly the standard error of the deciding metric: how far another sample of as many rows
    would move it.

    Example:
        >>> round(uncertainty("binary_classification", 0.89, np.repeat([0, 1], [488, 100])), 3)
        0.031
    """
    if len(labels) == 0:
        return 0.0
    if task_type == "regression":
        return value / math.sqrt(len(labels))
    rows = len(labels)
    if task_type == "recommendation":
        rows = max(1, int(np.count_nonzero((labels >= 0).any(1))))
    if task_type == "binary_classification":
        rows = max(
            1, min(int(np.count_nonzero(labels > 0.5)), int(np.count_nonzero(labels <= 0.5)))
        )
    return math.sqrt(max(0.0, value * (1 - value)) / rows)


def roc_auc(labels: NDArray[Any], scores: NDArray[Any]) -> float | None:
    """Probability that a positive ranks above a negative, ties half; None with one class only."""
    from scipy.stats import rankdata

    positive = labels > 0.5
    ups, downs = int(positive.sum()), int((~positive).sum())
    if not ups or not downs:
        return None
    return float((rankdata(scores)[positive].sum() - ups * (ups + 1) / 2) / (ups * downs))


def mrr(labels: NDArray[Any], probabilities: NDArray[Any]) -> float:
    """Mean of 1/rank of the true class; classes that tie share the mean of their ranks."""
    of_label = np.take_along_axis(probabilities, labels[:, None].astype(np.int64), axis=1)  # (S, 1)
    above, equal = (probabilities > of_label).sum(1), (probabilities == of_label).sum(1)
    return float((1.0 / (above + (equal + 1) / 2)).mean())


def _binary(labels: NDArray[Any], p: NDArray[Any]) -> dict[str, float | None]:
    from sklearn.metrics import average_precision_score, f1_score, log_loss

    has_both = 0 < labels.sum() < len(labels)
    return {
        "roc_auc": roc_auc(labels, p),
        "average_precision": average_precision_score(labels, p) if has_both else None,
        "accuracy": float(((p > 0.5) == (labels > 0.5)).mean()),
        "f1": f1_score(labels, p > 0.5, zero_division=0.0) if has_both else None,
        "log_loss": log_loss(labels, np.clip(p, 1e-7, 1 - 1e-7), labels=[0, 1]),
    }


def _regression(labels: NDArray[Any], values: NDArray[Any]) -> dict[str, float | None]:
    error, spread = values - labels, float(labels.std())
    mae = float(np.abs(error).mean())
    return {
        "mae": mae,
        "rmse": float(np.sqrt((error**2).mean())),
        "r2": float(1 - (error**2).mean() / spread**2) if spread > 0 else None,
        "nmae": mae / spread if spread > 0 else None,
    }


def _multiclass(labels: NDArray[Any], p: NDArray[Any]) -> dict[str, float | None]:
    from sklearn.metrics import f1_score

    chosen = p.argmax(1)
    of_label = np.take_along_axis(p, labels[:, None].astype(np.int64), axis=1)[:, 0]
    return {
        "mrr": mrr(labels, p),
        "accuracy": float((chosen == labels).mean()),
        "macro_f1": f1_score(labels, chosen, average="macro", zero_division=0.0),
        "log_loss": float(-np.log(np.clip(of_label, 1e-7, 1)).mean()),
    }


def _multilabel(labels: NDArray[Any], p: NDArray[Any]) -> dict[str, float | None]:
    from sklearn.metrics import average_precision_score

    # the others have no curve
    known = [c for c in range(labels.shape[1]) if 0 < labels[:, c].sum() < len(labels)]
    curves = [average_precision_score(labels[:, c], p[:, c]) for c in known]
    areas = [area for c in known if (area := roc_auc(labels[:, c], p[:, c])) is not None]
    return {
        "macro_auprc": float(np.mean(curves)) if curves else None,
        "micro_auprc": average_precision_score(labels.ravel(), p.ravel())
        if 0 < labels.sum() < labels.size
        else None,
        "macro_roc_auc": float(np.mean(areas)) if areas else None,
        "accuracy": float(((p > 0.5) == (labels > 0.5)).mean()),
    }


def _recommendation(labels: NDArray[Any], ranked: NDArray[Any]) -> dict[str, float | None]:
    """Of rows with at least one label, as RelBench has it; rows are padded with -1.

    Args:
        labels: (S, Y) destinations that were right.
        ranked: (S, k) destinations, the best first.
    """
    count = (labels >= 0).sum(1)
    has = count > 0
    if not has.any():
        return {"map": None}
    labels, ranked, count = labels[has], ranked[has], count[has]
    k = ranked.shape[1]
    hits = is_among(ranked, labels)
    best = np.minimum(count, k)
    precision = np.cumsum(hits, 1) / (np.arange(k) + 1)
    weights = 1 / np.log2(np.arange(k) + 2)
    ideal = np.cumsum(weights)[best - 1]
    return {
        "map": float(((precision * hits).sum(1) / best).mean()),
        "precision": float((hits.sum(1) / k).mean()),
        "recall": float((hits.sum(1) / count).mean()),
        "ndcg": float(((hits * weights).sum(1) / ideal).mean()),
    }


def is_among(values: NDArray[Any], others: NDArray[Any]) -> NDArray[np.bool_]:
    """(S, k) whether each value of a row is among the others (S, Y) of the same row; -1 never is.

    Example:
        >>> is_among(np.array([[3, 1, -1]]), np.array([[1, 2, -1]])).tolist()
        [[False, True, False]]
    """
    size = int(max(values.max(initial=0), others.max(initial=0))) + 2
    row = np.arange(len(values))[:, None] * size
    there = np.isin((values + 1) + row, (others + 1) + row)
    found: NDArray[np.bool_] = there & (values >= 0)
    return found


_METRICS: dict[str, Callable[[NDArray[Any], NDArray[Any]], dict[str, float | None]]] = {
    "binary_classification": _binary,
    "regression": _regression,
    "multiclass_classification": _multiclass,
    "multilabel_classification": _multilabel,
    "recommendation": _recommendation,
}
