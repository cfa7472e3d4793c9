"""A source is read again if anything in it has changed, and only then."""

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest
from changing import CHANGES, TABLES, Reads, amounts, folder, reads, settled, sqlite_file

import gelgt
from gelgt import GelgtError
from gelgt.sources import reading, state

__all__ = ["folder", "reads", "settled", "sqlite_file"]  # fixtures


# --- SQLite


@pytest.mark.usefixtures("settled")
def test_an_unchanged_sqlite_file_is_read_once(sqlite_file: Path, reads: Reads) -> None:
    first = gelgt.open(sqlite_file)
    assert reads.take() == ["accounts", "payments"]
    second = gelgt.open(sqlite_file)
    assert reads.take() == []
    assert (second.folder, second.schema, second.source) == (
        first.folder,
        first.schema,
        first.source,
    )


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("journal", ["DELETE", "WAL", "MEMORY"])
def test_every_change_of_a_sqlite_file_is_read(
    sqlite_file: Path, reads: Reads, change: str, journal: str
) -> None:
    with closing(sqlite3.connect(sqlite_file)) as connection:
        connection.execute(f"PRAGMA journal_mode = {journal}")
        before = gelgt.open(sqlite_file)
        reads.take()
        connection.execute(CHANGES[change])
        connection.commit()
        after = gelgt.open(sqlite_file)
    assert {"accounts", "payments"} <= set(reads.take())
    assert after.folder != before.folder


@pytest.mark.usefixtures("settled")
def test_a_log_counts_once_it_is_committed(sqlite_file: Path, reads: Reads) -> None:
    with closing(sqlite3.connect(sqlite_file)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("PRAGMA cache_size = 1")  # what is not committed goes to the log early
        first = gelgt.open(sqlite_file)
        writer.execute("CREATE TABLE more AS SELECT 1 AS id")
        rows = [(i, 1, i) for i in range(4, 5000)]
        writer.executemany("INSERT INTO payments VALUES (?, ?, ?)", rows)
        during = gelgt.open(sqlite_file)
        assert amounts(during) == amounts(first) == [10, 20, 30]
        reads.take()
        assert amounts(gelgt.open(sqlite_file)) == [10, 20, 30]
        assert reads.take() == []  # nothing was written meanwhile
        writer.commit()
        assert len(amounts(gelgt.open(sqlite_file, tables=["payments", "accounts"]))) == 4999
        reads.take()
        assert len(amounts(gelgt.open(sqlite_file))) == 4999
        assert reads.take() == ["accounts", "more", "payments"]
    # the last connection has moved the log into the file
    assert not sqlite_file.with_name("shop.db-wal").exists()
    assert len(amounts(gelgt.open(sqlite_file))) == 4999


@pytest.mark.usefixtures("settled")
def test_another_file_in_its_place_is_read(sqlite_file: Path, reads: Reads) -> None:
    """Even if its size, time and change counter are the same."""
    other = sqlite_file.with_name("other.db")
    shutil.copy2(sqlite_file, other)
    data = other.read_bytes()
    assert data.count(b"ann") == 1
    other.write_bytes(data.replace(b"ann", b"eve"))
    stamp = sqlite_file.stat()
    gelgt.open(sqlite_file)
    reads.take()
    os.replace(other, sqlite_file)
    os.utime(sqlite_file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    names = gelgt.open(sqlite_file).read("accounts", ["name"]).column(0).to_pylist()
    assert names == ["eve", "bob"]


@pytest.mark.usefixtures("settled")
def test_options_have_imports_of_their_own(sqlite_file: Path, reads: Reads) -> None:
    gelgt.open(sqlite_file)
    reads.take()
    part = gelgt.open(sqlite_file, tables=["accounts"])
    assert (reads.take(), part.table_names, part.unread_tables) == (
        ["accounts"],
        ["accounts"],
        ("payments",),
    )
    stated = gelgt.open(sqlite_file, schema={"payments": {"fkeys": {}}})
    assert reads.take() == ["accounts", "payments"]
    assert stated.schema.tables["payments"].foreign_keys == ()
    again = gelgt.open(sqlite_file, tables=["accounts"])
    assert (reads.take(), again.unread_tables) == ([], ("payments",))


@pytest.mark.usefixtures("settled")
def test_views_are_read_each_time(sqlite_file: Path, reads: Reads) -> None:
    with closing(sqlite3.connect(sqlite_file)) as connection, connection:
        connection.execute("CREATE VIEW recent AS SELECT id, random() AS r FROM payments")
    for _ in range(2):
        gelgt.open(sqlite_file, tables=["accounts", "recent"])
        assert reads.take() == ["accounts", "recent"]


# --- files


@pytest.mark.usefixtures("settled")
def test_unchanged_files_are_neither_read_nor_hashed(
    folder: Path, reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    gelgt.open(folder)
    assert reads.take() == ["accounts", "payments"]
    monkeypatch.setattr("gelgt.sources.files.hash_files", None)
    gelgt.open(folder)
    assert reads.take() == []


def _same_size(folder: Path) -> None:
    file = folder / "accounts.csv"
    stamp = file.stat()
    file.write_text(file.read_text().replace("ann", "eve"))
    os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))


def _new_file(folder: Path) -> None:
    (folder / "visits.csv").write_text("id,account_id\n1,2\n")


def _grown(folder: Path) -> None:
    with (folder / "accounts.csv").open("a") as file:
        file.write("3,cay\n")


def _renamed(folder: Path) -> None:
    (folder / "payments.parquet").rename(folder / "transfers.parquet")


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("change", [_same_size, _new_file, _grown, _renamed])
def test_every_change_of_files_is_read(
    folder: Path, reads: Reads, change: Callable[[Path], None]
) -> None:
    before = gelgt.open(folder)
    reads.take()
    change(folder)
    assert gelgt.open(folder).folder != before.folder
    assert reads.take()


def test_a_file_that_was_just_written_is_compared_by_content(
    folder: Path, reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system with a coarse clock: a change within the same tick leaves every time alone."""
    file = folder / "accounts.csv"
    real, fixed = os.fstat, file.stat()

    def coarse(handle: int) -> os.stat_result:
        stat = real(handle)
        return fixed if stat.st_ino == fixed.st_ino else stat

    monkeypatch.setattr(state.os, "fstat", coarse)
    gelgt.open(folder)
    assert reads.take() == ["accounts", "payments"]
    gelgt.open(folder)
    assert reads.take() == []
    middle = b"x" * state._HEAD  # beyond what is read of an unchanged file
    file.write_bytes(b"id,name\n1,ann" + middle + b"\n2,bob\n")
    fixed = file.stat()
    gelgt.open(folder)
    assert reads.take() == ["accounts", "payments"]
    file.write_bytes(b"id,name\n1,ann" + middle + b"\n2,eve\n")
    names = gelgt.open(folder).read("accounts", ["name"]).column(0).to_pylist()
    assert names[1] == "eve"
    reads.take()
    monkeypatch.setattr(state, "DOUBT", -1e9)  # time passes
    gelgt.open(folder)
    monkeypatch.setattr("gelgt.sources.state.hash_files", None)  # and it is trusted from now on
    gelgt.open(folder)
    assert reads.take() == []


def _meanwhile(monkeypatch: pytest.MonkeyPatch, reads: Reads, write: Callable[[int], None]) -> None:
    """Something is written while each of the first tables is read."""
    writes = iter(range(100))

    def stage(table: Any, *rest: Any) -> Any:
        write(next(writes))
        return reads.stage(table, *rest)

    monkeypatch.setattr(reading, "stage_table", stage)


def test_files_that_change_while_they_are_read_are_read_again(
    folder: Path, reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(number: int) -> None:
        if number == 1:  # accounts have been read
            _grown(folder)

    _meanwhile(monkeypatch, reads, write)
    assert gelgt.open(folder).num_rows("accounts") == 3
    assert reads.take() == ["accounts"] * 2 + ["payments"] * 2


def test_a_part_that_is_removed_while_it_is_read_is_no_error_of_the_cache(
    folder: Path, reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(number: int) -> None:
        if number == 1:
            _renamed(folder)

    _meanwhile(monkeypatch, reads, write)
    assert gelgt.open(folder).table_names == ["accounts", "transfers"]


@pytest.mark.parametrize("out", [True, False])
def test_files_that_never_rest_are_an_error(
    folder: Path, reads: Reads, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, out: bool
) -> None:
    _meanwhile(monkeypatch, reads, lambda number: _grown(folder))
    with pytest.raises(GelgtError, match="changed while it was read") as caught:
        gelgt.open(folder, out=tmp_path / "out" if out else None)
    assert caught.value.code == "source_changed"
    assert not (tmp_path / "out").exists()
    imports = Path(os.environ["GELGT_CACHE"]) / "imports"
    assert not imports.exists() or list(imports.iterdir()) == []


# --- DuckDB


@pytest.fixture
def duckdb_path(tmp_path: Path) -> Path:
    path = tmp_path / "shop.duckdb"
    with duckdb.connect(str(path)) as connection:
        for statement in TABLES:
            connection.execute(statement)
    return path


@pytest.mark.usefixtures("settled")
def test_an_unchanged_duckdb_file_is_read_once(duckdb_path: Path, reads: Reads) -> None:
    gelgt.open(duckdb_path)
    assert reads.take() == ["accounts", "payments"]
    gelgt.open(duckdb_path)
    assert reads.take() == []


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("is_logged", [True, False])
@pytest.mark.parametrize("change", [c for c in CHANGES if c != "column renamed"])
def test_every_change_of_a_duckdb_file_is_read(
    duckdb_path: Path, reads: Reads, change: str, is_logged: bool
) -> None:
    before = gelgt.open(duckdb_path)
    reads.take()
    with duckdb.connect(str(duckdb_path)) as connection:
        if is_logged:
            connection.execute("PRAGMA disable_checkpoint_on_shutdown")
        tables = {"column added": "visits"}  # others refer to accounts, so it cannot be altered
        if change in tables:
            connection.execute("CREATE TABLE visits (id INTEGER PRIMARY KEY)")
        connection.execute(CHANGES[change].replace("accounts ADD", "visits ADD"))
    assert duckdb_path.with_name("shop.duckdb.wal").exists() == is_logged
    assert gelgt.open(duckdb_path).folder != before.folder
    assert reads.take()


@pytest.mark.usefixtures("settled")
def test_a_view_of_other_files_is_read_each_time(
    duckdb_path: Path, folder: Path, reads: Reads
) -> None:
    with duckdb.connect(str(duckdb_path)) as connection:
        connection.execute(f"CREATE VIEW people AS FROM read_csv('{folder / 'accounts.csv'}')")
    assert gelgt.open(duckdb_path, tables=["people"]).num_rows("people") == 2
    _grown(folder)
    assert gelgt.open(duckdb_path, tables=["people"]).num_rows("people") == 3
