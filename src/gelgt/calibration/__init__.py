"""Calibration: how sure a prediction is, learned from validation rows alone.

    scales.py         how large errors are, by prediction
    intervals.py      prediction intervals of regression, split-conformal
    coverage.py       how often intervals hold the label: in all, over time, by entity
    probabilities.py  a monotone map of probabilities, where it helps

Validation is predicted before any of its labels is learned, so its errors are those of unseen rows.
Folds are over entities, because rows of one entity are alike. No torch is imported here.
"""

from gelgt.calibration.coverage import Coverage, coverage
from gelgt.calibration.intervals import PredictionIntervals, check_level
from gelgt.calibration.probabilities import ProbabilityMap, fit_probabilities

__all__ = [
    "Coverage",
    "PredictionIntervals",
    "ProbabilityMap",
    "check_level",
    "coverage",
    "fit_probabilities",
]
