"""The 24 tables of the wide database, parents first, and its calendar.

    regions ← countries ← brands, suppliers, stores, customers        lookup tables, without a time
    categories ← categories; employees ← employees                    self references
    customers ← orders ← order_lines ← line_discounts                 a chain of three; the last two
                                                                      are dated by their parents
    customers ← referrals → customers                                 two keys to one table
    visits ← page_views → products; campaigns ← mailings → customers  link tables without a time

The keys have names that `gelgt.open` infers; those of countries and products are texts.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

START = np.datetime64("2020-01-01T00:00:00", "s")
DAY = 86_400
WINDOW = 60 * DAY  # of a label
WINDOWS = 31  # of the database; the labels of the last one are incomplete and not used
VAL, TEST = 24, 27  # windows at which the validation and the test split begin
SENTENCE = "PREDICT COUNT(renewals.*, 0, 60, days) > 0 FOR EACH customers.id"


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        numbers: Numeric columns, keys not counted.
        time: The time column, None for none.
        parents: The parent table of each foreign key.
        planted: The numeric column that the label depends on.
        words: Categorical columns.
        texts: Text columns.
    """

    numbers: int
    time: str | None = None
    parents: Mapping[str, str] = field(default_factory=dict)
    planted: str | None = None
    words: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()


TABLES: Mapping[str, Table] = {
    "regions": Table(2, words=("climate",)),
    "countries": Table(4, None, {"region_id": "regions"}, words=("currency",)),
    "categories": Table(3, None, {"parent_id": "categories"}, words=("season",)),
    "brands": Table(4, None, {"country_code": "countries"}, words=("segment",)),
    "suppliers": Table(6, None, {"country_code": "countries"}, words=("contract",)),
    "carriers": Table(3, words=("mode",)),
    "stores": Table(8, "opened_at", {"country_code": "countries"}, words=("format",)),
    "employees": Table(
        10,
        "hired_at",
        {"store_id": "stores", "manager_id": "employees"},
        planted="skill",
        words=("role",),
    ),
    "customers": Table(
        16,
        "signed_up_at",
        {"country_code": "countries", "home_store_id": "stores"},
        words=("gender", "device"),
    ),
    "products": Table(
        18,
        None,
        {"category_id": "categories", "brand_id": "brands", "supplier_id": "suppliers"},
        words=("colour", "size"),
        texts=("description",),
    ),
    "campaigns": Table(8, "started_at", words=("medium",), texts=("slogan",)),
    "mailings": Table(
        4, None, {"campaign_id": "campaigns", "customer_id": "customers"}, words=("variant",)
    ),
    "orders": Table(
        20,
        "placed_at",
        {"customer_id": "customers", "store_id": "stores", "employee_id": "employees"},
        planted="basket_score",
        words=("status", "channel"),
    ),
    "order_lines": Table(
        14,
        None,
        {"order_id": "orders", "product_sku": "products"},
        planted="fit_score",
        words=("packing",),
    ),
    "line_discounts": Table(
        6, None, {"order_line_id": "order_lines", "campaign_id": "campaigns"}, words=("reason",)
    ),
    "payments": Table(10, "paid_at", {"order_id": "orders"}, words=("method",)),
    "shipments": Table(
        12, "shipped_at", {"order_id": "orders", "carrier_id": "carriers"}, words=("service",)
    ),
    "visits": Table(16, "visited_at", {"customer_id": "customers"}, words=("browser", "source")),
    "page_views": Table(
        8, None, {"visit_id": "visits", "product_sku": "products"}, words=("placement",)
    ),
    "reviews": Table(
        6,
        "created_at",
        {"customer_id": "customers", "product_sku": "products"},
        words=("language",),
        texts=("body",),
    ),
    "tickets": Table(
        8,
        "opened_at",
        {"customer_id": "customers", "employee_id": "employees"},
        words=("topic",),
        texts=("subject",),
    ),
    "ticket_messages": Table(
        4, "sent_at", {"ticket_id": "tickets"}, words=("author",), texts=("message",)
    ),
    "referrals": Table(
        3,
        "created_at",
        {"referrer_customer_id": "customers", "referred_customer_id": "customers"},
        words=("code_type",),
    ),
    "renewals": Table(7, "renewed_at", {"customer_id": "customers"}, words=("plan",)),
}
KEYS = {"countries": "code", "products": "sku"}  # primary keys not named id


def window_start(window: int) -> int:
    """The first second of a window, in seconds since 1970."""
    return int(START.astype(np.int64)) + window * WINDOW
