"""What validation says about how sure predictions are, before any of its labels is learned:
intervals of values, a map of probabilities; and how the intervals do on test."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from gelgt.calibration import Coverage, PredictionIntervals, ProbabilityMap, fit_probabilities
from gelgt.calibration.probabilities import NONE
from gelgt.scoring.parts import Parts
from gelgt.training.data import TrainingData
from gelgt.training.job import Job


@dataclass(frozen=True)
class Calibration:
    """What was fitted on validation.

    Attributes:
        intervals: Of a regression.
        probabilities: Of a binary or multiclass task.
    """

    intervals: PredictionIntervals | None = None
    probabilities: ProbabilityMap | None = None

    def applied(self, parts: Parts) -> Parts:
        """The same predictions with calibrated probabilities; those of each part alone stay."""
        if self.probabilities is None:
            return parts
        return replace(parts, together=self.probabilities(parts.together))

    def coverage(self, data: TrainingData, parts: Mapping[str, Parts]) -> dict[str, Coverage]:
        """How intervals do on test, by level."""
        if self.intervals is None or "test" not in parts:
            return {}
        seeds = data.seeds["test"]
        values = parts["test"].together, data.labels("test")
        return self.intervals.coverage(*values, seeds.time, seeds.key)


def calibrate(job: Job, parts: Parts) -> Calibration:
    """Fit on the validation predictions of a model that has not learned validation."""
    data, kind = job.data, job.data.target.task_type
    seeds, labels = data.seeds["val"], data.labels("val")
    if kind == "regression":
        least, is_whole = smallest_label(data), data.target.is_whole
        return Calibration(
            PredictionIntervals.fit(parts.together, labels, seeds.key, least, is_whole)
        )
    if kind not in ("binary_classification", "multiclass_classification"):
        return Calibration()
    is_retrained = job.config.train.retrain or job.options.retrain_all
    probabilities = fit_probabilities(
        parts.together, labels, seeds.key, seeds.time, can_shift=not is_retrained
    )
    if probabilities.kind != NONE:
        job.progress.notice(
            f"probabilities are calibrated by {probabilities.words}: the log loss of "
            f"held-out entities falls by {probabilities.gain:.4f}"
        )
    return Calibration(probabilities=probabilities)


def smallest_label(data: TrainingData) -> float | None:
    """The smallest training label where none is below 0, as of counts and amounts."""
    labels = data.labels("train")
    smallest = float(np.min(labels[np.isfinite(labels)], initial=np.inf))
    return smallest if 0 <= smallest < np.inf else None
