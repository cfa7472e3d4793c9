"""An import sees one state of the data, however much is written meanwhile.

A writer commits transactions that each add a payment and raise the balance of an account by the
same amount, so in every state the payments add up to the balances. The import is held up before
each table until more of them are committed.
"""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

import gelgt
from gelgt.sources import reading
from gelgt.sources.stage import stage_table

TABLES = (
    "CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance BIGINT NOT NULL)",
    "CREATE TABLE payments (id INTEGER PRIMARY KEY, account_id INTEGER NOT NULL REFERENCES "
    "accounts (id), amount BIGINT NOT NULL)",
    "CREATE TABLE totals (id INTEGER PRIMARY KEY, amount BIGINT NOT NULL, made BIGINT NOT NULL)",
)


class Writer(threading.Thread):
    """Writes until it is told to stop."""

    def __init__(self, engine: sa.Engine) -> None:
        super().__init__(daemon=True)
        self.engine, self.committed, self.stopped = engine, 0, threading.Event()
        with engine.begin() as connection:
            for statement in TABLES:
                connection.exec_driver_sql(statement)
            for i in range(5):
                connection.exec_driver_sql(f"INSERT INTO accounts VALUES ({i}, 0)")
            connection.exec_driver_sql("INSERT INTO totals VALUES (1, 0, 0)")

    def run(self) -> None:
        while not self.stopped.is_set():
            number = self.committed + 1
            with self.engine.begin() as connection:
                connection.exec_driver_sql(
                    f"INSERT INTO payments VALUES ({number}, {number % 5}, {number})"
                )
                connection.exec_driver_sql(
                    f"UPDATE accounts SET balance = balance + {number} WHERE id = {number % 5}"
                )
                connection.exec_driver_sql(
                    f"UPDATE totals SET amount = amount + {number}, made = made + 1"
                )
            self.committed = number
            time.sleep(0.002)

    def wait_for_more(self, more: int = 5) -> None:
        goal, end = self.committed + more, time.monotonic() + 20
        while self.committed < goal:
            assert time.monotonic() < end, "the import keeps others from writing"
            time.sleep(0.005)


def check_one_state(
    engine: sa.Engine, open_it: Callable[[], gelgt.Database], monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Writer(engine)

    def held_up(*arguments: Any) -> Any:
        writer.wait_for_more()
        return stage_table(*arguments)

    monkeypatch.setattr(reading, "stage_table", held_up)
    writer.start()
    try:
        writer.wait_for_more()
        db = open_it()
        later = writer.committed
    finally:
        writer.stopped.set()
        writer.join(30)
        engine.dispose()
    amounts = db.read("payments", ["amount"]).column(0).to_pylist()
    total = db.read("totals").to_pylist()[0]
    assert 5 <= len(amounts) <= later - 10  # much was written after the state that was read
    assert (total["made"], total["amount"]) == (len(amounts), sum(amounts))
    assert sum(db.read("accounts", ["balance"]).column(0).to_pylist()) == sum(amounts)


def test_sqlite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'live.db'}")
    with engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA journal_mode = WAL")
    check_one_state(engine, lambda: gelgt.open(tmp_path / "live.db"), monkeypatch)


@pytest.mark.postgres
@pytest.mark.parametrize("driver", ["adbc", "psycopg"])
def test_postgres(postgres: Any, driver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if driver == "psycopg":
        from gelgt.sources.postgres import PostgresSource

        monkeypatch.setattr(PostgresSource, "_rows", PostgresSource._cursor_rows)
    url = postgres.url.replace("postgresql:", "postgresql+psycopg:")
    space = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    with space.connect() as connection:
        connection.exec_driver_sql(f"CREATE SCHEMA {driver}")
        engine = sa.create_engine(url, connect_args={"options": f"-c search_path={driver}"})
        check_one_state(engine, lambda: gelgt.open(postgres.url, namespace=driver), monkeypatch)
        connection.exec_driver_sql(f"DROP SCHEMA {driver} CASCADE")
    space.dispose()


@pytest.mark.mysql
def test_mariadb(mariadb: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = sa.create_engine(mariadb.url.replace("mysql:", "mysql+pymysql:"))
    names = ["accounts", "payments", "totals"]
    check_one_state(engine, lambda: gelgt.open(mariadb.url, tables=names), monkeypatch)
    with engine.begin() as connection:
        for name in ("payments", "accounts", "totals"):
            connection.exec_driver_sql(f"DROP TABLE IF EXISTS {name}")
    engine.dispose()
