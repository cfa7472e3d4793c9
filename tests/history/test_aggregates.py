"""Every aggregate against a walk over plain frames that reads the path from the column's own
name."""

import dataclasses
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import gelgt
from gelgt.config import SamplingConfig
from gelgt.features import open_features
from gelgt.history import Aggregates, TaskData, aggregates

DAY = 86_400
START = int(np.datetime64("2024-01-01", "s").astype(int))
TIMES = {"users": "joined", "orders": "placed", "notes": "written"}
PARENTS = {
    ("users", "shop_id"): "shops",
    ("orders", "user_id"): "users",
    ("orders", "shop_id"): "shops",
    ("items", "order_id"): "orders",
    ("items", "product_id"): "products",
    ("notes", "order_id"): "orders",
}
CODES = {("users", "team"), ("orders", "channel"), ("notes", "mood")}
WINDOW = 5 * DAY
PRICES = np.random.default_rng(0).normal(size=200)


class Walk:
    """One seed in plain frames: rows are (time on the path, row), times -inf where a table has none
    and NaN where it is null."""

    def __init__(self, tiny: Any, table: str, row: int, limit: int, reference: int) -> None:
        self.tiny, self.table, self.row, self.limit, self.reference = (
            tiny,
            table,
            row,
            limit,
            reference,
        )
        self.walked: dict[str, tuple[str, list[tuple[float, int]]]] = {}

    def time(self, table: str, row: int) -> float:
        if table == "items":  # without a time of its own: as new as its order
            order = self.tiny.frames["items"]["order_id"][row]
            return np.nan if np.isnan(order) else self.time("orders", int(order))
        return float(self.tiny.frames[table][TIMES[table]][row]) if table in TIMES else -np.inf

    def follow(self, path: str) -> tuple[str, list[tuple[float, int]]]:
        table, events = self.table, [(-np.inf, self.row)]
        for way, newest, name in re.findall(r"([<>]) (newest )?([\w.]+)", path):
            if way == "<":
                table, column = name.split(".")
                named = self.tiny.frames[table][column]
                found = [
                    (t, int(r)) for t, parent in events for r in np.flatnonzero(named == parent)
                ]
            else:
                chosen = events[-1:] if newest else events
                found = [(t, self.tiny.frames[table][name][r]) for t, r in chosen]
                found = [(t, int(r)) for t, r in found if not np.isnan(r)]
                table = PARENTS[table, name]
            # Every row of a path must be seen, and an event is as old as the newest of them.
            seen = [(t, r, self.time(table, r)) for t, r in found]
            events = [(max(t, own), r) for t, r, own in seen if own < self.limit]
            # ties: by row, or by the row that names it
            events.sort(key=None if way == "<" else lambda event: event[0])
            if newest or (way == ">" and path.startswith(">")):
                events = [(-np.inf, r) for _, r in events]  # one row, to start from
        return table, events

    def value(self, features: Any, name: str) -> float:
        path, _, what = name.rpartition(": ")
        table, events = self.walked.setdefault(path, self.walked.get(path) or self.follow(path))
        times = [t for t, _ in events]
        if not path or (path.startswith(">") and "<" not in path):
            if not events:
                return np.nan
            return self.cell(features, table, what, events[0][1])
        if what == "count":
            return len(events)
        if what.startswith("count in"):
            return sum(t >= self.reference - int(what.split()[2]) * WINDOW for t in times)
        if what == "days since":
            return (self.reference - times[-1]) / DAY if events else np.nan
        if what == "mean gap":
            return float(np.diff(times).mean()) / DAY if len(events) > 1 else np.nan
        column, kind = re.fullmatch(
            r"(\w+) (mean|min|max|recent mean|last|last age|share of \w+)", what
        ).groups()  # type: ignore[union-attr]
        if kind == "last age":
            return self.cell(features, table, f"{column} age", events[-1][1]) if events else np.nan
        if kind.startswith("share"):
            return (
                float(
                    (
                        self.tiny.frames[table][column][[r for _, r in events]] == kind.split()[-1]
                    ).mean()
                )
                if events
                else np.nan
            )
        cells = pd.Series([self.cell(features, table, column, r) for _, r in events], dtype=float)
        if kind == "last":
            return cells.iloc[-1] if len(cells) else np.nan
        return (
            float((cells.tail(5) if kind == "recent mean" else cells).agg(kind.split()[-1]))
            if len(cells)
            else np.nan
        )

    def cell(self, features: Any, table: str, column: str, row: int) -> float:
        frame = self.tiny.frames[table]
        if column == "age":
            return (self.reference - self.time(table, row)) / DAY
        if column.endswith(" age"):
            return (self.reference - frame[column.removesuffix(" age")][row]) / DAY
        if (table, column) in CODES:
            categories = features.statistics.tables[table][column].categories
            return (
                categories.index(frame[column][row]) if frame[column][row] in categories else np.nan
            )
        return float(frame[column][row])


def compute(
    tiny: Any,
    task: Any,
    config: SamplingConfig,
    rows: Any,
    times: Any,
    hops: int,
    siblings: bool = False,
) -> Aggregates:
    data = TaskData(tiny.db, tiny.db.graph(), tiny.db.features(), task, config)
    return aggregates(data, np.asarray(rows), np.asarray(times), hops=hops, siblings=siblings)


@pytest.mark.parametrize("regime", ["strict", "inclusive", "frozen"])
@pytest.mark.parametrize("entity", ["users", "products", "shops", "orders"])
def test_every_column_is_what_a_walk_over_the_frames_finds(
    tiny: Any, make_task: Any, entity: str, regime: str
) -> None:
    task = dataclasses.replace(make_task([(0, 9, 0.0)], [], [], "regression"), entity_table=entity)
    horizon = START + 20 * DAY
    config = SamplingConfig(
        causality="inclusive" if regime == "inclusive" else "strict",
        visibility="frozen" if regime == "frozen" else "seed-time",
        horizon=horizon if regime == "frozen" else None,
    )
    rng = np.random.default_rng(1)
    rows = rng.integers(0, len(tiny.frames[entity]), 40)
    times = START + rng.integers(3, 45, 40) * DAY
    exists = [
        not (entity in TIMES and not tiny.frames[entity][TIMES[entity]][r] <= t)
        for r, t in zip(rows, times)
    ]
    rows, times = rows[exists], times[exists]
    assert len(rows) > 15
    found = compute(tiny, task, config, rows, times, hops=2)
    assert len(set(found.names)) == len(found.names)
    features, compared = tiny.db.features(), 0
    for s, (row, time) in enumerate(zip(rows.tolist(), times.tolist())):
        limit = time + (regime == "inclusive")
        limit, reference = (
            (min(limit, horizon + 1), min(time, horizon)) if regime == "frozen" else (limit, time)
        )
        walk = Walk(tiny, entity, row, limit, reference)
        expected = np.array([walk.value(features, name) for name in found.names], np.float32)
        same = np.isclose(found.values[s], expected, rtol=2e-5, atol=1e-4, equal_nan=True)
        assert same.all(), [
            (found.names[i], found.values[s, i], expected[i]) for i in np.flatnonzero(~same)
        ]
        compared += int(np.isfinite(expected).sum())
    assert compared > 500


def test_one_hop_is_the_beginning_of_two(tiny: Any, make_task: Any) -> None:
    task = make_task([(0, 9, 0.0)], [], [], "regression")
    rows, times = np.arange(30), np.full(30, START + 30 * DAY)
    one, two = (compute(tiny, task, SamplingConfig(), rows, times, hops) for hops in (1, 2))
    assert set(one.names) < set(two.names)
    places = [two.names.index(name) for name in one.names]
    assert np.array_equal(one.values, two.values[:, places], equal_nan=True)
    assert all(name.count("<") + name.count(">") <= 1 for name in one.names)


def test_siblings_are_those_of_the_second_hop(tiny: Any, make_task: Any) -> None:
    """The same columns as a part of two hops, which the walk above has checked."""
    task = make_task([(0, 9, 0.0)], [], [], "regression")
    rng = np.random.default_rng(3)
    rows, times = rng.integers(0, 30, 40), START + rng.integers(5, 40, 40) * DAY
    one, more, two = (
        compute(tiny, task, SamplingConfig(), rows, times, *which)
        for which in ((1, False), (1, True), (2, False))
    )
    assert set(one.names) < set(more.names) < set(two.names)
    assert np.array_equal(
        more.values, two.values[:, [two.names.index(name) for name in more.names]], equal_nan=True
    )
    added = [name for name in more.names if name not in one.names]
    assert all(
        re.fullmatch(r"< (\w+)\.\w+ > newest (\w+) < \1\.\2: \w+ (recent )?mean", name)
        for name in added
    ), added
    assert np.isfinite(more.values[:, [more.names.index(name) for name in added]]).any(0).all()


def test_seeds_of_one_call_do_not_know_each_other(tiny: Any, make_task: Any) -> None:
    task = make_task([(0, 9, 0.0)], [], [], "regression")
    rng = np.random.default_rng(2)
    rows, times = rng.integers(0, 30, 50), START + rng.integers(5, 40, 50) * DAY
    together = compute(tiny, task, SamplingConfig(), rows, times, 2).values
    for s in range(0, 50, 7):
        alone = compute(tiny, task, SamplingConfig(), rows[[s]], times[[s]], 2).values[0]
        assert alone.tobytes() == together[s].tobytes()


def test_hidden_columns_are_invisible(tiny: Any, make_task: Any) -> None:
    hide = (("orders", "amount"), ("users", "team"), ("notes", "order_id"), ("orders", "placed"))
    task = make_task([(0, 9, 0.0)], [], [], "regression", remove_columns=hide)
    names = compute(
        tiny, task, SamplingConfig(), np.arange(30), np.full(30, START + 30 * DAY), 2
    ).names
    assert any("orders.user_id: channel" in name for name in names)
    assert not [
        name
        for name in names
        if re.search(r"\b(amount|team)\b", name)
        or "notes" in name
        or name.endswith("placed last age")
    ]


def test_a_row_that_does_not_exist_yet_says_nothing(tiny: Any, make_task: Any) -> None:
    task = make_task([(0, 9, 0.0)], [], [], "regression")
    late = int(np.flatnonzero(tiny.frames["users"]["joined"] > START + 20 * DAY)[0])
    found = compute(tiny, task, SamplingConfig(), [late], [START + 10 * DAY], 1)
    own = [i for i, name in enumerate(found.names) if ": " not in name or name.startswith(">")]
    assert len(own) >= 3
    assert np.isnan(found.values[0, own]).all()


def test_a_task_without_a_window_counts_thirty_days(tiny: Any, make_task: Any) -> None:
    rows, times = np.arange(30), np.full(30, START + 39 * DAY)
    found = {}
    for days in (None, 0, 30):
        window = None if days is None else pd.Timedelta(days=days)
        found[days] = compute(
            tiny,
            make_task([(0, 9, 0.0)], [], [], "regression", timedelta=window),
            SamplingConfig(),
            rows,
            times,
            1,
        ).values
    assert found[None].tobytes() == found[0].tobytes() == found[30].tobytes()


@pytest.mark.parametrize("hops", [1, 2])
def test_a_parent_table_without_rows(hops: int, tmp_path: Path) -> None:
    """Lookup tables that nobody has filled are common; what hangs on them is missing."""
    days = pd.date_range("2024-01-01", periods=200)
    frames = {
        "users": pd.DataFrame({"id": [1, 2]}),
        "shops": pd.DataFrame(
            {"id": pd.Series([], dtype="int64"), "size": pd.Series([], dtype="float64")}
        ),
        "orders": pd.DataFrame(
            {
                "id": range(200),
                "user_id": [1, 2] * 100,
                "shop_id": pd.array([None] * 200, "Int64"),
                "at": days,
                "price": PRICES,
            }
        ),
    }
    schema = {
        "users": {"pkey": "id", "time_col": None},
        "shops": {"pkey": "id", "time_col": None},
        "orders": {
            "pkey": "id",
            "time_col": "at",
            "fkeys": {"user_id": "users", "shop_id": "shops"},
        },
    }
    db = gelgt.open(frames, schema=schema, out=tmp_path / "db")
    task = db.task("PREDICT COUNT(orders.*, 0, 10, days) FOR EACH users.id")
    times = np.full(2, int(days[100].timestamp()))
    features = open_features(db, fit_until=task.val_timestamp)
    data = TaskData(db, db.graph(), features, task, SamplingConfig())
    columns = aggregates(data, np.arange(2), times, hops=hops, siblings=True)
    place = {name: n for n, name in enumerate(columns.names)}
    assert columns.values[:, place["< orders.user_id: count"]].tolist() == [50, 50]
    beyond = [name for name in columns.names if "newest shop_id" in name]
    assert beyond
    assert all(
        np.isnan(columns.values[:, place[name]]).all()
        for name in beyond
        if not name.split(": ")[-1].startswith("count")
    )
