from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
import pytest

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
    with pytest.raises(TaskError, match=r"The test time .* is no time"):
        timestamp(value, "test time")


def test_duration() -> None:
    assert duration("30 days") == duration(timedelta(days=30)) == duration(pd.Timedelta(days=30)) == pd.Timedelta(days=30)
    for value in ("soon", "-3 days", 30, "0 days", None):
        with pytest.raises(TaskError, match="is no positive duration"):
            duration(value)


def test_texts_round_trip() -> None:
    for delta in (pd.Timedelta(days=3), pd.Timedelta(hours=5), pd.Timedelta(days=1, seconds=7)):
        assert duration(duration_text(delta)) == delta
    assert time_text(pd.Timestamp("2024-01-01")) == "2024-01-01"
    assert timestamp(time_text(pd.Timestamp("2024-01-01 12:30")), "t") == pd.Timestamp("2024-01-01 12:30")


def test_time_range(shop_db: Database) -> None:
    joined, placed = shop_db.read("customers")["joined"].to_numpy(), shop_db.read("orders")["placed"].to_numpy()
    both = np.concatenate([joined, placed])
    assert time_range(shop_db).earliest == both.min()
    assert time_range(shop_db).latest == both.max()
    assert time_range(shop_db, until=pd.Timestamp("2024-01-01")).latest == both[both <= np.datetime64("2024-01-01")].max()
