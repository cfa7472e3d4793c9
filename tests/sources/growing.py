"""Older and new rows of a small shop, and its schema."""

import random

import pandas as pd

Frames = dict[str, pd.DataFrame]
SCHEMA = {
    "shops": {"pkey": "code", "time_col": None, "fkeys": {}},
    "users": {"pkey": "id", "time_col": "joined_at", "fkeys": {"friend": "users"}},
    "orders": {"pkey": "id", "time_col": "placed_at", "fkeys": {"user": "users", "shop": "shops"}},
    "lines": {"pkey": None, "time_col": None, "fkeys": {"order": "orders"}},
    "tags": {"pkey": ["user", "word"], "time_col": None, "fkeys": {"user": "users"}},
}
DAY = 86_400


def times(seconds: list[int]) -> pd.Series:
    return pd.Series(pd.to_datetime([1_700_000_000 + s for s in seconds], unit="s")).astype(
        "datetime64[us]"
    )


def rows(seed: int, late: bool = False) -> tuple[Frames, Frames]:
    """Older and new rows; the new ones are later and have higher keys unless they come `late`."""
    rng = random.Random(seed)
    frames: list[Frames] = []
    users, orders, shops = 0, 0, ["m", "n"]
    for part, (first, last) in enumerate([(0, 50 * DAY), (0 if late else 51 * DAY, 60 * DAY)]):
        count = rng.randint(1, 30) if part == 0 else rng.randint(0, 10)
        new = list(range(users, users + count))
        known = list(range(users + count))
        more = [] if part == 0 else [rng.choice("abz") + str(i) for i in range(rng.randint(0, 2))]
        shops += more
        bought = list(range(orders, orders + rng.randint(1, 40)))
        pairs = {(rng.choice(new), rng.choice("xyz")) for _ in range(count)}
        frames.append(
            {
                "shops": pd.DataFrame(
                    {"code": pd.Series(shops[:2] if part == 0 else more, dtype="str")}
                ).assign(size=1.5),
                "users": pd.DataFrame(
                    {
                        "id": new,
                        # nobody, somebody, or one who does not exist
                        "friend": pd.array(
                            [rng.choice([None, rng.choice(known), 10**6]) for _ in new], "Int64"
                        ),
                        "joined_at": times([rng.randint(first, last) for _ in new]),
                        "name": pd.Series(
                            [rng.choice(["ann", "bob", None]) for _ in new], dtype="str"
                        ),
                    }
                ),
                "orders": pd.DataFrame(
                    {
                        "id": bought,
                        "user": [rng.choice(known) if known else 0 for _ in bought],
                        "shop": [rng.choice(shops) for _ in bought],
                        "placed_at": times([rng.randint(first, last) for _ in bought]),
                        "amount": [rng.choice([1.0, 2.5, float("nan")]) for _ in bought],
                    }
                ),
                "lines": pd.DataFrame(
                    {
                        "order": [rng.choice(bought) for _ in range(40)],
                        "units": [rng.randint(1, 3) for _ in range(40)],
                    }
                ),
                "tags": pd.DataFrame(
                    {
                        "user": pd.Series([u for u, _ in sorted(pairs)], dtype="int64"),
                        "word": pd.Series([w for _, w in sorted(pairs)], dtype="str"),
                        "weight": 1,
                    }
                ),
            }
        )
        users, orders = users + count, orders + len(bought)
    return frames[0], frames[1]
