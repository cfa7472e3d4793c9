"""Scores of predictions: every metric of a kind of task, and the one that decides.

    binary_classification       roc_auc          average_precision, accuracy, f1, log_loss
    regression                  mae rmse, r2, nmae (MAE over the labels' standard deviation)
    multiclass_classification   mrr              accuracy, macro_f1, log_loss
    multilabel_classification   macro_auprc      micro_auprc, macro_roc_auc, accuracy

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
}


def is_better(metric: str, new: float, old: float | None) -> bool:
    """Whether a score beats another; anything beats none."""
    if old is None:
        return True
    return new < old if metric in SMALLER_IS_BETTER else new > old


def score(task_type: str, labels: NDArray[Any], predictions: NDArray[Any]) -> dict[str, float]:
    """All metrics of some predictions, the deciding one first.

    Args:
        labels: (S,) 0 or 1, values, or class numbers; (S, L) of 0 and 1 for a multilabel task.
        predictions: (S,) probabilities or values, (S, C) class probabilities, or (S, L) label
            probabilities.
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


_METRICS: dict[str, Callable[[NDArray[Any], NDArray[Any]], dict[str, float | None]]] = {
    "binary_classification": _binary,
    "regression": _regression,
    "multiclass_classification": _multiclass,
    "multilabel_classification": _multilabel,
}
