"""Times are right whatever unit, type or zone a source delivers them in."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import gelgt

MOMENTS = pd.to_datetime(
    ["2001-02-03 04:05:06", "1969-12-31 23:59:59", "2024-02-29 00:00:00", "2038-01-19 03:14:08"]
)
SECONDS = sorted(int(m.timestamp()) for m in MOMENTS)


def node_seconds(values: object) -> list[int]:
    """The times of the graph for one table whose time column holds these values."""
    table = pa.table({"id": pa.array(range(4)), "created_at": values})
    db = gelgt.open({"events": table}, schema={"events": {"pkey": "id", "time_col": "created_at"}})
    return [int(t) for t in db.graph().node_time]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "America/New_York", "+05:30"])
def test_arrow_timestamps(unit: str, zone: str | None) -> None:
    values = pa.array(MOMENTS.tz_localize("UTC").as_unit(unit)).cast(
        pa.timestamp(unit, zone or "UTC")
    )
    assert node_seconds(values if zone else values.cast(pa.timestamp(unit))) == SECONDS


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_pandas_frames(unit: str) -> None:
    frame = pd.DataFrame({"id": range(4), "created_at": MOMENTS.as_unit(unit)})
    expected = sorted(frame["created_at"].astype("datetime64[s]").astype("int64"))
    db = gelgt.open({"events": frame})
    assert list(db.graph().node_time) == expected == SECONDS


@pytest.mark.parametrize(
    "pattern",
    [
        "%Y-%m-%d %H:%M:%S",
        "%Y-%m-%dT%H:%M:%S",
        "%Y-%m-%dT%H:%M:%SZ",
        "%Y-%m-%d %H:%M:%S+00:00",
        "%Y-%m-%d %H:%M:%S.000",
    ],
)
def test_strings(pattern: str) -> None:
    assert node_seconds(pa.array(MOMENTS.strftime(pattern))) == SECONDS


def test_strings_in_several_zones() -> None:
    offsets = ["+02:00", "-0800", "Z", "+05:30"]
    zones = ["Etc/GMT-2", "Etc/GMT+8", "UTC", "Asia/Kolkata"]
    texts = [
        m.tz_localize("UTC").tz_convert(z).strftime("%Y-%m-%d %H:%M:%S") + o
        for m, o, z in zip(MOMENTS, offsets, zones)
    ]
    assert node_seconds(pa.array(texts)) == SECONDS


@pytest.mark.parametrize(("scale", "unit"), [(1, "s"), (10**3, "ms"), (10**6, "us"), (10**9, "ns")])
def test_epoch_numbers(scale: int, unit: str) -> None:
    recent = pd.to_datetime(
        ["2001-02-03 04:05:06", "2020-01-01 00:00:00", "2024-02-29 00:00:00", "2030-01-19 03:14:08"]
    )
    seconds = [int(m.timestamp()) for m in recent]
    assert node_seconds(pa.array([s * scale for s in seconds])) == sorted(seconds)


def test_dates() -> None:
    days = pa.array(
        np.array(["2001-02-03", "1969-12-31", "2024-02-29", "2038-01-19"], dtype="datetime64[D]")
    )
    assert node_seconds(days) == sorted(int(d) * 86_400 for d in days.cast(pa.int32()).to_pylist())


def test_fractions_are_cut_not_rounded() -> None:
    values = pa.array(["2024-01-01 00:00:00.999999999"] * 4)
    assert node_seconds(values) == [int(pd.Timestamp("2024-01-01").timestamp())] * 4


def test_csv_keeps_times(tmp_path: Path) -> None:
    pd.DataFrame({"id": range(4), "created_at": MOMENTS}).to_csv(
        tmp_path / "events.csv", index=False
    )
    assert list(gelgt.open(tmp_path).graph().node_time) == SECONDS


def test_numbers_that_only_look_like_times_stay_numbers() -> None:
    db = gelgt.open(
        {"events": pd.DataFrame({"id": [1, 2], "serial": [1_600_000_000, 1_700_000_000]})}
    )
    assert db.table("events").columns["serial"] == "int64"


def test_null_times_are_never_seen() -> None:
    frame = pd.DataFrame(
        {"id": [1, 2, 3], "created_at": pd.to_datetime(["2024-01-02", None, "2024-01-01"])}
    )
    db = gelgt.open({"events": frame})
    assert db.keys("events").column(0).to_pylist() == [3, 1, 2]  # type: ignore[union-attr]
    assert db.graph().node_time[-1] == np.iinfo(np.int64).max
