"""Which weights networks are left with behind their last epoch: the mean of the best epochs'."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from gelgt.metrics import SMALLER_IS_BETTER, is_better, uncertainty
from gelgt.training.weights import mean_weights

if TYPE_CHECKING:
    from gelgt.training.fit import Trainer

# How much worse than the best epoch the mean of several may be, in uncertainties of its score.
TOLERANCE = 0.25

Scores = dict[str, float]


def choose_weights(
    trainers: "Sequence[Trainer]", validate: "Callable[[Sequence[Trainer]], Sequence[Scores]]"
) -> None:
    """Take the mean of the best epochs' weights, unless its validation score is worse than that of
    the best epoch by more than the tolerance.

    Args:
        trainers: Of networks whose epochs have ended.
        validate: Scores some of them, with their weights as they are.
    """
    mixed = [trainer for trainer in trainers if _take_mean(trainer)]
    judged = [trainer for trainer in mixed if trainer.goal.is_validated]
    worse = [t for t, scores in zip(judged, validate(judged)) if _is_worse(t, scores)]
    for trainer in mixed:
        if trainer in worse:
            trainer.model.load_state_dict(trainer.best.weights[0])
        else:
            trainer.state.averaged = sorted(epoch for epoch, _ in trainer.state.best_epochs)


def _take_mean(trainer: "Trainer") -> bool:
    """Take the mean, or the best epoch's weights where there is no other or no score; whether it
    was the mean."""
    state, weights = trainer.state, trainer.best.weights
    if not weights:
        return False
    state.averaged = []
    is_scored = not trainer.goal.is_validated or state.best is not None
    is_mean = len(weights) > 1 and is_scored
    trainer.model.load_state_dict(mean_weights(weights) if is_mean else weights[0])
    return is_mean


def _is_worse(trainer: "Trainer", scores: Scores) -> bool:
    target, best = trainer.data.target, trainer.state.best
    assert best is not None, "an epoch without a score is no best one"
    value = scores[target.metric]
    doubt = TOLERANCE * uncertainty(target.task_type, best, trainer.data.labels("val"))
    at_best = value - doubt if target.metric in SMALLER_IS_BETTER else value + doubt
    return is_better(target.metric, best, at_best)
