"""What real servers hold beside plain tables: partitions, views, other schemas, rights, odd types
and dates that are none."""

import sqlite3
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

import gelgt
from gelgt import GelgtError

POSTGRES = """
CREATE SCHEMA odd; CREATE SCHEMA other; SET search_path TO odd;
CREATE TYPE mood AS ENUM ('sad', 'happy');
CREATE TABLE people (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), joined_at timestamptz,
                     mood mood, shape point, doc xml, boss uuid REFERENCES people,
                     fee numeric(8, 2), twice numeric GENERATED ALWAYS AS (fee * 2) STORED);
INSERT INTO people (joined_at, mood, shape, doc, fee) VALUES
    ('2024-01-01 00:30+05', 'sad', '(1,2)', '<a/>', 1.5), ('infinity', NULL, NULL, NULL, NULL);
CREATE TABLE events (id bigint, at timestamptz) PARTITION BY RANGE (at);
CREATE TABLE events_a PARTITION OF events FOR VALUES FROM ('2024-01-01') TO ('2024-02-01');
CREATE TABLE events_b PARTITION OF events FOR VALUES FROM ('2024-02-01') TO ('2024-03-01');
INSERT INTO events SELECT i, timestamptz '2024-01-01 12:00+00' + i * interval '1 day'
    FROM generate_series(1, 40) i;
CREATE TABLE bare ();
CREATE VIEW seen AS SELECT id, at FROM events WHERE id <= 10;
CREATE MATERIALIZED VIEW kept AS SELECT id FROM events WHERE id <= 20;
CREATE TABLE secret (id int PRIMARY KEY);
CREATE TABLE other.deals (id int PRIMARY KEY, who uuid REFERENCES people);
CREATE ROLE reader LOGIN PASSWORD 'reader';
GRANT USAGE ON SCHEMA odd TO reader;
GRANT SELECT ON ALL TABLES IN SCHEMA odd TO reader; REVOKE ALL ON secret FROM reader
"""


@pytest.fixture(scope="module")
def odd(postgres: Any) -> Iterator[str]:
    engine = sa.create_engine(
        postgres.url.replace("postgresql:", "postgresql+psycopg:"), isolation_level="AUTOCOMMIT"
    )
    with engine.connect() as connection:
        connection.exec_driver_sql(POSTGRES)
        yield postgres.url
        connection.exec_driver_sql(
            "DROP SCHEMA odd CASCADE; DROP SCHEMA other CASCADE; DROP ROLE reader"
        )
    engine.dispose()


@pytest.mark.postgres
def test_a_partitioned_table_is_one_table_and_a_table_without_columns_none(
    odd: str, recwarn: Any
) -> None:
    db = gelgt.open(odd, namespace="odd")
    assert db.table_names == ["events", "people", "secret"]
    assert db.num_rows("events") == 40
    assert ("no_columns", "bare") in [(f.code, f.table) for f in db.import_findings]
    assert db.read("people", ["joined_at"]).column(0).to_pylist() == [
        datetime(2023, 12, 31, 19, 30),
        None,
    ]
    assert not [w for w in recwarn if "Did not recognize type" in str(w.message)]


@pytest.mark.postgres
def test_views_and_partitions_are_read_when_they_are_named(odd: str) -> None:
    db = gelgt.open(odd, namespace="odd", tables=["seen", "kept", "events_b"])
    assert {name: db.num_rows(name) for name in db.table_names} == {
        "seen": 10,
        "kept": 20,
        "events_b": 10,
    }
    with pytest.raises(GelgtError, match="Did you mean 'seen'") as caught:
        gelgt.open(odd, namespace="odd", tables=["sen"])
    assert caught.value.code == "unknown_table"


@pytest.mark.postgres
def test_a_table_that_the_user_may_not_read_is_left_out_and_reported(odd: str) -> None:
    reader = f"postgresql://reader:reader@{odd.split('@')[-1]}"
    db = gelgt.open(reader, namespace="odd")
    assert "secret" not in db.table_names
    assert ("unreadable_table", "secret") in [(f.code, f.table) for f in db.import_findings]
    with pytest.raises(GelgtError) as caught:
        gelgt.open(reader, namespace="odd", tables=["secret"])
    assert caught.value.code == "unreadable_table"


@pytest.mark.postgres
def test_a_key_into_another_schema_is_reported(odd: str) -> None:
    db = gelgt.open(odd, namespace="other")
    assert [(f.code, f.table, f.column) for f in db.import_findings] == [
        ("outside_key", "deals", "who")
    ]


@pytest.mark.mysql
def test_dates_small_numbers_and_geometry_of_mariadb(mariadb: Any) -> None:
    engine = sa.create_engine(
        mariadb.url.replace("mysql:", "mysql+pymysql:"), isolation_level="AUTOCOMMIT"
    )
    with engine.connect() as connection:
        for statement in (
            "SET sql_mode = ''",
            "CREATE TABLE odd (id binary(2) PRIMARY KEY, day date, moment datetime(6), is_new "
            "tinyint(1), level tinyint(1), place point)",
            "INSERT INTO odd VALUES ('ab', '2024-01-31', '2024-01-31 10:00:00.123456', 1, 4, "
            "POINT(1, 2))",
            "INSERT INTO odd VALUES ('cd', '0000-00-00', '0000-00-00 00:00:00', 0, 2, NULL)",
        ):
            connection.exec_driver_sql(statement)
        db = gelgt.open(mariadb.url, tables=["odd"], schema={"odd": {"time_col": "moment"}})
        connection.exec_driver_sql("DROP TABLE odd")
    engine.dispose()
    rows = db.read("odd").to_pydict()
    assert rows["day"] == [datetime(2024, 1, 31), None]
    assert rows["moment"] == [datetime(2024, 1, 31, 10, 0, 0, 123456), None]
    assert rows["is_new"] == [True, False]
    assert rows["level"] == [4, 2]
    assert "place" not in rows
    assert db.keys("odd").column(0).to_pylist() == ["6162", "6364"]  # type: ignore[union-attr]


def test_stray_text_among_declared_numbers_of_sqlite_counts_as_missing(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "stray.db") as connection:
        connection.execute(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, price REAL, n INTEGER, note NUMERIC)"
        )
        connection.executemany(
            "INSERT INTO t VALUES (?, ?, ?, ?)",
            [(i, i / 2, i, "text" if i % 2 else i) for i in range(40)],
        )
        connection.execute("UPDATE t SET price = 'N/A', n = 'none' WHERE id = 7")
    connection.close()
    db = gelgt.open(tmp_path / "stray.db")
    assert dict(db.table("t").columns) == {
        "id": "int64",
        "price": "float64",
        "n": "int64",
        "note": "string",
    }
    rows = db.read("t").slice(6, 3).to_pydict()
    assert rows["price"] == [3.0, None, 4.0]
    assert rows["n"] == [6, None, 8]
    assert [(f.code, f.column, f.count) for f in db.import_findings] == [
        ("mixed_types", "price", 1),
        ("mixed_types", "n", 1),
        ("mixed_types", "note", None),
    ]
