"""`ErrorScale`: how large errors are, by prediction.

Errors of counts and amounts grow with what is predicted. Rows are cut into bins of similar
predictions; between the means of the bins the mean absolute error is interpolated.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
BIN_ROWS = 50  # rows of a bin, whose mean then has an error of about an eighth
MOST_BINS = 20
PRIOR_ROWS = 10  # rows of the mean over all that each bin is mixed with
# of the mean over all: where nearly every label is 0, a bin has next to no error, and one row that
# differs would say that intervals everywhere are hundreds of times too narrow
LEAST_SHARE = 0.1


@dataclass(frozen=True)
class ErrorScale:
    """A piecewise linear function of the prediction, constant beyond its ends.

    Attributes:
        at: Predictions, rising.
        size: The mean absolute error there, above 0.
    """

    at: tuple[float, ...] = (0.0,)
    size: tuple[float, ...] = (1.0,)

    def __call__(self, predictions: Array) -> Array:
        return np.interp(predictions, self.at, self.size)

    @classmethod
    def fit(cls, predictions: Array, errors: Array) -> "ErrorScale":
        """The scale of errors (S,), all at least 0; 1 everywhere where there are none.

        Example:
            >>> predicted = np.repeat([1.0, 10.0], 100)
            >>> scale = ErrorScale.fit(predicted, predicted / 2)
            >>> scale(np.array([1.0, 10.0])).round(1).tolist()
            [0.7, 4.8]
        """
        mean = float(errors.mean()) if len(errors) else 0.0
        if mean <= 0:
            return cls()
        bins = int(np.clip(len(errors) // BIN_ROWS, 1, MOST_BINS))
        edges = np.unique(np.quantile(predictions, np.linspace(0, 1, bins + 1)[1:-1]))
        # equal predictions stay in one bin, those of the commonest value often alone
        place = np.searchsorted(edges, predictions, side="left")
        rows = np.bincount(place, minlength=len(edges) + 1)
        filled = np.flatnonzero(rows)
        at = np.bincount(place, predictions, len(rows))[filled] / rows[filled]
        total = np.bincount(place, errors, len(rows))[filled]
        size = (total + PRIOR_ROWS * mean) / (rows[filled] + PRIOR_ROWS)
        size = np.maximum(size, LEAST_SHARE * mean)
        return cls(tuple(at.tolist()), tuple(size.tolist()))
