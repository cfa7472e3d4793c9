"""A generated database of users, items and links between them, as a Parquet folder: for benchmarks
of recommendations.

    table   rows            time       refers to
    users   links / 20      joined_at  –
    items   as asked for    listed_at  –
    links   as asked for    at         users, items

Users and items are drawn from power laws, times are uniform over two years, and each user comes
back to some of the items it has had.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

CHUNK = 1_000_000
START, SPAN = 1_640_995_200, 2 * 365 * 86_400  # seconds: 2022 and 2023
SKEW = 2.5
SENTENCE = "PREDICT LIST_DISTINCT(links.item_id, 0, 14, days) FOR EACH users.id"


def write_links(folder: Path, destinations: int, links: int, seed: int = 0) -> Path:
    """Write the three tables.

    Args:
        destinations: Rows of `items`.
        links: Rows of `links`.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    users = max(10, links // 20)

    def times(count: int, low: float = 0.0, high: float = 1.0) -> pa.Array:
        seconds = START + (SPAN * rng.uniform(low, high, count)).astype(np.int64)
        return pa.array(seconds * 1_000_000, pa.timestamp("us"))

    pq.write_table(
        pa.table(
            {
                "id": np.arange(users),
                "joined_at": times(users, 0.0, 0.2),
                "age": rng.integers(18, 90, users),
            }
        ),
        folder / "users.parquet",
    )
    pq.write_table(
        pa.table(
            {
                "id": np.arange(destinations),
                "listed_at": times(destinations, 0.0, 0.3),
                "price": rng.lognormal(3, 1, destinations).round(2),
                "kind": rng.integers(0, 50, destinations).astype(str),
            }
        ),
        folder / "items.parquet",
    )

    def chunks() -> Iterator[pa.Table]:
        for start in range(0, links, CHUNK):
            count = min(CHUNK, links - start)
            user = (users * rng.random(count) ** SKEW).astype(np.int64)
            # most items of a user are near a place of its own, some are everyone's
            own = (user * 7_919 + rng.geometric(0.05, count)) % destinations
            popular = (destinations * rng.random(count) ** (2 * SKEW)).astype(np.int64)
            item = np.where(rng.random(count) < 0.6, own, popular)
            yield pa.table(
                {
                    "id": np.arange(start, start + count),
                    "user_id": user,
                    "item_id": item,
                    "at": times(count, 0.3),
                }
            )

    with pq.ParquetWriter(folder / "links.parquet", next(chunks()).schema) as writer:
        for chunk in chunks():
            writer.write_table(chunk)
    return folder
