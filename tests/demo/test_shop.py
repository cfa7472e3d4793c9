"""The demo shop holds what its docstring promises: keys, nulls, planted truths, an honest
oracle."""

import sqlite3
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from gelgt.demo import Shop, shop
from gelgt.demo.schema import TABLES
from gelgt.demo.shop import Truth
from gelgt.errors import GelgtError
from gelgt.metrics import roc_auc


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    return shop(tmp_path_factory.mktemp("shop") / "shop.db")


@pytest.fixture(scope="module")
def truths(demo: Shop) -> Truth:
    """Everything known at the test seed times, in one."""
    each = [demo.truth(at) for at in demo.test_seed_times]
    return Truth(
        *(np.concatenate([getattr(t, field) for t in each]) for field in Truth.__dataclass_fields__)
    )


def query(shop: Shop, sql: str, *values: object) -> list[tuple]:
    connection = sqlite3.connect(shop.path)
    try:
        return connection.execute(sql, values).fetchall()
    finally:
        connection.close()


def test_same_seed_same_rows(tmp_path: Path) -> None:
    first, again, other = (
        shop(tmp_path / f"{i}.db", customers=40, days=120, seed=s) for i, s in enumerate((3, 3, 4))
    )
    for table in TABLES:
        rows = query(first, f"SELECT * FROM {table}")
        assert rows
        assert rows == query(again, f"SELECT * FROM {table}")
    assert query(first, "SELECT * FROM orders") != query(other, "SELECT * FROM orders")
    assert [p.name for p in sorted(tmp_path.iterdir())] == ["0.db", "1.db", "2.db"]


def test_an_existing_file_is_replaced(tmp_path: Path) -> None:
    shop(tmp_path / "shop.db", customers=60, days=120)
    assert query(
        shop(tmp_path / "shop.db", customers=20, days=120), "SELECT COUNT(*) FROM customers"
    ) == [(20,)]


def test_keys_are_declared_and_hold(demo: Shop) -> None:
    for table in TABLES.values():
        keys = [row[1] for row in query(demo, f"PRAGMA table_info({table.name})") if row[5]]
        assert keys == [table.key.name]
        declared = {row[3]: row[2] for row in query(demo, f"PRAGMA foreign_key_list({table.name})")}
        assert declared == table.foreign_keys
    assert query(demo, "PRAGMA foreign_key_check") == []


def test_it_is_as_untidy_as_a_real_shop(demo: Shop) -> None:
    for table in TABLES.values():
        for column in table.columns:
            (nulls,) = query(demo, f"SELECT COUNT(*) - COUNT({column.name}) FROM {table.name}")[0]
            assert (nulls > 0) == column.is_nullable, f"{table.name}.{column.name}"
            if column.type == "time":
                (bad,) = query(
                    demo,
                    f"SELECT COUNT(*) FROM {table.name} WHERE {column.name} != strftime('%Y-%m-%d "
                    f"%H:%M:%S', {column.name})",
                )[0]
                assert bad == 0
    assert query(demo, "SELECT 1 FROM customers WHERE id NOT IN (SELECT customer_id FROM orders)")
    assert query(demo, "SELECT 1 FROM support_tickets WHERE body LIKE '%' || char(10) || '%'")
    pings, orders = (
        query(demo, f"SELECT COUNT(*) FROM {t}")[0][0] for t in ("page_pings", "orders")
    )
    assert pings > 3 * orders


def test_nobody_orders_before_signing_up(demo: Shop) -> None:
    for table in ("orders", "visits", "support_tickets", "page_pings"):
        time = TABLES[table].time_column
        assert not query(
            demo,
            f"SELECT 1 FROM {table} e JOIN customers c ON c.id = e.customer_id WHERE e.{time} < "
            "c.signed_up_at",
        )
    lines = (
        "SELECT i.ordered_at = o.placed_at AND i.customer_id = o.customer_id FROM order_items "
        "i JOIN orders o ON o.id = i.order_id"
    )
    tickets = (
        "SELECT t.opened_at > o.placed_at AND t.customer_id = o.customer_id FROM "
        "support_tickets t JOIN orders o ON o.id = t.order_id"
    )
    for consistent in (query(demo, lines), query(demo, tickets)):
        assert set(consistent) == {(1,)}


def test_the_oracle_is_good_and_calibrated(demo: Shop, truths: Truth) -> None:
    assert 0.80 <= demo.oracle_auc <= 0.88
    assert demo.oracle_auc == pytest.approx(roc_auc(truths.labels, truths.probability))
    edges = np.quantile(truths.probability, np.linspace(0, 1, 9))
    for low, high in pairwise(edges):
        inside = (truths.probability >= low) & (truths.probability <= high)
        spread = 4 * np.sqrt(0.25 / inside.sum())
        assert truths.labels[inside].mean() == pytest.approx(
            truths.probability[inside].mean(), abs=spread
        )


def test_satisfied_customers_return_around_day_30(truths: Truth) -> None:
    def share(low: int, high: int, satisfied: bool) -> float:
        inside = (
            (truths.days_since >= low)
            & (truths.days_since <= high)
            & ((truths.satisfied > 0.9) if satisfied else (truths.satisfied < 0.1))
        )
        assert inside.sum() > 100
        return float(truths.labels[inside].mean())

    # A window of ten days that begins 23 … 27 days after the last order covers the bump; one before
    # does not.
    assert share(23, 27, satisfied=True) > 0.85
    assert share(1, 10, satisfied=True) < 0.10
    # The same ages mean the opposite after poor products: the effect needs both the time and the
    # second hop.
    assert share(23, 27, satisfied=False) < 0.15
    assert share(1, 10, satisfied=False) > 0.20
    assert share(45, 90, satisfied=False) > 0.20


def test_quality_is_two_steps_away_and_decides(demo: Shop) -> None:
    """Straight from the rows: did the next order come 25 … 35 days after this one?"""
    gaps = """
        WITH quality AS (
            SELECT order_id, AVG(quality) AS q
            FROM order_items JOIN products ON sku = product_sku GROUP BY order_id
        ),
        gaps AS (
            SELECT id, julianday(LEAD(placed_at) OVER own) - julianday(placed_at) AS gap
            FROM orders WINDOW own AS (PARTITION BY customer_id ORDER BY placed_at)
        )
        SELECT q > 0.5, AVG(gap BETWEEN 25 AND 35)
        FROM gaps JOIN quality ON order_id = id
        WHERE gap IS NOT NULL GROUP BY 1"""
    shares = dict(query(demo, gaps))
    assert shares[1] > 0.6
    assert shares[0] < 0.15


def test_pings_and_visits_mean_nothing(demo: Shop, truths: Truth) -> None:
    for table, time in (
        ("page_pings", "pinged_at"),
        ("visits", "visited_at"),
        ("support_tickets", "opened_at"),
    ):
        counts = []
        for at in demo.test_seed_times:
            found = dict(
                query(
                    demo,
                    f"SELECT customer_id, COUNT(*) FROM {table} WHERE {time} < ? AND {time} >= "
                    "date(?, '-30 days') GROUP BY 1",
                    at,
                    at,
                )
            )
            counts.append([found.get(int(c), 0) for c in demo.truth(at).customer_ids])
        assert roc_auc(truths.labels, np.concatenate(counts)) == pytest.approx(0.5, abs=0.03)


def test_recency_and_frequency_are_not_enough(demo: Shop, truths: Truth) -> None:
    """A straight line through recency, frequency and tenure stays far below the oracle, fitted on
    the test rows themselves."""
    from sklearn.linear_model import LogisticRegression

    columns = []
    for at in demo.test_seed_times:
        orders = dict(
            query(
                demo, "SELECT customer_id, COUNT(*) FROM orders WHERE placed_at < ? GROUP BY 1", at
            )
        )
        recent = dict(
            query(
                demo,
                "SELECT customer_id, COUNT(*) FROM orders WHERE placed_at < ? AND placed_at >= "
                "date(?, '-90 days') GROUP BY 1",
                at,
                at,
            )
        )
        tenure = dict(
            query(demo, "SELECT id, julianday(?) - julianday(signed_up_at) FROM customers", at)
        )
        columns += [
            (orders.get(int(c), 0), recent.get(int(c), 0), tenure[int(c)])
            for c in demo.truth(at).customer_ids
        ]
    features = np.log1p(
        np.column_stack([np.nan_to_num(truths.days_since, nan=999.0), np.array(columns)])
    )
    naive = (
        LogisticRegression(max_iter=1000).fit(features, truths.labels).predict_proba(features)[:, 1]
    )
    assert roc_auc(truths.labels, naive) < 0.70 < demo.oracle_auc - 0.1


def test_seed_times_fit_into_the_data(demo: Shop) -> None:
    last = max(
        query(demo, f"SELECT MAX({t.time_column}) FROM {t.name}")[0][0]
        for t in TABLES.values()
        if t.time_column
    )
    assert demo.val_timestamp < demo.test_timestamp == demo.test_seed_times[0]
    end = np.datetime64(demo.test_seed_times[-1]) + np.timedelta64(10, "D")
    assert end <= np.datetime64(last) < end + np.timedelta64(10, "D")


def test_small_shops_work_and_too_small_ones_say_so(tmp_path: Path) -> None:
    small = shop(tmp_path / "small.db", customers=30, days=100)
    assert small.test_seed_times
    assert small.val_timestamp < small.test_timestamp
    with pytest.raises(GelgtError, match="at least 2 customers") as error:
        shop(tmp_path / "none.db", customers=1)
    assert error.value.code == "bad_shop"
    assert not (tmp_path / "none.db").exists()


def test_import_is_light() -> None:
    code = (
        "import sys, gelgt.demo, gelgt.testing; heavy = ('torch', 'pandas', 'sklearn', 'duckdb', "
        "'sqlalchemy'); print([m for m in heavy if m in sys.modules])"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "[]"
    )


def test_the_chances_of_products_are_calibrated(demo: Shop) -> None:
    """Lines of the test windows name products as often as their chances say, whatever the
    favourite category."""
    every = [demo.baskets(at) for at in demo.test_seed_times]
    chances = np.concatenate([each.chances for each in every])
    is_bought = np.concatenate([each.is_bought for each in every])
    assert chances.sum(1) == pytest.approx(1.0)
    share = is_bought / is_bought.sum(1, keepdims=True)
    edges = np.quantile(chances, np.linspace(0, 1, 6))
    for low, high in pairwise(edges):
        inside = (chances >= low) & (chances <= high)
        # customers have 2.1 products on average, of which none is counted twice
        assert share[inside].mean() == pytest.approx(chances[inside].mean(), rel=0.1)


def test_the_favourite_category_is_worth_knowing(demo: Shop) -> None:
    popular = replace(demo, taste=replace(demo.taste, category=np.zeros_like(demo.taste.category)))
    assert demo.oracle_map() > 2 * popular.oracle_map()
