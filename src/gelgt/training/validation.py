"""The validation rows that a network is scored on after an epoch, and its scores."""

from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gelgt.config import TrainConfig
from gelgt.errors import GelgtError
from gelgt.metrics import score
from gelgt.training.data import TrainingData


def validated(data: TrainingData, config: TrainConfig) -> NDArray[np.int64]:
    """The places of the rows: all, or some at equal distances."""
    count = len(data.seeds["val"])
    if count <= config.eval_rows:
        return np.arange(count)
    return np.linspace(0, count - 1, config.eval_rows).astype(np.int64)


def validation_scores(
    data: TrainingData, config: TrainConfig, predicted: NDArray[Any], epoch: int
) -> dict[str, float]:
    """The scores of predictions of these rows after an epoch.

    Raises:
        GelgtError: a prediction is no number, because training has diverged.
    """
    if not np.isfinite(predicted).all():
        raise _diverged(config, epoch)
    return score(data.target.task_type, data.labels("val")[validated(data, config)], predicted)


def check_loss(config: TrainConfig, loss: float, epoch: int) -> None:
    """Raise where the loss of an epoch, which need not be whole, is no number."""
    if not isfinite(loss):
        raise _diverged(config, epoch)


def _diverged(config: TrainConfig, epoch: int) -> GelgtError:
    return GelgtError(
        "diverged",
        f"The training of the network has diverged in epoch {epoch}: what it predicts is no "
        "number.",
        hint=f"Lower train.rate, which is {config.rate:g}.",
    )
