"""The baselines of a run: what has to be beaten, with the same labels, rows and seeds as the model
beside them.

lightgbm        learns what the model learns: overlapping windows and stale views (`learnable`);
                stops early on validation; where the model is retrained on every label known at the
                test time, so is it. Sees the calendar where the model sees it.
lightgbm-2hop   the same over two hops
entity-mean     the entity's own closed windows (`baselines/entity_mean.py`); entity-median for
                values

Whoever does not exist yet at the seed time gets the base rate from LightGBM as from the model.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gelgt.baselines import Examples, LightGBMResult, entity_mean, lightgbm_baseline
from gelgt.baselines.lightgbm import has_lightgbm
from gelgt.history.seed_history import CALENDAR_NAMES, calendar, for_fitting
from gelgt.presets import RunConfig
from gelgt.sampling import Seeds
from gelgt.training.data import TrainingData
from gelgt.training.examples import KNOWN, learnable
from gelgt.training.progress import Progress

Predictions = dict[str, NDArray[Any]]  # by split


@dataclass(frozen=True)
class Baselines:
    """What the baselines of a run predict, by their names.

    Attributes:
        predictions: By name and split.
        labels: How many labels LightGBM learned for its validation predictions (``train``) and for
            those of test, where it was retrained (``known``); empty without LightGBM.
        cut_off: What they could not do in time, a sentence each.
    """

    predictions: Mapping[str, Predictions] = field(default_factory=dict)
    labels: Mapping[str, int] = field(default_factory=dict)
    cut_off: tuple[str, ...] = ()


@dataclass(frozen=True)
class Pace:
    """How fast LightGBM is trained, and until when.

    Attributes:
        seconds: That it may take; None for no limit.
        threads: Of LightGBM; None where nothing else grows trees at the same time.
        is_stopped: Asked after every round; true ends it as far as it got.
    """

    seconds: float | None = None
    threads: int | None = None
    is_stopped: Callable[[], bool] = lambda: False


def make_baselines(
    data: TrainingData,
    config: RunConfig,
    hops: Sequence[int],
    progress: Progress,
    pace: Pace = Pace(),
) -> Baselines:
    """LightGBM over some hops, and the entity's own past, at a pace for all of them."""
    predictions: dict[str, Predictions] = {}
    labels: dict[str, int] = {}
    cut_off: list[str] = []
    if not has_lightgbm():
        progress.notice("LightGBM, the baseline, is not installed")
    for number in hops if has_lightgbm() else ():
        of_each = None if pace.seconds is None else pace.seconds / len(hops)
        name, own = lightgbm_name(number), replace(pace, seconds=of_each)
        predictions[name], result = lightgbm_predictions(data, config, number, own)
        if result.is_cut_off:
            cut_off.append(f"the baseline {name} was cut off after {result.rounds:,} rounds")
        labels = {"train": result.train_rows} | (
            {} if result.known_rows is None else {"known": result.known_rows}
        )
        for text in result.notices:
            progress.notice(text)
    predictions["entity-median" if data.target.task_type == "regression" else "entity-mean"] = (
        past_predictions(data)
    )
    return Baselines(predictions, labels, tuple(cut_off))


def lightgbm_name(hops: int) -> str:
    """What tables call it."""
    return "lightgbm" if hops == 1 else f"lightgbm-{hops}hop"


def lightgbm_predictions(
    data: TrainingData,
    config: RunConfig,
    hops: int = 1,
    pace: Pace = Pace(),
) -> tuple[Predictions, LightGBMResult]:
    """What LightGBM predicts for every row of `val` and `test` after learning the labels that a run
    of this configuration learns, from as many columns at most."""
    began = time.perf_counter()
    there = {split: np.flatnonzero(data.exists(data.seeds[split])) for split in ("val", "test")}
    examples = {
        split: _examples(data, data.seeds[split], data.labels(split)).take(places)
        for split, places in there.items()
    }
    examples["train"] = _learned(data, config, "train")
    if config.train.retrain:
        examples["known"] = _learned(data, config, KNOWN)
    choice = data.choose_columns(config, hops)
    result = lightgbm_baseline(
        data.visible,
        examples=examples,
        hops=hops,
        columns=[column.name for column in choice.columns],
        seed=config.train.seed,
        threads=pace.threads,
        seconds=None if pace.seconds is None else pace.seconds - (time.perf_counter() - began),
        is_stopped=pace.is_stopped,
    )
    return {
        split: for_everyone(data, split, places, result.predictions[split])
        for split, places in there.items()
    }, result


def past_predictions(data: TrainingData) -> Predictions:
    """What the entity's own past labels say."""
    return entity_mean(
        data.task, data.sampling.horizon if data.sampling.visibility == "frozen" else None
    )


def _learned(data: TrainingData, config: RunConfig, split: str) -> Examples:
    seeds, labels = learnable(data, (split,), config.train)
    return _examples(data, seeds, labels, is_fitted=True)


def _examples(
    data: TrainingData, seeds: Seeds, labels: NDArray[np.float64], is_fitted: bool = False
) -> Examples:
    if not data.plan.has_calendar:
        return Examples(seeds, labels)
    columns = torch.from_numpy(calendar(data.graph, data.sampling, seeds))
    columns = for_fitting(columns, seeds, data.plan) if is_fitted else columns
    return Examples(
        seeds,
        labels,
        {
            f"calendar: {name}": columns[:, place].numpy()
            for place, name in enumerate(CALENDAR_NAMES)
        },
    )


def for_everyone(
    data: TrainingData, split: str, places: NDArray[np.int64], predicted: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Predictions for all rows of a split from those of the rows that exist at their seed time,
    rounded as the model's are."""
    base: NDArray[np.float64] = data.target.decode(torch.tensor([data.target.start])).repeat(
        len(data.seeds[split]), axis=0
    )
    base[places] = data.target.rounded(predicted)
    return base
