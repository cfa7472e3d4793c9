"""Others who write while a server is read: rows, and the tables themselves.

The import is held up at points between and within its tables, and there somebody else changes
something. Every state that was committed is written down; the import is one of them, row by row,
or an error.
"""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa

import gelgt
from campaigns.server_world import Session, rows_of
from gelgt.sources import reading
from gelgt.sources.raw import RawTable
from gelgt.sources.sql import SQLSource
from gelgt.sources.stage import stage_table

Random = np.random.Generator
TABLES = ("accounts", "payments", "totals")
BATCH = 7  # rows of a batch, so that a table has several


def create(session: Session, random: Random) -> None:
    """Accounts, their payments and totals; in MariaDB some without transactions, in PostgreSQL
    payments may have partitions."""
    engine = " ENGINE = MyISAM" if session.kind == "mariadb" and random.random() < 0.25 else ""
    statements = [
        "CREATE TABLE accounts (id INT PRIMARY KEY, low BIGINT, high BIGINT, version INT)",
        "CREATE TABLE totals (id INT PRIMARY KEY, made BIGINT, amount BIGINT, version INT)",
    ]
    payments = "(id INT PRIMARY KEY, account INT, amount BIGINT, version INT, note VARCHAR(90))"
    if session.kind == "postgres" and random.random() < 0.4:
        statements += [
            f"CREATE TABLE payments {payments} PARTITION BY RANGE (id)",
            "CREATE TABLE part_a PARTITION OF payments FOR VALUES FROM (0) TO (1000)",
            f"CREATE TABLE part_b {payments}",
            "INSERT INTO part_b SELECT i, 1, i, 0, 'b' FROM generate_series(1000, 1004) i",
        ]
    else:
        statements.append(f"CREATE TABLE payments {payments}")
    for statement in statements:
        session.run(statement + engine * statement.startswith("CREATE"))
    for i in range(4):
        session.run(f"INSERT INTO accounts VALUES ({i + 1}, 0, 100, 0)")
    session.run("INSERT INTO totals VALUES (1, 0, 0, 0)")
    for i in range(int(random.integers(0, 30))):
        session.run(f"INSERT INTO payments VALUES ({i + 1}, {i % 4 + 1}, {i}, 0, 'n')")


@dataclass
class Writer:
    """Somebody else, and the states that they committed."""

    session: Session
    random: Random
    states: list[str] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    number: int = 100

    def __post_init__(self) -> None:
        self.note()

    def note(self) -> None:
        state = state_of(self.session)
        if not self.states or self.states[-1] != state:
            self.states.append(state)

    def act(self, where: str = "") -> None:
        """One change; one that waits too long for a lock is given up."""
        self.number += 1
        actions = ACTIONS + (POSTGRES_ACTIONS if self.session.kind == "postgres" else ())
        action = actions[self.random.integers(len(actions))]
        statements = action(self)
        self.done.append(f"{where}: {'; '.join(statements)}")
        try:
            if self.session.kind == "postgres" and "VACUUM" not in statements[0]:
                self.session.together(statements)
            else:
                for statement in statements:
                    self.session.run(statement)
                    self.note()  # MariaDB commits each
        except Exception as error:
            if not _is_refusal(error):
                raise
            self.done[-1] += f" (refused: {error})"
        self.note()


def _is_refusal(error: Exception) -> bool:
    """A change that did not come about: a lock, a deadlock, a table or column that is not there,
    or that is there already."""
    names = {"OperationalError", "ProgrammingError", "DatabaseError"}
    return bool(names & {kind.__name__ for kind in type(error).__mro__})


def _pay(w: Writer) -> list[str]:
    amount = int(w.random.integers(1, 50))
    return [
        f"INSERT INTO payments (id, account, amount, version) VALUES ({w.number}, 1, {amount}, 0)",
        f"UPDATE accounts SET high = high + {amount}, version = {w.number} WHERE id = 1",
        f"UPDATE totals SET made = made + 1, amount = amount + {amount}, version = {w.number}",
    ]


def _number_all(w: Writer) -> list[str]:
    return [f"UPDATE {table} SET version = {w.number}" for table in TABLES]


def _refund(w: Writer) -> list[str]:
    return ["DELETE FROM payments WHERE id > 5", f"UPDATE totals SET version = {w.number}"]


def _empty(w: Writer) -> list[str]:
    return [
        "TRUNCATE TABLE payments",
        f"UPDATE totals SET made = 0, amount = 0, version = {w.number}",
        f"UPDATE accounts SET version = {w.number}",
    ]


def _refill(w: Writer) -> list[str]:
    return ["TRUNCATE TABLE totals", f"INSERT INTO totals VALUES ({w.number}, 1, 1, 1)"]


def _replace(w: Writer) -> list[str]:
    table = TABLES[w.random.integers(2) * 2]  # payments may have partitions
    columns = "low" if table == "accounts" else "made"
    return [
        f"CREATE TABLE new{w.number} AS SELECT * FROM {table}",
        f"UPDATE new{w.number} SET {columns} = {w.number}",
        f"ALTER TABLE new{w.number} ADD PRIMARY KEY (id)",
        f"ALTER TABLE {table} RENAME TO old{w.number}",
        f"ALTER TABLE new{w.number} RENAME TO {table}",
        f"DROP TABLE old{w.number}",
    ]


def _swap(w: Writer) -> list[str]:
    kind = "" if w.session.kind == "postgres" else " BIGINT"
    rename = "RENAME COLUMN" if w.session.kind == "postgres" else "CHANGE COLUMN"
    to = " TO" if w.session.kind == "postgres" else ""
    steps = (("low", "other"), ("high", "low"), ("other", "high"))
    return [f"ALTER TABLE accounts {rename} {a}{to} {b}{kind}" for a, b in steps]


def _rewrite(w: Writer) -> list[str]:
    table = TABLES[w.random.integers(3)]
    if w.session.kind == "mariadb":
        return [f"ALTER TABLE {table} FORCE"]
    return [
        f"ALTER TABLE {table} ALTER version TYPE BIGINT USING version + 0",
        f"UPDATE {table} SET version = {w.number}",
    ]


def _widen(w: Writer) -> list[str]:
    table = TABLES[w.random.integers(3)]
    return [f"ALTER TABLE {table} ADD COLUMN extra{w.number} INT DEFAULT {w.number}"]


def _narrow(w: Writer) -> list[str]:
    return ["ALTER TABLE payments DROP COLUMN note"]


def _remove(w: Writer) -> list[str]:
    return [f"DROP TABLE {TABLES[w.random.integers(3)]}"]


def _rename(w: Writer) -> list[str]:
    return [f"ALTER TABLE {TABLES[w.random.integers(3)]} RENAME TO renamed{w.number}"]


def _attach(w: Writer) -> list[str]:
    return ["ALTER TABLE payments ATTACH PARTITION part_b FOR VALUES FROM (1000) TO (2000)"]


def _detach(w: Writer) -> list[str]:
    return ["ALTER TABLE payments DETACH PARTITION part_a"]


def _vacuum(w: Writer) -> list[str]:
    return [f"VACUUM {'FULL' * int(w.random.integers(2))} accounts"]


Action = Callable[[Writer], list[str]]
_ROWS: tuple[Action, ...] = (_pay, _number_all, _refund)
_WHOLE: tuple[Action, ...] = (_empty, _refill, _replace, _swap, _rewrite, _widen, _narrow)
ACTIONS: tuple[Action, ...] = (*_ROWS * 4, *_WHOLE, _remove, _rename)
POSTGRES_ACTIONS: tuple[Action, ...] = (_attach, _attach, _detach, _vacuum)


def state_of(session: Session) -> str:
    """All tables that an import would read, as one text."""
    if session.kind == "postgres":
        query = (
            "SELECT relname FROM pg_class WHERE relnamespace = 'space'::regnamespace "
            "AND relkind IN ('r', 'p') AND NOT relispartition"
        )
    else:
        query = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'space'"
    names = sorted(str(row[0]) for row in session.run(query))
    return text_of({name: _table(session, name) for name in names})


def _table(session: Session, name: str) -> list[dict[str, Any]]:
    columns = [
        str(row[0])
        for row in session.run(
            "SELECT column_name FROM information_schema.columns WHERE table_schema = 'space' "
            f"AND table_name = '{name}' ORDER BY ordinal_position"
        )
    ]
    rows = session.run(f"SELECT * FROM {session.quoted(name)}")
    return [dict(zip(columns, row)) for row in rows]


def text_of(tables: dict[str, list[dict[str, Any]]]) -> str:
    """Tables as a text that is the same for the same rows in any order."""
    plain = {
        name: sorted((sorted(row.items()) for row in rows), key=repr)
        for name, rows in tables.items()
    }
    return json.dumps(plain, default=float, sort_keys=True)


def content_of(db: gelgt.Database) -> str:
    return text_of({name: rows_of(db, name) for name in db.table_names})


@contextmanager
def held_up(hook: Callable[[str], None]) -> Iterator[None]:
    """Call `hook` at every point of an import where something else may happen."""
    tables = SQLSource.tables

    def listed(source: Any, only: Any = None) -> Any:
        hook("entered")
        found = tables(source, only)
        hook("listed")
        return found

    def staged(raw: RawTable, *rest: Any) -> Any:
        hook(f"before {raw.name}")

        def batches() -> Iterator[pa.RecordBatch]:
            for number, batch in enumerate(raw.batches()):
                yield batch
                if number < 3:
                    hook(f"in {raw.name}")

        staged_table = stage_table(replace(raw, batches=batches), *rest)
        hook(f"after {raw.name}")
        return staged_table

    with ExitStack() as stack:
        stack.enter_context(patch.object(SQLSource, "tables", listed))
        stack.enter_context(patch.object(reading, "stage_table", staged))
        stack.enter_context(patch("gelgt.sources.sql.BATCH_ROWS", BATCH))
        yield


@contextmanager
def busy(writer: Writer) -> Iterator[None]:
    """The writer at work in a thread of their own."""
    stopped, errors = threading.Event(), list[BaseException]()

    def work() -> None:
        try:
            while not stopped.is_set() and len(writer.done) < 300:
                writer.act("meanwhile")
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join(30)
    assert not errors, errors
