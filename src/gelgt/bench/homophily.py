"""`gelgt bench homophily`: do linked rows have the same label? From labels and sampled subgraphs,
without training.

The edge homophily ratio (Zhu et al. 2020) is the share of edges whose ends have the same label. The
paper gives it for its tasks, but not what the label of a row is that the task does not ask about:
in a relational graph only entities have labels, and they are seldom linked directly. So there are
two figures here, both over neighbourhoods sampled as the model samples them:

    edges     foreign-key edges; a row without a label agrees with no other. This is the formula as
              it is written.
    linked    pairs of the seed and another entity in its neighbourhood, where both have a label;
              beside it what chance would give

The label of the seed is its own. That of another entity is its newest one whose window has closed
at the seed time. Values of a regression count as high or low, by the median of the training labels.
Two random binary labels agree at least half the time, so `linked` means something only beside
`chance`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gelgt.bench.paper import HOMOPHILY, is_published
from gelgt.config import SamplingConfig
from gelgt.errors import GelgtError
from gelgt.graph import TIMELESS
from gelgt.sampling import Sample, Sampler, Seeds, task_seeds
from gelgt.sources import Database
from gelgt.tasks import Task
from gelgt.tasks.label_space import label_space, targets

SEEDS = 2000
BATCH = 256


@dataclass(frozen=True)
class KnownLabels:
    """The labels of entities over time: rows sorted by entity, then by when they are known.

    Attributes:
        node: (L,) entities.
        since: (L,) seconds since 1970 from which a label is known.
        label: (L,) classes.
    """

    node: NDArray[np.int64]
    since: NDArray[np.int64]
    label: NDArray[np.int64]

    @classmethod
    def of(cls, seeds: Seeds, label: NDArray[np.int64], window: int) -> "KnownLabels":
        since = seeds.time + window
        order = np.lexsort((since, seeds.node))
        return cls(seeds.node[order], since[order], label[order])

    def at(self, node: NDArray[np.int64], time: NDArray[np.int64]) -> NDArray[np.int64]:
        """(Q,) the newest label of each entity that is known at a time; -1 where there is none.

        Example:
            >>> labels = KnownLabels(np.array([3, 3, 5]), np.array([10, 20, 10]), np.arange(3))
            >>> labels.at(np.array([3, 3, 3, 4, 5]), np.array([5, 10, 25, 25, 25])).tolist()
            [-1, 0, 1, -1, 2]
        """
        first = np.searchsorted(self.node, node, "left")
        last = np.searchsorted(self.node, node, "right")
        labels = np.full(len(node), -1, np.int64)
        for query in np.flatnonzero(last > first):
            since = self.since[first[query] : last[query]]
            count = int(np.searchsorted(since, time[query], "right"))
            if count:
                labels[query] = self.label[first[query] + count - 1]
        return labels


@dataclass
class _Counts:
    """Edges and pairs over all subgraphs, and those whose ends have the same label."""

    edges: int = 0
    same_edges: int = 0
    pairs: int = 0
    same_pairs: int = 0
    nearest: int | None = None  # hop of the nearest labelled entity

    def add(self, sample: Sample, of_row: NDArray[np.int64], others: NDArray[np.int64]) -> None:
        """Count a batch.

        Args:
            sample: Its subgraphs.
            of_row: (T,) the label of each row, -1 for none.
            others: Rows of the entity table, the seeds left out.
        """
        owner = np.repeat(np.arange(len(sample.offsets) - 1), np.diff(sample.offsets))
        seed_label = of_row[sample.offsets[:-1]][owner]
        source, target = of_row[sample.edge_source], of_row[sample.edge_target]
        self.edges += len(source)
        self.same_edges += int(np.count_nonzero((source == target) & (source >= 0)))
        labelled = others[of_row[others] >= 0]
        self.pairs += len(labelled)
        self.same_pairs += int(np.count_nonzero(of_row[labelled] == seed_label[labelled]))
        if len(labelled):
            hop = int(sample.hop[labelled].min())
            self.nearest = hop if self.nearest is None else min(self.nearest, hop)


def homophily(
    db: Database, task: Task, sampling: SamplingConfig, most: int = SEEDS
) -> dict[str, Any]:
    """The ratios of one task.

    Args:
        db: The database.
        task: A task with one class or one value a row.
        sampling: The neighbourhoods, complete with regime.
        most: Training seeds whose neighbourhoods are sampled.
    """
    if task.task_type not in ("binary_classification", "multiclass_classification", "regression"):
        raise GelgtError(
            "no_single_label",
            f"'{task.name}' is {task.task_type}; homophily needs one class or value per row.",
            hint="Choose a binary, multiclass or regression task.",
        )
    graph = db.graph()
    seeds, label = task_seeds(task, graph, "train"), _classes(task)
    window = 0 if task.timedelta is None else int(task.timedelta.total_seconds())
    labels = KnownLabels.of(seeds, label, window)
    entity = graph.table_number(task.entity_table)
    sampler = Sampler(graph, sampling)
    created = graph.node_time[seeds.node]
    # label tables of real data have entities that do not exist yet
    existing = np.flatnonzero((created == TIMELESS) | (created <= seeds.time))
    chosen = existing[np.linspace(0, len(existing) - 1, min(most, len(existing))).astype(np.int64)]
    counts = _Counts()
    for start in range(0, len(chosen), BATCH):
        places = chosen[start : start + BATCH]
        batch = seeds.take(places)
        sample = sampler.sample(batch.node, batch.time, batch.key)
        time = np.repeat(batch.time, np.diff(sample.offsets))  # the seed time of each row
        others = np.flatnonzero((sample.table == entity) & (sample.hop > 0))
        of_row = np.full(len(sample.node), -1, np.int64)
        of_row[others] = labels.at(sample.node[others], time[others])
        of_row[sample.offsets[:-1]] = label[places]
        counts.add(sample, of_row, others)
    shares = np.bincount(label) / len(label)
    is_real = is_published(db.schema.name, task.name, task.rows["train"])
    return {
        "task": task.name,
        "seeds": len(chosen),
        "edges": counts.edges,
        "edge ratio": round(counts.same_edges / counts.edges, 4) if counts.edges else None,
        "linked pairs": counts.pairs,
        "linked ratio": round(counts.same_pairs / counts.pairs, 4) if counts.pairs else None,
        "chance": round(float((shares**2).sum()), 4),
        "nearest hop": counts.nearest,
        "paper": HOMOPHILY.get((db.schema.name, task.name)) if is_real else None,
    }


def _classes(task: Task) -> NDArray[np.int64]:
    """(S,) a class for each training label; values by their median."""
    values = targets(task, "train", label_space(task))
    if task.task_type == "regression":
        values = values > np.nanmedian(values)
    classes: NDArray[np.int64] = values.astype(np.int64)
    return classes
