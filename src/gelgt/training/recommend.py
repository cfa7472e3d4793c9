"""`RecommendData`: what a recommendation is trained and evaluated on."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gelgt.candidates.columns import COLUMNS
from gelgt.candidates.find import Candidates
from gelgt.config import TrainConfig
from gelgt.history.choose import ColumnChoice
from gelgt.metrics import is_among
from gelgt.nn import RelationalModel
from gelgt.nn.ensemble import Ensemble
from gelgt.nn.recommender import Recommender
from gelgt.presets import RunConfig
from gelgt.sampling import Seeds, task_seeds
from gelgt.scoring.destinations import Destinations
from gelgt.scoring.recommend import ALONE, Mix, RecommendScorer
from gelgt.tasks.label_space import joined_labels
from gelgt.training.data import TrainingData, Windows
from gelgt.training.examples import joined
from gelgt.training.rank_objective import Pairs, RankObjective

MOST_SEEDS = 40_000  # that are learned from; more are drawn at random
CHOSEN_ON = 4_000  # seeds on which columns are chosen
FEW_VALIDATED = 500  # rows of validation up to which training seed times join it
MOST_HELD = 0.2  # of the training rows


@dataclass(frozen=True)
class RecommendData(TrainingData):
    """`TrainingData` of a recommendation.

    Attributes:
        names: The history columns of destinations that are read; None until they are chosen.
        held_since: The first training seed time that belongs to validation, in seconds; None for
            none.
    """

    names: tuple[str, ...] | None = None
    held_since: int | None = None

    def with_held(self) -> "RecommendData":
        """The same where validation is joined by the last seed times of training while it has few
        rows. Recommendations are evaluated at one time, so that a choice by validation alone is a
        choice by one period. Whoever chooses so has to learn from these labels afterwards."""
        rows, train = len(self.seeds["val"]), self.seeds["train"].time
        since, most = None, MOST_HELD * len(train)
        for time in np.unique(train)[::-1].tolist():
            held = int(np.count_nonzero(train >= time))
            if rows >= FEW_VALIDATED or held > most:
                break
            since, rows = time, len(self.seeds["val"]) + held
        return replace(self, held_since=since)

    @cached_property
    def seeds(self) -> dict[str, Seeds]:
        seeds = self._of_task
        held, kept = self._held(seeds["train"].time)
        joining = [seeds["train"].take(held), seeds["val"]]
        return {
            "train": seeds["train"].take(kept),
            "val": joined(joining) if len(held) else seeds["val"],
            "test": seeds["test"],
        }

    @cached_property
    def _of_task(self) -> dict[str, Seeds]:
        return {
            split: task_seeds(self.task, self.graph, split) for split in ("train", "val", "test")
        }

    def labels(self, split: str) -> NDArray[Any]:
        if self.held_since is None or split not in ("train", "val"):
            return super().labels(split)
        train = super().labels("train")
        held, kept = self._held(self._of_task["train"].time)
        return (
            train[kept] if split == "train" else joined_labels([train[held], super().labels("val")])
        )

    def windows(self, split: str, windows: Windows) -> tuple[Seeds, NDArray[Any]]:
        seeds, labels = super().windows(split, windows)
        if split != "train" or self.held_since is None:
            return seeds, labels
        kept = self._held(seeds.time)[1]
        return seeds.take(kept), labels[kept]

    def _held(self, times: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Which training seeds belong to validation, and which have windows that end before it."""
        if self.held_since is None:
            return np.zeros(0, np.int64), np.arange(len(times))
        delta = self.task.timedelta
        length = 0 if delta is None else int(delta.total_seconds())
        return (
            np.flatnonzero(times >= self.held_since),
            np.flatnonzero(times <= self.held_since - length),
        )

    @cached_property
    def destinations(self) -> Destinations:
        return Destinations.of(self, self.names)

    def with_columns(self, config: RunConfig) -> "RecommendData":
        """The same with the history columns of destinations that are worth reading."""
        destinations = self.destinations
        seeds, labels = self.some(*self.windows("train", config.train.windows))
        candidates = destinations.finder.find(seeds)
        reader, chosen = destinations.reader.chosen(
            seeds, candidates, is_positive(candidates, labels), config.train.seed, COLUMNS
        )
        return replace(self, names=reader.names, chosen=_numbers_only(chosen))

    def shared(self) -> dict[str, Any]:
        return {"names": self.names, "held_since": self.held_since}

    def as_shared(self, shared: Mapping[str, Any], config: RunConfig) -> "RecommendData":
        names = shared["names"]
        return replace(
            self,
            names=None if names is None else tuple(names),
            held_since=shared["held_since"],
        )

    def some(
        self, seeds: Seeds, labels: NDArray[np.int64], most: int = CHOSEN_ON
    ) -> tuple[Seeds, NDArray[np.int64]]:
        """At most so many of the seeds that have an existing positive."""
        limits = self.destinations.finder.limits(seeds)
        right = np.where(self.destinations.exists(labels, limits), labels, -1)
        usable = np.flatnonzero((right >= 0).any(1) & self.exists(seeds))
        if len(usable) > most:
            generator = np.random.default_rng(0)
            usable = np.sort(generator.choice(usable, most, replace=False))
        return seeds.take(usable), right[usable]

    def learned(self, split: str, config: TrainConfig) -> tuple[Seeds, NDArray[np.int64]]:
        return self.some(*super().learned(split, config), MOST_SEEDS)

    def lookups(self, config: TrainConfig) -> NDArray[np.int64]:
        """The destinations that training labels name, which get a vector of their own."""
        rows = np.unique(self.learned("train", config)[1])
        return rows[rows >= 0]

    def pairs(self, seeds: Seeds) -> Pairs:
        """The candidates of seeds that are learned from."""
        destinations = self.destinations
        candidates = destinations.finder.find(seeds)
        columns = destinations.reader.read(seeds, candidates)
        return Pairs(
            torch.from_numpy(candidates.row.astype(np.int32)),
            torch.from_numpy(columns.ties).half(),
            torch.from_numpy(columns.place.astype(np.int32)),
            torch.from_numpy(columns.items),
        )

    def add_recommender(self, model: RelationalModel, config: RunConfig) -> None:
        """A recommender that starts from the training pairs: their quantiles, and lookups of the
        destinations that the labels name."""
        seeds, _ = self.some(*self.learned("train", config.train))
        known = torch.from_numpy(self.lookups(config.train))
        there = self.pairs(seeds).columns()
        model.recommender = Recommender(
            config.model.width, there.shape[1], len(known), self.destinations.columns
        )
        model.recommender.start(there, self.destinations.keys[known].sort().values)

    def objective(
        self,
        model: RelationalModel,
        seeds: Seeds,
        labels: NDArray[Any],
        splits: tuple[str, ...],
        device: torch.device,
    ) -> RankObjective:
        """The loss of the seeds that are learned from."""
        assert model.recommender is not None
        limits = torch.from_numpy(self.destinations.finder.limits(seeds))
        return RankObjective(
            model.recommender,
            self.destinations,
            self.pairs(seeds).normal(model.recommender),
            torch.from_numpy(labels),
            limits,
            device,
        )

    def scorer(
        self,
        model: Ensemble,
        device: torch.device,
        precision: str = "auto",
        mix: Mix = ALONE,
    ) -> RecommendScorer:
        return RecommendScorer(model, self.destinations, device, mix=mix, precision=precision)


def is_positive(candidates: Candidates, labels: NDArray[np.int64]) -> NDArray[np.bool_]:
    """(S, M) which candidates are right."""
    return is_among(candidates.row, labels)


def _numbers_only(chosen: ColumnChoice) -> ColumnChoice:
    return replace(chosen, columns=tuple(c for c in chosen.columns if not c.is_code))
