"""`SeedData`: a database and a task's definition, from which seeds become what a network reads.

The sampling configuration decides what a seed may see (docs/time.md):

    frozen      rows up to the test time; ages are measured from it at the latest
    seed-time   all rows before each seed's own time
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from threading import Lock

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gelgt.config import ModelConfig, SamplingConfig
from gelgt.features import Features, FeatureStatistics
from gelgt.graph import Graph
from gelgt.history.seed_history import NO_HISTORY, HistoryPlan, seed_history
from gelgt.history.task_data import TaskData
from gelgt.nn import ModelInput
from gelgt.nn.target import Target
from gelgt.sampling import Sampler, Seeds, SubgraphLoader
from gelgt.sampling.batch import SubgraphBatch
from gelgt.sources.database import Database
from gelgt.sources.row_times import is_there
from gelgt.tasks.task import Definition

CACHED_HISTORIES = 6  # training, validation, test, the parts of them that are scored now and then

_KEEPING = Lock()  # trees ask for histories while networks do


@dataclass(frozen=True)
class SeedData:
    """Everything that a model reads about seeds.

    Attributes:
        task: What is predicted, for which table.
        target: Between labels and what a network puts out.
        sampling: Complete: visibility, horizon and causality are those of the run.
        hide: For each table, columns that the task must not see.
        plan: Which history seeds come with beside their subgraphs.
    """

    db: Database
    task: Definition
    target: Target
    sampling: SamplingConfig
    hide: Mapping[str, tuple[str, ...]]
    graph: Graph
    features: Features
    plan: HistoryPlan = NO_HISTORY

    @cached_property
    def sampler(self) -> Sampler:
        return Sampler(self.graph, self.sampling)

    @property
    def task_data(self) -> TaskData:
        """What histories are computed from."""
        return TaskData(self.db, self.graph, self.features, self.task, self.sampling)

    @cached_property
    def _histories(self) -> dict[str, Tensor]:
        return {}

    def exists(self, seeds: Seeds) -> NDArray[np.bool_]:
        """(S,) whether each entity exists at its seed time. In real label tables some do not:
        accounts that were created again under the same key."""
        created = self.graph.node_time[seeds.node]
        return is_there(self.db.table(self.task.entity_table), created, seeds.time)

    def loader(
        self, seeds: Seeds, batch_size: int, generator: torch.Generator | None = None
    ) -> SubgraphLoader:
        """Batches with their features, made in background threads."""
        return SubgraphLoader(
            self.sampler,
            seeds,
            batch_size,
            generator=generator,
            layout="packed",
            threads=2,
            prefetch=3,
            then=partial(self.with_features, history=self.history(seeds)),
        )

    def with_features(self, batch: SubgraphBatch, history: Tensor | None = None) -> ModelInput:
        return ModelInput.of(batch, self.features, self.hide, history)

    def history(self, seeds: Seeds) -> Tensor | None:
        """(S, F) causal aggregates of seeds, None where no model asks for them; those of the last
        few lists of seeds are kept."""
        if not self.plan:
            return None
        name = seeds.digest()
        kept = self._histories
        with _KEEPING:
            history = kept.get(name)
        if history is None:
            history = seed_history(self.task_data, seeds, self.plan)
            with _KEEPING:
                while len(kept) >= CACHED_HISTORIES:
                    kept.pop(next(iter(kept)))
                kept[name] = history
        return history

    def columns_of(self, seeds: Seeds) -> Tensor:
        """The same where a model reads nothing else: without columns, (S, 0)."""
        history = self.history(seeds)
        return torch.zeros(len(seeds), 0) if history is None else history


def hidden_columns(
    task: Definition, db: Database, statistics: FeatureStatistics, config: ModelConfig
) -> dict[str, tuple[str, ...]]:
    """The columns that the row encoder does not see, by table: those that the task forbids, and
    those that the configuration leaves out."""
    hidden: dict[str, tuple[str, ...]] = {}
    for name, columns in statistics.tables.items():
        table = db.table(name)
        out = [column for owner, column in task.remove_columns if owner == name]
        if not config.row_names and not table.has_time:
            out += [column for column, s in columns.items() if s.kind == "text"]
        if not config.row_times and table.time_col is not None:
            out.append(table.time_col)
        if out:
            hidden[name] = tuple(dict.fromkeys(out))
    return hidden
