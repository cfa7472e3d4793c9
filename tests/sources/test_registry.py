"""`gelgt.open`: each kind of source finds its door, and what has none is told so."""

import sqlite3
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pytest

import gelgt
from gelgt.errors import SourceError
from gelgt.sources.address import address_of
from gelgt.sources.registry import OPENERS

EVENTS = pd.DataFrame(
    {"id": [1, 2, 3], "at": pd.date_range("2024-01-01", periods=3), "word": ["a", "b", "a"]}
)


def door(source: Any) -> str | None:
    return next((opener.name for opener in OPENERS if opener.accepts(source)), None)


def sqlite(path: Path) -> Path:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE events (id INTEGER PRIMARY KEY, at DATETIME)")
    connection.execute("INSERT INTO events VALUES (1, '2024-01-01'), (2, '2024-01-02')")
    connection.commit()
    connection.close()
    return path


def test_every_source_has_its_door(tmp_path: Path) -> None:
    duckdb.connect(str(tmp_path / "a.db")).close()
    assert door({}) == "frames"
    assert door("duckdb:///a.db") == "DuckDB address"
    assert door("postgresql://me@host/shop") == door("sqlite:///a.db") == "SQL address"
    assert door(tmp_path) == door(str(tmp_path)) == "folder of files"
    assert door(sqlite(tmp_path / "b.db")) == "SQLite file"
    assert door(tmp_path / "a.db") == "DuckDB file"
    for other in (42, None, b"bytes", tmp_path / "nothing", ["rel-f1"]):
        assert door(other) is None


def test_the_ending_of_a_database_file_says_nothing(tmp_path: Path) -> None:
    assert gelgt.open(sqlite(tmp_path / "data.duckdb")).num_rows("events") == 2
    (tmp_path / "notes.db").write_text("hello")
    with pytest.raises(SourceError) as caught:
        gelgt.open(tmp_path / "notes.db")
    assert caught.value.code == "unknown_file"
    assert "folder" in caught.value.hint


def test_a_misspelt_path_is_answered_with_its_neighbour(tmp_path: Path) -> None:
    sqlite(tmp_path / "shop.db")
    with pytest.raises(SourceError, match=r"Did you mean 'shop.db'\?"):
        gelgt.open(tmp_path / "shpo.db")
    with pytest.raises(SourceError, match="Check the path"):
        gelgt.open(tmp_path / "no" / "such" / "folder")


def test_home_is_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    sqlite(tmp_path / "shop.db")
    assert gelgt.open("~/shop.db").num_rows("events") == 2
    gelgt.open("~/shop.db", out="~/project")
    assert (tmp_path / "project" / "manifest.yaml").is_file()


def test_a_source_that_is_none() -> None:
    with pytest.raises(SourceError, match="A list cannot be opened") as caught:
        gelgt.open([EVENTS])
    assert caught.value.code == "unknown_source"


def test_the_same_rows_are_imported_once() -> None:
    first, second = (
        gelgt.open({"events": EVENTS}),
        gelgt.open({"events": pa.Table.from_pandas(EVENTS)}),
    )
    assert first.folder == second.folder
    assert gelgt.open({"events": EVENTS.assign(word="c")}).folder != first.folder
    assert gelgt.open({"events": EVENTS}, schema={"events": {"pkey": None}}).folder != first.folder


def test_a_schema_from_a_file(tmp_path: Path) -> None:
    for text in ("events: {time_col: null}", "tables:\n  events: {time_col: null}"):
        (tmp_path / "schema.yaml").write_text(text)
        assert (
            gelgt.open({"events": EVENTS}, schema=tmp_path / "schema.yaml").table("events").time_col
            is None
        )
        assert (
            gelgt.open({"events": EVENTS}, schema=str(tmp_path / "schema.yaml"))
            .table("events")
            .time_col
            is None
        )


@pytest.mark.parametrize("schema", [["events"], {"events": "id"}, {"events": ["id"]}])
def test_a_schema_of_the_wrong_shape(schema: Any) -> None:
    with pytest.raises(SourceError) as caught:
        gelgt.open({"events": EVENTS}, schema=schema)
    assert caught.value.code == "bad_schema"


def test_a_schema_file_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"There is no schema file .*nope.yaml"):
        gelgt.open({"events": EVENTS}, schema=tmp_path / "nope.yaml")


def test_only_some_tables(tmp_path: Path) -> None:
    visits = pd.DataFrame(
        {"id": [7, 8], "event_id": [3, 1], "seen_at": pd.date_range("2024-02-01", periods=2)}
    )
    both = {"events": EVENTS, "visits": visits}
    assert gelgt.open(both, tables=["events"]).table_names == ["events"]
    gelgt.open(both, out=tmp_path / "project")
    for only in (["events"], ["visits"], ["visits", "events"]):
        some = gelgt.open(tmp_path / "project", tables=only)
        assert some.table_names == sorted(only)
        assert some.graph().num_nodes == sum(some.num_rows(t) for t in only)
    assert [fk.table for fk in some.table("visits").foreign_keys] == ["events"]
    with pytest.raises(gelgt.GelgtError) as caught:
        gelgt.open(tmp_path / "project", tables=["event"])
    assert caught.value.code == "unknown_table"


def test_a_foreign_key_to_a_table_that_is_left_out_keeps_its_values(tmp_path: Path) -> None:
    visits = pd.DataFrame(
        {"id": [7, 8], "event_id": [30, 10], "seen_at": pd.date_range("2024-02-01", periods=2)}
    )
    gelgt.open(
        {"events": EVENTS.assign(id=[10, 20, 30]), "visits": visits}, out=tmp_path / "project"
    )
    alone = gelgt.open(tmp_path / "project", tables=["visits"])
    assert alone.table("visits").foreign_keys == ()
    assert alone.read("visits", ["event_id"]).column(0).to_pylist() == [30, 10]


def test_frames_are_called_as_their_folder(tmp_path: Path) -> None:
    frames = {"orders": pd.DataFrame({"id": [1, 2], "at": pd.date_range("2024", periods=2)})}
    assert gelgt.open(frames, out=tmp_path / "shop").schema.name == "shop"
    assert gelgt.open(str(tmp_path / "shop")).schema.name == "shop"
    assert gelgt.open(frames).schema.name == "frames"


# Addresses: the same from every working folder.
def csv_folder(folder: Path) -> Path:
    folder.mkdir()
    EVENTS.to_csv(folder / "events.csv", index=False)
    return folder


def duck(path: Path) -> Path:
    connection = duckdb.connect(str(path))
    connection.execute('CREATE TABLE events (id INTEGER PRIMARY KEY, "at" TIMESTAMP)')
    connection.execute("INSERT INTO events VALUES (1, '2024-01-01'), (2, '2024-01-02')")
    connection.close()
    return path


RELATIVE = (
    "shop.db",
    "./shop.db",
    "sqlite:///shop.db",
    "duck.db",
    "duckdb:///duck.db",
    "files",
    "files/",
    "project",
    "~/shop.db",
)


@pytest.mark.parametrize("given", RELATIVE)
def test_an_address_is_absolute(
    given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a database calls its source opens the same rows from another working folder, which holds
    files of the same names."""
    here, there = tmp_path / "here", tmp_path / "there"
    monkeypatch.setenv("HOME", str(here))
    for folder in (here, there):
        folder.mkdir()
        sqlite(folder / "shop.db")
        duck(folder / "duck.db")
        csv_folder(folder / "files")
        gelgt.open(folder / "files", out=folder / "project")
    monkeypatch.chdir(here)
    for source in (given, Path(given)) if "://" not in given else (given,):
        db = gelgt.open(source)
        monkeypatch.chdir(there)
        address = db.source
        assert str(here) in address
        assert gelgt.open(address).source == address
        monkeypatch.chdir(here)


def test_two_addresses_of_the_same_rows_share_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GELGT_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    csv_folder(tmp_path / "files")
    first, second = gelgt.open("files"), gelgt.open(tmp_path / "files")
    assert (first.folder, first.source) == (second.folder, second.source)
    sqlite(tmp_path / "shop.db")
    (tmp_path / "copy").mkdir()
    sqlite(tmp_path / "copy" / "shop.db")
    first, second = gelgt.open("sqlite:///shop.db"), gelgt.open("copy/shop.db")
    assert first.folder == second.folder
    assert (first.source, second.source) == (
        f"sqlite:///{tmp_path}/shop.db",
        f"{tmp_path}/copy/shop.db",
    )


def test_the_address_of_a_server_keeps_no_password() -> None:
    assert (
        address_of("postgresql://ann:secret@host:1/shop?sslpassword=x&a=b")
        == "postgresql://ann@host:1/shop?a=b"
    )
    assert address_of({"events": EVENTS}) == "frames"
