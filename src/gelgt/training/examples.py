"""The seeds and labels that a model is trained on, without those that teach nothing."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gelgt.config import TrainConfig
from gelgt.errors import GelgtError
from gelgt.sampling import Seeds
from gelgt.schema.model import dated_text
from gelgt.tasks.label_space import joined_labels

if TYPE_CHECKING:
    from gelgt.training.data import TrainingData

KNOWN = "known"  # a split of its own: all labels that are known at the test time
MOST_TABULAR = 200_000  # labels that trees and the columns network learn


def learnable(
    data: "TrainingData", splits: tuple[str, ...], config: TrainConfig
) -> tuple[Seeds, NDArray[Any]]:
    """Seeds and labels of some splits, without labels that are missing and entities that do not
    exist yet."""
    examples = [data.learned(split, config) for split in splits]
    seeds, labels = (
        joined([seeds for seeds, _ in examples]),
        joined_labels([labels for _, labels in examples]),
    )
    usable = np.flatnonzero(
        np.isfinite(labels).reshape(len(labels), -1).all(1) & data.exists(seeds)
    )
    return seeds.take(usable), labels[usable]


def tabular(
    data: "TrainingData", splits: tuple[str, ...], config: TrainConfig
) -> tuple[Seeds, NDArray[Any]]:
    """The same for what learns from history columns alone, trees and the columns network: at most
    `MOST_TABULAR`, drawn at random."""
    seeds, labels = learnable(data, splits, config)
    if len(seeds) > MOST_TABULAR:
        generator = np.random.default_rng(config.seed)
        some = np.sort(generator.choice(len(seeds), MOST_TABULAR, replace=False))
        seeds, labels = seeds.take(some), labels[some]
    return seeds, labels


def nothing_to_learn(data: "TrainingData") -> GelgtError:
    """What to say where no training label is left."""
    task, table = data.task, data.db.table(data.task.entity_table)
    late = int(np.count_nonzero(~data.exists(data.seeds["train"])))
    reason, hint = "", "Check the labels."
    if late:
        time = (
            f"'{table.time_col}'"
            if table.time_col
            else f"time ({dated_text(data.db.schema, table)})"
        )
        reason = f" {late:,} are of rows whose {time} lies after the seed time."
        hint = (
            f"Is {time} when a row of '{table.name}' comes to be? A schema can name another "
            "column, or none."
        )
    return GelgtError(
        "no_labels",
        f"None of the {task.rows['train']:,} training labels of '{task.name}' can be learned "
        f"from.{reason}",
        hint=hint,
    )


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
