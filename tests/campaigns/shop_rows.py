"""Small random databases for sentences, as plain rows: what the slow reference reads and what gelgt
opens. Few distinct times make ties and rows exactly at the ends of windows; keys, times and values
may be missing."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

Row = dict[str, Any]
START = datetime(2024, 1, 30)  # months of 31, 29 and 30 days follow
KEYS = {"users": "uid", "shops": "sid", "orders": "oid", "items": "iid", "notes": "nid"}
TIMES = {"users": "joined", "orders": "placed", "notes": "written"}
PARENTS = {
    "users": {"shop": "shops"},
    "orders": {"user": "users", "shop": "shops"},
    "items": {"order": "orders"},
    "notes": {"order": "orders"},
}
WORDS = ["", "a", "A", "b%", "it's", 'say "x"', "/* x", "{timedelta}", "é", "a_b", "null", "-- b"]
TYPES: dict[str, dict[str, str]] = {
    "users": {"score": "number", "team": "text", "vip": "boolean", "joined": "time"},
    "shops": {"size": "number"},
    "orders": {"amount": "number", "channel": "text", "gift": "boolean", "due": "time"},
    "items": {"weight": "number"},
    "notes": {"stars": "number", "mood": "text"},
}


@dataclass(frozen=True)
class Rows:
    """The rows of each table by their keys."""

    tables: dict[str, dict[Any, Row]]

    def time(self, table: str, row: Row) -> datetime | None:
        """When a row comes; None: never (`is_timeless` tables have no time at all)."""
        if table in TIMES:
            return row[TIMES[table]]
        if table == "items":
            order = self.tables["orders"].get(row["order"])
            return None if order is None else order["placed"]
        return None

    @cached_property
    def dated(self) -> dict[str, list[tuple[datetime, Row]]]:
        """The rows of each table that come at some time, with it."""
        return {
            name: [(came, row) for row in rows.values() if (came := self.time(name, row))]
            for name, rows in self.tables.items()
        }

    def frames(self) -> dict[str, pd.DataFrame]:
        return {name: pd.DataFrame(list(rows.values())) for name, rows in self.tables.items()}

    def schema(self) -> dict[str, Any]:
        return {
            name: {"pkey": KEYS[name], "time_col": TIMES.get(name), "fkeys": PARENTS.get(name, {})}
            for name in self.tables
        }


def random_rows(random: np.random.Generator) -> Rows:
    def some(values: Any, chance: float = 0.12) -> Any:
        return None if random.random() < chance else values

    def pick(options: list[Any]) -> Any:
        return options[random.integers(len(options))]

    def moment() -> datetime:
        hours = int(random.integers(0, 60)) * 24 + int(pick([0, 0, 0, 7]))
        return START + timedelta(hours=hours)

    def number() -> float:
        return float(random.integers(-20, 40)) / 4

    shops = {i: {"sid": i, "size": some(number())} for i in range(3)}
    names = [f"{word}{i}" for i, word in enumerate(WORDS)]
    users = {
        name: {
            "uid": name,
            "joined": moment(),
            "shop": some(pick(list(shops))),
            "score": some(number()),
            "team": some(pick(WORDS)),
            "vip": some(bool(random.random() < 0.5)),
        }
        for name in names
    }
    orders = {
        i: {
            "oid": i,
            "placed": some(moment(), 0.06),
            "user": some(pick(names)),
            "shop": some(pick(list(shops))),
            "amount": some(number()),
            "channel": some(pick(WORDS)),
            "gift": some(bool(random.random() < 0.5)),
            "due": some(moment()),
        }
        for i in range(100, 170)
    }
    items = {
        i: {"iid": i, "order": some(pick(list(orders))), "weight": some(number())}
        for i in range(90)
    }
    notes = {
        i: {
            "nid": i,
            "written": some(moment(), 0.06),
            "order": some(pick(list(orders))),
            "stars": some(number()),
            "mood": some(pick(WORDS)),
        }
        for i in range(60)
    }
    return Rows({"shops": shops, "users": users, "orders": orders, "items": items, "notes": notes})
