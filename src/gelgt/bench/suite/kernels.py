"""The AUC of many resamples in one pass over rows that are sorted once."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gelgt.compiled import compiled


@compiled
def resampled_auc(
    entity: NDArray[np.int64],
    is_positive: NDArray[np.bool_],
    ends_tie: NDArray[np.bool_],
    counts: NDArray[np.int64],
) -> Any:
    """(D,) the AUC where each row counts as often as its entity was drawn; NaN where a draw has one
    class only.

    Args:
        entity: (S,) of each row, by rising prediction.
        is_positive: (S,) in the same order.
        ends_tie: (S,) whether the next row has another prediction.
        counts: (D, E) how often each entity was drawn.
    """
    areas = np.empty(len(counts))
    for draw in range(len(counts)):
        area, positives, negatives, tied_positives, tied_negatives = 0.0, 0, 0, 0, 0
        for row in range(len(entity)):
            count = counts[draw, entity[row]]
            if is_positive[row]:
                tied_positives += count
            else:
                tied_negatives += count
            if ends_tie[row]:  # a tie counts by half
                area += tied_positives * (negatives + tied_negatives / 2)
                positives += tied_positives
                negatives += tied_negatives
                tied_positives, tied_negatives = 0, 0
        both = float(positives) * float(negatives)
        areas[draw] = area / both if both else np.nan
    return areas
