"""A small online shop as a SQLite file, with known truths planted in it.

    from gelgt.demo import shop
    demo = shop("shop.db")
    demo.url, demo.sentence, demo.oracle_auc

It is what `gelgt demo` shows and what tests learn from: a model that uses time and two-hop content
should come near `oracle_auc`, one that only counts events cannot."""

import sqlite3
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gelgt.demo.hazard import WINDOW_DAYS, label_probability, satisfaction
from gelgt.demo.rows import shop_rows
from gelgt.demo.schema import TABLES, create_statement
from gelgt.demo.simulate import DAY, START, iso
from gelgt.errors import GelgtError
from gelgt.files import whole_file
from gelgt.metrics import roc_auc

SENTENCE = f"PREDICT COUNT(orders.*, 0, {WINDOW_DAYS}, days) > 0 FOR EACH customers.id"

TRUTHS = {
    "repurchase_lag": "A satisfied customer orders again around 30 days after the last order: a "
    "bump in time, neither sooner nor later.",
    "two_hop_quality": "products.quality of the last order decides: above 0.5 the customer "
    "restocks at 30 days, below it the customer returns at no particular time and stays away "
    "around day 30. Products are two hops from a customer (order_items).",
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


@dataclass(frozen=True)
class Truth:
    """What is true of the task at one seed time, customer by customer."""

    customer_ids: npt.NDArray[np.int64]
    days_since: npt.NDArray[np.float64]  # since the last order; NaN before the first
    satisfied: npt.NDArray[np.float64]  # 0 … 1, from the quality of the last order
    probability: npt.NDArray[np.float64]  # of the label, exact
    labels: npt.NDArray[np.bool_]  # what happened


@dataclass(frozen=True)
class Shop:
    """A shop on disk, its task and what is true about it."""

    path: Path
    val_timestamp: str
    test_timestamp: str
    test_seed_times: tuple[str, ...]
    oracle_auc: float
    sentence: str = SENTENCE

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


def shop(path: str | Path, *, customers: int = 2000, days: int = 730, seed: int = 0) -> Shop:
    """Write the demo shop as a SQLite file with declared keys.

    Planted truths (`Shop.truths`): a repurchase lag of about 30 days, gated by the quality of the
    products bought, which is two hops away from the customer, and much more frequent events that
    carry no signal. All that the simulation reads is in the database, so the oracle is attainable
    in principle; `hazard.py` has the formula.

    `oracle_auc` is the ROC-AUC of the exact probability against what happened, over all customers
    who have signed up by each of `test_seed_times`: the test timestamp and every further window
    that fits before the last row, as in RelBench.

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
    rows = shop_rows(customers, days, np.random.default_rng(seed))
    _write(target, rows)

    # The last customer signs up on the last day, so that windows up to the day before are complete.
    windows = max(1, round(days / 10 / WINDOW_DAYS))
    test_day = days - 1 - windows * WINDOW_DAYS
    seeds = tuple(_day(test_day + WINDOW_DAYS * i) for i in range(windows))
    truths = [_truth(target, at) for at in seeds]
    area = roc_auc(
        np.concatenate([t.labels for t in truths]), np.concatenate([t.probability for t in truths])
    )
    return Shop(
        path=target,
        val_timestamp=_day(test_day - windows * WINDOW_DAYS),
        test_timestamp=_day(test_day),
        test_seed_times=seeds,
        oracle_auc=float("nan") if area is None else area,
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


def _truth(path: Path, at: str) -> Truth:
    until = _day(_seconds(at) // DAY + WINDOW_DAYS)
    connection = sqlite3.connect(path)
    try:
        rows = connection.execute(_LAST_ORDER, {"at": at, "until": until}).fetchall()
    finally:
        connection.close()
    ids, since, quality, labels = zip(*rows)
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
