"""Tables of a server that are altered while they are read: one state, never a mixture.

Found by the campaign of servers (`tests/campaigns/servers.py`).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest
from sqlalchemy.exc import OperationalError

import gelgt
from database_servers import MariaServer, PostgresServer
from gelgt.sources import reading, registry
from gelgt.sources.sql import SQLSource
from gelgt.sources.stage import stage_table

TABLES = [
    "CREATE TABLE a (id INT PRIMARY KEY, low INT, high INT)",
    "CREATE TABLE b (id INT PRIMARY KEY, v INT)",
    "INSERT INTO a VALUES (1, 10, 20)",
    "INSERT INTO b VALUES (1, 5), (2, 6)",
]
Run = Callable[[str], Any]


@pytest.fixture
def pg(postgres: PostgresServer) -> Iterator[tuple[str, Run]]:
    import psycopg

    with psycopg.connect(postgres.url, autocommit=True, prepare_threshold=None) as connection:
        connection.execute("CREATE SCHEMA moving")
        connection.execute("SET search_path = moving; SET lock_timeout = '5s'")
        for statement in TABLES:
            connection.execute(statement)
        yield f"{postgres.url}?options=-csearch_path%3Dmoving", connection.execute
        connection.execute("DROP SCHEMA moving CASCADE")


@pytest.fixture
def maria(mariadb: MariaServer) -> Iterator[tuple[str, Run]]:
    import pymysql

    place = {"host": "127.0.0.1", "port": mariadb.port, "user": "tester"}
    connection = pymysql.connect(**place, password=mariadb.password, autocommit=True)
    with connection.cursor() as cursor:
        for statement in [
            *("CREATE DATABASE moving", "USE moving", "SET SESSION lock_wait_timeout = 5"),
            *TABLES,
        ]:
            cursor.execute(statement)
        yield mariadb.url.removesuffix("shop") + "moving", cursor.execute
        cursor.execute("DROP DATABASE moving")
    connection.close()


@contextmanager
def once(point: str, change: Callable[[], object], attempts: int = 1) -> Iterator[None]:
    """Change something once, when an import has come to a point; errors are not tried again."""
    left, tables = [change], SQLSource.tables

    def reach(now: str) -> None:
        if now == point and left:
            left.pop()()

    def listed(source: Any, only: Any = None) -> Any:
        reach("entered")
        return tables(source, only)

    def staged(raw: Any, *rest: Any) -> Any:
        reach(f"before {raw.name}")
        return stage_table(raw, *rest)

    with (
        patch.object(SQLSource, "tables", listed),
        patch.object(reading, "stage_table", staged),
        patch.object(registry, "_ATTEMPTS", attempts),
    ):
        yield
    assert not left, "the point was not reached"


CHANGES = {
    "emptied": ["TRUNCATE TABLE b"],
    "rewritten": ["ALTER TABLE b ALTER v TYPE text USING v + 1"],
    "replaced": [
        "ALTER TABLE b RENAME TO old",
        "CREATE TABLE b (id INT PRIMARY KEY, v INT)",
        "INSERT INTO b VALUES (7, 7)",
    ],
}


@pytest.mark.postgres
@pytest.mark.parametrize("point", ["entered", "before b"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_snapshot_of_postgres_does_not_hold_for_tables(
    pg: tuple[str, Run], change: str, point: str
) -> None:
    url, run = pg
    if point == "before b":
        run("CREATE UNLOGGED TABLE c (id INT PRIMARY KEY)")  # no rows are counted, which locks

    def act() -> None:
        for statement in CHANGES[change]:
            run(statement)

    with (
        once(point, act),
        pytest.raises(gelgt.GelgtError, match=r"'b' was .*while it was read") as caught,
    ):
        gelgt.open(url)
    assert caught.value.code == "source_changed"
    assert gelgt.open(url).num_rows("b") == {"emptied": 0, "rewritten": 2, "replaced": 1}[change]


@pytest.mark.postgres
def test_it_is_read_again_by_itself(pg: tuple[str, Run]) -> None:
    url, run = pg
    with once("entered", lambda: run("TRUNCATE TABLE b; UPDATE a SET low = 11"), attempts=3):
        db = gelgt.open(url)
    assert (db.num_rows("b"), db.read("a", ["low"]).to_pylist()) == (0, [{"low": 11}])


@pytest.mark.postgres
@pytest.mark.parametrize("driver", ["adbc", "psycopg"])
def test_columns_that_change_their_names(
    pg: tuple[str, Run], driver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if driver == "psycopg":
        from gelgt.sources.postgres import PostgresSource

        monkeypatch.setattr(PostgresSource, "_rows", PostgresSource._cursor_rows)
    url, run = pg
    steps = (("low", "other"), ("high", "low"), ("other", "high"))
    change = "; ".join(f"ALTER TABLE a RENAME COLUMN {old} TO {new}" for old, new in steps)
    with once("entered", lambda: run(change)), pytest.raises(gelgt.GelgtError, match="'a' was"):
        gelgt.open(url)


@pytest.mark.postgres
def test_a_table_of_the_search_path_that_is_dropped(pg: tuple[str, Run]) -> None:
    url, run = pg
    with once("entered", lambda: run("DROP TABLE b")), pytest.raises(gelgt.GelgtError) as caught:
        gelgt.open(url)
    assert caught.value.code == "source_changed"


@pytest.mark.postgres
def test_a_partition_that_is_attached_and_a_view_that_is_refreshed(pg: tuple[str, Run]) -> None:
    url, run = pg
    run("CREATE TABLE parts (id INT, v INT) PARTITION BY RANGE (id)")
    run("CREATE TABLE part (id INT, v INT)")
    run("INSERT INTO part VALUES (1, 1)")
    run("CREATE MATERIALIZED VIEW sums AS SELECT id, v FROM b")
    attach = "ALTER TABLE parts ATTACH PARTITION part FOR VALUES FROM (0) TO (9)"
    refresh = "UPDATE b SET v = 50; REFRESH MATERIALIZED VIEW sums"
    for table, change in (("parts", attach), ("sums", refresh)):
        with (
            once("entered", lambda change=change: run(change)),  # type: ignore[misc]
            pytest.raises(gelgt.GelgtError, match=f"'{table}' was"),
        ):
            gelgt.open(url, tables=[table])


@pytest.mark.postgres
def test_rows_may_change_and_statistics_too(pg: tuple[str, Run]) -> None:
    url, run = pg

    def act() -> None:
        for statement in ("UPDATE b SET v = 9", "DELETE FROM a", "ANALYZE b", "VACUUM b"):
            run(statement)
        run("CREATE INDEX ON b (v)")

    with once("before b", act):
        db = gelgt.open(url)
    assert db.read("b", ["v"]).column(0).to_pylist() == [5, 6]


@pytest.mark.mysql
def test_columns_of_mariadb_that_change_their_names(maria: tuple[str, Run]) -> None:
    url, run = maria

    def act() -> None:
        for old, new in (("low", "other"), ("high", "low"), ("other", "high")):
            run(f"ALTER TABLE a CHANGE COLUMN {old} {new} INT")

    with once("before a", act), pytest.raises(gelgt.GelgtError, match="'a' was altered"):
        gelgt.open(url)


@pytest.mark.mysql
def test_a_table_of_mariadb_that_is_dropped(maria: tuple[str, Run]) -> None:
    url, run = maria
    with once("entered", lambda: run("DROP TABLE b")), pytest.raises(gelgt.GelgtError) as caught:
        gelgt.open(url)
    assert caught.value.code == "source_changed"


@pytest.mark.mysql
@pytest.mark.parametrize("engine", ["MyISAM", "Aria"])
def test_rows_without_a_snapshot(maria: tuple[str, Run], engine: str) -> None:
    url, run = maria
    run(f"ALTER TABLE b ENGINE = {engine}")
    with (
        once("before b", lambda: run("UPDATE b SET v = 9 WHERE id = 2")),
        pytest.raises(gelgt.GelgtError, match=r"'b' was changed \(its engine.*InnoDB"),
    ):
        gelgt.open(url)
    assert gelgt.open(url).read("b", ["v"]).column(0).to_pylist() == [5, 9]


def test_a_connection_that_is_lost_while_it_is_closed() -> None:
    """All rows are read by then."""
    source, ended = object.__new__(SQLSource), []

    class Lost:
        def close(self) -> None:
            raise OperationalError("ROLLBACK", None, ConnectionResetError("gone"))

        def dispose(self) -> None:
            ended.append(True)

    source._connection = source._engine_ = Lost()  # type: ignore[assignment]
    source._close()
    assert ended == [True]
    assert source._engine_ is None
