"""`Budget`: the seconds of a run, divided over its phases.

The limit is that of the whole run. Whatever a phase leaves goes to those after it, and each phase
ends by itself when its time is over, with the best that it has:

    data, columns   what they take; nothing can be done without them
    baselines       a fifth of the limit at most, and never more than a third of what is left
    trees           a third of what is left behind the baselines, retraining included; half of it
                    where they grow while networks are trained
    columns network half of what is left behind the trees, retraining included; it mostly ends
                    before, and where it does not it gains more by time than networks do
    networks        what is left, but for the retraining of the trees and the scoring of validation
                    and test, their own retraining included; where they come first, beside a GPU,
                    they spare a third for the columns network; what the history takes longer than
                    they do is taken from that first, and then from their retraining

More than the usual limit gives more columns and more networks.
"""

import math
import time
from dataclasses import dataclass, field

from gelgt.config import TIME_LIMIT
from gelgt.presets import RunConfig

BASELINES, BASELINES_OF_REST = 0.2, 1 / 3
TREES, TREES_BESIDE = 1 / 3, 1 / 2
COLUMNS, COLUMNS_SPARED = 1 / 2, 1 / 3
SCORING = 0.3  # of the limit, at most: where scoring takes longer than that, the limit is too short
RESERVE = 0.1  # of what is left, for scoring and writing
MOST_COLUMNS = 1_000
MOST_NETWORKS = 10
LEAST = 0.5  # seconds of a phase for which nothing is left: each ends after its first step


@dataclass
class Budget:
    """What is left of the time of a run.

    Attributes:
        limit: Seconds; None for no limit.
        began: When the run began, by `time.perf_counter`.
        cut_off: What could not be done in time, a sentence each.
    """

    limit: float | None
    began: float = field(default_factory=time.perf_counter)
    cut_off: list[str] = field(default_factory=list)

    @property
    def left(self) -> float:
        """Seconds until the limit; infinite without one."""
        if self.limit is None:
            return math.inf
        return max(0.0, self.began + self.limit - time.perf_counter())

    def baselines(self) -> float | None:
        """Seconds for the baselines."""
        if self.limit is None:
            return None
        return max(LEAST, min(BASELINES * self.limit, BASELINES_OF_REST * self.left))

    def trees(self, is_beside: bool = False) -> float | None:
        """Seconds for the trees, retraining included, which others may use too."""
        share = TREES_BESIDE if is_beside else TREES
        return None if self.limit is None else max(LEAST, share * self.left)

    def columns(self, after: float = 0.0) -> float | None:
        """Seconds for the columns network, retraining included, where so many are needed after
        it."""
        if self.limit is None:
            return None
        return max(LEAST, min(COLUMNS * self.left, (1 - RESERVE) * self.left - after))

    def spared(self) -> float:
        """Seconds that networks leave to the columns network where they come first: on a GPU, where
        it takes a few."""
        return 0.0 if self.limit is None else COLUMNS_SPARED * self.left

    def networks(self, scoring: float, retraining: float = 0.0) -> float | None:
        """Seconds for the networks, retraining included, where scoring and the retraining of trees
        take so many after them."""
        if self.limit is None:
            return None
        after = min(scoring, SCORING * self.limit) + retraining
        return max(LEAST, (1 - RESERVE) * (self.left - after))


def is_longer(config: RunConfig) -> bool:
    """Whether a user has given a run more time than it usually has."""
    limit = config.train.time_limit
    return config.origins.get("train.time_limit") == "set" and (limit or 0.0) > TIME_LIMIT


def columns_budget(config: RunConfig) -> int:
    """How many history columns a run reads at most."""
    columns = config.model.history_columns
    limit = config.train.time_limit
    if limit is None or not is_longer(config) or _is_set(config, "model.history_columns"):
        return columns
    return max(columns, min(MOST_COLUMNS, round(columns * math.sqrt(limit / TIME_LIMIT))))


def networks_budget(config: RunConfig, usual: int) -> int:
    """How many networks are trained at most, while there is time."""
    if not is_longer(config) or _is_set(config, "train.ensemble"):
        return usual
    return max(usual, MOST_NETWORKS)


def _is_set(config: RunConfig, name: str) -> bool:
    return config.origins.get(name) in ("set", "derived")
