"""`TrainingData`: a database and a task as seeds, labels and batches, in one regime."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from threading import Lock
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gelgt.config import TrainConfig
from gelgt.errors import GelgtError
from gelgt.features import FeatureStatistics, open_features
from gelgt.history.choose import ColumnChoice, choose_columns
from gelgt.history.pieces import lane_count
from gelgt.history.seed_history import NO_HISTORY, HistoryPlan
from gelgt.history.task_data import TaskData
from gelgt.nn import RelationalModel
from gelgt.nn.ensemble import Ensemble
from gelgt.nn.target import Target, mostly_alike
from gelgt.presets import RunConfig
from gelgt.sampling import Seeds, task_seeds
from gelgt.scoring.recommend import RecommendScorer
from gelgt.scoring.scorer import Scorer
from gelgt.scoring.seed_data import SeedData, hidden_columns
from gelgt.sources.column_kinds import with_kinds_until
from gelgt.sources.database import Database
from gelgt.tasks import Task
from gelgt.tasks.engine import has_engine
from gelgt.tasks.label_space import joined_labels
from gelgt.tasks.times import seconds
from gelgt.tasks.windows import differing_labels, has_windows, with_more_windows
from gelgt.training.budget import columns_budget
from gelgt.training.examples import KNOWN, joined
from gelgt.training.futures import future_targets
from gelgt.training.objective import Objective
from gelgt.training.rank_objective import RankObjective

FEW_ROWS = 20_000  # training rows up to which more seed times are taken by themselves
MOST_WINDOWS = 4
FEW_LABELS = 10_000  # labels up to which several networks are trained by themselves
FEW_LABELS_ENSEMBLE = 5
CACHED_FUTURES = 2  # of the columns network, and of the networks over subgraphs
AGE_SEEDS = 1024  # training seeds whose rows give μ and σ their start

_FUTURES = Lock()  # the columns network asks for them while networks over subgraphs do

Windows = int | Literal["auto"]


@dataclass(frozen=True)
class TrainingData(SeedData):
    """What a model is trained and evaluated on: `SeedData` with the labels of a task.

    Attributes:
        chosen: How the history columns were chosen; None where nothing was.
    """

    task: Task
    chosen: ColumnChoice | None = None

    @classmethod
    def of(
        cls,
        db: Database,
        task: Task,
        config: RunConfig,
        statistics: FeatureStatistics | None = None,
    ) -> "TrainingData":
        """What `opened` gives, with the history columns chosen."""
        return cls.opened(db, task, config, statistics).with_columns(config)

    @classmethod
    def opened(
        cls,
        db: Database,
        task: Task,
        config: RunConfig,
        statistics: FeatureStatistics | None = None,
    ) -> "TrainingData":
        """Graph and features of a database for a task; statistics come from rows up to the
        validation time, or are given.

        Raises:
            GelgtError: the task has no times.
        """
        if task.time_col is None:
            raise GelgtError(
                "no_times",
                f"The task '{task.name}' has no seed times.",
                hint="Give the labels a time column.",
            )
        target = Target.of(task)
        if statistics is None:
            # A task whose training ends before the database's own sees kinds of its own period.
            db = with_kinds_until(db, task.val_timestamp)
            features = open_features(db, fit_until=task.val_timestamp)
        else:
            features = open_features(db, statistics=statistics)
        return cls(
            db=db,
            task=task,
            target=target,
            sampling=config.sampling,
            hide=hidden_columns(task, db, features.statistics, config.model),
            graph=db.graph(),
            features=features,
            plan=HistoryPlan.of(config.model),
        )

    def with_columns(self, config: RunConfig) -> "TrainingData":
        """The same with the history columns that are worth reading."""
        if not self.plan.hops:
            return self
        plan = self.plan
        chosen = self.choose_columns(config, plan.hops, plan.has_siblings, lane_count())
        return self._planned(HistoryPlan.of(config.model, chosen.numbers), chosen)

    def choose_columns(
        self, config: RunConfig, hops: int, siblings: bool = False, threads: int = 1
    ) -> ColumnChoice:
        """The history columns that are worth reading, judged on the training split."""
        seeds, labels = self.seeds["train"], self.labels("train")
        there = np.flatnonzero(self.exists(seeds))
        first = self.graph.offsets[self.graph.table_number(self.task.entity_table)]
        return choose_columns(
            self.visible,
            seeds.node[there] - first,
            seeds.time[there],
            labels[there],
            hops=hops,
            siblings=siblings,
            budget=columns_budget(config),
            seed=config.train.seed,
            threads=threads,
        )

    def without_history(self) -> "TrainingData":
        """The same for networks that leave the history to others."""
        return self._planned(NO_HISTORY, self.chosen)

    def _planned(self, plan: HistoryPlan, chosen: ColumnChoice | None) -> "TrainingData":
        """The same with another history, and with what was read already, or will be, that does not
        depend on it."""
        data = replace(self, plan=plan, chosen=chosen)
        _ = self.seeds, self._examples, self._futures  # what is there; both may add to it
        read = ("seeds", "sampler", "differing_labels", "_examples", "_futures")
        vars(data).update({name: vars(self)[name] for name in read if name in vars(self)})
        return data

    def shared(self) -> dict[str, Any]:
        """What was chosen on the way to this data, for workers that read the same database."""
        return {"columns": self.plan.columns}

    def as_shared(self, shared: Mapping[str, Any], config: RunConfig) -> "TrainingData":
        """The same with what another worker has chosen."""
        return replace(self, plan=HistoryPlan.of(config.model, shared["columns"]))

    @property
    def visible(self) -> TaskData:
        """What the columns of the history are computed from."""
        return TaskData(self.db, self.graph, self.features, self.task, self.sampling)

    @classmethod
    def labelled(cls, data: SeedData, task: Task) -> "TrainingData":
        """What was read of a database, with the labels of a task on it."""
        values = {each.name: getattr(data, each.name) for each in fields(SeedData)}
        return cls(**values | {"task": task})

    @cached_property
    def seeds(self) -> dict[str, Seeds]:
        return {
            split: task_seeds(self.task, self.graph, split) for split in ("train", "val", "test")
        }

    def learned(self, split: str, config: TrainConfig) -> tuple[Seeds, NDArray[Any]]:
        """Seeds and labels to learn from: those of a split or all that are `KNOWN` at the test
        time; in training with more seed times and earlier views where they are wanted."""
        seeds, labels = self.windows(split, config.windows)
        lags = self.lags() if split in ("train", KNOWN) else np.zeros(0, np.int64)
        copies = (1 if len(lags) else 0) if config.stale == "auto" else config.stale
        if not copies or not len(lags):
            return seeds, labels
        # Each model of several draws its own lags. Before the first training time there is nothing
        # to see.
        generator = np.random.Generator(np.random.Philox(key=[config.seed, 0x57A1E]))
        parts, places = [seeds], [np.arange(len(seeds))]
        for _ in range(copies):
            lag = generator.choice(lags, len(seeds))
            earlier = Seeds(seeds.node, seeds.time - lag, seeds.key, lag)
            seen = np.flatnonzero((earlier.time >= seeds.time.min()) & self.exists(earlier))
            parts.append(earlier.take(seen))
            places.append(seen)
        return joined(parts), labels[np.concatenate(places)]

    def lags(self) -> NDArray[np.int64]:
        """How long after the last row that they see the seeds of a frozen split are asked about, in
        seconds: one window after the other, as many as the task evaluates, or where it does not
        say, as validation has them. None where one window is all that is asked, or nothing is
        frozen."""
        task = self.task
        if (
            self.sampling.visibility != "frozen"
            or task.val_timestamp is None
            or task.timedelta is None
        ):
            return np.zeros(0, np.int64)
        length = int(task.timedelta.total_seconds())
        lags: NDArray[np.int64] = np.arange(1, task.num_eval_timestamps, dtype=np.int64) * length
        if task.num_eval_timestamps == 1 or task.is_open_ended:
            # How far rows reach after the test time must not matter.
            lags = self.seeds["val"].time - seconds(task.val_timestamp)
        lags = lags[lags > 0]
        return lags if len(lags) and lags.max() > length else np.zeros(0, np.int64)

    def windows(self, split: str, windows: Windows) -> tuple[Seeds, NDArray[Any]]:
        """Seeds and labels, in training with more seed times where they are wanted."""
        each = self._seed_times_each(windows)
        if split == "train" and each > 1 and self.differing_labels:
            each = 1
        if split not in ("train", KNOWN) or (split == "train" and each == 1):
            return self.seeds[split], self.labels(split)
        name = (split, each)
        if name not in self._examples:  # a query over the whole database, asked once for all
            self._examples[name] = (
                self._known(each)
                if split == KNOWN
                else self._labelled(with_more_windows(self.task, each))
            )
        return self._examples[name]

    @cached_property
    def _examples(self) -> dict[tuple[str, int], tuple[Seeds, NDArray[Any]]]:
        return {}

    def _seed_times_each(self, windows: Windows) -> int:
        if windows != "auto":
            return windows
        rows = max(1, len(self.seeds["train"]))
        return max(1, min(MOST_WINDOWS, FEW_ROWS // rows)) if has_engine() else 1

    @cached_property
    def differing_labels(self) -> int:
        """Labels of files that the task's definition does not give: then the files are learned
        from, and nothing is made anew."""
        is_checked = self.task.is_read and has_windows(self.task) and has_engine()
        return differing_labels(self.task) if is_checked else 0

    def _known(self, each: int) -> tuple[Seeds, NDArray[Any]]:
        """Every label known at the test time: windows up to it, or the rows of training and
        validation whose windows end by then."""
        if has_windows(self.task) and has_engine() and not self.differing_labels:
            return self._labelled(with_more_windows(self.task, each, until_test=True))
        task = self.task
        if task.test_timestamp is None:
            return self.seeds["train"], self.labels("train")
        seeds = joined([self.seeds["train"], self.seeds["val"]])
        labels = joined_labels([self.labels("train"), self.labels("val")])
        length = 0 if task.timedelta is None else int(task.timedelta.total_seconds())
        ended = np.flatnonzero(seeds.time + length <= seconds(task.test_timestamp))
        return seeds.take(ended), labels[ended]

    def _labelled(self, task: Task) -> tuple[Seeds, NDArray[Any]]:
        return task_seeds(task, self.graph, "train"), self.target.labels(task, "train")

    def ensemble_size(self, config: TrainConfig) -> int:
        """How many networks are trained."""
        if config.ensemble != "auto":
            return config.ensemble
        return (
            FEW_LABELS_ENSEMBLE
            if len(self.windows("train", config.windows)[0]) <= FEW_LABELS
            else 1
        )

    def notices(self, windows: Windows = 1, retrain: bool = False) -> list[str]:
        """What to say of entities that do not exist yet at their seed time, and of labels that
        cannot be made here or differ."""
        notices = []
        if (retrain or self._seed_times_each(windows) > 1) and self.differing_labels:
            notices.append(
                f"{self.differing_labels:,} labels of training and validation are not what the "
                f"SQL of '{self.task.name}' gives: the model "
                "learns from the label files alone, without overlapping windows"
            )
        if windows == "auto" and not has_engine() and has_windows(self.task):
            notices.append(
                "train.windows = 1: overlapping label windows need the package duckdb, which is "
                "not installed"
            )
        if self.target.task_type == "regression" and (alike := mostly_alike(self.labels("train"))):
            value, share = alike
            notices.append(
                f"train: {share:.0%} of the labels are {value:g}, and so may be nearly every "
                "prediction: that has the least mean absolute "
                f"error; to tell rows apart, predict whether it is {value:g}"
            )
        for split, seeds in self.seeds.items():
            late = int(np.count_nonzero(~self.exists(seeds)))
            if late:
                what = (
                    "are not learned from"
                    if split == "train"
                    else "get the base rate as their prediction"
                )
                rows = f"{late:,} rows" if late > 1 else "1 row"
                notices.append(
                    f"{split}: {rows} whose row of '{self.task.entity_table}' does not exist yet "
                    f"at the seed time {what}"
                )
        return notices

    def labels(self, split: str) -> NDArray[Any]:
        return self.target.labels(self.task, split)

    def add_recommender(self, model: RelationalModel, config: RunConfig) -> None:
        """Give a fresh network what scores destinations, where the task recommends."""

    def objective(
        self,
        model: RelationalModel,
        seeds: Seeds,
        labels: NDArray[Any],
        splits: tuple[str, ...],
        device: torch.device,
    ) -> Objective | RankObjective:
        """The loss of the seeds that are learned from, and a layer of the model for futures that it
        learns beside their labels."""
        encoded, weight = self.target.encode(labels).to(device), model.config.futures
        futures = self.futures(seeds, splits) if weight else torch.zeros(len(seeds), 0)
        model.expect(futures.shape[1])
        if not futures.shape[1]:
            return Objective(self.target, encoded)
        return Objective(self.target, encoded, futures.to(device), weight)

    def futures(self, seeds: Seeds, splits: tuple[str, ...]) -> Tensor:
        """(S, A) what the windows of seeds hold that are learned from; those of the last few lists
        of seeds are kept, since every network of a run asks for the same.

        None (A = 0) beside numbers, which say more of their window than a class does: there they
        cost more than they gain (docs/research/quality.md).

        Args:
            splits: Whose labels are learned: windows end by the validation time in training, and by
                the test time where the labels known by then are learned.
        """
        if self.target.task_type == "regression":
            return torch.zeros(len(seeds), 0)
        ends = {"train": self.task.val_timestamp, KNOWN: self.task.test_timestamp}
        end = ends.get(splits[0]) if len(splits) == 1 else None
        until = None if end is None else seconds(end)
        name, kept = f"{until} {seeds.digest()}", self._futures
        with _FUTURES:
            if name not in kept:
                while len(kept) >= CACHED_FUTURES:
                    kept.pop(next(iter(kept)))
                kept[name] = future_targets(self.visible, seeds, until)
            return kept[name]

    @cached_property
    def _futures(self) -> dict[str, Tensor]:
        return {}

    def scorer(
        self, model: Ensemble, device: torch.device, precision: str = "auto"
    ) -> Scorer | RecommendScorer:
        """What turns seeds into predictions of a model."""
        return Scorer(model, self, device, precision=precision)

    def ages(self) -> Tensor:
        """Ages in days of rows around training seeds, the seeds themselves left out."""
        seeds = self.seeds["train"]
        seeds = seeds.take(np.flatnonzero(self.exists(seeds)))
        places = np.linspace(0, len(seeds) - 1, min(len(seeds), AGE_SEEDS)).astype(np.int64)
        few = seeds.take(places)
        sample = self.sampler.sample(few.node, few.time, few.key)
        return torch.from_numpy(sample.age[sample.has_time & (sample.hop > 0)])
