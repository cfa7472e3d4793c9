"""Small sources that change, and which of their tables were read."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import gelgt
from gelgt.sources import reading, state
from gelgt.sources.stage import stage_table

TABLES = (
    "CREATE TABLE accounts (id INTEGER PRIMARY KEY, name VARCHAR(20))",
    "CREATE TABLE payments (id INTEGER PRIMARY KEY, account_id INTEGER REFERENCES accounts (id), "
    "amount INTEGER)",
    "INSERT INTO accounts VALUES (1, 'ann'), (2, 'bob')",
    "INSERT INTO payments VALUES (1, 1, 10), (2, 2, 20), (3, 1, 30)",
)
CHANGES = {
    "row inserted": "INSERT INTO payments VALUES (4, 2, 40)",
    "row updated in place": "UPDATE payments SET amount = 11 WHERE id = 1",
    "row deleted": "DELETE FROM payments WHERE id = 3",
    "table added": "CREATE TABLE visits (id INTEGER PRIMARY KEY, account_id INTEGER)",
    "column added": "ALTER TABLE accounts ADD COLUMN city VARCHAR(20)",
    "column renamed": "ALTER TABLE accounts RENAME COLUMN name TO title",
}


class Reads:
    """The tables that were read since the last look."""

    def __init__(self) -> None:
        self.tables: list[str] = []

    def stage(self, table: Any, *rest: Any) -> Any:
        self.tables.append(table.name)
        return stage_table(table, *rest)

    def take(self) -> list[str]:
        tables, self.tables = sorted(self.tables), []
        return tables


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    counter = Reads()
    monkeypatch.setattr(reading, "stage_table", counter.stage)
    return counter


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are old enough for their times to be trusted, as soon as they are written."""
    monkeypatch.setattr(state, "DOUBT", -1e9)


@pytest.fixture
def sqlite_file(tmp_path: Path) -> Path:
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in TABLES:
            connection.execute(statement)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    data = tmp_path / "data"
    data.mkdir()
    (data / "accounts.csv").write_text("id,name\n1,ann\n2,bob\n")
    pd.DataFrame({"id": [1, 2], "account_id": [1, 2]}).to_parquet(data / "payments.parquet")
    return data


def amounts(db: gelgt.Database) -> list[int]:
    return list(db.read("payments", ["amount"]).column(0).to_pylist())
