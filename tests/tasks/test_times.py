from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import gelgt
from gelgt.errors import TaskError
from gelgt.sources.database import Database
from gelgt.tasks.times import duration, duration_text, time_range, time_text, timestamp


@pytest.mark.parametrize(
    "value",
    [
        "2024-01-01T02:00:00+02:00",
        "2024-01-01",
        datetime(2024, 1, 1, tzinfo=UTC),
        np.datetime64("2024-01-01", "ns"),
        pd.Timestamp("2024-01-01"),
    ],
)
def test_timestamp(value: Any) -> None:
    assert timestamp(value, "time") == pd.Timestamp("2024-01-01")


@pytest.mark.parametrize("value", ["soon", 20240101, None, True, pd.NaT])
def test_no_timestamp(value: Any) -> None:
    with pytest.raises(TaskError, match=r"The test time must be a time, got"):
        timestamp(value, "test time")


def test_duration() -> None:
    assert (
        duration("30 days")
        == duration(timedelta(days=30))
        == duration(pd.Timedelta(days=30))
        == pd.Timedelta(days=30)
    )
    for value in ("soon", "-3 days", 30, "0 days", None):
        with pytest.raises(TaskError, match="must be a positive duration"):
            duration(value)


def test_texts_round_trip() -> None:
    for delta in (pd.Timedelta(days=3), pd.Timedelta(hours=5), pd.Timedelta(days=1, seconds=7)):
        assert duration(duration_text(delta)) == delta
    assert time_text(pd.Timestamp("2024-01-01")) == "2024-01-01"
    assert timestamp(time_text(pd.Timestamp("2024-01-01 12:30")), "t") == pd.Timestamp(
        "2024-01-01 12:30"
    )


def test_time_range(shop_db: Database) -> None:
    joined, placed = (
        shop_db.read("customers")["joined"].to_numpy(),
        shop_db.read("orders")["placed"].to_numpy(),
    )
    both = np.concatenate([joined, placed])
    assert time_range(shop_db).earliest == both.min()
    assert time_range(shop_db).latest == both.max()
    assert (
        time_range(shop_db, until=pd.Timestamp("2024-01-01")).latest
        == both[both <= np.datetime64("2024-01-01")].max()
    )


def test_times_that_stand_for_never_make_no_windows() -> None:
    placed = list(pd.date_range("2024-01-01", periods=598, freq="12h"))
    orders = pd.DataFrame(
        {
            "id": range(600),
            "customer_id": [i % 40 for i in range(600)],
            "placed_at": [*placed, *["9999-12-31"] * 2],
        }
    )
    orders["placed_at"] = orders["placed_at"].astype("datetime64[us]")
    db = gelgt.open({"customers": pd.DataFrame({"id": range(40)}), "orders": orders})
    span = time_range(db)
    assert (span.earliest, span.latest, span.strays) == (placed[0], placed[-1], 2)
    task = db.task("PREDICT COUNT(orders.*, 0, 20, days) > 0 FOR EACH customers.id")
    assert (
        max(times.max() for times in task.preview().seed_times.values()) + np.timedelta64(20, "D")
        <= placed[-1]
    )
    assert any("2 rows far after" in notice for notice in task.notices)


def test_a_long_pause_is_no_stray_time() -> None:
    days = [*pd.date_range("2020-01-01", periods=300), *pd.date_range("2024-01-01", periods=20)]
    db = gelgt.open({"events": pd.DataFrame({"id": range(320), "at": days})})
    assert (time_range(db).latest, time_range(db).strays) == (days[-1], 0)


@pytest.mark.parametrize("group_rows", [1, 7, 1000])
def test_the_range_of_a_table_in_many_row_groups(group_rows: int) -> None:
    """However the file is divided: nulls at the end, stray times, and a limit in the middle."""
    days = list(pd.date_range("2023-01-01", periods=590))
    times = [*days, pd.Timestamp("2200-01-01"), pd.Timestamp("2200-01-02"), *[pd.NaT] * 8]
    db = gelgt.open({"events": pd.DataFrame({"id": range(600), "at": times})})
    table = pq.read_table(db.paths("events")[0])
    pq.write_table(table, db.paths("events")[0], row_group_size=group_rows)
    db = gelgt.open(db.folder)
    span = time_range(db)
    assert (span.earliest, span.latest, span.strays) == (days[0], days[-1], 2)
    for until in (days[0], days[300], days[-1]):
        span = time_range(db, until=until)
        assert (span.earliest, span.latest, span.strays) == (days[0], until, 0)
    with pytest.raises(TaskError, match="has a row with a time up to 2022-12-31"):
        time_range(db, until=pd.Timestamp("2022-12-31"))


@pytest.mark.parametrize(
    "text", ["00:00", "Mar 3", "3/4", "24-03-01", "now", "2024-01-01 00:00:00 +99999999999:00"]
)
def test_a_time_without_a_year_is_not_guessed(text: str) -> None:
    """pandas would take today's, the year 1 or 2001."""
    with pytest.raises(TaskError, match="must be a time") as caught:
        timestamp(text, "validation time")
    assert caught.value.code == "bad_time"
