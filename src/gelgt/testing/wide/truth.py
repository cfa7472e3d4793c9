"""The planted truth: the exact probability that a customer renews in the window after a seed time.

    logit = -0.55 + 1.0 (log(1 + visits in the last 60 days) - 0.75)
                  + 0.75 mean of orders.basket_score, last 180 days              one hop
                  + 1.2 mean of employees.skill over the orders of 180 days      a child's other
                                                                                 parent
                  + 1.6 mean of order_lines.fit_score over these orders          grandchildren

A mean over nothing is 0. The first two parts can be read from the children of the customer. The
last two are two hops away and independent of everything nearer. Nothing else decides, and chance
does the rest: that the probability itself is known leaves an AUC of about 0.8.

Only rows before the seed time count, and sums are over whole thousandths, so that the probability
is the same, bit for bit, whether or not later rows exist. It is exact at the borders of windows,
where the task has its seed times; labels between them mix two windows.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gelgt.testing.wide.schema import DAY

BIAS = -0.55
NEAR = {"visits": 1.0, "basket": 0.75}
FAR = {"skill": 1.2, "fit": 1.6}
TYPICAL_VISITS = 0.75  # mean of log(1 + visits in a window)
THOUSANDTHS = 1000
_SPAN = 2**34  # seconds, more than any time: (customer, time) as one number


@dataclass(frozen=True)
class Truth:
    """What is true of S (customer, seed time) pairs.

    Attributes:
        probability: (S,) of the label, exact.
        one_hop: (S,) the logit as far as the customer's children tell it.
    """

    probability: NDArray[np.float64]
    one_hop: NDArray[np.float64]


@dataclass(frozen=True)
class _Events:
    """Values of customers at times, in the order of both."""

    place: NDArray[np.int64]  # customer * _SPAN + time
    sums: NDArray[np.int64]  # of the values before each event, and of all

    @classmethod
    def of(cls, customer: Any, time: Any, value: Any) -> "_Events":
        """From Arrow columns; rows with a null do not count."""
        columns = pa.table({"c": customer, "t": pc.cast(time, "timestamp[s]"), "v": value})
        columns = columns.drop_null()
        place = columns["c"].to_numpy() * _SPAN + columns["t"].cast("int64").to_numpy()
        order = np.argsort(place, kind="stable")
        values = np.rint(columns["v"].to_numpy()[order] * THOUSANDTHS).astype(np.int64)
        return cls(place[order], np.concatenate([np.zeros(1, np.int64), np.cumsum(values)]))

    def window(
        self, customer: NDArray[np.int64], time: NDArray[np.int64], days: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Number and mean of each customer's values in the days before a time."""
        last = np.searchsorted(self.place, customer * _SPAN + time)
        first = np.searchsorted(self.place, customer * _SPAN + time - days * DAY)
        total = (self.sums[last] - self.sums[first]) / THOUSANDTHS
        return last - first, total / np.maximum(last - first, 1)


def truth(
    tables: Mapping[str, pa.Table], customer: NDArray[np.int64], time: NDArray[np.int64]
) -> Truth:
    """The truth of customers (by their ids) at seed times, in seconds since 1970."""
    orders, lines, visits = tables["orders"], tables["order_lines"], tables["visits"]
    skill = _looked_up(orders["employee_id"], tables["employees"], "id", "skill")
    parent = pc.index_in(lines["order_id"], value_set=orders["id"].combine_chunks())
    events = {
        "basket": _Events.of(orders["customer_id"], orders["placed_at"], orders["basket_score"]),
        "skill": _Events.of(orders["customer_id"], orders["placed_at"], skill),
        "fit": _Events.of(
            orders["customer_id"].take(parent), orders["placed_at"].take(parent), lines["fit_score"]
        ),
    }
    ones = pa.array(np.ones(len(visits)))
    number, _ = _Events.of(visits["customer_id"], visits["visited_at"], ones).window(
        customer, time, 60
    )
    means = {name: part.window(customer, time, 180)[1] for name, part in events.items()}
    one_hop = BIAS + NEAR["visits"] * (np.log1p(number) - TYPICAL_VISITS)
    one_hop = one_hop + NEAR["basket"] * means["basket"]
    logit = one_hop + sum(weight * means[name] for name, weight in FAR.items())
    return Truth(1 / (1 + np.exp(-logit)), one_hop)


def _looked_up(key: Any, parent: pa.Table, parent_key: str, column: str) -> Any:
    """The parent's value for each key, null where there is no such parent."""
    return parent[column].take(pc.index_in(key, value_set=parent[parent_key].combine_chunks()))
