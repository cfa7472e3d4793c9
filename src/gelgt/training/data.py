"""`TrainingData`: a database and a task as batches, in one regime of visibility.

The regime decides what a seed may see (docs/time.md):

    frozen      rows up to the test time; ages are measured from it at the latest. The default for
                RelBench folders.
    seed-time   all rows before each seed's own time. The default for everything else, and always
                for predictions.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gelgt.config import ModelConfig, SamplingConfig, TrainConfig, Visibility
from gelgt.errors import GelgtError
from gelgt.features import Features, FeatureStatistics, open_features
from gelgt.graph import TIMELESS, Graph
from gelgt.history.seed_history import NO_HISTORY, HistoryPlan, seed_history
from gelgt.nn import ModelInput
from gelgt.presets import RunConfig
from gelgt.sampling import Sampler, Seeds, SubgraphLoader, task_seeds
from gelgt.sampling.batch import SubgraphBatch
from gelgt.schema.manifest import MANIFEST, load_yaml
from gelgt.schema.model import dated_text
from gelgt.sources.column_kinds import with_kinds_until
from gelgt.sources.database import Database
from gelgt.tasks import Task
from gelgt.tasks.engine import has_engine
from gelgt.tasks.task import Definition
from gelgt.tasks.windows import differing_labels, has_windows, with_more_windows
from gelgt.training.target import Target, mostly_alike

FEW_ROWS = 20_000  # training rows up to which more seed times are taken by themselves
MOST_WINDOWS = 4
FEW_LABELS = 10_000  # labels up to which several models are trained by themselves
FEW_MEMBERS = 5
KNOWN = "known"  # a split of its own: all labels that are known at the test time
KEPT_HISTORIES = 4  # training, validation, test, and one more
AGE_SEEDS = 1024  # training seeds whose rows give μ and σ their start


@dataclass(frozen=True)
class TrainingData:
    """What a model is trained and evaluated on.

    Attributes:
        hide: For each table, columns that the task must not see.
        sampling: Complete: visibility, horizon and causality are those of the run.
        plan: What seeds come with beside their subgraphs.
    """

    db: Database
    task: Task
    target: Target
    sampling: SamplingConfig
    hide: Mapping[str, tuple[str, ...]]
    graph: Graph
    features: Features
    plan: HistoryPlan = NO_HISTORY

    @classmethod
    def of(
        cls,
        db: Database,
        task: Task,
        config: RunConfig,
        statistics: FeatureStatistics | None = None,
    ) -> "TrainingData":
        """Graph and features of a database for a task; statistics come from rows up to the
        validation time, or are given.

        Raises:
            GelgtError: the task has no times, or recommends rows.
        """
        if task.task_type == "recommendation":
            raise GelgtError(
                "cannot_train",
                f"'{task.name}' recommends rows, which cannot be trained yet.",
                hint="Predict a value or a class.",
            )
        if task.time_col is None:
            raise GelgtError(
                "no_times",
                f"The task '{task.name}' has no seed times.",
                hint="Give the labels a time column.",
            )
        target = Target.of(task)
        # a task whose training ends before the database's own sees kinds of its own period
        if statistics is None:
            db = with_kinds_until(db, task.val_timestamp)
        features = (
            open_features(db, fit_until=task.val_timestamp)
            if statistics is None
            else open_features(db, statistics=statistics)
        )
        hide = hidden(task, db, features.statistics, config.model)
        return cls(
            db,
            task,
            target,
            config.sampling,
            hide,
            db.graph(),
            features,
            HistoryPlan.of(config.model),
        )

    @cached_property
    def sampler(self) -> Sampler:
        return Sampler(self.graph, self.sampling)

    @cached_property
    def kept(self) -> dict[str, Any]:
        """What others prepare from this data once, such as recorded predictions."""
        return {}

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
        found: NDArray[np.int64] = np.arange(1, task.num_eval_timestamps, dtype=np.int64) * length
        # how far rows reach after the test time must not matter
        if task.num_eval_timestamps == 1 or task.is_open_ended:
            found = self.seeds["val"].time - int(
                np.datetime64(task.val_timestamp, "s").astype(np.int64)
            )
        found = found[found > 0]
        return found if len(found) and found.max() > length else np.zeros(0, np.int64)

    def windows(self, split: str, windows: int | Literal["auto"]) -> tuple[Seeds, NDArray[Any]]:
        """Seeds and labels, in training with more seed times where they are wanted."""
        each = self._seed_times_each(windows)
        if split == "train" and each > 1 and self.differing_labels:
            each = 1
        if split not in ("train", KNOWN) or (split == "train" and each == 1):
            return self.seeds[split], self.labels(split)
        name = f"windows {each} {split}"
        if name not in self.kept:  # a query over the whole database, asked once for all models
            self.kept[name] = (
                self._known(each)
                if split == KNOWN
                else self._replayed(with_more_windows(self.task, each))
            )
        made: tuple[Seeds, NDArray[Any]] = self.kept[name]
        return made

    def _seed_times_each(self, windows: int | Literal["auto"]) -> int:
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
            return self._replayed(with_more_windows(self.task, each, until_test=True))
        task = self.task
        if task.test_timestamp is None:
            return self.seeds["train"], self.labels("train")
        seeds = joined([self.seeds["train"], self.seeds["val"]])
        labels = np.concatenate([self.labels("train"), self.labels("val")])
        length = 0 if task.timedelta is None else int(task.timedelta.total_seconds())
        ended = np.flatnonzero(
            seeds.time + length <= int(np.datetime64(task.test_timestamp, "s").astype(np.int64))
        )
        return seeds.take(ended), labels[ended]

    def _replayed(self, task: Task) -> tuple[Seeds, NDArray[Any]]:
        return task_seeds(task, self.graph, "train"), self.target.labels(task, "train")

    def ensemble_size(self, config: TrainConfig) -> int:
        """How many models are trained."""
        if config.ensemble != "auto":
            return config.ensemble
        return FEW_MEMBERS if len(self.windows("train", config.windows)[0]) <= FEW_LABELS else 1

    def exists(self, seeds: Seeds) -> NDArray[np.bool_]:
        """(S,) whether each entity is there at its seed time. Real label tables have some that are
        not: accounts that were made anew."""
        own = self.graph.node_time[seeds.node]
        known: NDArray[np.bool_] = (own == TIMELESS) | (own <= seeds.time)
        return known

    def notices(self, windows: int | Literal["auto"] = 1, retrain: bool = False) -> list[str]:
        """What to say of entities that do not exist yet at their seed time, and of labels that
        cannot be made here or differ."""
        found = []
        if (retrain or self._seed_times_each(windows) > 1) and self.differing_labels:
            found.append(
                f"{self.differing_labels:,} labels of training and validation are not what the "
                f"SQL of '{self.task.name}' gives: the model "
                "learns from the label files alone, without overlapping windows"
            )
        if windows == "auto" and not has_engine() and has_windows(self.task):
            found.append(
                "train.windows = 1: overlapping label windows need the package duckdb, which is "
                "not installed"
            )
        if self.target.task_type == "regression" and (alike := mostly_alike(self.labels("train"))):
            value, share = alike
            found.append(
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
                found.append(
                    f"{split}: {rows} whose row of '{self.task.entity_table}' does not exist yet "
                    f"at the seed time {what}"
                )
        return found

    def labels(self, split: str) -> NDArray[Any]:
        return self.target.labels(self.task, split)

    def loader(
        self, seeds: Seeds, batch_size: int, generator: torch.Generator | None = None
    ) -> SubgraphLoader:
        """Batches with their features, made in background threads."""
        then = partial(self.with_features, history=self.history(seeds))
        return SubgraphLoader(
            self.sampler,
            seeds,
            batch_size,
            generator=generator,
            layout="packed",
            threads=2,
            prefetch=3,
            then=then,
        )

    def with_features(self, batch: SubgraphBatch, history: Tensor | None = None) -> ModelInput:
        return ModelInput.of(batch, self.features, self.hide, history)

    def history(self, seeds: Seeds) -> Tensor | None:
        """(S, F) what seeds come with, None where no model asks for it; that of a few lists of
        seeds is kept."""
        if not self.plan:
            return None
        name = hashlib.blake2b(
            seeds.node.tobytes() + seeds.time.tobytes() + seeds.asked.tobytes(), digest_size=16
        ).hexdigest()
        known: dict[str, Tensor] = self.kept.setdefault("history", {})
        if name not in known:
            while len(known) >= KEPT_HISTORIES:
                known.pop(next(iter(known)))
            known[name] = seed_history(
                self.db, self.graph, self.features, self.task, self.sampling, seeds, self.plan
            )
        return known[name]

    def ages(self) -> Tensor:
        """Ages in days of rows around training seeds, the seeds themselves left out."""
        seeds = self.seeds["train"]
        seeds = seeds.take(np.flatnonzero(self.exists(seeds)))
        places = np.linspace(0, len(seeds) - 1, min(len(seeds), AGE_SEEDS)).astype(np.int64)
        few = seeds.take(places)
        sample = self.sampler.sample(few.node, few.time, few.key)
        return torch.from_numpy(sample.age[sample.has_time & (sample.hop > 0)])


def learnable(
    data: TrainingData, splits: tuple[str, ...], config: TrainConfig
) -> tuple[Seeds, NDArray[Any]]:
    """Seeds and labels of some splits, without labels that are missing and entities that do not
    exist yet."""
    found = [data.learned(split, config) for split in splits]
    seeds, labels = (
        joined([seeds for seeds, _ in found]),
        np.concatenate([labels for _, labels in found]),
    )
    usable = np.flatnonzero(
        np.isfinite(labels).reshape(len(labels), -1).all(1) & data.exists(seeds)
    )
    return seeds.take(usable), labels[usable]


def nothing_to_learn(data: TrainingData) -> GelgtError:
    """What to say where no training label is left."""
    task, table = data.task, data.db.table(data.task.entity_table)
    late = int(np.count_nonzero(~data.exists(data.seeds["train"])))
    made, hint = "", "Check the labels."
    if late:
        time = (
            f"'{table.time_col}'"
            if table.time_col
            else f"time ({dated_text(data.db.schema, table)})"
        )
        made = f" {late:,} are of rows whose {time} lies after the seed time."
        hint = (
            f"Is {time} when a row of '{table.name}' comes to be? A schema can name another "
            "column, or none."
        )
    return GelgtError(
        "no_labels",
        f"None of the {task.rows['train']:,} training labels of '{task.name}' can be learned "
        f"from.{made}",
        hint=hint,
    )


def hidden(
    task: Definition, db: Database, statistics: FeatureStatistics, config: ModelConfig
) -> dict[str, tuple[str, ...]]:
    """The columns that the row encoder does not see, by table: those that the task forbids, and
    those that the configuration leaves out."""
    found: dict[str, tuple[str, ...]] = {}
    for name, columns in statistics.tables.items():
        own_time = db.table(name).time_col
        out = [column for table, column in task.remove_columns if table == name]
        if not config.row_names and not db.table(name).has_time:
            out += [column for column, s in columns.items() if s.kind == "text"]
        if not config.row_times and own_time is not None:
            out.append(own_time)
        if out:
            found[name] = tuple(dict.fromkeys(out))
    return found


def in_regime(
    config: RunConfig, task: Task, visibility: Visibility | None = None, as_of: int | None = None
) -> RunConfig:
    """A configuration whose sampling follows the regime and the task.

    Args:
        visibility: None is `frozen` for a RelBench folder and `seed-time` for everything else.
        as_of: Seconds since 1970 from which ages are measured at the latest, under `seed-time`.

    Raises:
        GelgtError: the frozen regime without a test time, or with a time to measure ages from,
            which it has itself.
    """
    chosen: Visibility = visibility or ("frozen" if is_relbench(task.database) else "seed-time")
    horizon = as_of
    if chosen == "frozen" and as_of is not None:
        message = (
            "--as-of has no meaning in the frozen regime, where ages are measured from the "
            "test time."
        )
        raise GelgtError(
            "bad_option", message, hint="Add --visibility seed-time, or leave --as-of out."
        )
    if chosen == "frozen":
        if task.test_timestamp is None:
            raise GelgtError(
                "no_horizon",
                f"The task '{task.name}' has no test time, which the frozen regime needs.",
                hint="Use seed-time.",
            )
        horizon = int(np.datetime64(task.test_timestamp, "s").astype(np.int64))
    causality = "inclusive" if task.kind == "autocomplete" else "strict"
    return config.with_values(
        "derived",
        sampling__visibility=chosen,
        sampling__horizon=horizon,
        sampling__causality=causality,
    )


def is_relbench(db: Database) -> bool:
    """Whether a database came as a RelBench folder, not from a source that gelgt imported."""
    for folder in (Path(db.source), db.folder):
        if "://" not in str(folder) and (folder / MANIFEST).is_file():
            # kinds that someone states import nothing
            return "format" not in (load_yaml(folder / MANIFEST).get("gelgt") or {})
    return False


def joined(parts: Sequence[Seeds]) -> Seeds:
    """Seeds behind each other."""
    node, time, key = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("node", "time", "key")
    )
    lag = (
        None
        if all(part.lag is None for part in parts)
        else np.concatenate([part.asked - part.time for part in parts])
    )
    return Seeds(node, time, key, lag)
