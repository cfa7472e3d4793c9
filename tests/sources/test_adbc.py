"""Databases by their ADBC drivers: PostgreSQL's and DuckDB's own, which are real, in place of
warehouses; the rows, keys and columns of the other ways in, and clear errors."""

import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest
import sqlalchemy as sa

import gelgt
from gelgt import GelgtError
from gelgt.demo import Shop
from gelgt.schema.manifest import load_yaml
from gelgt.sources.adbc import AdbcSource
from gelgt.sources.adbc_options import OPTIONS
from gelgt.sources.address import parse_url
from gelgt.testing import to_duckdb, to_sql

pytest.importorskip("adbc_driver_manager", reason="needs ADBC: pip install 'gelgt[postgres]'")


def fails(source: Any, **options: Any) -> GelgtError:
    with pytest.raises(GelgtError) as caught:
        gelgt.open(source, **options)
    return caught.value


def tables_of(db: gelgt.Database) -> dict[str, Any]:
    return {name: db.read(name).to_pydict() for name in db.table_names}


def keys_of(db: gelgt.Database) -> dict[str, Any]:
    return {
        name: (table.pkey, [(fk.column, fk.table, fk.origin) for fk in table.foreign_keys])
        for name, table in db.schema.tables.items()
    }


def test_duckdb(small_shop: Shop, tmp_path: Path) -> None:
    path = to_duckdb(small_shop, tmp_path / "shop.duckdb")
    mine, other = gelgt.open(f"adbc+duckdb:///{path}"), gelgt.open(path)
    assert keys_of(mine) == keys_of(other)
    assert tables_of(mine) == tables_of(other)
    assert mine.graph().content_hash() == other.graph().content_hash()


@pytest.mark.postgres
def test_postgres(small_shop: Shop, postgres: Any) -> None:
    to_sql(small_shop, postgres.url, replace=True)
    mine, other = gelgt.open(f"adbc+{postgres.url}"), gelgt.open(postgres.url)
    assert keys_of(mine) == keys_of(other)
    assert tables_of(mine) == tables_of(other)
    assert mine.graph().content_hash() == other.graph().content_hash()
    assert postgres.password not in (mine.folder / "manifest.yaml").read_text()


@pytest.fixture
def odd(tmp_path: Path) -> str:
    """Whole decimals, binary data, names to be quoted, a view, a key into another schema."""
    with duckdb.connect(str(tmp_path / "odd.duckdb")) as connection:
        connection.execute("""
            CREATE SCHEMA other;
            CREATE TABLE "a ""b" (
                id DECIMAL(38, 0) PRIMARY KEY, "the price" DECIMAL(9, 2), image BLOB,
                seen TIMESTAMPTZ);
            INSERT INTO "a ""b" VALUES
                (9007199254740993, 1.25, 'x', '2024-03-01 12:00:00+02'), (2, NULL, NULL, NULL);
            CREATE TABLE child (id INTEGER PRIMARY KEY, a DECIMAL(38, 0));
            INSERT INTO child VALUES (1, 9007199254740993), (2, 2);
            CREATE VIEW few AS SELECT id, "the price" FROM "a ""b";
            CREATE TABLE other.elsewhere (id INTEGER);
        """)
    return f"adbc+duckdb:///{tmp_path / 'odd.duckdb'}"


def test_types_names_and_views(odd: str) -> None:
    db = gelgt.open(odd, schema={"child": {"fkeys": {"a": 'a "b'}}})
    assert db.table_names == ['a "b', "child"]
    assert db.keys('a "b').to_pydict() == {"id": [2, 9007199254740993]}  # not equal as floats
    rows = db.read('a "b').to_pydict()
    assert rows["the price"] == [None, 1.25]
    assert sorted(str(time) for time in rows["seen"]) == ["2024-03-01 10:00:00", "None"]
    assert "image" not in rows
    assert sorted(db.read("child").column("a").to_pylist()) == [0, 1]
    findings = load_yaml(db.folder / "manifest.yaml")["gelgt"]["findings"]
    assert [(f["code"], f["column"]) for f in findings] == [("binary_column", "image")]
    assert gelgt.open(odd, tables=["few"]).num_rows("few") == 2
    assert gelgt.open(odd, namespace="other").table_names == ["elsewhere"]


def test_only_the_columns_that_are_kept_are_asked_for(
    odd: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    source = AdbcSource(parse_url(odd))
    with source:
        cursor = source._connection.cursor

        class Heard:
            def __enter__(self) -> Any:
                self.inner = cursor()
                return self

            def __exit__(self, *error: object) -> None:
                self.inner.close()

            def execute(self, query: str) -> None:
                asked.append(query)
                self.inner.execute(query)

            def fetch_record_batch(self) -> Any:
                return self.inner.fetch_record_batch()

        monkeypatch.setattr(source._connection, "cursor", Heard)
        table = source.tables(['a "b'])[0]
        assert sum(batch.num_rows for batch in table.batches()) == 2
    assert asked == ['SELECT "id", "the price", "seen" FROM "main"."a ""b"']


def test_errors(odd: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    error = fails(odd, tables=["childs"])
    assert (error.code, "child" in error.hint) == ("unknown_table", True)
    error = fails(odd, namespace="no_such")
    assert (error.code, "'no_such'" in error.message) == ("no_tables", True)
    error = fails("adbc+nosuchdriver://me:s3cr3t@host/db")
    assert (error.code, "pip install adbc-driver-nosuchdriver" in error.hint) == (
        "missing_extra",
        True,
    )
    assert "s3cr3t" not in str(error)
    for name in ("snowflake", "bigquery"):
        monkeypatch.setitem(sys.modules, f"adbc_driver_{name}", None)
        monkeypatch.setitem(sys.modules, f"adbc_driver_{name}.dbapi", None)
        error = fails(f"{name}://me:s3cr3t@account/SHOP")
        assert (error.code, error.hint) == ("missing_extra", f"pip install 'gelgt[{name}]'")
        assert "s3cr3t" not in str(error)
    error = fails("databricks://token:s3cr3t@host:443/sql/1.0/warehouses/x")
    assert (error.code, "ADBC_DRIVER_PATH" in error.hint) == ("missing_extra", True)
    assert "s3cr3t" not in str(error)
    monkeypatch.setitem(sys.modules, "adbc_driver_manager.dbapi", None)
    assert fails("adbc+other://host/db").hint == "pip install adbc-driver-manager"


@pytest.mark.postgres
def test_errors_of_a_server(postgres: Any) -> None:
    url = sa.make_url(postgres.url)
    wrong = url.set(password="wr0ng/p@ss").render_as_string(hide_password=False)
    error = fails(f"adbc+{wrong}")
    assert error.code == "cannot_open"
    assert "password authentication failed" in error.message
    assert "wr0ng" not in str(error)
    engine = sa.create_engine(url.set(drivername="postgresql+psycopg"))
    with engine.begin() as connection:
        for statement in (
            "CREATE SCHEMA guarded",
            "CREATE TABLE guarded.open (id INTEGER PRIMARY KEY)",
            "CREATE TABLE guarded.closed (id INTEGER PRIMARY KEY)",
            "INSERT INTO guarded.open VALUES (1), (2)",
            "CREATE ROLE guest LOGIN PASSWORD 'gu3st'",
            "GRANT USAGE ON SCHEMA guarded TO guest",
            "GRANT SELECT ON guarded.open TO guest",
        ):
            connection.exec_driver_sql(statement)
    guest = url.set(username="guest", password="gu3st").render_as_string(hide_password=False)
    try:
        error = fails(f"adbc+{guest}", namespace="guarded")
        assert error.code == "cannot_read"
        assert "'closed'" in error.hint
        assert "permission denied" in error.message
        assert "gu3st" not in str(error)
        db = gelgt.open(f"adbc+{guest}", namespace="guarded", tables=["open"])
        assert db.num_rows("open") == 2
    finally:
        with engine.begin() as connection:
            connection.exec_driver_sql("DROP SCHEMA guarded CASCADE")
            connection.exec_driver_sql("DROP ROLE guest")
        engine.dispose()


def test_options_of_warehouses() -> None:
    """As the drivers name them."""
    url = parse_url("snowflake://me:p%40ss@acct/SHOP/PUBLIC?warehouse=W&role=R")
    assert OPTIONS["snowflake"](url) == {
        "username": "me",
        "password": "p@ss",
        "adbc.snowflake.sql.account": "acct",
        "adbc.snowflake.sql.db": "SHOP",
        "adbc.snowflake.sql.schema": "PUBLIC",
        "adbc.snowflake.sql.warehouse": "W",
        "adbc.snowflake.sql.role": "R",
        "adbc.snowflake.sql.client_option.disable_telemetry": "true",
    }
    assert OPTIONS["bigquery"](parse_url("bigquery://project/shop?location=EU")) == {
        "adbc.bigquery.sql.project_id": "project",
        "adbc.bigquery.sql.dataset_id": "shop",
        "adbc.bigquery.sql.location": "EU",
    }
    quoted = AdbcSource(parse_url("bigquery://project/shop"))._quoted("a`b")
    assert quoted == "`a``b`"
