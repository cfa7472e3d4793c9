"""Scores of a study's cells: means over seeds, intervals from a bootstrap over entities, and what a
difference shows.

A score is the mean over seeds, ± its standard deviation. Its interval comes from a bootstrap over
the entities of the test rows: entities are drawn with replacement, with all their rows, the same
ones for every variant and seed, and the scores of the seeds averaged. Two variants are compared on
the same draws. A model with trees also has the scores of its network alone and its trees alone.

Small test sets decide little: with 34 positives an AUC is known to ±0.04, whatever the seeds say.
And few seeds decide little, whatever the test rows say. So a variant is called better or worse than
the reference only where both agree: the interval of the difference lies on one side of 0, and the
difference of the means is larger than the standard deviation of a difference between two runs,
√(s₁² + s₂²). Everything else is "no difference shown". Tasks of several classes have no bootstrap
here and are judged by their seeds alone.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gelgt.bench.cells import SEEDLESS, Outcome
from gelgt.metrics import MAIN, SMALLER_IS_BETTER, roc_auc
from gelgt.runs.intervals import resampled, scorer

DRAWS = 1000
# rows drawn for one variant: large test sets need fewer draws, and their ranks take long
MOST_ROWS, FEW_DRAWS = 20_000_000, 100
SHARE = 0.95
ANY = "any_auc"  # of a regression whose label is mostly 0: does a prediction tell rows above 0?
NO_DIFFERENCE = "no difference shown"
ONE_SEED = "one seed, not judged"
Measure = Callable[[NDArray[Any], NDArray[Any]], float]


def compare(
    task: str,
    task_type: str,
    outcomes: Mapping[str, Sequence[Outcome]],
    against: Mapping[str, str],
    draws: int = DRAWS,
) -> list[dict[str, Any]]:
    """One entry for each metric and variant of a task that has finished cells.

    Intervals are for tasks with one number a row; others have their scores alone.

    Args:
        task: Its name.
        task_type: Its type.
        outcomes: For each variant, its finished cells.
        against: For each variant, the one that it is compared with; itself where it is with none.
        draws: Of the bootstrap.
    """
    outcomes = {name: finished for name, finished in outcomes.items() if finished}
    if not outcomes:
        return []
    if task_type not in ("binary_classification", "regression"):
        return _by_seeds(task, MAIN[task_type], outcomes, against)
    splits = {split: _columns(outcomes, split) for split in ("val", "test")}
    first = next(iter(outcomes.values()))[0]
    labels, entities = first.predictions("test")[0], first.entities("test")
    draws = min(draws, max(FEW_DRAWS, MOST_ROWS // max(1, len(labels))))
    entries = []
    for metric in _metrics(task_type, labels):
        measure = _MEASURES[metric]
        predictions = {key: [p for _, p in pairs] for key, pairs in splits["test"].items()}
        drawn = _resampled(metric, predictions, labels, entities, draws)
        scores = {
            key: [[measure(y, p) for y, p in splits[s][key]] for s in ("val", "test")]
            for key in drawn
        }
        of_metric = {}
        for name, finished in outcomes.items():
            entry = _entry(task, metric, name, finished, *scores[name, ""])
            parts = {
                part: _part(*scores[name, part]) | _bounds(drawn[name, part])
                for part in _by_part(finished)
            }
            of_metric[name] = entry | _bounds(drawn[name, ""]) | _part_entries(finished, parts)
        entries += _compared(
            metric, of_metric, against, {name: drawn[name, ""] for name in outcomes}
        )
    return entries


def _by_seeds(
    task: str,
    metric: str,
    outcomes: Mapping[str, Sequence[Outcome]],
    against: Mapping[str, str],
) -> list[dict[str, Any]]:
    """Entries without intervals, from the scores that the runs stored."""
    entries = {}
    for name, finished in outcomes.items():
        parts = {
            part: _part(*_stored(metric, having, part))
            for part, having in _by_part(finished).items()
        }
        entry = _entry(task, metric, name, finished, *_stored(metric, finished))
        entries[name] = entry | _part_entries(finished, parts)
    return _compared(metric, entries, against, {})


Key = tuple[str, str]  # a variant, and one of its parts or "" for the whole


def _columns(
    outcomes: Mapping[str, Sequence[Outcome]], split: str
) -> dict[Key, list[tuple[NDArray[Any], NDArray[Any]]]]:
    """Labels and predictions of each variant, a pair for each seed, and of each of its parts."""
    columns: dict[Key, list[tuple[NDArray[Any], NDArray[Any]]]] = {}
    for name, finished in outcomes.items():
        columns[name, ""] = [outcome.predictions(split) for outcome in finished]
        columns |= {
            (name, part): [outcome.predictions(split, part) for outcome in having]
            for part, having in _by_part(finished).items()
        }
    return columns


def _by_part(finished: Sequence[Outcome]) -> dict[str, list[Outcome]]:
    """For each part of a model, the cells that have it: not every seed has trees."""
    names = dict.fromkeys(part for outcome in finished for part in outcome.parts)
    return {part: [outcome for outcome in finished if part in outcome.parts] for part in names}


def _part_entries(
    finished: Sequence[Outcome], parts: Mapping[str, dict[str, Any]]
) -> dict[str, Any]:
    if not parts:
        return {}
    share = fmean(outcome.record.tree_share for outcome in finished)
    return {"parts": dict(parts), "tree_share": round(share, 4)}


def _part(val: Sequence[float], test: Sequence[float]) -> dict[str, Any]:
    return {
        "seeds": len(test),
        "validation": round(fmean(val), 4),
        "test": round(fmean(test), 4),
        "spread": round(stdev(test), 4) if len(test) > 1 else 0.0,
        "scores": [round(value, 5) for value in test],
    }


def _bounds(drawn: NDArray[np.float64]) -> dict[str, float]:
    low, high = _interval(drawn)
    return {"low": round(low, 4), "high": round(high, 4)}


def _epoch_seconds(outcome: Outcome) -> float | None:
    """Seconds of an epoch, its validation included; none for what has no epochs."""
    epochs = outcome.record.epochs
    return (epochs[-1].seconds or 0.0) / len(epochs) if epochs else None


def _compared(
    metric: str,
    entries: Mapping[str, dict[str, Any]],
    against: Mapping[str, str],
    drawn: Mapping[str, NDArray[np.float64]],
) -> list[dict[str, Any]]:
    """Entries with what each one shows against its reference."""
    compared = []
    for name, entry in entries.items():
        other = against.get(name, name)
        if other != name and other in entries:
            gap = drawn[name] - drawn[other] if drawn else None
            entry = entry | {"against": other} | _difference(metric, entries[other], entry, gap)
        compared.append(entry)
    return compared


def _stored(
    metric: str, finished: Sequence[Outcome], part: str = ""
) -> tuple[list[float], list[float]]:
    """Validation and test scores as the runs stored them, one for each seed."""
    records = [outcome.record for outcome in finished]
    scores = [record.parts[part] if part else record.metrics for record in records]
    val, test = (
        [float(each[split][metric] or 0.0) for each in scores] for split in ("val", "test")
    )
    return val, test


def _metrics(task_type: str, labels: NDArray[Any]) -> tuple[str, ...]:
    """The main metric, and for counts that are mostly 0 the AUC of "any"."""
    if task_type != "regression":
        return (MAIN[task_type],)
    is_rare = labels.min() == 0 and 0.5 < float(np.mean(labels == 0)) < 1
    return (MAIN["regression"], ANY) if is_rare else (MAIN["regression"],)


def _entry(
    task: str,
    metric: str,
    name: str,
    finished: Sequence[Outcome],
    val: Sequence[float],
    test: Sequence[float],
) -> dict[str, Any]:
    records = [outcome.record for outcome in finished]
    epochs = [s for outcome in finished if (s := _epoch_seconds(outcome)) is not None]
    return {
        "task": task,
        "regime": records[0].regime,
        "metric": metric,
        "model": name,
        **_part(val, test),
        "seconds": round(fmean(record.seconds or 0.0 for record in records), 1),
        "epoch_seconds": round(fmean(epochs), 2) if epochs else None,
    }


def _difference(
    metric: str,
    reference: Mapping[str, Any],
    variant: Mapping[str, Any],
    drawn: NDArray[np.float64] | None,
) -> dict[str, Any]:
    """A variant against the reference: its score less the reference's, the interval of that, and
    what both show."""
    sign = -1 if metric in SMALLER_IS_BETTER else 1
    difference = variant["test"] - reference["test"]
    gain = sign * difference
    is_clear = abs(gain) > math.hypot(reference["spread"], variant["spread"])
    interval: dict[str, Any] = {}
    if drawn is not None:
        low, high = _interval(drawn)
        ends = (sign * low, sign * high)
        side = 1 if min(ends) > 0 else -1 if max(ends) < 0 else 0
        interval = {
            "difference_low": round(low, 4),
            "difference_high": round(high, 4),
            f"{reference['model']} beats it": {1: "no, it is beaten", -1: "yes", 0: "undecided"}[
                side
            ],
        }
        is_clear = is_clear and side * gain > 0
    shown = ("better" if gain > 0 else "worse") if is_clear else NO_DIFFERENCE
    is_single = reference["seeds"] < 2 or (
        variant["seeds"] < 2 and variant["model"] not in SEEDLESS
    )
    return {
        "difference": round(difference, 4),
        **interval,
        "shown": ONE_SEED if is_single else shown,
    }


def _auc(labels: NDArray[Any], predictions: NDArray[Any]) -> float:
    area = roc_auc(labels, predictions)
    return math.nan if area is None else area


def _mae(labels: NDArray[Any], predictions: NDArray[Any]) -> float:
    return float(np.abs(labels - predictions).mean())


_MEASURES: dict[str, Measure] = {
    "roc_auc": _auc,
    "mae": _mae,
    ANY: lambda labels, predictions: _auc((labels > 0).astype(np.int64), predictions),
}


def _resampled(
    metric: str,
    predictions: Mapping[Key, Sequence[NDArray[Any]]],
    labels: NDArray[Any],
    entities: NDArray[Any] | None,
    draws: int,
) -> dict[Key, NDArray[np.float64]]:
    """(draws,) the mean score over seeds on entities drawn with replacement; the same ones whatever
    the variant."""
    truth, name = (labels > 0, "roc_auc") if metric == ANY else (labels, metric)
    scorers = {
        key: [one for p in each if (one := scorer(name, truth, p)) is not None]
        for key, each in predictions.items()
    }
    means = {key: np.empty(draws) for key in predictions}
    for draw, weights in enumerate(
        resampled(entities, len(labels), draws, np.random.default_rng(0))
    ):
        for key, each in scorers.items():
            means[key][draw] = fmean(one(weights) for one in each)
    return means


def _interval(drawn: NDArray[np.float64]) -> tuple[float, float]:
    low, high = np.nanquantile(drawn, [(1 - SHARE) / 2, (1 + SHARE) / 2])
    return float(low), float(high)
