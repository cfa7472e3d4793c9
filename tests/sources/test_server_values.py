"""Values and settings of servers that were read as something else, or as nothing.

Found by the campaign of servers (`tests/campaigns/servers.py`).
"""

import gc
import sys
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
import sqlalchemy as sa

import gelgt
from campaigns.proxy import Proxy
from database_servers import DatabaseServer, MariaServer, PostgresServer


def engine_of(server: DatabaseServer, database: str = "") -> sa.Engine:
    driver = {"postgres": "psycopg", "mariadb": "pymysql"}[server.kind]
    url = server.url.replace("://", f"+{driver}://", 1)
    if database:
        url = url.removesuffix(server.database) + database
    return sa.create_engine(url, isolation_level="AUTOCOMMIT")


@pytest.fixture
def pg(postgres: PostgresServer) -> Iterator[sa.Connection]:
    engine = engine_of(postgres)
    with engine.connect() as connection:
        connection.exec_driver_sql("CREATE SCHEMA odd")
        connection.exec_driver_sql("SET search_path = odd")
        yield connection
        connection.exec_driver_sql("DROP SCHEMA odd CASCADE")
    engine.dispose()


@pytest.fixture
def maria(mariadb: MariaServer) -> Iterator[sa.Connection]:
    engine = engine_of(mariadb)
    with engine.connect() as connection:
        connection.exec_driver_sql("CREATE DATABASE odd")
        connection.exec_driver_sql("USE odd")
        yield connection
        connection.exec_driver_sql("DROP DATABASE odd")
    engine.dispose()


def maria_url(server: MariaServer) -> str:
    return server.url.removesuffix("shop") + "odd"


def columns(db: gelgt.Database, table: str) -> dict[str, list[Any]]:
    return {c: v for c, v in db.read(table).to_pydict().items() if c != "id"}


@pytest.mark.postgres
def test_a_domain_is_read_as_what_it_is_made_of(postgres: PostgresServer, pg: Any) -> None:
    for name, base in {
        "whole": "numeric(18,0)", "inner_domain": "timestamptz", "outer_domain": "inner_domain",
        "words": "varchar(9)[]", "blob": "bytea",
    }.items():  # fmt: skip
        pg.exec_driver_sql(f"CREATE DOMAIN {name} AS {base}")
    pg.exec_driver_sql(
        "CREATE TABLE t (id int PRIMARY KEY, n whole, at outer_domain, w words, b blob)"
    )
    pg.exec_driver_sql(
        "INSERT INTO t VALUES (1, 999999999999999999, '2024-01-01 00:00+02', '{a,b}', '\\x00')"
    )
    db = gelgt.open(postgres.url, namespace="odd")
    assert columns(db, "t") == {
        "n": [999999999999999999],
        "at": [datetime(2023, 12, 31, 22)],
        "w": [["a", "b"]],
    }
    assert [f.column for f in db.import_findings if f.code == "binary_column"] == ["b"]


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("kind", "value"), [("numeric(18,0)", "'NaN'"), ("date", "'300000-01-01'")]
)
def test_a_value_without_a_place_is_named_with_its_column(
    postgres: PostgresServer, pg: Any, kind: str, value: str
) -> None:
    pg.exec_driver_sql(f'CREATE TABLE t (id int PRIMARY KEY, "a:b" int, "v%" {kind})'.replace(
        "%", "%%"))  # fmt: skip
    pg.exec_driver_sql(f"INSERT INTO t VALUES (1, 1, {value})")
    with pytest.raises(gelgt.GelgtError, match=r"'t\.v%': ") as caught:
        gelgt.open(postgres.url, namespace="odd")
    assert caught.value.code == "bad_value"


@pytest.mark.postgres
@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_a_database_in_another_encoding(postgres: PostgresServer, pg: Any, encoding: str) -> None:
    place = "TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'"
    pg.exec_driver_sql(f"CREATE DATABASE coded ENCODING '{encoding}' {place}")
    try:
        url = postgres.url.removesuffix("postgres") + "coded"
        import psycopg

        with psycopg.connect(url, autocommit=True, client_encoding="utf8") as connection:
            connection.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
            connection.execute("INSERT INTO t VALUES (1, 'é')")
        assert columns(gelgt.open(url), "t") == {"v": ["é"]}
    finally:
        pg.exec_driver_sql("DROP DATABASE coded WITH (FORCE)")


@pytest.mark.postgres
def test_a_connection_that_breaks_amid_the_rows_is_no_full_disk(
    postgres: PostgresServer, pg: Any
) -> None:
    pg.exec_driver_sql("CREATE TABLE t (id int PRIMARY KEY, v text)")
    pg.exec_driver_sql("INSERT INTO t SELECT i, repeat('x', 999) FROM generate_series(1, 3000) i")
    with (
        Proxy(postgres.port, "cut", 1_000_000, heals=True) as proxy,
        pytest.raises(gelgt.GelgtError, match="Reading the table 't' failed") as caught,
    ):
        gelgt.open(postgres.url_at(proxy.port), namespace="odd")
    assert caught.value.code == "cannot_read"


@pytest.mark.mysql
def test_sets_and_times_of_mariadb(mariadb: MariaServer, maria: Any) -> None:
    maria.exec_driver_sql("CREATE TABLE t (id INT PRIMARY KEY, s SET('a','b c'), c TIME(3))")
    maria.exec_driver_sql("INSERT INTO t VALUES (1, 'a,b c', '09:00'), (2, '', '-26:03:04.5')")
    db = gelgt.open(maria_url(mariadb))
    assert columns(db, "t") == {"s": [["a", "b c"], []], "c": ["09:00:00", "-26:03:04.5"]}


@pytest.mark.mysql
def test_names_that_mariadb_escapes(mariadb: MariaServer, maria: Any) -> None:
    maria.exec_driver_sql("CREATE TABLE t (`tick``s` INT PRIMARY KEY, `100%%` INT)")
    maria.exec_driver_sql("CREATE VIEW seen AS SELECT * FROM t")
    maria.exec_driver_sql("INSERT INTO t VALUES (5, 7)")
    assert columns(gelgt.open(maria_url(mariadb)), "t") == {"tick`s": [0], "100%": [7]}
    view = gelgt.open(maria_url(mariadb), tables=["seen"])
    assert set(columns(view, "seen")) == {"tick`s", "100%"}


@pytest.mark.mysql
def test_a_column_that_reflection_leaves_out_is_named(mariadb: MariaServer, maria: Any) -> None:
    maria.exec_driver_sql("CREATE TABLE t (id INT PRIMARY KEY, `a\nb` INT)")
    maria.exec_driver_sql("INSERT INTO t VALUES (1, 1)")
    with pytest.raises(gelgt.GelgtError, match=r"'a\\nb' of the table 't'.*Rename it"):
        gelgt.open(maria_url(mariadb))


@pytest.mark.mysql
def test_a_server_that_gives_the_first_rows_alone(mariadb: MariaServer, maria: Any) -> None:
    maria.exec_driver_sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    maria.exec_driver_sql("INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)")
    maria.exec_driver_sql("SET GLOBAL sql_select_limit = 2")
    try:
        assert gelgt.open(maria_url(mariadb)).num_rows("t") == 3
    finally:
        maria.exec_driver_sql(f"SET GLOBAL sql_select_limit = {2**64 - 1}")


@pytest.mark.mysql
def test_a_connection_of_mariadb_that_breaks_prints_nothing(
    mariadb: MariaServer, maria: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    maria.exec_driver_sql("CREATE TABLE t (id INT PRIMARY KEY, v TEXT)")
    rows = ", ".join(f"({i}, REPEAT('x', 999))" for i in range(3000))
    maria.exec_driver_sql(f"INSERT INTO t VALUES {rows}")
    printed: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", printed.append)
    with (
        Proxy(mariadb.port, "cut", 1_000_000, heals=True) as proxy,
        pytest.raises(gelgt.GelgtError, match="Reading the table 't' failed"),
    ):
        gelgt.open(mariadb.url_at(proxy.port).removesuffix("shop") + "odd")
    gc.collect()
    assert printed == []
