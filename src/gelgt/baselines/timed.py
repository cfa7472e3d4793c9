"""LightGBM's training with an end in time: the best round so far is the result."""

import math
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from threading import Lock
from typing import Any

from gelgt.meter import Work

# Of a score, below which it is no better: threads add it up in another order each time.
TIE = 1e-12
# When LightGBM sets up a training, it writes column names into its datasets. Threads share these,
# and would damage names that they write at once.
_SETUP = Lock()


@dataclass(frozen=True)
class TimedModel:
    """A trained booster, the rounds of it that are used, and whether time ended it."""

    booster: Any
    rounds: int
    is_cut_off: bool


class _Watch:
    """Remembers the best round, and ends training where rounds get no better, at a moment of
    `time.perf_counter`, or when it is told to."""

    order, before_iteration = 15, False

    def __init__(
        self, deadline: float, rounds: int, patience: int, is_stopped: Callable[[], bool]
    ) -> None:
        self.deadline, self.patience, self.is_stopped = deadline, patience, is_stopped
        self.best, self.rounds, self.is_over = math.nan, 0, False
        self.work = Work("LightGBM", rounds, "rounds at most")

    def __call__(self, env: Any) -> None:
        import lightgbm

        self.work(1)
        done, results = env.iteration + 1, env.evaluation_result_list or []
        if not results:
            self.rounds = done
        elif self._is_better(results[0][2], results[0][3]):
            self.best, self.rounds = results[0][2], done
        is_late = self.is_stopped() or time.perf_counter() > self.deadline
        self.is_over = is_late and done < env.end_iteration
        if self.is_over or done - self.rounds >= self.patience:
            raise lightgbm.callback.EarlyStopException(self.rounds - 1, results)

    def _is_better(self, value: float, is_higher_better: bool) -> bool:
        if math.isnan(self.best):
            return True
        more = value - self.best if is_higher_better else self.best - value
        return more > TIE * abs(self.best)


class _Begun:
    """Ends the setup of a training before its first round."""

    order, before_iteration = 0, True

    def __init__(self, setup: ExitStack) -> None:
        self.setup = setup

    def __call__(self, env: Any) -> None:
        self.setup.close()


def timed_train(
    parameters: dict[str, Any],
    table: Any,
    rounds: int,
    *,
    held_out: Any = None,
    patience: int = 50,
    deadline: float = math.inf,
    is_stopped: Callable[[], bool] = lambda: False,
) -> TimedModel:
    """Train at most so many rounds, until a held-out set gets no better or time is over.

    Args:
        parameters: Of LightGBM.
        table: What is learned, a `lightgbm.Dataset`.
        rounds: At most.
        held_out: A `lightgbm.Dataset` by whose first metric training stops; None for all rounds.
        patience: Rounds without a better score after which it stops.
        deadline: By `time.perf_counter`; one round is always taken.
        is_stopped: Asked after every round; true ends it as the deadline does.
    """
    import lightgbm

    watch = _Watch(deadline, rounds, patience, is_stopped)
    sets = [] if held_out is None else [held_out]
    with ExitStack() as setup:
        setup.enter_context(_SETUP)
        callbacks = [_Begun(setup), watch]
        booster = lightgbm.train(parameters, table, rounds, valid_sets=sets, callbacks=callbacks)
    return TimedModel(booster, watch.rounds, watch.is_over)
