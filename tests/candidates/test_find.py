"""Candidates against a walk in plain frames, and against the future."""

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from frame_walk import Walk
from gelgt.candidates import CandidateFinder, destination_paths
from gelgt.candidates.columns import WINDOWS, PairReader
from gelgt.candidates.find import BOUNDS
from gelgt.candidates.orders import LinkOrder
from gelgt.config import SamplingConfig
from gelgt.graph import TIMELESS
from gelgt.sampling import Seeds, make_seeds
from gelgt.tasks.task import Definition
from tiny_database import DAY, START, Tiny

WINDOW = 5 * DAY


def definition(**changes: Any) -> Definition:
    import pandas as pd

    task = Definition(
        "next-products",
        "forecast",
        "users",
        "user_id",
        None,
        "time",
        "recommendation",
        pd.Timedelta(seconds=WINDOW),
        dst_entity_table="products",
        dst_entity_col="product_id",
    )
    return replace(task, **changes)


def finder_of(tiny: Tiny, task: Definition | None = None) -> CandidateFinder:
    return CandidateFinder(tiny.db.graph(), task or definition(), SamplingConfig())


def seeds_of(tiny: Tiny) -> Seeds:
    """Every user at several times."""
    users, days = np.arange(30).repeat(4), np.tile([3, 12, 25, 41], 30)
    times = START.astype(np.int64) + days * DAY
    return make_seeds(tiny.db, tiny.db.graph(), "users", users, times)


def test_paths_are_the_shortest_without_going_back(tiny: Tiny) -> None:
    graph = tiny.db.graph()
    paths = destination_paths(graph, "users", "products")
    assert str(paths[0]) == "users ← orders ← items → products"
    assert paths[0].is_link
    assert paths[0].name == "users < orders.user_id < items.order_id > product_id"
    assert [len(path.steps) for path in paths] == sorted(len(path.steps) for path in paths)
    for path in paths:
        for one, other in zip(path.steps, path.steps[1:]):
            assert not (one.is_down and not other.is_down and one.key == other.key)
    # through the shop that the user belongs to, which is not what the user has had
    by_shop = "users > shop_id < orders.shop_id < items.order_id > product_id"
    assert [path.is_link for path in paths if path.name == by_shop] == [False]
    assert destination_paths(graph, "users", "products", hops=2) == []
    hidden = frozenset({("items", "product_id")})
    assert destination_paths(graph, "users", "products", hidden=hidden) == []


def test_walks_are_those_in_plain_frames(tiny: Tiny) -> None:
    finder, seeds = finder_of(tiny), seeds_of(tiny)
    found = finder.find(seeds)
    offset = finder.graph.offsets[finder.graph.table_number("users")]
    reached = 0
    for place in range(len(seeds)):
        for number, path in enumerate(finder.paths):
            walk = Walk(tiny, "users", int(seeds.node[place] - offset), int(seeds.time[place]), 0)
            _, ends = walk.follow(path.name.removeprefix("users"))
            counts = Counter(row for _, row in ends)
            newest = {row: max(t for t, other in ends if other == row) for row in counts}
            got = {
                int(row): (int(count), int(time))
                for row, count, time in zip(
                    found.row[place], found.count[place, :, number], found.newest[place, :, number]
                )
                if row >= 0 and count
            }
            assert got == {row: (n, int(newest[row])) for row, n in counts.items()}
            reached += len(got)
    assert reached > 500


def test_popular_rows_are_what_everyone_has_had_lately(tiny: Tiny) -> None:
    finder = finder_of(tiny)
    at = int(START.astype(np.int64)) + 20 * DAY
    weight: Counter[int] = Counter()
    for order, product in zip(
        tiny.frames["items"]["order_id"], tiny.frames["items"]["product_id"], strict=True
    ):
        if not np.isnan(order) and not np.isnan(product):
            time = tiny.frames["orders"]["placed"][int(order)]
            if time < at:  # never true for NaN
                weight[int(product)] += 1 / (1 + (at - time) / WINDOW)  # type: ignore[assignment]
    expected = sorted(weight, key=lambda row: (-weight[row], row))
    assert finder.popular(at, at).tolist() == expected
    assert len(finder.popular(int(START.astype(np.int64)), 0)) == 0  # before everything


def test_what_was_had_is_whole_where_candidates_are_bounded(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    finder, seeds = finder_of(tiny), seeds_of(tiny)
    had = [set(row[row >= 0].tolist()) for row in finder.had(seeds)]
    links = finder.find(seeds)
    count = links.count[:, :, finder.link_paths].sum(2)
    assert had == [set(row[n > 0].tolist()) for row, n in zip(links.row, count)]
    few = replace(BOUNDS, reached=2, has_popular=False)
    monkeypatch.setattr("gelgt.candidates.find.BOUNDS", few)
    assert finder.find(seeds).row.shape[1] == 2
    assert had == [set(row[row >= 0].tolist()) for row in finder.had(seeds)]


def test_a_seed_without_rows_has_popular_candidates(tiny: Tiny) -> None:
    own = definition(remove_columns=(("users", "shop_id"),))  # no way but by their own orders
    finder, seeds = finder_of(tiny, own), seeds_of(tiny)
    found = finder.find(seeds)
    alone = np.flatnonzero((found.reached == 0) & (seeds.time > seeds.time.min()))
    assert len(alone)
    for place in alone:
        popular = finder.popular(int(seeds.time[place]), int(seeds.time[place]))
        row = found.row[place]
        assert row[row >= 0].tolist() == popular.tolist()
        assert not found.count[place].any()


def test_columns_say_how_often_and_how_long_ago(tiny: Tiny) -> None:
    finder, seeds = finder_of(tiny), seeds_of(tiny)
    found = finder.find(seeds)
    reader = PairReader(tiny.db, tiny.db.features(fit_until=None), finder, ())
    columns = reader.read(seeds, found)
    paths = len(finder.paths)
    ties = columns.ties.reshape(*found.row.shape, paths, 3)
    there = found.row >= 0
    np.testing.assert_allclose(ties[..., 0][there], np.log1p(found.count[there]), rtol=1e-6)
    days = (seeds.time[:, None, None] - found.newest) / DAY
    is_tied = found.newest != TIMELESS
    np.testing.assert_allclose(ties[..., 2][is_tied], days[is_tied], rtol=1e-5)
    assert np.isnan(ties[..., 2][there][~is_tied[there]]).all()
    totals = np.where(found.count.sum(1) > 0, 1.0, 0.0)
    np.testing.assert_allclose(ties[..., 1].sum(1), totals, atol=1e-5)
    # everyone's links: the most linked destination of a time has the share 1 and the rank 0
    whole = columns.whole()
    assert whole.shape[2] == 3 * paths + 2 * len(WINDOWS)
    late = np.flatnonzero(seeds.time == seeds.time.max())
    share, rank = whole[late][..., -2], whole[late][..., -1]
    assert share[there[late]].max() == 1.0
    assert rank[there[late]].min() == 0.0
    assert (share[there[late]] <= 1).all()


def test_orders_by_links(tiny: Tiny) -> None:
    finder = finder_of(tiny)
    at = int(START.astype(np.int64)) + 30 * DAY
    events = [
        (tiny.frames["orders"]["placed"][int(order)], int(product))
        for order, product in zip(
            tiny.frames["items"]["order_id"], tiny.frames["items"]["product_id"], strict=True
        )
        if not np.isnan(order) and not np.isnan(product)
    ]
    seen = [(time, row) for time, row in events if time < at]  # never true for NaN
    newest = {row: max(time for time, other in seen if other == row) for _, row in seen}
    recent = LinkOrder(0).rows(finder, at, at)
    assert recent.tolist() == sorted(newest, key=lambda row: (-newest[row], row))
    late = Counter(row for time, row in seen if time >= at - 2 * WINDOW)
    popular = LinkOrder(2).rows(finder, at, at)
    assert popular.tolist() == sorted(late, key=lambda row: (-late[row], -newest[row], row))
    prior = LinkOrder(2).prior(finder, at, at)
    np.testing.assert_allclose(prior[popular], -np.log1p(np.arange(len(popular))), rtol=1e-6)
    assert str(LinkOrder(0)) == "recent"
    assert str(LinkOrder(1)) == "popular in 1 window"
