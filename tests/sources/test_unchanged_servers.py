"""Tables of a server are read again if anything in them has changed, and only then."""

from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from changing import CHANGES, TABLES, Reads, amounts, reads

import gelgt

__all__ = ["reads"]  # a fixture


@pytest.fixture
def space(postgres: Any) -> Iterator[tuple[str, sa.Connection]]:
    """A database of a real server, and a connection that writes to it."""
    url = postgres.url.replace("postgresql:", "postgresql+psycopg:")
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql("ALTER SYSTEM SET autovacuum = off")  # it may count as a change
        connection.exec_driver_sql("SELECT pg_reload_conf()")
        connection.exec_driver_sql("CREATE SCHEMA space")
        connection.exec_driver_sql("SET search_path = space")
        for statement in TABLES:
            connection.exec_driver_sql(statement)
        yield postgres.url, connection
        connection.exec_driver_sql("DROP SCHEMA space CASCADE")
    engine.dispose()


@pytest.mark.postgres
@pytest.mark.parametrize("change", CHANGES)
def test_every_change_in_postgres_is_read(
    space: tuple[str, sa.Connection], reads: Reads, change: str
) -> None:
    url, connection = space
    before = gelgt.open(url, namespace="space")
    reads.take()
    assert gelgt.open(url, namespace="space").folder == before.folder
    assert reads.take() == []
    connection.exec_driver_sql(CHANGES[change])
    assert gelgt.open(url, namespace="space").folder != before.folder
    assert {"accounts", "payments"} <= set(reads.take())


@pytest.mark.postgres
def test_a_transaction_of_before_counts_when_it_is_committed(
    space: tuple[str, sa.Connection], reads: Reads
) -> None:
    """It has its number already, and others after it are done."""
    url, connection = space
    engine = connection.engine.execution_options(isolation_level="READ COMMITTED")
    with engine.connect() as writer:
        writer.exec_driver_sql("UPDATE space.payments SET amount = 99 WHERE id = 1")
        connection.exec_driver_sql("UPDATE payments SET amount = 31 WHERE id = 3")
        assert amounts(gelgt.open(url, namespace="space")) == [10, 20, 31]
        reads.take()
        assert amounts(gelgt.open(url, namespace="space")) == [10, 20, 31]
        assert reads.take() == []
        writer.commit()
    assert amounts(gelgt.open(url, namespace="space")) == [99, 20, 31]


@pytest.mark.postgres
@pytest.mark.parametrize(
    "statement",
    [
        "CREATE UNLOGGED TABLE scratch (id INTEGER PRIMARY KEY)",
        "CREATE TABLE hidden (id INTEGER PRIMARY KEY); ALTER TABLE hidden ENABLE ROW LEVEL "
        "SECURITY, FORCE ROW LEVEL SECURITY; CREATE ROLE reader LOGIN PASSWORD 'reader'; "
        "GRANT USAGE ON SCHEMA space TO reader; "
        "GRANT SELECT ON ALL TABLES IN SCHEMA space TO reader",
    ],
)
def test_rows_that_change_without_a_transaction_are_read_each_time(
    space: tuple[str, sa.Connection], reads: Reads, statement: str
) -> None:
    url, connection = space
    connection.exec_driver_sql(statement)
    if "reader" in statement:
        url = "postgresql://reader:reader@" + url.rsplit("@", 1)[1]
    for _ in range(2):
        gelgt.open(url, namespace="space", tables=["accounts", "payments"])
        assert reads.take() == ["accounts", "payments"]
    if "reader" in statement:
        connection.exec_driver_sql("DROP OWNED BY reader; DROP ROLE reader")


def _elsewhere(connection: sa.Connection) -> None:
    """What other people of the same server do all the time."""
    for statement in (
        "INSERT INTO space_log VALUES (1)",
        "UPDATE space_log SET id = 2",
        "DELETE FROM space_log",
        "ANALYZE payments",
        "VACUUM payments",
        "SELECT nextval('space_numbers')",
    ):
        connection.exec_driver_sql(statement)


@pytest.fixture
def log(space: tuple[str, sa.Connection]) -> tuple[str, sa.Connection]:
    """Beside the tables that are read there is one that is written to, and an own type."""
    connection = space[1]
    for statement in (
        "CREATE TABLE space_log (id INTEGER)",
        "CREATE SEQUENCE space_numbers",
        "CREATE TYPE mood AS ENUM ('low', 'high')",
        "ALTER TABLE accounts ADD COLUMN mood mood DEFAULT 'low'",
    ):
        connection.exec_driver_sql(statement)
    return space


READ = ["accounts", "payments"]


@pytest.mark.postgres
def test_what_others_write_to_postgres_is_no_change(
    log: tuple[str, sa.Connection], reads: Reads
) -> None:
    url, connection = log
    before = gelgt.open(url, namespace="space", tables=READ)
    reads.take()
    for _ in range(2):
        _elsewhere(connection)
        again = gelgt.open(url, namespace="space", tables=READ)
        assert (reads.take(), again.folder) == ([], before.folder)
        assert "space_log" in again.unread_tables


@pytest.mark.postgres
@pytest.mark.parametrize(
    "change",
    [
        *CHANGES.values(),
        "DELETE FROM payments WHERE id = 3; INSERT INTO payments VALUES (3, 1, 33)",
        "TRUNCATE payments; INSERT INTO payments VALUES (1, 1, 1), (2, 2, 2), (3, 1, 3)",
        "ALTER TYPE mood RENAME VALUE 'low' TO 'down'",
        "ALTER TABLE accounts DROP COLUMN mood; ALTER TABLE accounts ADD COLUMN mood mood DEFAULT "
        "'high'",
        "ALTER TABLE payments ALTER COLUMN amount TYPE text",
        "ALTER TABLE payments DROP CONSTRAINT payments_account_id_fkey",
        "DROP TABLE payments; CREATE TABLE payments AS SELECT 1 AS id, 1 AS account_id, 7 AS "
        "amount FROM generate_series(1, 3)",
    ],
)
def test_every_change_among_what_others_write_is_read(
    log: tuple[str, sa.Connection], reads: Reads, change: str
) -> None:
    url, connection = log
    _elsewhere(connection)
    gelgt.open(url, namespace="space", tables=READ)
    reads.take()
    _elsewhere(connection)
    for statement in change.split("; "):
        connection.exec_driver_sql(statement)
    _elsewhere(connection)
    gelgt.open(url, namespace="space", tables=READ)
    assert reads.take() == READ


@pytest.mark.postgres
def test_a_transaction_that_was_under_way_is_no_old_one(
    log: tuple[str, sa.Connection], reads: Reads
) -> None:
    """Its number is smaller than those of transactions that the import has seen."""
    url, connection = log
    engine = connection.engine.execution_options(isolation_level="READ COMMITTED")
    with engine.connect() as writer:
        writer.exec_driver_sql("INSERT INTO space.payments VALUES (4, 2, 40)")
        writer.exec_driver_sql("DELETE FROM space.payments WHERE id = 1")
        _elsewhere(connection)
        assert amounts(gelgt.open(url, namespace="space", tables=READ)) == [10, 20, 30]
        writer.commit()
    _elsewhere(connection)
    assert amounts(gelgt.open(url, namespace="space", tables=READ)) == [20, 30, 40]


@pytest.mark.postgres
def test_partitions_are_counted_with_the_whole(
    log: tuple[str, sa.Connection], reads: Reads
) -> None:
    url, connection = log
    for statement in (
        "CREATE TABLE visits (id INTEGER, day INTEGER) PARTITION BY RANGE (day)",
        "CREATE TABLE visits_a PARTITION OF visits FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE visits_b PARTITION OF visits FOR VALUES FROM (10) TO (20)",
        "INSERT INTO visits VALUES (1, 1), (2, 11)",
    ):
        connection.exec_driver_sql(statement)
    gelgt.open(url, namespace="space", tables=["visits"])
    reads.take()
    _elsewhere(connection)
    gelgt.open(url, namespace="space", tables=["visits"])
    assert reads.take() == []
    connection.exec_driver_sql("UPDATE visits_b SET day = 12")
    gelgt.open(url, namespace="space", tables=["visits"])
    assert reads.take() == ["visits"]


@pytest.mark.mysql
def test_mariadb_is_read_each_time(mariadb: Any, reads: Reads) -> None:
    engine = sa.create_engine(mariadb.url.replace("mysql:", "mysql+pymysql:"))
    with engine.begin() as connection:
        for statement in TABLES:
            connection.exec_driver_sql(statement)
    for _ in range(2):
        gelgt.open(mariadb.url, tables=["accounts", "payments"])
        assert reads.take() == ["accounts", "payments"]
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE payments, accounts")
    engine.dispose()
