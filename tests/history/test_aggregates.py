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
from frame_walk import DAY, START, TIMES, Walk
from gelgt.config import SamplingConfig
from gelgt.features import open_features
from gelgt.history import Aggregates, TaskData, aggregates

PRICES = np.random.default_rng(0).normal(size=200)


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
    columns = compute(tiny, task, config, rows, times, hops=2)
    assert len(set(columns.names)) == len(columns.names)
    features, compared = tiny.db.features(), 0
    for s, (row, time) in enumerate(zip(rows.tolist(), times.tolist())):
        limit = time + (regime == "inclusive")
        limit, reference = (
            (min(limit, horizon + 1), min(time, horizon)) if regime == "frozen" else (limit, time)
        )
        walk = Walk(tiny, entity, row, limit, reference)
        expected = np.array([walk.value(features, name) for name in columns.names], np.float32)
        same = np.isclose(columns.values[s], expected, rtol=2e-5, atol=1e-4, equal_nan=True)
        assert same.all(), [
            (columns.names[i], columns.values[s, i], expected[i]) for i in np.flatnonzero(~same)
        ]
        compared += int(np.isfinite(expected).sum())
    assert compared > 500
    of_active = [name.endswith("active windows") for name in columns.names]
    assert len(np.unique(columns.values[:, of_active])) > 4


def test_events_of_one_day_count_once_beside_themselves(tiny: Any, make_task: Any) -> None:
    """For the entity's own events, where windows are at least two days long."""
    task = make_task([(0, 9, 0.0)], [], [], "regression")
    data = TaskData(tiny.db, tiny.db.graph(), tiny.db.features(), task, SamplingConfig())
    rows, times = np.arange(20), np.full(20, START + 40 * DAY)
    found = aggregates(data, rows, times, hops=2)
    values = dict(zip(found.names, found.values.T))
    days = [name for name in values if " by day: " in name]
    assert {name.partition(" by day: ")[0] for name in days} >= {"< orders.user_id"}
    assert not any(">" in name for name in days)
    name = "< orders.user_id{}: count"
    orders, of_days = values[name.format("")], values[name.format(" by day")]
    assert (of_days <= orders).all()
    assert 0 < of_days.sum() < orders.sum()
    short = dataclasses.replace(task, timedelta=pd.Timedelta(hours=36))
    data = dataclasses.replace(data, task=short)
    names = aggregates(data, rows, times, hops=2).names
    assert not any("by day" in name for name in names)
    # a run that has learned from some gets them
    again = aggregates(data, rows, times, hops=2, names=days[:2])
    np.testing.assert_array_equal(again.values[:, 0], values[days[0]])


def test_active_windows_are_those_of_own_events(tiny: Any, make_task: Any) -> None:
    """Those of a parent's other rows would tell the date; a run that has learned them from such
    rows still gets them."""
    task = make_task([(0, 9, 0.0)], [], [], "regression")
    task = dataclasses.replace(task, entity_table="orders")
    data = TaskData(tiny.db, tiny.db.graph(), tiny.db.features(), task, SamplingConfig())
    rows, times = np.arange(20), np.full(20, START + 40 * DAY)
    names = aggregates(data, rows, times, hops=2).names

    def paths(what: str) -> set[str]:
        return {n.removesuffix(f": {what}") for n in names if n.endswith(f": {what}")}

    own = {path for path in paths("count") if ">" not in path.rpartition("<")[0]}
    far = paths("count in 1 window") - own
    assert any(path.startswith("<") for path in own)
    assert any(path.startswith("> ") for path in far)
    assert far <= paths("median count of 8 windows")
    assert paths("active windows") == own & paths("count in 1 window")

    path = min(far)
    before = [f"{path}: active windows", f"{path}: count"]
    again = aggregates(data, rows, times, hops=2, names=before)
    assert list(again.names) == before
    assert np.isfinite(again.values).any(0).all()


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
    columns = compute(tiny, task, SamplingConfig(), [late], [START + 10 * DAY], 1)
    of_entity = [
        i for i, name in enumerate(columns.names) if ": " not in name or name.startswith(">")
    ]
    assert len(of_entity) >= 3
    assert np.isnan(columns.values[0, of_entity]).all()


def test_a_task_without_a_window_counts_thirty_days(tiny: Any, make_task: Any) -> None:
    rows, times = np.arange(30), np.full(30, START + 39 * DAY)
    values = {}
    for days in (None, 0, 30):
        window = None if days is None else pd.Timedelta(days=days)
        values[days] = compute(
            tiny,
            make_task([(0, 9, 0.0)], [], [], "regression", timedelta=window),
            SamplingConfig(),
            rows,
            times,
            1,
        ).values
    assert values[None].tobytes() == values[0].tobytes() == values[30].tobytes()


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


def test_siblings_by_each_of_several_keys(tmp_path: Path) -> None:
    """Columns of one key are the same whether or not those of another are asked for."""
    rng = np.random.default_rng(5)
    days = pd.date_range("2024-01-01", periods=200)
    events = pd.DataFrame(
        {
            "id": range(200),
            "user_id": rng.integers(0, 4, 200),
            "shop_id": rng.integers(0, 3, 200),
            "item_id": rng.integers(0, 5, 200),
            "at": days,
            "price": PRICES,
        }
    )
    frames = {
        **{name: pd.DataFrame({"id": range(5)}) for name in ("users", "shops", "items")},
        "events": events,
    }
    fkeys = {f"{name}_id": f"{name}s" for name in ("user", "shop", "item")}
    schema: dict[str, Any] = {
        name: {"pkey": "id", "time_col": None} for name in ("users", "shops", "items")
    }
    schema["events"] = {"pkey": "id", "time_col": "at", "fkeys": fkeys}
    db = gelgt.open(frames, schema=schema, out=tmp_path / "db")
    task = db.task("PREDICT COUNT(events.*, 0, 10, days) FOR EACH users.id")
    features = open_features(db, fit_until=task.val_timestamp)
    data = TaskData(db, db.graph(), features, task, SamplingConfig())
    rows, times = np.arange(4), np.full(4, int(days[100].timestamp()))
    every = aggregates(data, rows, times, hops=1, siblings=True)
    for key in ("shop_id", "item_id"):
        name = f"< events.user_id > newest {key} < events.{key}: price mean"
        before = events[events["at"] < days[100]]
        for row in rows:
            newest = before[before["user_id"] == row].iloc[-1][key]
            mean = before.loc[before[key] == newest, "price"].mean()
            assert every.values[row, every.names.index(name)] == pytest.approx(mean, rel=1e-5)
        alone = aggregates(data, rows, times, hops=1, siblings=True, names=[name])
        np.testing.assert_array_equal(alone.values[:, 0], every.values[:, every.names.index(name)])
