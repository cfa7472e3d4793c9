"""What is recommended: its table, and the wishes that a user can have.

The table has a row for each recommendation: the entity's key, ``time``, ``rank``, the key of the
destination, ``score``. Scores are those of the softmax before it is normed: they compare the
destinations of one row, not rows with each other.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gelgt.errors import GelgtError
from gelgt.graph import NEVER, TIMELESS
from gelgt.inference.keys import find_rows
from gelgt.sampling import Seeds
from gelgt.scoring.best import Ranked
from gelgt.scoring.recommend import RecommendScorer, Wish
from gelgt.scoring.table import key_table, times_column
from gelgt.sources.database import Database
from gelgt.tasks.build import DEFAULT_K
from gelgt.tasks.task import Definition


@dataclass(frozen=True)
class Recommend:
    """What may be recommended, in the user's terms.

    Attributes:
        k: How many rows; None: as many as the task evaluates.
        new_only: Leave out what the entity has had before.
        allowed: Keys of the recommended table that may be named; None for all.
    """

    k: int | None = None
    new_only: bool = False
    allowed: Any = None

    @property
    def is_plain(self) -> bool:
        return self.k is None and not self.new_only and self.allowed is None

    def wish(self, db: Database, task: Definition) -> Wish:
        """The same in row numbers.

        Raises:
            GelgtError: the task recommends nothing, k is no number of rows, or keys are unknown.
        """
        if task.dst_entity_table is None:
            raise GelgtError(
                "bad_option",
                f"'{task.name}' predicts a value: it recommends no rows.",
                hint="Leave out what is said about recommendations (k, new only, allowed).",
            )
        if self.k is not None and self.k < 1:
            raise GelgtError(
                "bad_option", f"{self.k} rows cannot be recommended.", hint="Ask for at least 1."
            )
        allowed = None
        if self.allowed is not None:
            if not len(self.allowed):
                raise GelgtError(
                    "bad_option",
                    "No key is allowed, so nothing can be recommended.",
                    hint=f"Give keys of '{task.dst_entity_table}', or leave the list out.",
                )
            allowed = np.unique(find_rows(db, task.dst_entity_table, self.allowed))
        return Wish(self.k or task.eval_k or DEFAULT_K, allowed, self.new_only)


def nothing_there(scorer: RecommendScorer, times: NDArray[np.int64]) -> Iterator[str]:
    """What to say where no destination exists yet at the time of a prediction."""
    finder = scorer.destinations.finder
    first = finder.times.min(initial=NEVER)
    early = int(np.count_nonzero(finder.limits_at(times) <= first)) if first != TIMELESS else 0
    if early:
        rows = "1 row" if early == 1 else f"{early:,} rows"
        yield (
            f"Nothing is recommended for {rows}: no row of '{finder.destination}' exists yet at "
            "their time."
        )


def recommended_table(
    db: Database,
    task: Definition,
    rows: NDArray[np.int64],
    seeds: Seeds,
    scorer: RecommendScorer,
    wish: Wish,
) -> pa.Table:
    """The recommendations for rows of the entity table at the times of their seeds."""
    there = np.flatnonzero(scorer.data.exists(seeds))
    ranked = scorer.rank(seeds.take(there), wish)
    row = np.full((len(seeds), wish.k), -1, np.int64)
    score = np.full((len(seeds), wish.k), np.nan, np.float32)
    row[there], score[there] = ranked.row, ranked.score
    return _table(db, task, rows, seeds, Ranked(row, score))


def _table(
    db: Database, task: Definition, rows: NDArray[np.int64], seeds: Seeds, ranked: Ranked
) -> pa.Table:
    assert task.dst_entity_table is not None
    seed, place = np.nonzero(ranked.row >= 0)
    table = key_table(db, task.entity_table, rows[seed])
    table = table.append_column("time", times_column(seeds.time[seed]))
    table = table.append_column("rank", pa.array(place + 1))
    keys = key_table(db, task.dst_entity_table, ranked.row[seed, place])
    for name, column in zip(keys.column_names, keys.columns):
        while name in table.column_names or name in ("rank", "score"):
            name = f"{task.dst_entity_table}_{name}"
        table = table.append_column(name, column)
    return table.append_column("score", pa.array(ranked.score[seed, place]))
