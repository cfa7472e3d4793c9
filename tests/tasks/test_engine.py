from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gelgt.errors import TaskError
from gelgt.sources.database import Database
from gelgt.tasks.engine import engine
from gelgt.tasks.times import timestamp

Make = Callable[..., Database]
TIMES = np.array(["2024-01-01"], dtype="datetime64[us]")


def run(db: Database, sql: str, until: str | None = None) -> list[dict[str, Any]]:
    with engine(db, None if until is None else timestamp(until, "test time")) as e:
        columns = e.run(sql, TIMES)
        return [
            row
            for batch in e.batches({c: f'"{c}"' for c in columns}, "true")
            for row in batch.to_pylist()
        ]


def test_rows_up_to_a_time_and_references_to_later_ones(
    make_db: Make, days: Callable[..., Any]
) -> None:
    db = make_db(
        {
            "posts": {
                "columns": {"id": [0, 1], "at": days("2024-01-01", "2024-06-01")},
                "pkey": "id",
                "time_col": "at",
            },
            "notes": {"columns": {"post": [0, 1, None]}, "fkeys": {"post": "posts"}},
        }
    )
    assert run(db, "SELECT count(*) AS n FROM posts", "2024-05-01") == [{"n": 1}]
    # notes are dated by their posts
    assert [r["post"] for r in run(db, "SELECT post FROM notes ORDER BY post", "2024-05-01")] == [0]
    assert sorted(r["post"] for r in run(db, "SELECT post FROM notes WHERE post IS NOT NULL")) == [
        0,
        1,
    ]


def test_references_to_rows_that_do_not_exist_yet_are_empty(
    make_db: Make, days: Callable[..., Any]
) -> None:
    db = make_db(
        {
            "posts": {
                "columns": {"id": [0, 1], "at": days("2024-01-01", "2024-06-01")},
                "pkey": "id",
                "time_col": "at",
            },
            "notes": {
                "columns": {"id": [0, 1], "post": [1, 0]},
                "pkey": "id",
                "fkeys": {"post": "posts"},
            },
            "views": {
                "columns": {"note": [0, 1], "post": [1, 0], "at": days("2024-02-01", "2024-02-01")},
                "time_col": "at",
            }
            | {"fkeys": {"note": "notes", "post": "posts"}},
        }
    )
    rows = run(db, "SELECT note, post FROM views ORDER BY post", "2024-05-01")
    # the first note is of a post that comes later
    assert rows == [{"note": 1, "post": 0}, {"note": None, "post": None}]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "America/New_York"])
def test_times_are_utc_whatever_their_unit_and_zone(
    make_db: Make, unit: str, zone: str | None
) -> None:
    at = (
        pa.array([np.datetime64("2024-01-01T05:00:00", unit)])
        .cast(pa.timestamp(unit))
        .view(pa.timestamp(unit, zone))
    )
    db = make_db({"events": {"columns": {"at": at, "x": [1]}, "time_col": "at"}})
    row = run(
        db,
        "SELECT e.at AS at, typeof(e.at) AS t, t.timestamp AS s FROM events e, timestamps t WHERE "
        "e.at = TIMESTAMP '2024-01-01 05:00:00'",
    )
    assert [(str(r["at"]), r["t"], str(r["s"])) for r in row] == [
        ("2024-01-01 05:00:00", "TIMESTAMP", "2024-01-01 00:00:00")
    ]


def test_nan_is_null(make_db: Make) -> None:
    db = make_db({"events": {"columns": {"x": np.array([1.0, np.nan, 3.0])}}})
    assert run(db, "SELECT avg(x) AS m, count(x) AS n FROM events") == [{"m": 2.0, "n": 2}]


def test_names_that_need_quotes(make_db: Make) -> None:
    db = make_db({'my "own" table': {"columns": {"select": [1], "it's": [2], "a b": [3]}}})
    assert run(db, 'SELECT "select", "it\'s", "a b" FROM "my ""own"" table"') == [
        {"select": 1, "it's": 2, "a b": 3}
    ]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_text('{file}')",
        "SELECT * FROM '{file}'",
        "SELECT * FROM read_parquet('{file}')",
        "COPY (SELECT 1) TO '{file}'",
        "SELECT 1; DROP VIEW orders",
        "ATTACH '{file}' AS x",
        "SET threads = 1",
        "INSTALL httpfs",
        "CREATE TABLE x AS SELECT 1",
        "SELECT * FROM frame",
    ],
)
def test_sql_reaches_nothing_but_the_tables(shop_db: Database, tmp_path: Path, sql: str) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("a\n1\n")
    frame = pa.table({"a": [1]})
    assert frame.num_rows == 1
    before = {p: p.read_bytes() for p in shop_db.folder.rglob("*") if p.is_file()}
    with pytest.raises(TaskError) as caught:
        run(shop_db, sql.replace("{file}", str(secret)))
    assert caught.value.code == "bad_sql"
    assert before == {p: p.read_bytes() for p in shop_db.folder.rglob("*") if p.is_file()}
    assert secret.read_text() == "a\n1\n"


def test_the_database_files_cannot_be_overwritten(shop_db: Database) -> None:
    with pytest.raises(TaskError, match="one SELECT"):
        run(shop_db, f"COPY (SELECT 1) TO '{shop_db.paths('orders')[0]}' (FORMAT parquet)")


def test_errors_name_the_tables(shop_db: Database) -> None:
    with pytest.raises(TaskError) as caught:
        run(shop_db, "SELECT x FROM oders")
    assert "oders" in caught.value.message
    assert (
        caught.value.hint
        == "It may use timestamps(timestamp) and the tables customers, products, orders, items."
    )


def test_names_that_differ_in_case_only(make_db: Make) -> None:
    with pytest.raises(TaskError, match="'Id' and 'ID' differ only in case"):
        run(make_db({"a": {"columns": {"Id": [1], "ID": [2]}}}), "SELECT 1 AS x")
    with pytest.raises(TaskError, match="'timestamps' and 'Timestamps'"):
        run(make_db({"Timestamps": {"columns": {"x": [1]}}}), "SELECT 1 AS x")


def test_comments_and_semicolons(shop_db: Database) -> None:
    assert run(shop_db, "-- how many?\nSELECT count(*) AS n FROM products; -- all\n") == [{"n": 8}]
