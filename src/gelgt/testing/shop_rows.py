"""The rows of the demo shop: customers simulated day by day, and everything around them.

Every draw comes from one `numpy.random.Generator`, so a seed fixes the rows. Column order follows
`shop_schema`.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from gelgt.testing.shop_hazard import order_probability, satisfaction

Rows = list[tuple[Any, ...]]
Ints = npt.NDArray[np.int64]

START = np.datetime64("2024-01-01T00:00:00", "s")
DAY = 86_400
PRODUCTS = 200
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


def shop_rows(customers: int, days: int, rng: np.random.Generator) -> dict[str, Rows]:
    """All tables of a shop, each a list of rows in the order of its columns."""
    signup = _signup_seconds(customers, days, rng)
    # keys that are neither consecutive nor in time order
    customer_ids = 10_000 + 7 * rng.permutation(customers)
    skus = [f"SKU-{n:05d}" for n in rng.choice(100_000, PRODUCTS, replace=False)]
    prices = np.round(rng.lognormal(2.8, 0.6, PRODUCTS), 2)
    quality = np.round(rng.beta(0.5, 0.5, PRODUCTS), 3)
    buyer, placed, item_order, item_product = _orders(signup, days, quality, rng)
    events = {
        name: _events(signup, days, rate, rng)
        for name, rate in (("visits", 0.06), ("support_tickets", 0.003), ("page_pings", 0.12))
    }
    order_ids = 500_000 + 3 * np.arange(len(buyer))
    return {
        "customers": _customers(customer_ids, signup, rng),
        "categories": _categories(),
        "products": _products(skus, prices, quality, rng),
        "orders": _order_rows(order_ids, customer_ids[buyer], placed, rng),
        "order_items": _item_rows(
            order_ids[item_order],
            customer_ids[buyer[item_order]],
            item_product,
            placed[item_order],
            skus,
            prices,
            rng,
        ),
        "visits": _visits(customer_ids, *events["visits"], skus, rng),
        "support_tickets": _tickets(
            customer_ids, *events["support_tickets"], order_ids, buyer, placed, rng
        ),
        "page_pings": _pings(customer_ids, *events["page_pings"], rng),
    }


def iso(seconds: Ints) -> list[str]:
    """Seconds since the shop opened as `YYYY-MM-DD HH:MM:SS`."""
    return [
        text.replace("T", " ") for text in np.datetime_as_string(START + seconds, unit="s").tolist()
    ]


def _signup_seconds(customers: int, days: int, rng: np.random.Generator) -> Ints:
    """A third was there from the first day, most came over time, and the last one too late to
    order."""
    day = np.where(
        rng.random(customers) < 0.35, 0, rng.integers(0, max(1, int(days * 0.85)), customers)
    )
    day[-1] = days - 1
    return day * DAY + rng.integers(8 * 3600, 20 * 3600, customers)


def _orders(
    signup: Ints, days: int, quality: npt.NDArray[np.float64], rng: np.random.Generator
) -> tuple[Ints, Ints, Ints, Ints]:
    """Buyer and time of each order, order and product of each line, drawn day by day from the
    hazard."""
    since = np.full(len(signup), np.nan)  # days since the last order
    satisfied = np.zeros(len(signup))
    popularity = np.cumsum(rng.lognormal(0.0, 0.7, PRODUCTS))
    popularity /= popularity[-1]
    buyers, times, lines, products = [], [], [], []
    orders = 0
    for day in range(days):
        since += 1
        chance = np.where(signup // DAY < day, order_probability(since, satisfied), 0.0)
        who = rng.permutation(np.flatnonzero(rng.random(len(signup)) < chance))
        seconds = np.sort(rng.integers(7 * 3600, 23 * 3600, len(who)))
        per_order = rng.integers(1, 4, len(who))
        line = np.repeat(np.arange(len(who)), per_order)
        product = np.searchsorted(popularity, rng.random(len(line)))
        satisfied[who] = satisfaction(np.bincount(line, quality[product], len(who)) / per_order)
        since[who] = 0
        buyers.append(who)
        times.append(day * DAY + seconds)
        lines.append(orders + line)
        products.append(product)
        orders += len(who)
    return (
        np.concatenate(buyers),
        np.concatenate(times),
        np.concatenate(lines),
        np.concatenate(products),
    )


def _events(signup: Ints, days: int, rate: float, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Customer and time of events that nothing causes: Poisson with a rate of its own for each
    customer, in time order."""
    span = days * DAY - signup
    per_day = rate * rng.lognormal(0.0, 0.5, len(signup))
    who = np.repeat(np.arange(len(signup)), rng.poisson(per_day * span / DAY))
    seconds = signup[who] + (rng.random(len(who)) * span[who]).astype(np.int64)
    order = np.lexsort((who, seconds))
    return who[order], seconds[order]


def _maybe(values: Iterable[Any], missing: float, rng: np.random.Generator) -> Iterator[Any]:
    listed = list(values)
    gone = rng.random(len(listed)) < missing
    return (None if g else v for v, g in zip(listed, gone.tolist()))


def _pick(words: tuple[str, ...], size: int, rng: np.random.Generator) -> list[str]:
    return [words[i] for i in rng.integers(0, len(words), size).tolist()]


def _flags(share: float, size: int, rng: np.random.Generator) -> list[bool]:
    return (rng.random(size) < share).tolist()  # type: ignore[no-any-return]


def _customers(ids: Ints, signup: Ints, rng: np.random.Generator) -> Rows:
    n = len(ids)
    country = _maybe(_pick(("DE", "FR", "NL", "PL", "ES"), n, rng), 0.05, rng)
    birth_year = _maybe(rng.integers(1940, 2007, n).tolist(), 0.2, rng)
    return list(zip(ids.tolist(), iso(signup), country, birth_year, _flags(0.4, n, rng)))


def _categories() -> Rows:
    rows: Rows = []
    for parent, (department, names) in enumerate(_DEPARTMENTS.items()):
        rows.append((10 * parent + 10, department, None))
        rows += [
            (10 * parent + 11 + child, name, 10 * parent + 10) for child, name in enumerate(names)
        ]
    return rows


def _products(
    skus: list[str],
    prices: npt.NDArray[np.float64],
    quality: npt.NDArray[np.float64],
    rng: np.random.Generator,
) -> Rows:
    leaves = [(key, name) for key, name, parent in _categories() if parent is not None]
    chosen = [leaves[i] for i in rng.integers(0, len(leaves), PRODUCTS).tolist()]
    material, mood = _pick(_MATERIALS, PRODUCTS, rng), _pick(_MOODS, PRODUCTS, rng)
    names = [
        f"{m.capitalize()} {name.lower()} no. {i}"
        for i, (m, (_, name)) in enumerate(zip(material, chosen))
    ]
    descriptions = _maybe(
        [
            f"Our {mood_} {name}, packed in {m}; made for every day."
            for mood_, name, m in zip(mood, names, material)
        ],
        0.05,
        rng,
    )
    weight = _maybe(rng.integers(50, 5000, PRODUCTS).tolist(), 0.15, rng)
    categories = [key for key, _ in chosen]
    return list(
        zip(
            skus,
            categories,
            names,
            descriptions,
            prices.tolist(),
            quality.tolist(),
            weight,
            _flags(0.1, PRODUCTS, rng),
        )
    )


def _order_rows(ids: Ints, buyers: Ints, placed: Ints, rng: np.random.Generator) -> Rows:
    n = len(ids)
    fee = rng.choice([0.0, 2.95, 4.95], n).tolist()
    coupon = _maybe(_pick(("SPRING", "WELCOME10", "FRIENDS"), n, rng), 0.8, rng)
    return list(
        zip(
            ids.tolist(),
            buyers.tolist(),
            iso(placed),
            _pick(("web", "app", "phone"), n, rng),
            fee,
            coupon,
            _flags(0.1, n, rng),
        )
    )


def _item_rows(
    orders: Ints,
    buyers: Ints,
    products: Ints,
    placed: Ints,
    skus: list[str],
    prices: npt.NDArray[np.float64],
    rng: np.random.Generator,
) -> Rows:
    n = len(orders)
    paid = np.round(prices[products] * rng.choice([1.0, 0.9], n), 2).tolist()
    chosen = [skus[p] for p in products.tolist()]
    return list(
        zip(
            range(1, n + 1),
            orders.tolist(),
            buyers.tolist(),
            chosen,
            iso(placed),
            rng.integers(1, 4, n).tolist(),
            paid,
        )
    )


def _visits(ids: Ints, who: Ints, seconds: Ints, skus: list[str], rng: np.random.Generator) -> Rows:
    n = len(who)
    visitor = _maybe(ids[who].tolist(), 0.15, rng)  # guests
    viewed = _maybe([skus[p] for p in rng.integers(0, PRODUCTS, n).tolist()], 0.3, rng)
    stay = _maybe(rng.integers(1, 1800, n).tolist(), 0.02, rng)
    return list(
        zip(
            range(1, n + 1),
            visitor,
            viewed,
            iso(seconds),
            _pick(("phone", "laptop", "tablet"), n, rng),
            stay,
        )
    )


def _tickets(
    ids: Ints,
    who: Ints,
    seconds: Ints,
    order_ids: Ints,
    buyer: Ints,
    placed: Ints,
    rng: np.random.Generator,
) -> Rows:
    """Tickets about nothing in particular; about half of them name an earlier order of the
    customer."""
    own: dict[int, list[int]] = {}
    for order, customer in enumerate(buyer.tolist()):
        own.setdefault(customer, []).append(order)
    about: list[int | None] = []
    for customer, second, named in zip(who.tolist(), seconds.tolist(), _flags(0.6, len(who), rng)):
        earlier = [o for o in own.get(customer, []) if placed[o] < second]
        about.append(int(order_ids[earlier[-1]]) if named and earlier else None)
    n = len(who)
    body = _maybe(_pick(_BODIES, n, rng), 0.2, rng)
    urgent = _maybe(_flags(0.2, n, rng), 0.1, rng)
    return list(
        zip(
            range(1, n + 1),
            ids[who].tolist(),
            about,
            iso(seconds),
            _pick(_SUBJECTS, n, rng),
            body,
            urgent,
        )
    )


def _pings(ids: Ints, who: Ints, seconds: Ints, rng: np.random.Generator) -> Rows:
    n = len(who)
    latency = _maybe(np.round(rng.gamma(2.0, 40.0, n), 1).tolist(), 0.02, rng)
    return list(
        zip(
            range(1, n + 1),
            ids[who].tolist(),
            iso(seconds),
            latency,
            rng.choice([200, 200, 200, 304, 404], n).tolist(),
        )
    )
