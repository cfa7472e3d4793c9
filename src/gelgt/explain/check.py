"""Whether an explanation holds: rows are removed and added in its order, and the prediction is made
again each time.

    comprehensiveness   how far the prediction falls without the first p % of the rows
    sufficiency         how far it stays away with the first p % of the rows alone
    area                between the curve of adding and the curve of removing, over all p; the
                        larger, the earlier the rows come that matter

Beside it stand the same areas of the order by attention and of random orders. Signs are such that
larger is better where rows move the prediction away from what it is without them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gelgt.explain.neighbourhood import Neighbourhood
from gelgt.explain.stand_ins import ABSENT, ITSELF
from gelgt.explain.variants import Floats, States, Variants

SHARES = (1, 5, 10, 20, 50)  # per cent of the rows that are shown
CURVE = (0, 1, 2, 5, 10, 15, 20, 30, 50, 75, 100)  # per cent at which the curves are measured
RANDOM = 6  # random orders
_STEPS = np.diff(np.array(CURVE) / 100)
_TRAPEZOIDS = (np.append(_STEPS, 0.0) + np.append(0.0, _STEPS)) / 2  # weights of the points


@dataclass(frozen=True)
class Curves:
    """One order: predictions after removing and after adding the first p % of the rows, at
    `CURVE`."""

    removed: Floats
    added: Floats
    sign: float

    @cached_property
    def area(self) -> float:
        return float(self.sign * (self.added - self.removed) @ _TRAPEZOIDS)

    def comprehensiveness(self, share: int) -> float:
        return float(self.sign * (self.removed[0] - self.removed[CURVE.index(share)]))

    def sufficiency(self, share: int) -> float:
        return float(self.sign * (self.removed[0] - self.added[CURVE.index(share)]))


@dataclass(frozen=True)
class Check:
    """The curves of an explanation, beside those of other orders.

    Attributes:
        own: In the explanation's order.
        attention: In the order of the network's attention; None where it shows none.
        random: In random orders.
    """

    own: Curves
    attention: Curves | None
    random: tuple[Curves, ...]

    @property
    def area_random(self) -> float:
        return float(np.mean([curves.area for curves in self.random]))

    @cached_property
    def is_better_than_random(self) -> bool:
        """Whether the area lies beyond what random orders reach by chance."""
        areas = np.array([curves.area for curves in self.random])
        beyond = areas.mean() + 2 * areas.std(ddof=1) / np.sqrt(len(areas))
        return bool(self.own.area > beyond + 1e-9)

    def to_dict(self) -> dict[str, object]:
        own = self.own
        return {
            "comprehensiveness": {str(p): own.comprehensiveness(p) for p in SHARES},
            "sufficiency": {str(p): own.sufficiency(p) for p in SHARES},
            "area": own.area,
            "area_attention": None if self.attention is None else self.attention.area,
            "area_random": self.area_random,
            "is_better_than_random": self.is_better_than_random,
        }


@dataclass(frozen=True)
class Checking:
    """A check whose states are known, so that they can go through the model beside others.

    Attributes:
        orders: Of the units, by name.
        states: (orders · 2 · points, U) each order's curve of removing, then of adding.
        sign: 1 where rows raise the prediction.
    """

    orders: Mapping[str, NDArray[np.int64]]
    states: States
    sign: float

    def done(self, variants: Variants) -> Check:
        values = variants.predict(self.states).reshape(len(self.orders), 2, len(CURVE))
        curves = {n: Curves(v[0], v[1], self.sign) for n, v in zip(self.orders, values)}
        return Check(
            curves["own"],
            curves.get("attention"),
            tuple(curves[name] for name in curves if name.startswith("random")),
        )


def nothing(hood: Neighbourhood) -> States:
    """(U,) the entity as it is, and nothing else."""
    alone = np.full(hood.num_units, ABSENT, np.int64)
    alone[0] = ITSELF
    return alone


def checking(
    variants: Variants, score: Floats, attention: Floats | None, rng: np.random.Generator
) -> Checking:
    """Check the order of scores (U,), which are effects, beside that of attention (U,)."""
    units = np.arange(1, variants.hood.num_units)
    whole, empty = variants.predict(np.stack([variants.full, nothing(variants.hood)]))
    sign = 1.0 if whole >= empty else -1.0
    orders: dict[str, NDArray[np.int64]] = {"own": _order(units, sign * score[1:])}
    if attention is not None:
        orders["attention"] = _order(units, attention[1:])
    for place in range(RANDOM):
        orders[f"random {place}"] = rng.permutation(units)
    return Checking(orders, _curve_states(variants, orders), sign)


def _order(units: NDArray[np.int64], score: Floats) -> NDArray[np.int64]:
    return units[np.argsort(-score, kind="stable")]


def _curve_states(variants: Variants, orders: Mapping[str, NDArray[np.int64]]) -> States:
    every = np.stack(list(orders.values()))  # (orders, U - 1)
    rank = np.full((len(every), variants.hood.num_units), -1)  # the seed is never removed
    np.put_along_axis(rank, every, np.arange(every.shape[1])[None], 1)
    counts = np.ceil(every.shape[1] * np.array(CURVE) / 100).astype(np.int64)[:, None]
    is_first = rank[:, None] < counts  # (orders, points, U)
    is_removed = np.stack([is_first & (rank >= 0)[:, None], ~is_first], 1)
    return np.where(is_removed, ABSENT, ITSELF).reshape(-1, rank.shape[1])
