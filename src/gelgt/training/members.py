"""One model, or several of different seeds: how a run trains them, and trains them anew."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gelgt.config import TrainConfig
from gelgt.features import Features
from gelgt.graph import Graph
from gelgt.history.seed_history import for_fitting
from gelgt.metrics import is_better
from gelgt.nn import RelationalModel
from gelgt.nn.ensemble import Ensemble
from gelgt.presets import RunConfig
from gelgt.registry import find_model
from gelgt.sampling import Seeds
from gelgt.training.checkpoint import State
from gelgt.training.data import KNOWN, TrainingData, learnable
from gelgt.training.fit import Trainer
from gelgt.training.progress import Progress


def train_members(
    data: TrainingData,
    config: RunConfig,
    device: torch.device,
    out: Path,
    key: str,
    progress: Progress,
    stop: Callable[[], bool],
) -> tuple[RelationalModel | Ensemble, list[State]]:
    """One model, or several one after the other; fewer where time or the user ends it."""
    count = data.ensemble_size(config.train)
    config = config.with_values("derived", train__time_limit=selection_limit(data, config.train))
    states: list[State] = []
    models: list[RelationalModel] = []
    for number in range(count):
        own = member_config(config, number, sum(state.seconds for state in states))
        model = make_model(data, own)
        trainer = Trainer(
            model,
            data,
            own.train,
            device,
            folder=out,
            key=key,
            member=number,
            progress=progress,
            stop=stop,
        )
        if number == 0:
            size = sum(p.numel() for p in model.parameters())
            several = f"{count} models of " if count > 1 else ""
            progress.phase(
                "model",
                f"{several}{size:,} parameters on "
                f"{device}{', ' if model.facts else ''}{model.facts}",
            )
            for text in about_seeds(trainer.loader.seeds, data.task.rows["train"]):
                progress.notice(text)
        if count > 1:
            progress.member(number + 1, count)
        states.append(trainer.run())
        models.append(model)
        if states[-1].ended in ("interrupted", "time limit"):
            break
    if is_behind(data.target.metric, states):
        progress.notice(
            f"model {len(models)} was broken off behind those before it and is left out"
        )
        models.pop()
        last = states.pop()
        states[-1] = replace(
            states[-1], ended=last.ended, seconds=states[-1].seconds + last.seconds
        )
    return (models[0] if len(models) == 1 else Ensemble(models)), states


def about_seeds(seeds: Seeds, rows: int) -> Iterator[str]:
    """What to say of training seeds beyond the rows of the label table."""
    stale = int(np.count_nonzero(seeds.asked != seeds.time))
    if len(seeds) - stale > rows:
        yield (
            f"train: {len(seeds) - stale:,} labels of overlapping windows are learned from "
            "(train.windows)"
        )
    if stale:
        yield (
            f"train: {stale:,} labels are learned once more from rows up to an earlier time, as "
            "the frozen test asks (train.stale)"
        )


def is_behind(metric: str, states: list[State]) -> bool:
    """Whether the last of several models was broken off before it was as good as any of the others:
    their mean is better off without it."""
    *before, last = states
    if not before or last.ended not in ("interrupted", "time limit"):
        return False
    known = [state.best for state in before if state.best is not None]
    if not known:  # nothing to compare
        return last.total == 0
    return last.best is None or all(is_better(metric, best, last.best) for best in known)


def selection_limit(data: TrainingData, config: TrainConfig) -> float | None:
    """The time until validation has to have chosen: what is left by learning the known labels anew,
    for as many epochs at most."""
    if config.time_limit is None or not config.retrain:
        return config.time_limit
    steps = [
        len(data.windows(split, config.windows)[0]) / config.batch_size
        for split in ("train", KNOWN)
    ]
    train, known = (min(count, config.steps_per_epoch or count) for count in steps)
    return config.time_limit / (1 + known / max(train, 1e-9))


def member_config(config: RunConfig, number: int, spent: float) -> RunConfig:
    """The configuration of one of several models: a seed of its own, and what is left of the
    time."""
    limit = config.train.time_limit
    left = None if limit is None else max(limit - spent, 1e-3)
    return config.with_values(
        "derived",
        train__seed=(config.train.seed + 1_000_003 * number) % 2**31,
        train__time_limit=left,
    )


def joined_state(states: list[State]) -> State:
    """The first model's epochs, with the time of all and what ended the last."""
    return replace(
        states[0], seconds=sum(state.seconds for state in states), ended=states[-1].ended
    )


def told(states: list[State]) -> str:
    """How it went, in a line."""
    first = states[0]
    mixed = (
        f"; the mean of epochs {', '.join(map(str, first.mixed))} is taken" if first.mixed else ""
    )
    several = f"; {len(states)} models predict together" if len(states) > 1 else ""
    return (
        f"best epoch {first.best_epoch} of {len(first.history)}{mixed}{several}; ended by: "
        f"{states[-1].ended}"
    )


def new_model(
    config: RunConfig,
    graph: Graph,
    features: Features,
    outputs: int,
    hide: Mapping[str, tuple[str, ...]],
    history: int,
) -> RelationalModel:
    """A model of a kind, with weights from the current generator."""
    own = {"history": history} if history else {}
    return find_model(config.kind)(
        config.model, graph, features, outputs, hide, noise_seed=config.sampling.seed, **own
    )


def make_model(data: TrainingData, config: RunConfig) -> RelationalModel:
    """A fresh model: weights from the seed, μ and σ from the training ages, the head from the base
    rates."""
    # Quantiles are those of the split's own seeds; only among stale copies do lags differ.
    seeds = (
        learnable(data, ("train",), config.train)[0]
        if data.plan.has_calendar
        else data.seeds["train"]
    )
    history = data.history(seeds)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.train.seed)
        model = new_model(
            config,
            data.graph,
            data.features,
            data.target.outputs,
            data.hide,
            0 if history is None else history.shape[1],
        )
    model.start(
        torch.tensor(data.target.start),
        data.ages(),
        None if history is None else for_fitting(history, seeds, data.plan),
    )
    return model


def retrain_members(
    data: TrainingData,
    config: RunConfig,
    states: list[State],
    splits: tuple[str, ...],
    device: torch.device,
    progress: Progress,
    stop: Callable[[], bool],
) -> tuple[RelationalModel | Ensemble | None, dict[str, Any] | None]:
    """Models trained anew on the labels of some splits, for as many epochs as validation chose;
    none where it was interrupted."""
    models = []
    for number, state in enumerate(states):
        own = member_config(config, number, 0.0)
        mixed = tuple(state.mixed) or (max(1, state.best_epoch),)
        again = own.train.model_copy(update={"time_limit": None})
        model = make_model(data, own)
        trainer = Trainer(
            model,
            data,
            again,
            device,
            splits=splits,
            watch=False,
            mixed=mixed,
            progress=progress,
            stop=stop,
        )
        if max(mixed) == 1:  # it may be the part of one for which there was time
            trainer.steps = min(trainer.steps, int(state.history[0]["step"]))
        progress.retrain(number + 1, len(states), max(mixed))
        if trainer.run().ended == "interrupted":
            return None, None
        models.append(model)
    made = models[0] if len(models) == 1 else Ensemble(models)
    labels = "known" if splits == (KNOWN,) else "all"
    rows = sum(len(data.windows(split, config.train.windows)[0]) for split in splits)
    return made, {
        "labels": labels,
        "rows": rows,
        "epochs": max(states[0].mixed or (states[0].best_epoch,)),
    }
