"""Lists of events are the same whether owners are looked up one by one or rows looked through."""

from pathlib import Path

import numpy as np
import pytest

from gelgt.graph import NEVER
from gelgt.history import events
from gelgt.history.events import Events, children, grandchildren, other_parents
from gelgt.history.keys import keys_of
from gelgt.testing.graphs import write_graph


@pytest.mark.parametrize("seed", range(8))
def test_looked_up_and_looked_through(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows in any order of time, times that repeat or are missing, two keys that name the same row,
    and rows that name each other."""
    rng = np.random.default_rng(seed)
    users, items, visits = 6, 5, 40
    times = {
        "users": users,
        "items": [int(t) if t < 9 else None for t in rng.integers(0, 10, items)],
        "visits": [int(t) if t < 9 else None for t in rng.integers(0, 10, visits)],
    }

    def some(size: int, count: int) -> list[int | None]:
        return [int(r) if r < size else None for r in rng.integers(0, size + 1, count)]

    keys = [
        ("items", "user", "users", some(users, items)),
        ("visits", "user", "users", some(users, visits)),
        ("visits", "guest", "users", some(users, visits)),
        ("visits", "item", "items", some(items, visits)),
        ("visits", "answer", "visits", some(visits, visits)),
    ]
    graph = write_graph(tmp_path / "graph", times, keys)
    named = {(child, column): rows for child, column, _, rows in keys}
    every = keys_of(graph, frozenset())
    for key in every:
        size = len(named[key.child, key.column])
        parents = {"users": users, "items": items, "visits": visits}[key.parent]
        owners = np.unique(rng.integers(0, parents, 4))

        def both(path: object, *arguments: object) -> Events:
            results = []
            for scattered in (0, 10**9):  # always looked up, always looked through
                monkeypatch.setattr(events, "SCATTERED", scattered)
                results.append(path(*arguments))  # type: ignore[operator]
            for one, other in zip(*(vars(result).values() for result in results)):
                np.testing.assert_array_equal(one, other)
            return results[0]

        listed = both(children, graph, key, owners)
        of_child = events.row_times(graph, key.child)
        for place, owner in enumerate(owners.tolist()):
            rows = [r for r in range(size) if named[key.child, key.column][r] == owner]
            rows = sorted((r for r in rows if of_child[r] != NEVER), key=lambda r: (of_child[r], r))
            assert listed.row[listed.starts[place] : listed.starts[place + 1]].tolist() == rows
        for other in every:
            if other.child == key.child and other.column != key.column:
                both(other_parents, graph, key, other, owners)
            if other.parent == key.child:
                both(grandchildren, graph, key, other, owners)


def test_values_taken_window_by_window_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    table = rng.normal(size=(500, 3)).astype(np.float32)
    rows = rng.integers(-1, 500, 2_000).astype(np.int32)
    expected = np.where(rows >= 0, table[rows, 1], np.nan)
    np.testing.assert_array_equal(events.taken(table[:, 1], rows, np.nan), expected)
    monkeypatch.setattr(events, "CHUNK", 100)
    monkeypatch.setattr(events, "WINDOW", 12 * 70)  # 70 rows: the last window is not full
    np.testing.assert_array_equal(events.taken(table[:, 1], rows, np.nan), expected)
