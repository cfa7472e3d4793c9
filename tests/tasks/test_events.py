"""Windows begin and end with the events that labels are about, whatever other tables hold of the
time before and behind."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import relbench

import gelgt
from gelgt.errors import TaskError
from gelgt.sources.database import Database
from gelgt.tasks import Task
from gelgt.tasks.events import find_events

CHURN = "PREDICT COUNT(orders.*, 0, 30, days) = 0 FOR EACH customers.id"
SQL = """SELECT timestamp, c.id, CAST(COUNT(o.id) = 0 AS BIGINT) AS churned
FROM timestamps CROSS JOIN customers c
LEFT JOIN orders o ON o.customer_id = c.id
  AND o.placed_at > timestamp AND o.placed_at <= timestamp + INTERVAL '{timedelta}'
GROUP BY ALL"""
START = pd.Timestamp("2023-01-01")


def frames(planned: bool = True) -> dict[str, pd.DataFrame]:
    """500 days of orders, whose lines have no time, a table of visits that ends 40 days earlier,
    and campaigns for half a year ahead."""
    rng = np.random.default_rng(2)
    orders = pd.DataFrame({"id": range(2000), "customer_id": rng.integers(0, 60, 2000)})
    orders["placed_at"] = START + pd.to_timedelta(np.linspace(0, 500, 2000), "D").round("s")
    visits = pd.DataFrame({"id": range(1000), "customer_id": rng.integers(0, 60, 1000)})
    visits["place"] = rng.random(1000)
    visits["seen_at"] = START + pd.to_timedelta(np.linspace(0, 460, 1000), "D").round("s")
    lines = pd.DataFrame({"order_id": np.repeat(orders["id"], 2), "amount": 1.0})
    tables = {
        "customers": pd.DataFrame({"id": range(60)}),
        "orders": orders,
        "visits": visits,
        "order_items": lines,
    }
    campaigns = pd.DataFrame(
        {
            "id": range(30),
            "starts_at": START + pd.to_timedelta(np.linspace(10, 680, 30), "D").round("s"),
        }
    )
    return tables | ({"campaigns": campaigns} if planned else {})


@pytest.fixture(scope="module")
def db() -> Database:
    return gelgt.open(frames())


def last_end(task: Task) -> pd.Timestamp:
    assert task.timedelta is not None
    return pd.Timestamp(task.preview().seed_times["test"].max()) + task.timedelta


def positives(task: Task) -> list[float]:
    return [task.preview().target[split]["positives"] for split in ("train", "val", "test")]


@pytest.mark.parametrize("options", [{}, {"val": "2024-01-15", "test": "2024-03-15"}])
def test_planned_rows_make_no_windows(db: Database, options: dict[str, Any]) -> None:
    end = frames()["orders"]["placed_at"].max()
    task = db.task(CHURN, **options)
    assert last_end(task) <= end
    assert max(positives(task)) < 0.5
    assert any(
        "windows end at 2024-05-15, the latest row of 'orders'; other tables go on to" in n
        for n in task.notices
    )
    assert not any("hold no row" in n for n in task.notices)
    without = gelgt.open(frames(planned=False)).task(
        CHURN, val=task.val_timestamp, test=task.test_timestamp
    )
    for split in ("train", "val", "test"):
        assert task.table(split).equals(without.table(split))


def test_rows_of_long_ago_do_not_stretch_guessed_times() -> None:
    tables = frames()
    tables["campaigns"].loc[0, "starts_at"] = pd.Timestamp("1990-01-01")
    task = gelgt.open(tables).task(CHURN)
    assert task.val_timestamp is not None
    assert task.val_timestamp > START + pd.Timedelta(days=350)


def late_orders() -> Database:
    """Campaigns that were recorded for 200 days before the first order, and visits 100 days after
    it."""
    tables = frames()
    tables["campaigns"]["starts_at"] -= pd.Timedelta(days=210)
    later = tables["visits"]["seen_at"] >= START + pd.Timedelta(days=100)
    tables["visits"] = tables["visits"][later]
    return gelgt.open(tables)


def first_seed(task: Task) -> pd.Timestamp:
    return pd.Timestamp(task.preview().seed_times["train"].min())


def test_nobody_is_taught_as_inactive_before_the_records_begin() -> None:
    db = late_orders()
    task = db.task(CHURN)
    assert START <= first_seed(task) < START + pd.Timedelta(days=30)
    assert positives(task)[0] < 0.5
    said = "windows begin at 2023-01-01, the earliest row of 'orders'; other tables go back to"
    assert any(said in notice for notice in task.notices), task.notices
    sql = db.task(SQL, timedelta="30 days", entity="customers.id")
    assert first_seed(sql) == first_seed(task)


def test_the_last_table_that_begins_counts_where_no_row_is_a_label() -> None:
    db, begun = late_orders(), START + pd.Timedelta(days=100)
    both = (
        "PREDICT COUNT(orders.*, 0, 30, days) > COUNT(visits.*, 0, 30, days) FOR EACH customers.id"
    )
    assert first_seed(db.task(both)) >= begun
    with pytest.raises(TaskError, match="between the earliest row of 'visits'"):
        db.task(both, val="2023-06-01", test="2024-01-01")
    # a window without a visit has no latest one, and no label
    latest = db.task("PREDICT MAX(visits.place, 0, 30, days) FOR EACH customers.id")
    assert find_events(db, latest).began < START


def test_sql_ends_with_the_tables_that_it_reads(db: Database) -> None:
    task = db.task(SQL, timedelta="30 days", entity="customers.id")
    assert last_end(task) <= frames()["orders"]["placed_at"].max()
    assert max(positives(task)) < 0.5
    planned = SQL.replace(
        "GROUP BY ALL",
        "LEFT JOIN campaigns k ON k.starts_at > timestamp AND k.starts_at <= timestamp + INTERVAL "
        "1 DAY\nGROUP BY ALL",
    )
    both = db.task(planned, timedelta="30 days", entity="customers.id")
    # which of them it counts is not known
    assert last_end(both) > frames()["orders"]["placed_at"].max()
    assert any("'orders' ends at 2024-05-15, windows at" in notice for notice in both.notices)
    assert not any("ends at" in notice for notice in task.notices)


def test_the_first_table_that_ends_counts(db: Database) -> None:
    both = (
        "PREDICT COUNT(orders.*, 0, 30, days) = 0 FOR EACH customers.id WHERE COUNT(visits.*, "
        "0, 30, days) > 0"
    )
    assert last_end(db.task(both)) <= frames()["visits"]["seen_at"].max()
    past = (
        "PREDICT COUNT(orders.*, 0, 30, days) = 0 FOR EACH customers.id WHERE COUNT(visits.*, "
        "-90, 0, days) > 0"
    )
    assert find_events(db, db.task(past)).latest == frames()["orders"]["placed_at"].max()


def test_lines_without_a_time_end_with_their_orders(db: Database) -> None:
    task = db.task("PREDICT SUM(order_items.amount, 0, 30, days) FOR EACH customers.id")
    assert last_end(task) <= frames()["orders"]["placed_at"].max()


def test_stated_times_behind_the_events_are_an_error(db: Database) -> None:
    with pytest.raises(
        TaskError, match="ends after the latest row of 'orders' \\(2024-05-15\\)"
    ) as caught:
        db.task(CHURN, val="2024-03-01", test="2024-06-01")
    assert caught.value.hint.startswith("Set the test time to 2024-04-15 or earlier")


def test_a_column_is_split_within_its_own_rows() -> None:
    tables = frames()
    tables["orders"]["amount"] = np.arange(2000.0)
    tables["campaigns"]["starts_at"] += pd.Timedelta(days=900)
    task = gelgt.open(tables).task("PREDICT orders.amount FOR EACH orders.id")
    assert min(task.rows.values()) > 0


def test_relbench_tasks_go_on_as_relbench_has_it(
    make_db: Callable[..., Database], random_shop: Callable[..., Any]
) -> None:
    tables = random_shop()
    ahead = np.datetime64("2024-08-01", "us") + np.arange(10) * np.timedelta64(20, "D")
    tables["campaigns"] = {
        "columns": {"id": np.arange(10), "at": ahead},
        "pkey": "id",
        "time_col": "at",
    }
    db = make_db(tables)
    folder = db.folder / "tasks" / "churn"
    folder.mkdir(parents=True)
    lines = [f"  {line}" for line in SQL.replace("placed_at", "placed").splitlines()]
    text = [
        "name: churn",
        "kind: forecast",
        "task_type: binary_classification",
        "entity_table: customers",
        "entity_col: id",
        "target_col: churned",
    ]
    text += [
        "time_col: timestamp",
        "timedelta: 30 days",
        "num_eval_timestamps: 8",
        "sql: |",
        *lines,
    ]
    (folder / "manifest.yaml").write_text("\n".join(text))
    task = db.task("churn")
    theirs = relbench.load_dataset(db.folder).load_task("churn", regenerate=True)
    for split in ("train", "val", "test"):
        assert len(theirs.get_table(split, mask_input_cols=False)) == task.rows[split]
    assert any(
        n.startswith("test: 4 of 8 windows hold no row of 'orders'") for n in task.notices
    ), task.notices
    for split in ("train", "val", "test"):  # read from files, the same is said
        theirs.get_table(split, mask_input_cols=False).df.to_parquet(folder / f"{split}.parquet")
    assert any("windows hold no row of 'orders'" in n for n in db.task("churn").notices)


def test_the_default_prediction_time_follows_the_last_order(db: Database) -> None:
    from gelgt.inference.seeds import choose_seeds

    task = db.task(CHURN)
    seeds = choose_seeds(db, db.graph(), task)
    end = frames()["orders"]["placed_at"].max()
    assert (seeds.times == (end.floor("s") + pd.Timedelta(seconds=1)).timestamp()).all()
    assert any("2024-05-15" in n for n in seeds.notices)
