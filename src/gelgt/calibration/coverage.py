"""`coverage`: how often intervals hold the label, in all, over time and by entity."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gelgt.calibration.scales import Array

LEVELS = (0.8, 0.9, 0.95)  # that are measured on test
MOST_SLICES = 12
CHANCE = 0.05  # an entity is below the level where chance alone would be so low this rarely


@dataclass(frozen=True)
class TimeSlice:
    """Rows of neighbouring seed times; one seed time where there are few."""

    first: str
    last: str
    rows: int
    coverage: float


@dataclass(frozen=True)
class EntityCoverage:
    """Entities whose own rows are covered too rarely.

    Attributes:
        entities: With enough rows to tell.
        below: The share of them that is covered less often than the level, by more than chance
            (a binomial test of each at 5 %).
        by_chance: The share that there would be if every row were covered with the probability
            `level`, independently of the others.
    """

    entities: int
    below: float
    by_chance: float


@dataclass(frozen=True)
class Coverage:
    """How intervals of one level did."""

    coverage: float
    mean_width: float
    rows: int
    times: tuple[TimeSlice, ...]
    by_entity: EntityCoverage | None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def coverage(
    bounds: tuple[Array, Array],
    labels: Array,
    times: NDArray[np.int64],
    entity: NDArray[Any],
    level: float,
) -> Coverage | None:
    """The coverage of intervals (lower, upper) on labels; None where no label is finite.

    Args:
        times: (S,) seconds since 1970.
        entity: (S,) what identifies entities.
        level: That the intervals are of.
    """
    usable = np.flatnonzero(np.isfinite(labels))
    if not len(usable):
        return None
    lower, upper, labels = bounds[0][usable], bounds[1][usable], labels[usable]
    is_inside = (labels >= lower) & (labels <= upper)
    return Coverage(
        float(is_inside.mean()),
        float((upper - lower).mean()),
        len(usable),
        tuple(_slices(is_inside, times[usable])),
        _by_entity(is_inside, entity[usable], level),
    )


def _slices(is_inside: NDArray[np.bool_], times: NDArray[np.int64]) -> list[TimeSlice]:
    slices = []
    distinct = np.unique(times)
    for group in np.array_split(distinct, min(len(distinct), MOST_SLICES)):
        rows = (times >= group[0]) & (times <= group[-1])
        first, last = (str(np.datetime64(int(time), "s")) for time in (group[0], group[-1]))
        slices.append(TimeSlice(first, last, int(rows.sum()), float(is_inside[rows].mean())))
    return slices


def _by_entity(
    is_inside: NDArray[np.bool_], entity: NDArray[Any], level: float
) -> EntityCoverage | None:
    """None where no entity has enough rows to tell."""
    from scipy.stats import binom

    place = np.unique(entity, return_inverse=True)[1]
    rows = np.bincount(place)
    inside = np.bincount(place, is_inside).astype(np.int64)
    # the largest count that is below the level: P(at most so many) is below 5 %
    most = binom.ppf(CHANCE, rows, level).astype(np.int64)
    most = np.where(binom.cdf(most, rows, level) < CHANCE, most, most - 1)
    can_tell = most >= 0
    if not can_tell.any():
        return None
    rows, inside, most = rows[can_tell], inside[can_tell], most[can_tell]
    by_chance = float(binom.cdf(most, rows, level).mean())
    return EntityCoverage(len(rows), float((inside <= most).mean()), by_chance)
