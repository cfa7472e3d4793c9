"""Numbers that count from 1970 are times in every kind of source, and other numbers in none."""

import sqlite3
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pytest

import gelgt
from gelgt.inference.source import stated
from gelgt.sources import state
from gelgt.sources.epoch import EpochProfile, from_epoch, is_timelike

SECONDS = [1_520_000_000 + 86_400 * i for i in range(40)]
Values = Any


@pytest.mark.parametrize(
    "name",
    [
        *("ts", "time", "timestamp", "created", "createdAt", "created_at", "updated_on", "at"),
        *("hiredate", "createdtime", "unixtime", "epochms", "createdat", "dateadded", "eventts"),
        *("created_utc", "time_ms", "tsms", "unixReviewTime", "TIME_STAMP", "period_end", "time2"),
        *("ratechangedate", "ModifiedDate", "last_seen", "expires", "visited", "utc"),
    ],
)
def test_names_of_times(name: str) -> None:
    assert is_timelike(name)


@pytest.mark.parametrize(
    "name",
    [
        *("price", "amount", "amount_posted", "revenue_closed", "budget", "total", "balance"),
        *("id", "event_id", "epoch_id", "timestamp_key", "order_no", "serial", "ean", "phone"),
        *("candidate", "mandate", "lifetime", "runtime", "uptime", "stat", "format", "season"),
        *("ip_start", "products", "accounts", "location", "combination", "ms", "utc_offset"),
    ],
)
def test_names_of_other_numbers(name: str) -> None:
    assert not is_timelike(name)


def unit(*values: Any) -> str | None:
    array = pa.array(values)
    profile = EpochProfile()
    for start in range(0, len(values), 2):
        profile.add(array[start : start + 2])
    return profile.unit


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((1_520_000_000, None, 1_520_000_001), "seconds"),
        ((1_520_000_000_000, 1_520_000_000_001), "milliseconds"),
        ((1_520_000_000_000_000,), "microseconds"),
        ((1_520_000_000_000_000_001,), "nanoseconds"),
        ((1_520_000_000.0, None, 1_520_000_000.25), "seconds"),
        (("1520000000", "NA", None, "+1520000001"), "seconds"),
        (("1520000000.0", "1.52e9", "nan"), "seconds"),
        (("1520000000000000001",), "nanoseconds"),
        ((0, -1, 1_520_000_000), "seconds"),
        ((0, -1, 0), None),
        ((1_520_000_000, 7), None),
        ((1_520_000_000, 1_520_000_000_000), None),
        ((1_520_000_000, -1_520_000_000), None),
        ((100_000_000, 631_151_999), None),
        (("1520000000", "never"), None),
        (("01520000000",), None),
        (("2018-03-02",), None),
        ((None, None), None),
        ((), None),
    ],
)
def test_the_unit_is_the_one_that_all_values_fit(values: Values, expected: str | None) -> None:
    assert unit(*values) == expected


def test_finer_digits_are_cut() -> None:
    nanos = pa.array(["1520000000999999999", None])
    assert from_epoch(nanos, "nanoseconds").to_pylist() == [
        datetime(2018, 3, 2, 14, 13, 20, 999_999),
        None,
    ]
    halves = pa.array([1_520_000_000.5, float("nan"), 0.0])
    assert from_epoch(halves, "seconds").to_pylist() == [
        datetime(2018, 3, 2, 14, 13, 20, 500_000),
        None,
        None,
    ]


def as_frames(frame: pd.DataFrame, folder: Path) -> Any:
    return {"visits": frame}


def as_csv(frame: pd.DataFrame, folder: Path) -> Any:
    frame.to_csv(folder / "visits.csv", index=False)
    return folder


def as_quoted_csv(frame: pd.DataFrame, folder: Path) -> Any:
    frame.to_csv(folder / "visits.csv", index=False, quoting=1)
    return folder


def as_parquet(frame: pd.DataFrame, folder: Path) -> Any:
    frame.to_parquet(folder / "visits.parquet")
    return folder


def as_sqlite(frame: pd.DataFrame, folder: Path) -> Any:
    with sqlite3.connect(folder / "visits.db") as connection:
        frame.to_sql("visits", connection, index=False)
    return folder / "visits.db"


def as_untyped_sqlite(frame: pd.DataFrame, folder: Path) -> Any:
    """Columns without a declared type keep values as they are given."""
    with sqlite3.connect(folder / "visits.db") as connection:
        columns = list(frame.columns)
        connection.execute(f"CREATE TABLE visits ({', '.join(columns)})")
        rows = frame.astype(object).where(frame.notna(), None).itertuples(index=False)
        marks = ", ".join("?" * len(columns))
        connection.executemany(f"INSERT INTO visits VALUES ({marks})", [tuple(r) for r in rows])
    return folder / "visits.db"


def as_duckdb(frame: pd.DataFrame, folder: Path) -> Any:
    with duckdb.connect(str(folder / "visits.duckdb")) as connection:
        connection.register("frame", frame)
        connection.execute("CREATE TABLE visits AS SELECT * FROM frame")
    return folder / "visits.duckdb"


SOURCES = [as_frames, as_csv, as_quoted_csv, as_parquet, as_sqlite, as_untyped_sqlite, as_duckdb]
GAPS: Values = [None if i % 9 == 4 else s for i, s in enumerate(SECONDS)]
COLUMNS: dict[str, tuple[Values, str]] = {
    "hiredate": (SECONDS, "timestamp"),
    "time_ms": ([s * 1000 for s in SECONDS], "timestamp"),
    "event_ts": ([s * 10**9 + 1 for s in SECONDS], "timestamp"),
    "seen_at": ([0 if s is None else s for s in GAPS], "timestamp"),
    "left_at": (pd.array(GAPS, dtype="float64"), "timestamp"),
    "written_at": ([str(s) for s in SECONDS], "timestamp"),
    "noted_at": (["NA" if s is None else str(s) for s in GAPS], "timestamp"),
    "price": ([s // 1000 * 1000 for s in SECONDS], "int64"),
    "serial": ([s * 1000 for s in SECONDS], "int64"),
    "tweet": ([s * 10**9 + 1 for s in SECONDS], "int64"),
    "at": ([7, *SECONDS[1:]], "int64"),
}


@pytest.mark.parametrize("write", SOURCES)
def test_the_same_values_have_the_same_types_in_every_source(
    write: Callable[[pd.DataFrame, Path], Any], tmp_path: Path
) -> None:
    frame = pd.DataFrame({"id": range(40), **{c: values for c, (values, _) in COLUMNS.items()}})
    db = gelgt.open(write(frame, tmp_path))
    types = db.table("visits").columns
    assert {c: types[c] for c in COLUMNS} == {c: arrow for c, (_, arrow) in COLUMNS.items()}
    rows = db.read("visits").to_pandas()
    for column in ("hiredate", "time_ms", "written_at"):
        assert list(rows[column]) == list(pd.to_datetime(SECONDS, unit="s"))
    for column in ("seen_at", "left_at", "noted_at"):
        assert list(rows[column].isna()) == [s is None for s in GAPS]
    assert list(rows["tweet"]) == COLUMNS["tweet"][0]


def test_a_table_of_csv_with_epoch_seconds_has_a_time(tmp_path: Path) -> None:
    ratings = pd.DataFrame({"userId": [1, 1, 2], "rating": [3.5, 4.0, 1.0]})
    ratings["timestamp"] = [964_982_703, 964_981_247, 1_445_714_835]
    ratings.to_csv(tmp_path / "ratings.csv", index=False)
    assert gelgt.open(tmp_path).table("ratings").time_col == "timestamp"


@pytest.mark.parametrize("kind", ["numerical", "categorical", "text"])
def test_a_stated_kind_keeps_numbers(kind: str, tmp_path: Path) -> None:
    as_csv(pd.DataFrame({"id": range(40), "start": SECONDS}), tmp_path)
    db = gelgt.open(tmp_path, schema={"visits": {"kinds": {"start": kind}}})
    assert db.table("visits").columns["start"] == ("int64" if kind == "numerical" else "string")


def test_later_rows_are_read_as_the_older_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "DOUBT", -1e9)  # files are trusted as soon as they are written
    frame = pd.DataFrame({"id": range(40), "seen_at": SECONDS})

    def opened(rows: int, **options: Any) -> gelgt.Database:
        as_csv(frame[:rows], tmp_path)
        return gelgt.open(tmp_path, **options)

    options: dict[str, Any] = {"schema": stated(opened(30).schema), "tables": ["visits"]}
    grown = opened(40, **options)
    assert grown.growth is not None
    assert list(grown.read("visits").to_pandas()["seen_at"]) == list(
        pd.to_datetime(SECONDS, unit="s")
    )
    frame.loc[39, "seen_at"] = 12  # read together, the values are no times
    with pytest.raises(gelgt.GelgtError, match="must hold times, but holds int64"):
        opened(40, **options)


@pytest.mark.parametrize("is_text", [True, False])
def test_days_written_as_digits(is_text: bool, tmp_path: Path) -> None:
    """20231225 in a column named like a time is a day; numbers that are no days stay numbers."""
    days = pd.date_range("2023-12-25", periods=300)
    digits = days.strftime("%Y%m%d").astype(int)
    frame = pd.DataFrame({"id": range(300), "order_date": digits, "checked_at": digits + 20})
    frame.loc[7, "order_date"] = 0
    source: Any = {"orders": frame}
    if is_text:
        frame.to_csv(tmp_path / "orders.csv", index=False)
        source = tmp_path
    db = gelgt.open(source)
    assert db.table("orders").time_col == "order_date"
    assert db.table("orders").columns["checked_at"] == "int64", "20231232 is no day"
    read = db.read("orders").column("order_date").to_pylist()
    assert read[:299] == [day.to_pydatetime() for day in days.delete(7)]
    assert read[299] is None
