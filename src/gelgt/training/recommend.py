"""`RecommendData`: what a recommendation is trained and evaluated on."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gelgt.candidates.columns import COLUMNS
from gelgt.candidates.find import Candidates
from gelgt.config import TrainConfig
from gelgt.history.choose import ColumnChoice
from gelgt.metrics import is_among
from gelgt.nn import RelationalModel
from gelgt.nn.ensemble import Ensemble
from gelgt.nn.recommender import Recommender
from gelgt.presets import RunConfig
from gelgt.sampling import Seeds
from gelgt.scoring.destinations import Destinations
from gelgt.scoring.recommend import ALONE, Mix, RecommendScorer
from gelgt.training.data import TrainingData
from gelgt.training.rank_objective import Pairs, RankObjective

MOST_SEEDS = 40_000  # that are learned from; more are drawn at random
CHOSEN_ON = 4_000  # seeds on which columns are chosen


@dataclass(frozen=True)
class RecommendData(TrainingData):
    """`TrainingData` of a recommendation.

    Attributes:
        names: The history columns of destinations that are read; None until they are chosen.
    """

    names: tuple[str, ...] | None = None

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
        device: torch.device,
        offsets: Tensor | None = None,
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
