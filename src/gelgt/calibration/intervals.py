"""`PredictionIntervals`: split-conformal intervals of a regression.

    score of a row   s = |label - prediction| / scale(prediction)
    interval         prediction ± q · scale(prediction)
    q                the ⌈(n + 1) · level⌉-th smallest of the n scores of the validation rows

For exchangeable rows such an interval holds the label with at least the probability `level`. Two
scores are compared on validation, by folds over entities: `plain` has a scale of 1, `scaled` that
of `ErrorScale`. The one whose intervals are narrower at the same coverage is taken. The scale that
scores a row is learned without the row's entity.

Validation and test are different periods. Where errors grow from one to the other, coverage falls
below the level: `coverage.py` measures that on test.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gelgt.calibration.coverage import LEVELS, Coverage, coverage
from gelgt.calibration.folds import LEAST, folds
from gelgt.calibration.scales import Array, ErrorScale
from gelgt.errors import GelgtError

PLAIN, SCALED = "plain", "scaled"
CHOSEN_AT = 0.9  # level at which widths are compared
# scores that are kept; of more rows every so many, which adds at most 0.05 % of coverage
MOST_SCORES = 2_000
ROUNDING = 1e-9  # of a width, so that the row that gave q lies inside its own interval


@dataclass(frozen=True)
class PredictionIntervals:
    """Intervals of every level, from the scores of validation rows.

    Attributes:
        rows: Validation rows that were scored.
        ranks: Ranks of the scores that are kept, from 1 on.
        scores: Those scores, rising.
        score: ``plain`` or ``scaled``.
        scale: Of errors, by prediction.
        floor: The smallest training label where none is below 0: no interval reaches below it.
        widths: Mean width of each score's intervals on validation, at the level 0.9.
        is_whole: Labels are whole numbers, and so are the ends: nothing lies between the whole
            numbers that an interval holds.
    """

    rows: int
    ranks: tuple[int, ...] = ()
    scores: tuple[float, ...] = ()
    score: str = PLAIN
    scale: ErrorScale = field(default_factory=ErrorScale)
    floor: float | None = None
    widths: Mapping[str, float] = field(default_factory=dict)
    is_whole: bool = False

    @classmethod
    def fit(
        cls,
        predictions: Array,
        labels: Array,
        entity: NDArray[Any],
        floor: float | None = None,
        is_whole: bool = False,
    ) -> "PredictionIntervals":
        """Intervals from validation rows.

        Args:
            predictions: (S,) of a model that has not learned the labels.
            labels: (S,); rows without a finite label are left out.
            entity: (S,) whole numbers that identify entities.
            floor: The least label that there is.
            is_whole: Every label is a whole number.
        """
        usable = np.isfinite(labels) & np.isfinite(predictions)
        predictions, entity = predictions[usable], entity[usable]
        errors = np.abs(labels[usable] - predictions)
        scales = {PLAIN: np.ones(len(errors))}
        if len(errors) >= LEAST:
            scales[SCALED] = _held_out_scales(predictions, errors, entity)
        widths = {
            name: _mean_width(predictions, errors / scale, scale, floor, is_whole)
            for name, scale in scales.items()
            if len(errors) >= LEAST
        }
        chosen = min(widths, key=lambda name: widths[name]) if widths else PLAIN
        ordered = np.sort(errors / scales[chosen])
        places = np.unique(np.linspace(1, len(ordered), min(len(ordered), MOST_SCORES)).astype(int))
        return cls(
            len(ordered),
            tuple(places.tolist()),
            tuple(ordered[places - 1].tolist()),
            chosen,
            ErrorScale.fit(predictions, errors) if chosen == SCALED else ErrorScale(),
            floor,
            widths,
            is_whole,
        )

    def bounds(self, predictions: Array, level: float) -> tuple[Array, Array]:
        """(S,) lower and upper ends of the intervals of a level.

        Raises:
            GelgtError: ``bad_level``, or ``too_few_rows`` for this level.
        """
        half = self.quantile(level) * (1 + ROUNDING) * self.scale(predictions)
        return _ends(predictions, half, self.floor, self.is_whole)

    def quantile(self, level: float) -> float:
        """The score that so many rows do not exceed; see the formula above."""
        check_level(level)
        rank = conformal_rank(self.rows, level)
        if rank > self.rows:
            raise GelgtError(
                "too_few_rows",
                f"The run has {self.rows:,} validation rows with a label: too few for intervals of "
                f"level {level:g}.",
                hint=_reachable(self.rows),
            )
        return self.scores[int(np.searchsorted(self.ranks, rank))]

    def has(self, level: float) -> bool:
        """Whether there are enough rows for a level."""
        return conformal_rank(self.rows, level) <= self.rows

    def coverage(
        self, predictions: Array, labels: Array, times: NDArray[np.int64], entity: NDArray[Any]
    ) -> dict[str, Coverage]:
        """How intervals do on rows with labels, for each of `LEVELS` that can be had."""
        measured = {
            f"{level:g}": coverage(self.bounds(predictions, level), labels, times, entity, level)
            for level in LEVELS
            if self.has(level)
        }
        return {level: each for level, each in measured.items() if each is not None}

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> "PredictionIntervals":
        """The intervals of `to_dict`, or a GelgtError."""
        try:
            scale = {name: tuple(map(float, content["scale"][name])) for name in ("at", "size")}
            kept = tuple(map(int, content["ranks"])), tuple(map(float, content["scores"]))
            if len(kept[0]) != len(kept[1]) or len(scale["at"]) != len(scale["size"]):
                raise ValueError("lists of different lengths")
            if (kept[0][-1] if kept[0] else 0) != content["rows"]:
                raise ValueError("the largest score is missing")
            return cls(
                int(content["rows"]),
                *kept,
                str(content["score"]),
                ErrorScale(**scale),
                None if content["floor"] is None else float(content["floor"]),
                dict(content["widths"]),
                bool(content.get("is_whole", False)),  # older runs do not say
            )
        except (KeyError, TypeError, ValueError) as error:
            raise GelgtError(
                "bad_run", f"The run's intervals are not readable ({error}).", hint="Train again."
            ) from None


def check_level(level: float) -> None:
    """Raises ``bad_level`` for anything but a share between 0 and 1."""
    is_number = isinstance(level, int | float) and not isinstance(level, bool)
    if is_number and 0 < level < 1:
        return
    meant = f"Did you mean {level / 100:g}?" if is_number and 1 < level < 100 else "Give 0.9, say."
    raise GelgtError(
        "bad_level",
        f"The level of an interval must lie between 0 and 1, got {level!r}.",
        hint=meant,
    )


def conformal_rank(rows: int, level: float) -> int:
    """⌈(n + 1) · level⌉, without what rounding adds to a whole number.

    Example:
        >>> conformal_rank(9, 0.9), conformal_rank(99, 0.9), conformal_rank(100, 0.9)
        (9, 90, 91)
    """
    return math.ceil(round((rows + 1) * level, 9))


def _reachable(rows: int) -> str:
    """The highest level that so many rows allow, rounded down."""
    highest = math.floor(1000 * rows / (rows + 1)) / 1000
    if highest <= 0:
        return "Choose split times that leave rows with labels for validation, and train again."
    return (
        f"Ask for at most {highest:g}, or train again with split times that leave more rows for "
        "validation."
    )


def _held_out_scales(predictions: Array, errors: Array, entity: NDArray[Any]) -> Array:
    """(S,) the scale of each row, learned from the rows of other folds."""
    scales = np.full(len(errors), float(errors.mean()) or 1.0)
    for learned, held_out in folds(entity):
        scale = ErrorScale.fit(predictions[learned], errors[learned])
        scales[held_out] = scale(predictions[held_out])
    return scales


def _mean_width(
    predictions: Array, scores: Array, scale: Array, floor: float | None, is_whole: bool
) -> float:
    rank = conformal_rank(len(scores), CHOSEN_AT)
    lower, upper = _ends(predictions, np.sort(scores)[rank - 1] * scale, floor, is_whole)
    return float((upper - lower).mean())


def _ends(
    predictions: Array, half: Array, floor: float | None, is_whole: bool
) -> tuple[Array, Array]:
    lower, upper = predictions - half, predictions + half
    if is_whole:
        lower, upper = np.ceil(lower - ROUNDING) + 0.0, np.floor(upper + ROUNDING) + 0.0  # no -0
    if floor is not None:
        lower = np.maximum(lower, np.minimum(floor, predictions))
    return lower, upper
