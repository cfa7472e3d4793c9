"""The rows of the demo shop: one function for each table, over what `simulate.py` draws.

Column order follows `schema.py`. The order of the draws is part of the data: another order gives
another shop for the same seed."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from gelgt.demo.simulate import Floats, Ints, Orders, draw_events, draw_orders, iso, signup_seconds
from gelgt.demo.taste import Taste

Rows = list[tuple[Any, ...]]

PRODUCTS = 200
EVENT_RATES = {"visits": 0.06, "support_tickets": 0.003, "page_pings": 0.12}  # mean per day
_DEPARTMENTS = {
    "Kitchen": ("Coffee", "Tea", "Spices"),
    "Bath": ("Soap", "Towels"),
    "Garden": ("Seeds", "Tools", "Soil"),
}
_MATERIALS = ("oak", "linen", "steel", "clay", "cotton", "glass")
_MOODS = ("everyday", "travel", "gift", "family", "slow-morning")
_SUBJECTS = (
    "Where is my parcel?",
    "Wrong item",
    "Invoice, please",
    "Change of address",
    "Größe passt nicht",
)
_BODIES = (
    "Hello, could you look into this?\nThank you",
    "I wrote twice already, no answer.",
    'The box said "fragile", it was not.',
    "Bitte um Rückruf.",
)


class _Keys(NamedTuple):
    """Primary keys of what the simulation numbers from 0."""

    customers: Ints
    orders: Ints
    skus: list[str]


def shop_rows(customers: int, days: int, rng: np.random.Generator) -> tuple[dict[str, Rows], Taste]:
    """All tables of a shop, each a list of rows in the order of its columns, and what decided
    which products were bought; its products come in the order of their rows."""
    signup = signup_seconds(customers, days, rng)
    # keys that are neither consecutive nor in time order
    customer_ids = 10_000 + 7 * rng.permutation(customers)
    skus = [f"SKU-{n:05d}" for n in rng.choice(100_000, PRODUCTS, replace=False)]
    prices = np.round(rng.lognormal(2.8, 0.6, PRODUCTS), 2)
    quality = np.round(rng.beta(0.5, 0.5, PRODUCTS), 3)
    category = rng.integers(0, len(_leaves()), PRODUCTS)
    taste = Taste.draw(category, rng)
    orders = draw_orders(signup, days, quality, taste, rng)
    events = {name: draw_events(signup, days, rate, rng) for name, rate in EVENT_RATES.items()}
    keys = _Keys(customer_ids, 500_000 + 3 * np.arange(len(orders.buyer)), skus)
    rows = {
        "customers": _customers(keys, signup, rng),
        "categories": _categories(),
        "products": _products(keys, category, prices, quality, rng),
        "orders": _order_rows(keys, orders, rng),
        "order_items": _item_rows(keys, orders, prices, rng),
        "visits": _visits(keys, *events["visits"], rng),
        "support_tickets": _tickets(keys, *events["support_tickets"], orders, rng),
        "page_pings": _pings(keys, *events["page_pings"], rng),
    }
    return rows, taste


def _maybe(values: Iterable[Any], missing: float, rng: np.random.Generator) -> Iterator[Any]:
    """The values, some of them null."""
    listed = list(values)
    is_null = rng.random(len(listed)) < missing
    return (None if null else value for value, null in zip(listed, is_null.tolist()))


def _pick(words: tuple[str, ...], size: int, rng: np.random.Generator) -> list[str]:
    return [words[i] for i in rng.integers(0, len(words), size).tolist()]


def _flags(share: float, size: int, rng: np.random.Generator) -> list[bool]:
    return (rng.random(size) < share).tolist()  # type: ignore[no-any-return]


def _customers(keys: _Keys, signup: Ints, rng: np.random.Generator) -> Rows:
    n = len(signup)
    country = _maybe(_pick(("DE", "FR", "NL", "PL", "ES"), n, rng), 0.05, rng)
    birth_year = _maybe(rng.integers(1940, 2007, n).tolist(), 0.2, rng)
    newsletter = _flags(0.4, n, rng)
    return list(zip(keys.customers.tolist(), iso(signup), country, birth_year, newsletter))


def _categories() -> Rows:
    rows: Rows = []
    for parent, (department, names) in enumerate(_DEPARTMENTS.items()):
        rows.append((10 * parent + 10, department, None))
        rows += [
            (10 * parent + 11 + child, name, 10 * parent + 10) for child, name in enumerate(names)
        ]
    return rows


def _leaves() -> list[tuple[int, str]]:
    """Keys and names of the categories that hold products."""
    return [(key, name) for key, name, parent in _categories() if parent is not None]


def _products(
    keys: _Keys, category: Ints, prices: Floats, quality: Floats, rng: np.random.Generator
) -> Rows:
    leaves = _leaves()
    chosen = [leaves[i] for i in category.tolist()]
    materials, moods = _pick(_MATERIALS, PRODUCTS, rng), _pick(_MOODS, PRODUCTS, rng)
    names = [
        f"{material.capitalize()} {name.lower()} no. {i}"
        for i, (material, (_, name)) in enumerate(zip(materials, chosen))
    ]
    texts = [
        f"Our {mood} {name}, packed in {material}; made for every day."
        for mood, name, material in zip(moods, names, materials)
    ]
    descriptions = _maybe(texts, 0.05, rng)
    weight = _maybe(rng.integers(50, 5000, PRODUCTS).tolist(), 0.15, rng)
    refurbished = _flags(0.1, PRODUCTS, rng)
    categories = [key for key, _ in chosen]
    numbers = (prices.tolist(), quality.tolist(), weight, refurbished)
    return list(zip(keys.skus, categories, names, descriptions, *numbers))


def _order_rows(keys: _Keys, orders: Orders, rng: np.random.Generator) -> Rows:
    n = len(orders.buyer)
    buyers = keys.customers[orders.buyer].tolist()
    fee = rng.choice([0.0, 2.95, 4.95], n).tolist()
    coupon = _maybe(_pick(("SPRING", "WELCOME10", "FRIENDS"), n, rng), 0.8, rng)
    channel = _pick(("web", "app", "phone"), n, rng)
    gift = _flags(0.1, n, rng)
    return list(zip(keys.orders.tolist(), buyers, iso(orders.placed), channel, fee, coupon, gift))


def _item_rows(keys: _Keys, orders: Orders, prices: Floats, rng: np.random.Generator) -> Rows:
    line, product = orders.line_order, orders.line_product
    n = len(line)
    paid = np.round(prices[product] * rng.choice([1.0, 0.9], n), 2).tolist()
    order_ids, buyers = keys.orders[line].tolist(), keys.customers[orders.buyer[line]].tolist()
    skus = [keys.skus[p] for p in product.tolist()]
    quantity = rng.integers(1, 4, n).tolist()
    placed = iso(orders.placed[line])
    return list(zip(range(1, n + 1), order_ids, buyers, skus, placed, quantity, paid))


def _visits(keys: _Keys, customer: Ints, seconds: Ints, rng: np.random.Generator) -> Rows:
    n = len(customer)
    visitor = _maybe(keys.customers[customer].tolist(), 0.15, rng)  # null for guests
    viewed = _maybe([keys.skus[p] for p in rng.integers(0, PRODUCTS, n).tolist()], 0.3, rng)
    stay = _maybe(rng.integers(1, 1800, n).tolist(), 0.02, rng)
    device = _pick(("phone", "laptop", "tablet"), n, rng)
    return list(zip(range(1, n + 1), visitor, viewed, iso(seconds), device, stay))


def _tickets(
    keys: _Keys, customer: Ints, seconds: Ints, orders: Orders, rng: np.random.Generator
) -> Rows:
    """Tickets about nothing in particular; about half of them name an earlier order of the
    customer."""
    by_customer: dict[int, list[int]] = {}
    for order, buyer in enumerate(orders.buyer.tolist()):
        by_customer.setdefault(buyer, []).append(order)
    n = len(customer)
    about: list[int | None] = []
    for who, second, names_order in zip(customer.tolist(), seconds.tolist(), _flags(0.6, n, rng)):
        earlier = [o for o in by_customer.get(who, []) if orders.placed[o] < second]
        about.append(int(keys.orders[earlier[-1]]) if names_order and earlier else None)
    body = _maybe(_pick(_BODIES, n, rng), 0.2, rng)
    urgent = _maybe(_flags(0.2, n, rng), 0.1, rng)
    customers, subject = keys.customers[customer].tolist(), _pick(_SUBJECTS, n, rng)
    return list(zip(range(1, n + 1), customers, about, iso(seconds), subject, body, urgent))


def _pings(keys: _Keys, customer: Ints, seconds: Ints, rng: np.random.Generator) -> Rows:
    n = len(customer)
    latency = _maybe(np.round(rng.gamma(2.0, 40.0, n), 1).tolist(), 0.02, rng)
    status = rng.choice([200, 200, 200, 304, 404], n).tolist()
    customers = keys.customers[customer].tolist()
    return list(zip(range(1, n + 1), customers, iso(seconds), latency, status))
