"""Graphs without a database behind them: small ones written out by hand, large ones for benchmarks.

`large_graph` has three tables. `users` and `items` are timeless hubs with skewed degrees, `events`
(98 % of the rows) are timed and name a user, an item and, half of them, an earlier event. The first
item is a hub that a set share of all events names.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gelgt.graph import NEVER, TIMELESS, Graph
from gelgt.graph.arrays import create_array
from gelgt.graph.build import finish_graph

YEAR = 365 * 86_400


def write_graph(
    folder: Path,
    times: Mapping[str, Sequence[int | None] | int],
    keys: Sequence[tuple[str, str, str, Sequence[int | None]]] = (),
) -> Graph:
    """A graph from plain lists.

    Args:
        folder: An empty folder.
        times: For each table the times of its rows in seconds (None: a row without a time), or the
            number of rows of a timeless table.
        keys: (child, column, parent, parent rows): for each row of the child a row of the parent,
            or None.

    Example:
        write_graph(folder, {"users": 2, "orders": [10, 20, 30]}, [("orders", "user_id", "users",
        [0, 0, 1])])
    """
    rows = {name: value if isinstance(value, int) else len(value) for name, value in times.items()}
    offsets = dict(
        zip(rows, np.concatenate([[0], np.cumsum(list(rows.values()))]).astype(int).tolist())
    )
    node_time: list[int] = []
    for value in times.values():
        node_time += (
            [TIMELESS] * value
            if isinstance(value, int)
            else [NEVER if t is None else t for t in value]
        )
    ordered = [key for name in rows for key in keys if key[0] == name]
    parents: list[int] = []
    for name in rows:
        table_keys = [key for key in ordered if key[0] == name]
        for i in range(rows[name]):
            rows_of_parents = [(key[2], key[3][i]) for key in table_keys]
            parents += [
                -1 if row is None else offsets[parent] + row for parent, row in rows_of_parents
            ]
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "node_time.npy", np.array(node_time, np.int64))
    np.save(folder / "parents.npy", np.array(parents, np.int32))
    finish_graph(folder, rows, [(child, column, parent) for child, column, parent, _ in ordered])
    return Graph(folder)


def large_graph(
    folder: Path,
    rows: int = 14_000_000,
    *,
    hub: int = 1_000_000,
    skew: float = 2.0,
    degree: int = 100,
    seed: int = 0,
) -> Graph:
    """A graph of about `rows` nodes, streamed to disk.

    Args:
        hub: Events that name the first item.
        skew: Users and items are drawn as n · u^skew with uniform u: 1 is even, larger is more
            skewed.
        degree: Events of a user, and of an item, on average; small is a sparse graph, large a dense
            one.
    """
    rng = np.random.default_rng(seed)
    events = int(rows / (1 + 2 / degree))
    others = max(1, events // degree)
    sizes = {"users": others, "items": others, "events": events}
    folder.mkdir(parents=True, exist_ok=True)
    node_time = create_array(folder / "node_time.npy", (2 * others + events,), np.int64)
    node_time[: 2 * others] = TIMELESS
    node_time[2 * others :] = np.sort(rng.integers(0, 10 * YEAR, events)) + 40 * YEAR
    parents = create_array(folder / "parents.npy", (3 * events,), np.int32).reshape(events, 3)
    step = 1 << 20
    for start in range(0, events, step):
        size = min(step, events - start)
        place = np.arange(start, start + size)
        parents[start : start + size, 0] = _skewed(others, skew, size, rng)
        items = _skewed(others, skew, size, rng)
        items[rng.random(size) < hub / events] = 0
        parents[start : start + size, 1] = others + items
        earlier = (place * rng.random(size)).astype(np.int64)
        has_earlier = (rng.random(size) < 0.5) & (place > 0)
        parents[start : start + size, 2] = np.where(has_earlier, 2 * others + earlier, -1)
    relations = [
        ("events", "user_id", "users"),
        ("events", "item_id", "items"),
        ("events", "after_id", "events"),
    ]
    finish_graph(folder, sizes, relations)
    return Graph(folder)


def _skewed(size: int, skew: float, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    return np.minimum((size * rng.random(n) ** skew).astype(np.int64), size - 1)
