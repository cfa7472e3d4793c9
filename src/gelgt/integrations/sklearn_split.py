"""Splits by time: of rows for cross-validation, and of the rows of a fit for early stopping."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import BaseCrossValidator

from gelgt.errors import GelgtError
from gelgt.tasks.times import duration, time_text

if TYPE_CHECKING:
    import pandas as pd

HELD_OUT = 0.1  # of the rows, for validation and again for test


class TimeSplit(BaseCrossValidator):  # type: ignore[misc]  # scikit-learn has no types
    """Folds by the times of X: each is tested on a later period than it is trained on.

    Unlike scikit-learn's `TimeSeriesSplit`, rows need not be sorted, rows of one time are never on
    both sides, and with a `timedelta` no training label reaches into the test period.

    Args:
        n_splits: How many folds; the rows are divided into one part more.
        time_col: The column of X with the times.
        timedelta: How far a label looks ahead, such as ``"30 days"``.

    Example:
        >>> import pandas as pd
        >>> X = pd.DataFrame({"id": 1, "time": pd.date_range("2026-01-01", periods=6)})
        >>> [(train.tolist(), test.tolist()) for train, test in TimeSplit(2).split(X)]
        [([0, 1], [2, 3]), ([0, 1, 2, 3], [4, 5])]
        >>> splits = TimeSplit(2, timedelta="2 days").split(X)
        >>> [(train.tolist(), test.tolist()) for train, test in splits]
        [([0], [2, 3]), ([0, 1, 2], [4, 5])]
    """

    def __init__(self, n_splits: int = 5, *, time_col: str = "time", timedelta: Any = None) -> None:
        self.n_splits = n_splits
        self.time_col = time_col
        self.timedelta = timedelta

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        return self.n_splits

    def split(
        self, X: Any, y: Any = None, groups: Any = None
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Row positions to train and to test on, fold by fold.

        Raises:
            GelgtError: ``too_few_times``.
        """
        times = _times(X[self.time_col])
        window = _window(self.timedelta)
        ordered = np.sort(times)
        places = np.arange(1, self.n_splits + 1) * len(times) // (self.n_splits + 1)
        starts = np.unique(ordered[places])
        if len(starts) < self.n_splits or starts[0] == ordered[0]:
            raise GelgtError(
                "too_few_times",
                f"{len(np.unique(times))} different times are too few for {self.n_splits} folds.",
                hint="Ask for fewer folds, or give labels at more times.",
            )
        ends = [*starts[1:], None]
        for start, end in zip(starts, ends):
            known = times < start if window is None else times + window <= start
            tested = times >= start if end is None else (times >= start) & (times < end)
            yield np.flatnonzero(known), np.flatnonzero(tested)


def held_out(column: "pd.Series[Any]", timedelta: Any) -> tuple["pd.Timestamp", "pd.Timestamp"]:
    """The validation and test time of a fit: a tenth of its rows comes after each, by the rules of
    `gelgt.tasks.frame_split`.

    Raises:
        GelgtError: ``too_few_times``.
    """
    import pandas as pd

    times, window = np.sort(_times(column)), _window(timedelta)
    distinct = np.unique(times)
    test = times[int((1 - HELD_OUT) * len(times))]
    limit = times[int((1 - 2 * HELD_OUT) * len(times))]
    fits = distinct < test if window is None else distinct + window <= test
    earlier = distinct[fits & (distinct <= limit)]
    val = earlier[-1] if len(earlier) else times[0]
    if not np.any(distinct < val if window is None else distinct + window <= val):
        windows = "" if window is None else f" with windows of {timedelta}"
        raise GelgtError(
            "too_few_times",
            f"The labels lie at {len(distinct):,} different times from "
            f"{time_text(times[0])} to {time_text(times[-1])}: too few to hold out the last ones "
            f"for early stopping{windows}.",
            hint="Give labels at three times at least"
            + ("." if window is None else ", a window apart."),
        )
    # Without a window, a label at the split time itself would count as before it.
    before = np.timedelta64(1 if window is None else 0, "us")
    return pd.Timestamp(val - before), pd.Timestamp(test - before)


def _times(column: "pd.Series[Any]") -> "np.ndarray[Any, np.dtype[np.datetime64]]":
    import pandas as pd

    try:
        times = pd.to_datetime(column, utc=True)
    except (TypeError, ValueError) as error:
        raise GelgtError(
            "bad_time",
            f"The column '{column.name}' of X does not hold times: {error}.",
            hint="Convert it with pandas.to_datetime.",
        ) from None
    if times.isna().any():
        raise GelgtError(
            "bad_time",
            f"{int(times.isna().sum()):,} rows of X have no time in '{column.name}'.",
            hint="Fill or drop these rows.",
        )
    return times.dt.tz_localize(None).to_numpy().astype("datetime64[us]")


def _window(timedelta: Any) -> np.timedelta64 | None:
    return None if timedelta is None else np.timedelta64(duration(timedelta), "us")
