"""DuckDB files: keys from DuckDB's own catalogue, every type, read-only."""

from datetime import datetime
from pathlib import Path

import duckdb
import pytest

import gelgt
from gelgt.errors import SourceError
from gelgt.sources.duckdb_file import DuckDBSource


def write(path: Path, *statements: str) -> Path:
    with duckdb.connect(str(path)) as connection:
        for statement in statements:
            connection.execute(statement)
    return path


def test_declared_keys(tmp_path: Path) -> None:
    path = write(
        tmp_path / "shop.duckdb",
        "CREATE TABLE books (isbn VARCHAR, number INTEGER, title VARCHAR, PRIMARY KEY (isbn, "
        "number))",
        "CREATE TABLE users (id INTEGER PRIMARY KEY, email VARCHAR UNIQUE)",
        """CREATE TABLE loans (i VARCHAR, n INTEGER, who VARCHAR REFERENCES users (email),
           FOREIGN KEY (i, n) REFERENCES books (isbn, number))""",
    )
    with DuckDBSource(path, "x") as source:
        tables = {t.name: t for t in source.tables()}
    assert list(tables) == ["books", "loans", "users"]
    assert tables["books"].primary_key == ("isbn", "number")
    assert tables["loans"].primary_key == ()
    keys = {(fk.columns, fk.table, fk.referred, fk.origin) for fk in tables["loans"].foreign_keys}
    assert keys == {
        (("who",), "users", ("email",), "declared"),
        (("i", "n"), "books", ("isbn", "number"), "declared"),
    }


def test_every_type_arrives_canonical(tmp_path: Path) -> None:
    path = write(
        tmp_path / "types.duckdb",
        """CREATE TABLE t (
           id INTEGER PRIMARY KEY, tiny UTINYINT, huge HUGEINT, price DECIMAL(9, 2), half FLOAT,
           flag BOOLEAN, word VARCHAR, mood ENUM ('sad', 'ok'), key UUID,
           "at" TIMESTAMP, zoned TIMESTAMPTZ, ns TIMESTAMP_NS, day DATE, clock TIME, span INTERVAL,
           tags VARCHAR[], pair STRUCT(a INTEGER), photo BLOB)""",
        """INSERT INTO t VALUES (
           1, 200, 12345678901234567890, 1.25, 0.5,
           true, 'x', 'ok', '00000000-0000-0000-0000-000000000001',
           '2024-01-31 17:04:05', '2024-01-31 17:04:05+02', '2024-01-31 17:04:05.123456789',
           '2024-01-31', '17:04:05', INTERVAL 1 DAY,
           ['a', 'b'], {'a': 1}, 'x'::BLOB)""",
    )
    db = gelgt.open(path)
    (row,) = db.read("t").to_pylist()
    del row["id"]
    assert row == {
        "tiny": 200,
        "huge": 1.2345678901234567e19,
        "price": 1.25,
        "half": 0.5,
        "flag": True,
        "word": "x",
        "mood": "ok",
        "key": "00000000-0000-0000-0000-000000000001",
        "at": datetime(2024, 1, 31, 17, 4, 5),
        "zoned": datetime(2024, 1, 31, 15, 4, 5),
        "ns": datetime(2024, 1, 31, 17, 4, 5, 123456),
        "day": datetime(2024, 1, 31),
        "clock": "17:04:05",
        "span": "1 day",
        "tags": ["a", "b"],
        "pair": '{"a": 1}',
    }


def test_another_namespace(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.duckdb",
        "CREATE SCHEMA sales",
        "CREATE TABLE sales.orders (id INTEGER)",
        "CREATE TABLE users (id INTEGER)",
    )
    assert gelgt.open(path).table_names == ["users"]
    assert gelgt.open(path, namespace="sales").table_names == ["orders"]
    with pytest.raises(SourceError, match="no tables in the schema 'nowhere'") as caught:
        gelgt.open(path, namespace="nowhere")
    assert caught.value.code == "no_tables"


def test_names_that_need_quoting(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.duckdb",
        'CREATE TABLE "my ""own"" order" ("select" INTEGER, "a b" VARCHAR)',
        """INSERT INTO "my ""own"" order" VALUES (1, 'x')""",
    )
    assert gelgt.open(path).num_rows('my "own" order') == 1


def test_the_file_is_only_read(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.duckdb", "CREATE TABLE users (id INTEGER)", "INSERT INTO users VALUES (1)"
    )
    path.chmod(0o444)
    before = path.read_bytes()
    gelgt.open(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["a.duckdb"]
    with DuckDBSource(path, "x") as source, pytest.raises(duckdb.Error):
        source._connection.execute("INSERT INTO users VALUES (2)")


def test_all_forms_of_the_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.duckdb", "CREATE TABLE users (id INTEGER)")
    monkeypatch.chdir(tmp_path)
    for address in (path, str(path), "a.duckdb", "duckdb:///a.duckdb", f"duckdb:///{path}"):
        assert gelgt.open(address).table_names == ["users"]
    with pytest.raises(SourceError) as caught:
        gelgt.open("duckdb:///b.duckdb")
    assert caught.value.code == "not_found"


def test_a_file_that_is_broken(tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    path.write_bytes(b"\0" * 8 + b"DUCK" + b"\0" * 100)
    with pytest.raises(SourceError) as caught:
        gelgt.open(path)
    assert caught.value.code == "cannot_open"


def test_infinite_times_are_null_views_are_read_by_name_and_binary_columns_are_reported(
    tmp_path: Path,
) -> None:
    path = tmp_path / "odd.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "CREATE TABLE t (id INTEGER, moment TIMESTAMP, day DATE, s TIMESTAMP_S, z "
            "TIMESTAMPTZ, data BLOB)"
        )
        connection.execute(
            "INSERT INTO t VALUES (1, 'infinity', '-infinity', 'infinity', 'infinity', 'x')"
        )
        connection.execute(
            "INSERT INTO t VALUES (2, '2024-01-01', '2024-01-02', '2024-01-03', '2024-01-04 "
            "00:00:00+00', 'y')"
        )
        connection.execute("CREATE VIEW few AS SELECT id FROM t WHERE id = 2")
    db = gelgt.open(path, schema={"t": {"time_col": None}})
    assert [[v is None for v in row.values()] for row in db.read("t").to_pylist()] == [
        [False, True, True, True, True],
        [False] * 5,
    ]
    assert [(f.code, f.column) for f in db.import_findings] == [("binary_column", "data")]
    assert gelgt.open(path, tables=["few"]).num_rows("few") == 1
    with pytest.raises(SourceError, match="There is: 'main'"):
        gelgt.open(path, namespace="other")
