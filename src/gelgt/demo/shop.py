"""A small online shop as a SQLite file, with known truths planted in it.

    from gelgt.demo import shop
    demo = shop("shop.db")
    demo.url, demo.sentence, demo.oracle_auc

It is what `gelgt demo` shows and what tests learn from: a model that uses time and two-hop content
should come near `oracle_auc`, one that only counts events cannot."""

import sqlite3
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gelgt.demo.hazard import WINDOW_DAYS, label_probability, satisfaction
from gelgt.demo.rows import shop_rows
from gelgt.demo.schema import TABLES, create_statement
from gelgt.demo.simulate import DAY, START, iso
from gelgt.demo.taste import Taste
from gelgt.errors import GelgtError
from gelgt.files import whole_file
from gelgt.metrics import roc_auc, score

SENTENCE = f"PREDICT COUNT(orders.*, 0, {WINDOW_DAYS}, days) > 0 FOR EACH customers.id"
LIST_SENTENCE = (
    f"PREDICT LIST_DISTINCT(order_items.product_sku, 0, {WINDOW_DAYS}, days) FOR EACH customers.id"
)

TRUTHS = {
    "repurchase_lag": "A satisfied customer orders again around 30 days after the last order: a "
    "bump in time, neither sooner nor later.",
    "two_hop_quality": "products.quality of the last order decides: above 0.5 the customer "
    "restocks at 30 days, below it the customer returns at no particular time and stays away "
    "around day 30. Products are two hops from a customer (order_items).",
    "favourite_category": "Four of five products after the first one are from the category of the "
    "first product that the customer ever bought; within a category popularity decides.",
    "noise": "page_pings (the most frequent event), visits, support_tickets and every other "
    "column carry no signal.",
}

# For every customer who has signed up by a time: days since the last order, the mean quality of
# its products, and whether an order follows within the window.
_LAST_ORDER = """
    WITH latest AS (
        SELECT customer_id, id, MAX(placed_at) AS placed_at
        FROM orders WHERE placed_at < :at GROUP BY customer_id
    )
    SELECT
        customers.id,
        julianday(date(:at)) - julianday(date(latest.placed_at)),
        AVG(products.quality),
        EXISTS (
            SELECT 1 FROM orders
            WHERE orders.customer_id = customers.id
              AND orders.placed_at > :at AND orders.placed_at <= :until
        )
    FROM customers
    LEFT JOIN latest ON latest.customer_id = customers.id
    LEFT JOIN order_items ON order_items.order_id = latest.id
    LEFT JOIN products ON products.sku = order_items.product_sku
    WHERE customers.signed_up_at <= :at
    GROUP BY customers.id ORDER BY customers.id"""

# For every customer who has signed up by a time and buys within the window: the first product ever
# bought before it, and each product bought within it.
_BASKETS = """
    WITH first AS (
        SELECT customer_id, product_sku, MIN(id) FROM order_items
        WHERE ordered_at < :at GROUP BY customer_id
    )
    SELECT DISTINCT customers.id, first.product_sku, order_items.product_sku
    FROM customers
    JOIN order_items ON order_items.customer_id = customers.id
    LEFT JOIN first ON first.customer_id = customers.id
    WHERE customers.signed_up_at <= :at
      AND order_items.ordered_at > :at AND order_items.ordered_at <= :until
    ORDER BY customers.id"""


@dataclass(frozen=True)
class Truth:
    """What is true of the task at one seed time, customer by customer."""

    customer_ids: npt.NDArray[np.int64]
    days_since: npt.NDArray[np.float64]  # since the last order; NaN before the first
    satisfied: npt.NDArray[np.float64]  # 0 … 1, from the quality of the last order
    probability: npt.NDArray[np.float64]  # of the label, exact
    labels: npt.NDArray[np.bool_]  # what happened


@dataclass(frozen=True)
class Baskets:
    """What is true of the recommendation at one seed time, for customers who buy something.

    Attributes:
        customer_ids: (C,)
        chances: (C, P) exact chance of each product to be the next line.
        is_bought: (C, P) what was bought within the window.
    """

    customer_ids: npt.NDArray[np.int64]
    chances: npt.NDArray[np.float64]
    is_bought: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Shop:
    """A shop on disk, its two tasks and what is true about them."""

    path: Path
    val_timestamp: str
    test_timestamp: str
    test_seed_times: tuple[str, ...]
    skus: tuple[str, ...]
    taste: Taste
    sentence: str = SENTENCE
    list_sentence: str = LIST_SENTENCE

    @property
    def url(self) -> str:
        return f"sqlite:///{self.path}"

    @property
    def truths(self) -> dict[str, str]:
        """The planted effects, in words."""
        return dict(TRUTHS)

    def truth(self, at: str) -> Truth:
        """The exact label probability of every customer at a seed time (midnight), read from the
        rows before it."""
        return _truth(self.path, at)

    def baskets(self, at: str) -> Baskets:
        """The exact chances of all products, `skus`, for every customer who buys within the window
        of a seed time, read from the rows before it."""
        place = {sku: number for number, sku in enumerate(self.skus)}
        rows = _query(self.path, _BASKETS, at)
        ids, which = np.unique([row[0] for row in rows], return_inverse=True)
        favourite = np.full(len(ids), -1)
        is_bought = np.zeros((len(ids), len(self.skus)), dtype=bool)
        for customer, (_, first, bought) in zip(which.tolist(), rows):
            if first is not None:
                favourite[customer] = self.taste.category[place[first]]
            is_bought[customer, place[bought]] = True
        return Baskets(ids, self.taste.chances(favourite), is_bought)

    @cached_property
    def oracle_auc(self) -> float:
        """ROC-AUC of the exact probability against what happened, over all customers who have
        signed up by each of `test_seed_times`."""
        truths = [self.truth(at) for at in self.test_seed_times]
        area = roc_auc(
            np.concatenate([t.labels for t in truths]),
            np.concatenate([t.probability for t in truths]),
        )
        return float("nan") if area is None else area

    def oracle_map(self, k: int = 10) -> float:
        """Mean average precision of the k products with the largest exact chance, over all
        customers who buy within the window of the test timestamp, the only one at which RelBench
        evaluates lists."""
        baskets = self.baskets(self.test_timestamp)
        best = np.argsort(-baskets.chances, 1, kind="stable")[:, :k]
        labels = np.full((len(best), baskets.is_bought.sum(1).max(initial=1)), -1)
        for row, is_bought in enumerate(baskets.is_bought):
            bought = np.flatnonzero(is_bought)
            labels[row, : len(bought)] = bought
        return score("recommendation", labels, best)["map"]


def shop(path: str | Path, *, customers: int = 2000, days: int = 730, seed: int = 0) -> Shop:
    """Write the demo shop as a SQLite file with declared keys.

    Planted truths (`Shop.truths`): a repurchase lag of about 30 days, gated by the quality of the
    products bought, which is two hops away from the customer, and much more frequent events that
    carry no signal. All that the simulation reads is in the database, so the oracle is attainable
    in principle; `hazard.py` has the formula.

    `oracle_auc` is scored at `test_seed_times`: the test timestamp and every further window that
    fits before the last row, as in RelBench. A second task, `list_sentence`, asks which products a
    customer buys next (`taste.py`); its oracle is `oracle_map`.

    Args:
        path: The file; it is replaced if it exists.
        customers: Number of customers; the last one signs up on the last day and never orders.
        days: Length of the simulation, at least 100; the last two tenths are validation and test.
        seed: The same seed gives the same rows.

    Returns:
        The shop: where it is, its task, split times and truths.
    """
    if customers < 2 or days < 100:
        raise GelgtError(
            "bad_shop",
            f"A shop of {customers} customers and {days} days is too small.",
            hint="Use at least 2 customers and 100 days.",
        )
    target = Path(path).absolute()
    rows, taste = shop_rows(customers, days, np.random.default_rng(seed))
    _write(target, rows)

    # The last customer signs up on the last day, so that windows up to the day before are complete.
    windows = max(1, round(days / 10 / WINDOW_DAYS))
    test_day = days - 1 - windows * WINDOW_DAYS
    seeds = tuple(_day(test_day + WINDOW_DAYS * i) for i in range(windows))
    return Shop(
        path=target,
        val_timestamp=_day(test_day - windows * WINDOW_DAYS),
        test_timestamp=_day(test_day),
        test_seed_times=seeds,
        skus=tuple(str(row[0]) for row in rows["products"]),
        taste=taste,
    )


def _day(day: int) -> str:
    return iso(np.array([day * DAY]))[0]


def _seconds(text: str) -> int:
    return int((np.datetime64(text, "s") - START).astype(np.int64))


def _write(target: Path, rows: dict[str, list[tuple[object, ...]]]) -> None:
    with whole_file(target) as temporary:
        _fill(temporary, rows)


def _fill(path: Path, rows: dict[str, list[tuple[object, ...]]]) -> None:
    connection = sqlite3.connect(path)
    try:
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        for table in TABLES.values():
            connection.execute(create_statement(table, "sqlite"))
            marks = ", ".join("?" * len(table.columns))
            connection.executemany(f"INSERT INTO {table.name} VALUES ({marks})", rows[table.name])
        connection.execute("CREATE INDEX orders_by_customer ON orders (customer_id, placed_at)")
        connection.execute("CREATE INDEX order_items_by_order ON order_items (order_id)")
        connection.commit()
    finally:
        connection.close()


def _query(path: Path, query: str, at: str) -> list[tuple[Any, ...]]:
    """Rows of a query about the window that begins at a seed time."""
    until = _day(_seconds(at) // DAY + WINDOW_DAYS)
    connection = sqlite3.connect(path)
    try:
        return connection.execute(query, {"at": at, "until": until}).fetchall()
    finally:
        connection.close()


def _truth(path: Path, at: str) -> Truth:
    ids, since, quality, labels = zip(*_query(path, _LAST_ORDER, at))
    days_since = np.array(since, dtype=np.float64)
    satisfied = np.where(
        np.isnan(days_since), 0.0, satisfaction(np.array(quality, dtype=np.float64))
    )
    return Truth(
        np.array(ids),
        days_since,
        satisfied,
        label_probability(days_since, satisfied),
        np.array(labels, dtype=bool),
    )
