"""What drives a customer of the demo shop to order, and the exact probability of the task's label.

A customer orders at most once a day. With Δ the days since the last order, q the mean quality of
its products, s = sigmoid(20 (q - 0.5)) and G(x, w) = exp(-(x / w)²), the probability of an order on
a day is

    IDLE + RESTOCK · s · G(Δ - 30, 5) + ROAM · (1 - s) · (1 - G(Δ - 30, 10))        and FIRST before
                                                                                    the first order

A satisfied customer restocks around day 30 and rarely orders otherwise; a disappointed one comes
back at no particular time and stays away just when the others restock. So the same age of the last
order means opposite things, and only the products, two steps away, tell which. No order within the
window depends on anything but this path of Δ without an order, so the probability of the label is a
closed form: one minus the product of the daily chances of no order.
"""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

WINDOW_DAYS = 10
LAG_DAYS = 30.0
LAG_WIDTH = 5.0
AVOID_WIDTH = 10.0
RESTOCK = 0.4
ROAM = 0.04
IDLE = 0.002
FIRST = 0.03


def satisfaction(quality: npt.ArrayLike) -> Floats:
    """0 … 1 from the mean quality of the products of an order: almost a switch at 0.5."""
    return 1.0 / (1.0 + np.exp(-20.0 * (np.asarray(quality, dtype=np.float64) - 0.5)))


def order_probability(days_since: npt.ArrayLike, satisfied: npt.ArrayLike) -> Floats:
    """Probability of an order on one day; `days_since` is NaN before the first order."""
    delta = np.asarray(days_since, dtype=np.float64) - LAG_DAYS
    s = np.asarray(satisfied, dtype=np.float64)
    restock = RESTOCK * s * np.exp(-((delta / LAG_WIDTH) ** 2))
    roam = ROAM * (1.0 - s) * (1.0 - np.exp(-((delta / AVOID_WIDTH) ** 2)))
    return np.where(np.isnan(delta), FIRST, IDLE + restock + roam)


def label_probability(days_since: npt.ArrayLike, satisfied: npt.ArrayLike) -> Floats:
    """Probability of at least one order within `WINDOW_DAYS`, where the first of these days lies
    `days_since` after the last order."""
    first = np.asarray(days_since, dtype=np.float64)
    without = np.ones(np.broadcast(first, satisfied).shape)
    for day in range(WINDOW_DAYS):
        without *= 1.0 - order_probability(first + day, satisfied)
    return 1.0 - without
