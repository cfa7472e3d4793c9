"""The same rows give the same times, in whatever unit or zone a file holds them; pandas is the
judge."""

from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from gelgt.graph import open_graph

MOMENTS = [
    "1969-12-31 23:59:58",
    "1950-05-13",
    "2000-02-29 12:30:01",
    "2024-07-01 00:00:00",
    "2038-01-19 03:14:08",
    "1970-01-01",
]
DAYS = ["1969-12-31", "1950-05-13", "2000-02-29", "2024-07-01"]


def node_times(make_db: Any, column: pa.Array) -> list[int]:
    return open_graph(
        make_db({"t": (pa.table({"at": column}), {"time_col": "at"})})
    ).node_time.tolist()


def pandas_seconds(series: pd.Series) -> list[int]:
    return ((series - pd.Timestamp(0)) // pd.Timedelta(seconds=1)).tolist()


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin", "America/New_York", "+05:30"])
def test_unit_and_zone_make_no_difference(make_db: Any, unit: str, zone: str | None) -> None:
    utc = pd.Series(pd.to_datetime(MOMENTS, format="ISO8601"))
    delivered = utc if zone is None else utc.dt.tz_localize("UTC").dt.tz_convert(zone)
    column = pa.array(delivered.dt.as_unit(unit))
    assert column.type == pa.timestamp(unit, zone)
    assert node_times(make_db, column) == pandas_seconds(utc)


def test_local_times_of_a_zone_are_that_instant(make_db: Any) -> None:
    local = pd.Series(pd.to_datetime(["2024-07-01 02:00", "2024-01-01 01:00"])).dt.tz_localize(
        "Europe/Berlin"
    )
    utc = local.dt.tz_convert("UTC").dt.tz_localize(None)
    assert node_times(make_db, pa.array(local)) == pandas_seconds(utc) == [1719792000, 1704067200]


@pytest.mark.parametrize("arrow", [pa.date32(), pa.date64()])
def test_dates_are_midnight(make_db: Any, arrow: pa.DataType) -> None:
    column = pa.array([pd.Timestamp(day).date() for day in DAYS], arrow)
    assert node_times(make_db, column) == pandas_seconds(pd.Series(pd.to_datetime(DAYS)))


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_fractions_round_down_on_both_sides_of_1970(make_db: Any, unit: str) -> None:
    series = pd.Series(
        pd.to_datetime(
            ["1969-12-31 23:59:58.999", "1970-01-01 00:00:00.001", "2024-07-01 00:00:00.999"]
        )
    )
    assert (
        node_times(make_db, pa.array(series.dt.as_unit(unit)))
        == pandas_seconds(series)
        == [-2, 0, 1719792000]
    )
