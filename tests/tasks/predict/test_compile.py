"""What a sentence means, checked against labels counted by hand and by a slow, plain loop."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gelgt.sources.database import Database
from gelgt.tasks import Task
from gelgt.tasks.task import SPLITS

Make = Callable[..., Database]


def labels(task: Task) -> dict[tuple[str, int], Any]:
    """{(date, entity): target} over all splits."""
    values = {}
    for split in SPLITS:
        time, entity, target = (column.to_pylist() for column in task.table(split).columns)
        values |= {(f"{t:%Y-%m-%d}", e): y for t, e, y in zip(time, entity, target)}
    return values


@pytest.fixture
def ten_days(make_db: Make, days: Callable[..., Any]) -> Database:
    """Seed times every ten days: train 2024-01-01 … 2024-02-20, val 2024-03-01, test 2024-03-11."""
    events = [
        ("2024-01-01", 0, 1.0, "a"),
        ("2024-01-11", 0, 2.0, "b"),  # on the edge: in the window of 01-01, not in that of 01-11
        ("2024-01-15", 0, 4.0, None),
        ("2024-01-15", 1, None, "c"),
        ("2024-01-21", None, 9.0, "d"),  # belongs to nobody
        ("2024-02-05", 2, 7.0, "e"),  # before its entity exists
        ("2024-02-25", 0, 5.0, "a"),
        ("2024-02-25", 0, 5.0, "b"),
        ("2024-03-03", 0, 5.0, "b"),
        ("2024-03-11", None, 5.0, "a"),
        ("2024-03-13", 0, 5.0, "a"),
        ("2024-03-13", 2, 6.0, "b"),
        ("2024-03-25", 2, 6.0, "b"),
    ]
    time, owner, x, word = zip(*events)
    return make_db(
        {
            "people": {
                "columns": {
                    "id": [0, 1, 2],
                    "since": days("2024-01-01", "2024-01-01", "2024-02-20"),
                },
                "pkey": "id",
                "time_col": "since",
            },
            "events": {
                "columns": {
                    "id": range(len(events)),
                    "at": days(*time),
                    "person": list(owner),
                    "x": list(x),
                    "word": list(word),
                },
                "pkey": "id",
                "time_col": "at",
                "fkeys": {"person": "people"},
            },
        },
        val="2024-03-01",
        test="2024-03-11",
    )


def test_windows_exclude_the_start_and_include_the_end(ten_days: Database) -> None:
    labelled = labels(ten_days.task("PREDICT COUNT(events.*, 0, 10, days) FOR EACH people.id"))
    assert labelled["2024-01-01", 0] == 1  # 01-11 counts, 01-01 does not
    assert labelled["2024-01-11", 0] == 1  # 01-15 counts, 01-11 does not
    assert labelled["2024-01-21", 0] == 0  # empty is zero
    assert labelled["2024-03-11", 2] == 1


def test_entities_before_their_time_have_no_row(ten_days: Database) -> None:
    labelled = labels(ten_days.task("PREDICT COUNT(events.*, 0, 10, days) FOR EACH people.id"))
    assert ("2024-01-31", 2) not in labelled
    assert labelled["2024-02-20", 2] == 0
    assert None not in {entity for _, entity in labelled}


def test_empty_aggregates(ten_days: Database) -> None:
    total = labels(ten_days.task("PREDICT SUM(events.x, 0, 10, days) FOR EACH people.id"))
    assert total["2024-01-11", 1] == 0  # its only value is null
    mean = labels(ten_days.task("PREDICT AVG(events.x, 0, 10, days) FOR EACH people.id"))
    assert ("2024-01-11", 1) not in mean
    assert mean["2024-01-11", 0] == 4.0
    distinct = labels(
        ten_days.task("PREDICT COUNT_DISTINCT(events.word, 0, 10, days) FOR EACH people.id")
    )
    assert (distinct["2024-01-11", 0], distinct["2024-01-11", 1], distinct["2024-01-21", 1]) == (
        0,
        1,
        0,
    )


def test_comparison_of_an_empty_minimum_has_no_label(ten_days: Database) -> None:
    labelled = labels(ten_days.task("PREDICT MIN(events.x, 0, 10, days) <= 3 FOR EACH people.id"))
    assert labelled["2024-01-01", 0] == 1
    assert labelled["2024-01-11", 0] == 0
    assert ("2024-01-21", 0) not in labelled
    there = labels(ten_days.task("PREDICT MIN(events.x, 0, 10, days) IS NULL FOR EACH people.id"))
    assert (there["2024-01-01", 0], there["2024-01-21", 0]) == (0, 1)


def test_first_and_last_skip_nulls_and_break_ties_by_row(ten_days: Database) -> None:
    for function, tied in (("FIRST", "a"), ("LAST", "b")):
        task = ten_days.task(f"PREDICT {function}(events.word, 0, 10, days) FOR EACH people.id")
        labelled = {key: task.classes[value] for key, value in labels(task).items()}
        assert labelled["2024-01-01", 0] == "b"
        assert ("2024-01-11", 0) not in labelled
        assert labelled["2024-01-11", 1] == "c"
        assert labelled["2024-02-20", 0] == tied


def test_conditions_on_past_windows_and_columns(ten_days: Database) -> None:
    labelled = labels(
        ten_days.task(
            "PREDICT COUNT(events.*, 0, 10, days) FOR EACH people.id WHERE COUNT(events.*, -10, "
            "0, days) > 0 OR people.since > 2024-02-01"
        )
    )
    assert {key for key in labelled if key[1] == 0 and key[0] < "2024-02-01"} == {
        ("2024-01-01", 0),
        ("2024-01-11", 0),
        ("2024-01-21", 0),
    }
    assert ("2024-02-20", 2) in labelled
    ever = labels(
        ten_days.task(
            "PREDICT COUNT(events.*, 0, 10, days) FOR EACH people.id WHERE SUM(events.x, -INF, 0, "
            "days) > 6"
        )
    )
    assert ("2024-01-11", 0) not in ever
    assert ("2024-01-21", 0) in ever


def test_columns_of_the_entity_that_are_named_like_ours(
    make_db: Make, days: Callable[..., Any]
) -> None:
    db = make_db(
        {
            "target": {
                "columns": {"timestamp": [0, 1], "entity": ["u", "v"], "order": [1, 2]},
                "pkey": "timestamp",
            },
            "population": {
                "columns": {
                    "value": days(
                        *[f"2024-{m:02}-{d:02}" for m in range(1, 8) for d in (2, 12, 22)]
                    ),
                    "my key": [0, 1, 1] * 7,
                    "select": range(21),
                },
                "time_col": "value",
                "fkeys": {"my key": "target"},
            },
        }
    )
    task = db.task(
        'PREDICT SUM(population."select" WHERE "select" >= 0, 0, 10, days) FOR EACH '
        "target.timestamp "
        "WHERE COUNT(population.*, -20, 0, days) >= 0 OR target.entity = 'u' OR target.\"order\" "
        "= 1"
    )
    assert task.time_col == "timestamp_"
    assert labels(task)["2024-05-11", 1] == 13


@pytest.mark.parametrize(
    ("target", "loop"),
    [
        (
            "SUM(items.quantity WHERE items.product_id IN (1, 2), 0, 30, days)",
            lambda r: r[r.product_id.isin([1, 2])].quantity.sum(),
        ),
        (
            "COUNT_DISTINCT(items.product_id, 5, 30, days)",
            lambda r: r[r.age > pd.Timedelta(days=5)].product_id.nunique(),
        ),
    ],
)
def test_two_hops_equal_a_plain_loop(
    shop_db: Database, target: str, loop: Callable[[pd.DataFrame], float]
) -> None:
    task = shop_db.task(f"PREDICT {target} FOR EACH customers.id")
    tables = {name: shop_db.read(name).to_pandas() for name in shop_db.table_names}
    items = tables["items"].merge(tables["orders"], left_on="order_id", right_on="id")
    joined = tables["customers"].joined
    for split in SPLITS:
        table = task.table(split).to_pandas()
        for time, rows in table.groupby("timestamp"):
            exists = np.flatnonzero((joined <= time) & (joined <= "2024-05-01"))
            assert rows["id"].tolist() == exists.tolist()
        for time, entity, value in table.itertuples(index=False):
            of_entity = items[items.customer_id == entity].assign(age=items.placed - time)
            window = of_entity[
                (of_entity.age > pd.Timedelta(0)) & (of_entity.age <= pd.Timedelta(days=30))
            ]
            assert value == loop(window)


def test_lines_of_an_order_counted_for_each_product(shop_db: Database) -> None:
    task = shop_db.task("PREDICT COUNT(items.*, 0, 30, days) FOR EACH products.id")
    items = (
        shop_db.read("items")
        .to_pandas()
        .merge(shop_db.read("orders").to_pandas(), left_on="order_id", right_on="id")
    )
    for time, entity, value in task.table("val").to_pandas().itertuples(index=False):
        inside = (
            (items.placed > time)
            & (items.placed <= time + pd.Timedelta(days=30))
            & (items.product_id == entity)
        )
        assert value == inside.sum()


def test_months_follow_the_calendar(make_db: Make, days: Callable[..., Any]) -> None:
    every_day = pd.date_range("2023-01-01", "2023-12-31").astype("datetime64[us]")
    db = make_db(
        {
            "people": {"columns": {"id": [0]}, "pkey": "id"},
            "visits": {
                "columns": {"at": every_day.to_numpy(), "person": [0] * len(every_day)},
                "time_col": "at",
                "fkeys": {"person": "people"},
            },
        },
        val="2023-07-31",
        test="2023-10-01",
    )
    task = db.task("PREDICT COUNT(visits.*, 0, 1, month) FOR EACH people.id")
    assert task.timedelta == pd.Timedelta(days=30)
    labelled = labels(task)
    assert labelled == {
        (d, e): (pd.Timestamp(d) + pd.DateOffset(months=1) - pd.Timestamp(d)).days
        for d, e in labelled
    }
    assert set(labelled.values()) >= {28, 31}
    # 2023-07-01 + 1 month would end on 2023-08-01, behind the validation time: left out. 2023-08-30
    # + 1 month fits before 2023-10-01.
    assert "2023-07-01" not in {d for d, _ in labelled}
    assert [str(t)[:10] for t in task.preview().seed_times["val"]] == ["2023-07-31", "2023-08-30"]


def test_sql_is_short_and_plain(ten_days: Database) -> None:
    task = ten_days.task("PREDICT COUNT(events.*, 0, 10, days) = 0 FOR EACH people.id")
    assert task.sql == (
        "WITH population AS (\n"
        "  SELECT t.timestamp, e.id AS entity\n"
        "  FROM timestamps t JOIN people e ON e.since <= t.timestamp\n"
        "),\n"
        "count_events AS (\n"
        "  SELECT t.timestamp, a.person AS entity, COUNT(*) AS value\n"
        "  FROM timestamps t\n"
        '  JOIN events a ON a."at" > t.timestamp AND a."at" <= t.timestamp + INTERVAL 10 DAY\n'
        "  GROUP BY ALL\n"
        ")\n"
        "SELECT timestamp, entity AS id, CAST(COALESCE(count_events.value, 0) = 0 AS BIGINT) AS "
        "target\n"
        "FROM population\n"
        "LEFT JOIN count_events USING (timestamp, entity)"
    )
