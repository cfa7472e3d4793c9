"""What happens in the demo shop: who signs up, orders and visits when, drawn day by day.

Every draw comes from one `numpy.random.Generator`, so a seed fixes the rows. `rows.py` makes tables
of it."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gelgt.demo.hazard import order_probability, satisfaction
from gelgt.demo.taste import Taste

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

START = np.datetime64("2024-01-01T00:00:00", "s")
DAY = 86_400


class Orders(NamedTuple):
    """N orders in the order of their times, and the L lines that they consist of.

    Attributes:
        buyer: (N,) number of the customer.
        placed: (N,) seconds since the shop opened.
        line_order: (L,) number of the order.
        line_product: (L,) number of the product.
    """

    buyer: Ints
    placed: Ints
    line_order: Ints
    line_product: Ints


def iso(seconds: Ints) -> list[str]:
    """Seconds since the shop opened as `YYYY-MM-DD HH:MM:SS`."""
    return [
        text.replace("T", " ") for text in np.datetime_as_string(START + seconds, unit="s").tolist()
    ]


def signup_seconds(customers: int, days: int, rng: np.random.Generator) -> Ints:
    """A third was there from the first day, most came over time, and the last one too late to
    order."""
    day = np.where(
        rng.random(customers) < 0.35, 0, rng.integers(0, max(1, int(days * 0.85)), customers)
    )
    day[-1] = days - 1
    return day * DAY + rng.integers(8 * 3600, 20 * 3600, customers)


def draw_orders(
    signup: Ints, days: int, quality: Floats, taste: Taste, rng: np.random.Generator
) -> Orders:
    """Orders, drawn day by day with the probabilities of `hazard.py`, of products of `taste.py`."""
    since = np.full(len(signup), np.nan)  # days since the last order
    satisfied = np.zeros(len(signup))
    favourite = np.full(len(signup), -1)  # category of the first product
    buyers, times, lines, products = [], [], [], []
    orders = 0
    for day in range(days):
        since += 1
        chance = np.where(signup // DAY < day, order_probability(since, satisfied), 0.0)
        who = rng.permutation(np.flatnonzero(rng.random(len(signup)) < chance))
        seconds = np.sort(rng.integers(7 * 3600, 23 * 3600, len(who)))
        per_order = rng.integers(1, 4, len(who))
        line = np.repeat(np.arange(len(who)), per_order)
        first = np.cumsum(per_order) - per_order  # line of each order
        opening = taste.lines(favourite[who], rng)
        favourite[who] = np.where(favourite[who] < 0, taste.category[opening], favourite[who])
        product = taste.lines(favourite[who][line], rng)
        product[first] = opening
        satisfied[who] = satisfaction(np.bincount(line, quality[product], len(who)) / per_order)
        since[who] = 0
        buyers.append(who)
        times.append(day * DAY + seconds)
        lines.append(orders + line)
        products.append(product)
        orders += len(who)
    return Orders(*(np.concatenate(each) for each in (buyers, times, lines, products)))


def draw_events(
    signup: Ints, days: int, rate: float, rng: np.random.Generator
) -> tuple[Ints, Ints]:
    """Customer and time of events without a cause, in time order: a Poisson process whose rate
    differs from customer to customer."""
    span = days * DAY - signup
    per_day = rate * rng.lognormal(0.0, 0.5, len(signup))
    who = np.repeat(np.arange(len(signup)), rng.poisson(per_day * span / DAY))
    seconds = signup[who] + (rng.random(len(who)) * span[who]).astype(np.int64)
    order = np.lexsort((who, seconds))
    return who[order], seconds[order]
