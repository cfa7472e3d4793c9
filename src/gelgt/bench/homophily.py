"""`gelgt bench homophily`: do linked rows have the same label? From labels and sampled subgraphs,
without training.

The edge homophily ratio (Zhu et al. 2020) is the share of edges whose ends have the same label. The
paper gives it for its tasks without saying what the label of a row is that no task asks about: in a
relational graph only entities have labels, and they are seldom linked directly. So there are two
figures here, both over neighbourhoods sampled as the model samples them:

    edges     foreign-key edges; a row without a label agrees with nobody. This is the formula as it
              stands.
    linked    pairs of the seed and another entity in its neighbourhood, where both have a label;
              beside it what chance would give

The label of the seed is its own. That of another entity is its newest one whose window has closed
at the seed time. Values count as high or low, by the median of the training labels. Two random
binary labels agree at least half the time, so that `linked` says something only beside `chance`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gelgt.bench.paper import HOMOPHILY, is_published
from gelgt.config import SamplingConfig
from gelgt.errors import GelgtError
from gelgt.graph import TIMELESS
from gelgt.sampling import Sampler, Seeds, task_seeds
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
        known: (L,) seconds since 1970 from which a label is known.
        label: (L,) classes.
    """

    node: NDArray[np.int64]
    known: NDArray[np.int64]
    label: NDArray[np.int64]

    @classmethod
    def of(cls, seeds: Seeds, label: NDArray[np.int64], window: int) -> "KnownLabels":
        known = seeds.time + window
        order = np.lexsort((known, seeds.node))
        return cls(seeds.node[order], known[order], label[order])

    def at(self, node: NDArray[np.int64], time: NDArray[np.int64]) -> NDArray[np.int64]:
        """(Q,) the newest label of each entity that is known at a time; -1 where there is none.

        Example:
            >>> known = KnownLabels(np.array([3, 3, 5]), np.array([10, 20, 10]), np.array([0, 1, 1]))
            >>> known.at(np.array([3, 3, 3, 4, 5]), np.array([5, 10, 25, 25, 25])).tolist()
            [-1, 0, 1, -1, 1]
        """
        first, last = (
            np.searchsorted(self.node, node, "left"),
            np.searchsorted(self.node, node, "right"),
        )
        found = np.full(len(node), -1, np.int64)
        for query in np.flatnonzero(last > first):
            place = int(
                np.searchsorted(self.known[first[query] : last[query]], time[query], "right")
            )
            if place:
                found[query] = self.label[first[query] + place - 1]
        return found


def homophily(
    db: Database, task: Task, sampling: SamplingConfig, most: int = SEEDS
) -> dict[str, Any]:
    """The ratios of one task.

    Args:
        db: The database.
        task: A task with one class or one value a row.
        sampling: The neighbourhoods, complete with regime.
        most: Training seeds that are looked at.
    """
    if task.task_type not in ("binary_classification", "multiclass_classification", "regression"):
        raise GelgtError(
            "no_single_label",
            f"'{task.name}' has no single label a row.",
            hint="Choose a task with a class or a value.",
        )
    graph = db.graph()
    seeds, label = task_seeds(task, graph, "train"), _classes(task)
    window = 0 if task.timedelta is None else int(task.timedelta.total_seconds())
    known = KnownLabels.of(seeds, label, window)
    entity = graph.table_number(task.entity_table)
    sampler = Sampler(graph, sampling)
    born = graph.node_time[seeds.node]
    # real label tables have entities that do not exist yet
    there = np.flatnonzero((born == TIMELESS) | (born <= seeds.time))
    chosen = there[np.linspace(0, len(there) - 1, min(most, len(there))).astype(np.int64)]
    edges = same_edges = pairs = same_pairs = 0
    nearest = 0
    for start in range(0, len(chosen), BATCH):
        places = chosen[start : start + BATCH]
        few = seeds.take(places)
        sample = sampler.sample(few.node, few.time, few.key)
        owner = np.repeat(np.arange(len(few)), np.diff(sample.offsets))  # the seed of each row
        of_row = np.full(len(sample.node), -1, np.int64)
        others = np.flatnonzero((sample.table == entity) & (sample.hop > 0))
        of_row[others] = known.at(sample.node[others], few.time[owner[others]])
        of_row[sample.offsets[:-1]] = label[places]
        source, target = of_row[sample.edge_source], of_row[sample.edge_target]
        edges += len(source)
        same_edges += int(np.count_nonzero((source == target) & (source >= 0)))
        judged = others[of_row[others] >= 0]
        pairs += len(judged)
        same_pairs += int(np.count_nonzero(of_row[judged] == label[places][owner[judged]]))
        if len(judged):
            closest = int(sample.hop[judged].min())
            nearest = min(nearest, closest) if nearest else closest
    shares = np.bincount(label) / len(label)
    is_real = is_published(db.schema.name, task.name, task.rows["train"])
    return {
        "task": task.name,
        "seeds": len(chosen),
        "edges": edges,
        "edge ratio": round(same_edges / edges, 4) if edges else None,
        "linked pairs": pairs,
        "linked ratio": round(same_pairs / pairs, 4) if pairs else None,
        "chance": round(float((shares**2).sum()), 4),
        "nearest hop": nearest or None,
        "paper": HOMOPHILY.get((db.schema.name, task.name)) if is_real else None,
    }


def _classes(task: Task) -> NDArray[np.int64]:
    """(S,) a class for each training label; values by their median."""
    values = targets(task, "train", label_space(task))
    if task.task_type == "regression":
        values = values > np.nanmedian(values)
    found: NDArray[np.int64] = values.astype(np.int64)
    return found
