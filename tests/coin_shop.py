"""A shop whose customers leave, and whose orders are shipped, delivered or cancelled, by the toss
of a coin: what is filled in afterwards tells which, and nothing else does."""

import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

START, DAYS = np.datetime64("2023-01-01", "s"), 500
VAL, TEST = "2024-01-20", "2024-03-10"
SPLITS = {"val_timestamp": VAL, "test_timestamp": TEST}
# each date with what is filled along with it, and what that is before
DATES: dict[tuple[str, str], dict[str, Any]] = {
    ("customers", "left_at"): {"leave_reason": None, "is_active": True, "refund": 0},
    ("orders", "shipped_at"): {"tracking": None, "rating": None},
    ("orders", "delivered_at"): {"tracking": None, "rating": None},
    ("orders", "cancelled_at"): {},
}
TIMES = {"customers": "signed_up_at", "orders": "placed_at"}
Frames = dict[str, pd.DataFrame]
where: Any = np.where  # whose types know no None


def _seconds(days: Any) -> Any:
    return (days * 86_400).astype("timedelta64[s]")


def coin_shop(customers: int = 400, orders: int = 2_400, seed: int = 0) -> Frames:
    """Customers and orders as they are at the end."""
    rng = np.random.default_rng(seed)
    end = START + np.timedelta64(DAYS, "D")
    signed_up = np.sort(START + _seconds(rng.random(customers) * DAYS * 0.8))
    left = signed_up + _seconds(5 + rng.random(customers) * DAYS / 2)
    has_left = (rng.random(customers) < 0.5) & (left < end)
    reasons = rng.choice(["price", "moved", "other"], customers)
    people = pd.DataFrame(
        {
            "id": np.arange(customers) + 1,
            "signed_up_at": signed_up,
            "region": rng.choice(["north", "south", "east"], customers),
            "nickname": where(rng.random(customers) < 0.5, "x", None),
            "left_at": pd.Series(left).where(has_left),
            "leave_reason": where(has_left, reasons, None),
            "is_active": ~has_left,
            "refund": where(has_left, rng.integers(1, 50, customers), 0),
        }
    )
    return {"customers": people, "orders": _orders(people, orders, end, rng)}


def _orders(
    people: pd.DataFrame, count: int, end: np.datetime64, rng: np.random.Generator
) -> pd.DataFrame:
    who = rng.integers(0, len(people), count)
    since = people["signed_up_at"].to_numpy()[who]
    placed = since + (rng.random(count) * (end - since).astype(float)).astype("timedelta64[s]")
    order = np.argsort(placed, kind="stable")
    who, placed = who[order], placed[order]
    shipped = placed + _seconds(rng.random(count) * 10)
    delivered = shipped + _seconds(rng.random(count) * 15)
    cancelled = placed + _seconds(rng.random(count) * 40)
    is_shipped = (shipped < end) & (rng.random(count) < 0.8)
    is_delivered = is_shipped & (delivered < end)
    is_cancelled = ~is_shipped & (cancelled < end) & (rng.random(count) < 0.7)
    states = ["delivered", "shipped", "cancelled"]
    return pd.DataFrame(
        {
            "id": np.arange(count) + 1,
            "customer_id": who + 1,
            "placed_at": placed,
            "amount": (rng.random(count) * 500).round(2),
            "channel": rng.choice(["web", "app"], count),
            "shipped_at": pd.Series(shipped).where(is_shipped),
            "tracking": where(is_shipped, [f"T{i % 97}" for i in range(count)], None),
            "delivered_at": pd.Series(delivered).where(is_delivered),
            "rating": where(is_delivered, rng.integers(1, 6, count), np.nan),
            "cancelled_at": pd.Series(cancelled).where(is_cancelled),
            "status": np.select([is_delivered, is_shipped, is_cancelled], states, "new"),
        }
    )


def as_of(frames: Frames, at: pd.Timestamp) -> Frames:
    """The shop before a time: later rows do not exist, and later dates are not filled."""
    made = {name: frame[frame[TIMES[name]] < at].copy() for name, frame in frames.items()}
    late = {(t, c): made[t][c] >= at for t, c in DATES}
    for (table, date), filled in DATES.items():
        for column, rest in {date: None, **filled}.items():
            frame = made[table]
            frame.loc[late[table, date], column] = np.nan if column == "rating" else rest
    return made


def write_sqlite(frames: Frames, path: Path) -> str:
    """A SQLite file with these tables; its address."""
    path.unlink(missing_ok=True)
    with sqlite3.connect(path) as connection:
        for name, frame in frames.items():
            frame.to_sql(name, connection, index=False)
    connection.close()
    return f"sqlite:///{path}"


def write_csv(frames: Frames, folder: Path) -> str:
    """A folder with a CSV file of each table."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, frame in frames.items():
        frame.to_csv(folder / f"{name}.csv", index=False)
    return str(folder)


def leaving_shop(customers: int = 500, seed: int = 0) -> Frames:
    """Customers who order at a constant rate until they leave, which nothing announces: of those
    who are there, all are alike. What is filled in afterwards tells who leaves."""
    rng = np.random.default_rng(seed)
    joined = np.sort(rng.random(customers) * DAYS * 0.5)
    left = joined + rng.exponential(90, customers)
    has_left = left < DAYS
    who = np.repeat(np.arange(customers), rng.poisson((np.minimum(left, DAYS) - joined) / 4))
    placed = joined[who] + rng.random(len(who)) * (np.minimum(left, DAYS) - joined)[who]
    people = pd.DataFrame(
        {
            "id": np.arange(customers) + 1,
            "signed_up_at": START + _seconds(joined),
            "left_at": pd.Series(START + _seconds(left)).where(has_left),
            "leave_reason": where(has_left, rng.choice(["price", "moved"], customers), None),
            "is_active": ~has_left,
            "refund": where(has_left, rng.integers(1, 50, customers), 0),
            "state": where(
                has_left, rng.choice(["gone", "lost"], customers), rng.choice(["a", "b"], customers)
            ),
        }
    )
    people.loc[has_left, "state"] = rng.choice(["gone", "lost"], has_left.sum())
    amounts = (rng.random(len(who)) * 500).round(2)
    orders = pd.DataFrame(
        {"customer_id": who + 1, "placed_at": START + _seconds(placed), "amount": amounts}
    )
    # written when the customer has left, and only then
    settled = has_left[who] & (rng.random(len(who)) < 0.5)
    orders["settled_at"] = pd.Series(START + _seconds(left[who])).where(settled)
    orders["settled_by"] = where(settled, rng.choice(["x", "y"], len(who)), None)
    orders = orders.sort_values("placed_at", ignore_index=True)
    orders.insert(0, "id", np.arange(len(orders)) + 1)
    return {"customers": people, "orders": orders}
