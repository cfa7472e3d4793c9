"""Imports by several processes: the bytes of one process, one state of the source, and nothing left
behind by who is killed or has a full disk."""

import hashlib
import itertools
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

import gelgt
from gelgt import GelgtError
from gelgt.demo import Shop
from gelgt.sources import processes
from gelgt.sources.processes import Processes
from gelgt.testing import to_csv, to_duckdb, to_frames, to_parquet, to_sql
from gelgt.testing.large import large


def digests(folder: Path) -> dict[str, str]:
    """The hash of every file of a folder."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in paths
    }


def imported(
    source: Any, cache: Path, patch: pytest.MonkeyPatch, schema: Any = None
) -> dict[str, str]:
    """The hashes of the files of an import and its graph, in a cache of its own."""
    patch.setenv("GELGT_CACHE", str(cache))
    db = gelgt.open(source, schema=schema)
    db.graph()
    files = digests(db.folder)
    derived = digests(cache / "derived")
    graphs = {name.partition("/")[2]: value for name, value in derived.items()}
    assert any(name.endswith(".npy") for name in graphs)
    return files | graphs


SOURCES: dict[str, Callable[[Shop, Path], Any]] = {
    "csv": lambda shop, home: to_csv(shop, home / "csv"),
    "parquet": lambda shop, home: to_parquet(shop, home / "parquet"),
    "sqlite": lambda shop, home: shop.url,
    "duckdb": lambda shop, home: to_duckdb(shop, home / "shop.duckdb"),
    "frames": lambda shop, home: to_frames(shop),
}


# What several processes read; the others are sorted and written by them.
READ = {"sqlite": ["describe", "stage"], "csv": ["stage"]}
SLOW = ("csv", "parquet", "duckdb", "frames")


@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=[pytest.mark.slow] if k in SLOW else []) for k in SOURCES]
)
def test_the_same_bytes(
    kind: str, small_shop: Shop, tmp_path: Path, two: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = SOURCES[kind](small_shop, tmp_path)
    several = imported(source, tmp_path / "several", monkeypatch)
    assert two == [*READ.get(kind, []), "write_keys", "write_rows"]
    monkeypatch.setattr(processes, "process_count", lambda: 1)
    assert imported(source, tmp_path / "one", monkeypatch) == several


@pytest.mark.slow
def test_the_same_bytes_of_many_batches(
    tmp_path: Path, two: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that several batches hold, which DuckDB cuts otherwise for each number of threads."""
    keys = large(tmp_path / "large", 400_000)
    several = imported(tmp_path / "large", tmp_path / "several", monkeypatch, keys)
    assert pq.read_metadata(next((tmp_path / "several").rglob("events.parquet"))).num_row_groups > 1
    assert two == ["write_rows"]
    monkeypatch.setattr(processes, "process_count", lambda: 1)
    assert imported(tmp_path / "large", tmp_path / "one", monkeypatch, keys) == several


@pytest.mark.postgres
@pytest.mark.slow
@pytest.mark.parametrize("driver", ["adbc", "psycopg"])
def test_the_same_bytes_of_postgres(
    driver: str,
    small_shop: Shop,
    postgres: Any,
    tmp_path: Path,
    two: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if driver == "psycopg":  # in the other processes too
        (tmp_path / "adbc_driver_postgresql.py").write_text("raise ModuleNotFoundError")
        monkeypatch.syspath_prepend(str(tmp_path))
    to_sql(small_shop, postgres.url, replace=True)
    several = imported(postgres.url, tmp_path / "several", monkeypatch)
    assert two == ["stage", "write_keys", "write_rows"]
    monkeypatch.setattr(processes, "process_count", lambda: 1)
    assert imported(postgres.url, tmp_path / "one", monkeypatch) == several


def totals(connection: Any, number: int) -> None:
    """A payment, and the same amount in two other tables."""
    execute = getattr(connection, "exec_driver_sql", None) or connection.execute
    execute(f"INSERT INTO payments VALUES ({number}, {number})")
    execute(f"UPDATE accounts SET balance = balance + {number}")
    execute(f"UPDATE totals SET amount = amount + {number}")


TABLES = [
    "CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance INTEGER)",
    "CREATE TABLE payments (id INTEGER PRIMARY KEY, amount INTEGER)",
    "CREATE TABLE totals (id INTEGER PRIMARY KEY, amount INTEGER)",
    "INSERT INTO accounts VALUES (1, 0)",
    "INSERT INTO totals VALUES (1, 0)",
]


def check_one_state(db: gelgt.Database, payments: int) -> None:
    """All tables come from the state after so many payments."""
    amounts = db.read("payments", ["amount"]).column(0).to_pylist()
    assert len(amounts) == payments
    for table, column in (("accounts", "balance"), ("totals", "amount")):
        assert db.read(table, [column]).column(0).to_pylist() == [sum(amounts)]


def live(path: Path, mode: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=0.1)
    connection.execute(f"PRAGMA journal_mode = {mode}")
    for statement in TABLES:
        connection.execute(statement)
    for number in range(10):
        totals(connection, number)
    connection.commit()
    return connection


@pytest.mark.parametrize(
    ("mode", "moment"),
    [
        ("WAL", "while they open"),
        pytest.param("WAL", "after", marks=pytest.mark.slow),
        pytest.param("WAL", "before", marks=pytest.mark.slow),
        pytest.param("DELETE", "while they open", marks=pytest.mark.slow),
        pytest.param("DELETE", "after", marks=pytest.mark.slow),
    ],
)
def test_sqlite_is_read_in_one_state(
    mode: str, moment: str, tmp_path: Path, two: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody commits; in between, the import is left to one process, which sees one state."""
    connection = live(tmp_path / "live.db", mode)
    committed = []

    def commit(number: int) -> None:
        totals(connection, number)
        try:
            connection.commit()
            committed.append(number)
        except sqlite3.OperationalError:  # readers keep writers out, without a write-ahead log
            connection.rollback()

    opened, share = Processes.open, sqlite_source().share

    def shared(self: Any) -> Any:
        if moment == "while they open":
            commit(100)
        return share(self)

    def open_(self: Processes, source: Any) -> None:
        opened(self, source)
        if moment == "after":
            commit(200)

    monkeypatch.setattr(sqlite_source(), "share", shared)
    monkeypatch.setattr(Processes, "open", open_)
    if moment == "before":
        commit(50)
    db = gelgt.open(tmp_path / "live.db")
    connection.close()
    check_one_state(db, 10 + (moment == "before"))
    assert bool(committed) == (moment == "before" or mode == "WAL")
    # where all saw the same state they read it, and otherwise they write only
    was_shared = moment != "while they open" or mode != "WAL"
    assert two == [*(["describe", "stage"] if was_shared else []), "write_rows"]


def sqlite_source() -> Any:
    from gelgt.sources.sqlite import SQLiteSource

    return SQLiteSource


@pytest.mark.postgres
@pytest.mark.slow
def test_postgres_is_read_in_one_state(
    postgres: Any, tmp_path: Path, two: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = postgres.url.replace("postgresql:", "postgresql+psycopg:")
    engine = sa.create_engine(url, connect_args={"options": "-c search_path=live"})
    with engine.begin() as connection:
        for statement in ("CREATE SCHEMA live", *TABLES):
            connection.exec_driver_sql(statement)
        for number in range(10):
            totals(connection, number)
    run, share, numbers = Processes.run, postgres_source().share, itertools.count(200)

    def commit(number: int) -> None:
        with engine.begin() as connection:
            totals(connection, number)

    def shared(self: Any) -> Any:
        commit(100)
        return share(self)

    def later(self: Processes, *arguments: Any) -> Any:
        commit(next(numbers))
        return run(self, *arguments)

    monkeypatch.setattr(postgres_source(), "share", shared)
    monkeypatch.setattr(Processes, "run", later)
    db = gelgt.open(postgres.url, namespace="live")
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP SCHEMA live CASCADE")
    engine.dispose()
    check_one_state(db, 10)
    assert two == ["stage", "write_rows"]


def postgres_source() -> Any:
    from gelgt.sources.postgres import PostgresSource

    return PostgresSource


@pytest.mark.slow
def test_files_that_change_meanwhile_are_read_again(
    small_shop: Shop, tmp_path: Path, two: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, run, changes = to_csv(small_shop, tmp_path / "csv"), Processes.run, [1]

    def changed(self: Processes, *arguments: Any) -> Any:
        if changes:
            changes.clear()
            (folder / "more.csv").write_text("id,x\n1,2\n")  # is not read, this time
            (folder / "orders.csv").touch()
        return run(self, *arguments)

    monkeypatch.setattr(Processes, "run", changed)
    db = gelgt.open(folder)
    assert two == ["stage", "stage", "write_keys", "write_rows"]
    assert "more" in db.table_names


def stop(process: Any, signal_: int) -> None:
    os.kill(process._process.pid, signal_)


@pytest.mark.parametrize("moment", [pytest.param("stage", marks=pytest.mark.slow), "write_rows"])
def test_a_killed_process_is_an_error_and_leaves_nothing(
    moment: str, small_shop: Shop, two: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GELGT_CACHE", str(tmp_path))
    run, pids = Processes.run, []

    def killed(self: Processes, questions: Any, *rest: Any) -> Any:
        pids[:] = [process._process.pid for process in self._processes]
        if moment in {question[0] for question in questions.values()}:
            stop(self._processes[0], signal.SIGSTOP)  # it is asked and does not answer
            timer = threading.Timer(0.3, stop, (self._processes[0], signal.SIGKILL))
            timer.start()
        return run(self, questions, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(Processes, "run", killed)
        with pytest.raises(GelgtError, match="was killed while it worked on the table") as caught:
            gelgt.open(small_shop.url)
    assert caught.value.code == "worker_lost"
    assert not any(psutil.pid_exists(pid) for pid in pids)
    assert [path for path in tmp_path.rglob("*") if path.is_file() or path.suffix == ".tmp"] == []
    assert gelgt.open(small_shop.url).num_rows("customers") == 150


@pytest.mark.skipif(sys.platform != "linux", reason="needs limits of other processes")
@pytest.mark.parametrize("moment", ["stage", pytest.param("write_rows", marks=pytest.mark.slow)])
def test_a_full_disk_is_an_error_and_leaves_nothing(
    moment: str, small_shop: Shop, two: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import resource

    monkeypatch.setenv("GELGT_CACHE", str(tmp_path))
    run = Processes.run

    def full(self: Processes, questions: Any, *rest: Any) -> Any:
        if moment in {question[0] for question in questions.values()}:
            for process in self._processes:
                limit = (20_000, 20_000)
                resource.prlimit(process._process.pid, resource.RLIMIT_FSIZE, limit)
        return run(self, questions, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(Processes, "run", full)
        with pytest.raises(GelgtError, match="Cannot write to") as caught:
            gelgt.open(small_shop.url)
    assert caught.value.code == "cannot_write"
    assert [path for path in tmp_path.rglob("*") if path.is_file() or path.suffix == ".tmp"] == []
    assert gelgt.open(small_shop.url).num_rows("customers") == 150


SCRIPT = """
import sys, time
import gelgt
from gelgt.sources import postgres as postgres_module
from gelgt.sources import processes
processes.LEAST_BYTES = 0
processes.process_count = lambda: 2
run = processes.Processes.run
def told(self, *arguments):
    print(*(process._process.pid for process in self._processes), flush=True)
    time.sleep(float(sys.argv[2]))
    return run(self, *arguments)
processes.Processes.run = told
print(gelgt.open(sys.argv[1]).num_rows("customers"), flush=True)
"""


def test_the_processes_end_with_the_one_that_is_killed(small_shop: Shop, tmp_path: Path) -> None:
    """And a script needs no `if __name__ == "__main__"`."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)

    def start(wait: float) -> "subprocess.Popen[str]":
        command = [sys.executable, str(script), small_shop.url, str(wait)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    killed = start(60.0)
    assert killed.stdout is not None
    pids = [int(word) for word in killed.stdout.readline().split()]
    killed.kill()
    killed.communicate()
    end = time.monotonic() + 20
    while any(map(psutil.pid_exists, pids)):
        assert time.monotonic() < end
        time.sleep(0.02)
    assert start(0.0).communicate(timeout=120)[0].splitlines()[-1] == "150"
