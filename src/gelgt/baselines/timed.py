"""LightGBM's training with an end in time: the best round so far is the result."""

import math
import time
from dataclasses import dataclass
from typing import Any

from gelgt.meter import Work


@dataclass(frozen=True)
class TimedModel:
    """A trained booster, the rounds of it that are used, and whether time ended it."""

    booster: Any
    rounds: int
    is_cut_off: bool


class _Watch:
    """Remembers the best round, and ends training at a moment of `time.perf_counter`."""

    order, before_iteration = 15, False  # before LightGBM's own early stopping

    def __init__(self, deadline: float, rounds: int) -> None:
        self.deadline, self.best, self.rounds, self.is_over = deadline, math.nan, 0, False
        self.work = Work("LightGBM", rounds, "rounds at most")

    def __call__(self, env: Any) -> None:
        import lightgbm

        self.work(1)
        results = env.evaluation_result_list or []
        if not results:
            self.rounds = env.iteration + 1
        else:
            value, is_higher_better = results[0][2], results[0][3]
            is_better = value > self.best if is_higher_better else value < self.best
            if is_better or math.isnan(self.best):
                self.best, self.rounds = value, env.iteration + 1
        if time.perf_counter() > self.deadline and env.iteration + 1 < env.end_iteration:
            self.is_over = True
            raise lightgbm.callback.EarlyStopException(self.rounds - 1, results)


def timed_train(
    parameters: dict[str, Any],
    table: Any,
    rounds: int,
    *,
    held_out: Any = None,
    patience: int = 50,
    deadline: float = math.inf,
) -> TimedModel:
    """Train at most so many rounds, until a held-out set gets no better or time is over.

    Args:
        parameters: Of LightGBM.
        table: What is learned, a `lightgbm.Dataset`.
        rounds: At most.
        held_out: A `lightgbm.Dataset` by whose first metric training stops; None for all rounds.
        patience: Rounds without a better score after which it stops.
        deadline: By `time.perf_counter`; one round is always taken.
    """
    import lightgbm

    watch = _Watch(deadline, rounds)
    options: dict[str, Any] = {"callbacks": [watch]}
    if held_out is not None:
        options["callbacks"].append(lightgbm.early_stopping(patience, verbose=False))
        options["valid_sets"] = [held_out]
    booster = lightgbm.train(parameters, table, rounds, **options)
    used = rounds
    if held_out is not None or watch.is_over:
        used = booster.best_iteration
    return TimedModel(booster, used, watch.is_over)
