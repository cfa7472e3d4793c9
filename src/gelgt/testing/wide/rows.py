"""The rows of the wide database: when each one came to be, and which rows it refers to.

A row refers to rows that exist at its time. Customers visit in bursts: the rate of visits of each
customer changes from one window to the next, so that the number in the last window says more than
the number so far.
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gelgt.testing.wide.schema import DAY, WINDOW, WINDOWS, window_start

Ints = NDArray[np.int64]

FIRST, END = window_start(0), window_start(WINDOWS)
SIGN_UPS = 20  # windows in which customers sign up


@dataclass(frozen=True)
class Rows:
    """The rows of a table.

    Attributes:
        count: How many.
        time: (count,) seconds since 1970; None for a table without a time.
        keys: (count,) row numbers of the parent for each foreign key, -1 for null.
    """

    count: int
    time: Ints | None = None
    keys: Mapping[str, Ints] = field(default_factory=dict)

    @property
    def times(self) -> Ints:
        assert self.time is not None
        return self.time


def generator(seed: int, *names: str) -> np.random.Generator:
    """One for each name, so that a change to a table or a column leaves all others as they are."""
    return np.random.default_rng([seed, zlib.crc32("/".join(names).encode())])


def make_rows(scale: float, seed: int) -> dict[str, Rows]:
    """The rows of all tables but `renewals`, which the truth decides."""
    rows = _lookups(scale, seed)
    rows |= _operation(rows, scale, seed)
    rows |= _sales(rows, seed)
    return rows | _contacts(rows, seed) | _marketing(rows, scale, seed)


def _lookups(scale: float, seed: int) -> dict[str, Rows]:
    rng = generator(seed, "lookups")
    countries, categories, brands, suppliers = 30, 60, 80, 60
    products = max(60, round(3000 * scale))
    # the first ten categories have no parent
    parents = np.array([-1] * 10 + [int(rng.integers(0, row)) for row in range(10, categories)])
    return {
        "regions": Rows(6),
        "countries": Rows(countries, keys={"region_id": rng.integers(0, 6, countries)}),
        "categories": Rows(categories, keys={"parent_id": parents}),
        "brands": Rows(brands, keys={"country_code": rng.integers(0, countries, brands)}),
        "suppliers": Rows(suppliers, keys={"country_code": rng.integers(0, countries, suppliers)}),
        "carriers": Rows(8),
        "products": Rows(
            products,
            keys={
                "category_id": rng.integers(0, categories, products),
                "brand_id": rng.integers(0, brands, products),
                "supplier_id": rng.integers(0, suppliers, products),
            },
        ),
    }


def _operation(lookups: Mapping[str, Rows], scale: float, seed: int) -> dict[str, Rows]:
    """Stores, employees, customers and campaigns, each in the order of their times."""
    rng = generator(seed, "operation")
    countries, stores = lookups["countries"].count, 60
    opened = _sorted_times(FIRST - 700 * DAY, FIRST, stores, rng)
    hired = _sorted_times(FIRST - 600 * DAY, END - 300 * DAY, max(40, round(400 * scale)), rng)
    signed_up = _sorted_times(FIRST, FIRST + SIGN_UPS * WINDOW, max(20, round(4000 * scale)), rng)
    started = _sorted_times(FIRST - 10 * DAY, END - DAY, max(20, round(150 * scale)), rng)
    return {
        "stores": Rows(stores, opened, {"country_code": rng.integers(0, countries, stores)}),
        "employees": Rows(
            len(hired),
            hired,
            {"store_id": _existing(opened, hired, rng), "manager_id": _existing(hired, hired, rng)},
        ),
        "customers": Rows(
            len(signed_up),
            signed_up,
            {
                "country_code": rng.integers(0, countries, len(signed_up)),
                "home_store_id": _existing(opened, signed_up, rng),
            },
        ),
        "campaigns": Rows(len(started), started),
    }


def _sales(rows: Mapping[str, Rows], seed: int) -> dict[str, Rows]:
    """Orders with what belongs to them; one in twenty has no employee."""
    rng = generator(seed, "sales")
    customer, placed = _events(rows["customers"].times, 0.75, 0.3, rng)
    employee = _existing(rows["employees"].times, placed, rng)
    orders = Rows(
        len(placed),
        placed,
        {
            "customer_id": customer,
            "store_id": _existing(rows["stores"].times, placed, rng),
            "employee_id": np.where(rng.random(len(placed)) < 0.05, -1, employee),
        },
    )
    order = np.repeat(np.arange(orders.count), 1 + rng.poisson(1.0, orders.count))
    line = np.flatnonzero(rng.random(len(order)) < 0.33)
    campaign = _existing(rows["campaigns"].times, placed[order[line]], rng)
    line, campaign = line[campaign >= 0], campaign[campaign >= 0]
    paid = placed + rng.integers(60, DAY, orders.count)
    shipped_order = np.flatnonzero(rng.random(orders.count) < 0.92)
    shipped = placed[shipped_order] + rng.integers(DAY // 4, 5 * DAY, len(shipped_order))
    carrier = rng.integers(0, rows["carriers"].count, len(shipped_order))
    return {
        "orders": orders,
        "order_lines": Rows(
            len(order),
            keys={"order_id": order, "product_sku": _popular(rows["products"], len(order), rng)},
        ),
        "line_discounts": Rows(len(line), keys={"order_line_id": line, "campaign_id": campaign}),
        "payments": _until_end(paid, {"order_id": np.arange(orders.count)}),
        "shipments": _until_end(shipped, {"order_id": shipped_order, "carrier_id": carrier}),
    }


def _contacts(rows: Mapping[str, Rows], seed: int) -> dict[str, Rows]:
    """Visits, reviews and tickets."""
    rng = generator(seed, "contacts")
    signed_up, products = rows["customers"].times, rows["products"]
    visitor, visited = _events(signed_up, 1.1, 0.8, rng)
    visit = np.repeat(np.arange(len(visited)), rng.poisson(0.65, len(visited)))
    reviewer, reviewed = _events(signed_up, 0.19, 0.3, rng)
    asker, opened = _events(signed_up, 0.13, 0.3, rng)
    ticket = np.repeat(np.arange(len(opened)), 1 + rng.poisson(1.0, len(opened)))
    sent = opened[ticket] + rng.integers(60, 3 * DAY, len(ticket))
    helper = _existing(rows["employees"].times, opened, rng)
    return {
        "visits": Rows(len(visited), visited, {"customer_id": visitor}),
        "page_views": Rows(
            len(visit),
            keys={"visit_id": visit, "product_sku": _popular(products, len(visit), rng)},
        ),
        "reviews": Rows(
            len(reviewed),
            reviewed,
            {"customer_id": reviewer, "product_sku": _popular(products, len(reviewed), rng)},
        ),
        "tickets": Rows(len(opened), opened, {"customer_id": asker, "employee_id": helper}),
        "ticket_messages": _until_end(sent, {"ticket_id": ticket}),
    }


def _marketing(rows: Mapping[str, Rows], scale: float, seed: int) -> dict[str, Rows]:
    """Mailings and referrals."""
    rng = generator(seed, "marketing")
    signed_up = rows["customers"].times
    customer = rng.integers(0, len(signed_up), round(12_000 * scale))
    first = np.searchsorted(rows["campaigns"].times, signed_up[customer])  # since the sign-up
    later = rows["campaigns"].count - first
    campaign = first + (rng.random(len(customer)) * later).astype(np.int64)
    pair = rng.integers(0, len(signed_up), (round(2000 * scale), 2))
    pair = pair[pair[:, 0] != pair[:, 1]]
    both = signed_up[pair].max(1)
    return {
        "mailings": Rows(
            int((later > 0).sum()),
            keys={"campaign_id": campaign[later > 0], "customer_id": customer[later > 0]},
        ),
        "referrals": Rows(
            len(pair),
            both + 1 + (rng.random(len(pair)) * (END - 1 - both)).astype(np.int64),
            {"referrer_customer_id": pair[:, 0], "referred_customer_id": pair[:, 1]},
        ),
    }


def _sorted_times(first: int, end: int, count: int, rng: np.random.Generator) -> Ints:
    return np.sort(rng.integers(first, end, count))


def _existing(parent_times: Ints, times: Ints, rng: np.random.Generator) -> Ints:
    """For each time one of the parents before it, -1 where there is none; parents are sorted."""
    earlier = np.searchsorted(parent_times, times)
    return np.where(earlier > 0, (rng.random(len(times)) * earlier).astype(np.int64), -1)


def _popular(products: Rows, count: int, rng: np.random.Generator) -> Ints:
    """Products by a power law: the first ones are sold most."""
    return (products.count * rng.random(count) ** 2).astype(np.int64)


def _events(
    signed_up: Ints, per_window: float, spread: float, rng: np.random.Generator
) -> tuple[Ints, Ints]:
    """Customer and time of events after the sign-up; `spread` is how much the logarithm of a
    customer's rate changes between windows."""
    customers = len(signed_up)
    change = spread * rng.standard_normal((customers, WINDOWS)) - spread**2 / 2
    rate = per_window * rng.gamma(4.0, 0.25, (customers, 1)) * np.exp(change)
    count = rng.poisson(rate).ravel()  # (customers * windows,)
    cell = np.repeat(np.arange(len(count)), count)
    customer, window = cell // WINDOWS, cell % WINDOWS
    # never at the border of a window, which is a seed time
    time = FIRST + window * WINDOW + rng.integers(1, WINDOW, len(cell))
    is_after = time > signed_up[customer]
    return customer[is_after], time[is_after]


def _until_end(time: Ints, keys: Mapping[str, Ints]) -> Rows:
    inside = time < END
    return Rows(int(inside.sum()), time[inside], {c: rows[inside] for c, rows in keys.items()})
