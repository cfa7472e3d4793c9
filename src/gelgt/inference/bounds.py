"""`bounds_of`: the intervals of a level that a run gives beside its predictions."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gelgt.calibration import check_level
from gelgt.errors import GelgtError
from gelgt.runs.folder import Run

Bounds = Callable[[NDArray[np.float64]], dict[str, pa.Array]]


def bounds_of(run: Run, level: Any) -> Bounds:
    """What turns predictions into the columns ``lower`` and ``upper``.

    Raises:
        GelgtError: ``bad_level``; ``no_interval`` where the run predicts no values;
            ``no_calibration`` for a run that kept nothing to make intervals from; ``too_few_rows``.
    """
    check_level(level)
    kind = run.target.task_type
    if kind != "regression":
        raise GelgtError(
            "no_interval",
            f"'{run.task.get('name')}' is a {kind} task: intervals are of predicted numbers.",
            hint="Leave the interval out."
            if kind == "recommendation"
            else "Leave the interval out: the probabilities say how sure a prediction is.",
        )
    intervals = run.intervals()
    if intervals is None:
        raise GelgtError(
            "no_calibration",
            f"The run {run.folder} has no intervals.json: an older gelgt trained it.",
            hint="Train again to get intervals.",
        )
    intervals.quantile(level)  # raises where there are too few rows

    def columns(predictions: NDArray[np.float64]) -> dict[str, pa.Array]:
        lower, upper = intervals.bounds(predictions, level)
        return {"lower": pa.array(lower), "upper": pa.array(upper)}

    return columns
