"""Tables of PostgreSQL that inherit from others: each row is read once."""

import gzip
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

import gelgt
from gelgt.inference.source import stated

pytestmark = pytest.mark.postgres

# payments: heirs with the same columns, one of them in another schema. cities: an heir with a
# column of its own, which has an heir with the same columns. signs: an heir of two parents.
TABLES = """
CREATE SCHEMA kin; CREATE SCHEMA attic; SET search_path TO kin;
CREATE TABLE payments (id int PRIMARY KEY, amount float8, paid_at timestamp);
CREATE TABLE payments_01 (CHECK (paid_at < '2024-02-01')) INHERITS (payments);
CREATE TABLE payments_02 () INHERITS (payments);
CREATE TABLE attic.payments_00 () INHERITS (payments);
INSERT INTO payments VALUES (1, 1.0, '2024-03-01');
INSERT INTO payments_01 SELECT i, i, '2024-01-01' FROM generate_series(2, 11) i;
INSERT INTO payments_02 SELECT i, i, '2024-02-01' FROM generate_series(12, 31) i;
INSERT INTO attic.payments_00 SELECT i, i, '2023-02-01' FROM generate_series(32, 36) i;
CREATE TABLE cities (id int PRIMARY KEY, name text);
CREATE TABLE capitals (state text) INHERITS (cities);
CREATE TABLE capitals_old () INHERITS (capitals);
INSERT INTO cities SELECT i, 'c' || i FROM generate_series(1, 7) i;
INSERT INTO capitals SELECT i, 'c' || i, 's' || i FROM generate_series(8, 10) i;
INSERT INTO capitals_old SELECT i, 'c' || i, 's' || i FROM generate_series(11, 12) i;
CREATE TABLE marks (id int, x int); CREATE TABLE notes (id int, x int);
CREATE TABLE signs () INHERITS (marks, notes);
INSERT INTO marks VALUES (1, 5); INSERT INTO notes VALUES (2, 5), (3, 6);
INSERT INTO signs VALUES (4, 7);
CREATE TABLE visits (id int, day int) PARTITION BY RANGE (day);
CREATE TABLE visits_a PARTITION OF visits FOR VALUES FROM (0) TO (10);
CREATE TABLE visits_b PARTITION OF visits FOR VALUES FROM (10) TO (20) PARTITION BY RANGE (day);
CREATE TABLE attic.visits_c PARTITION OF visits_b FOR VALUES FROM (10) TO (20);
INSERT INTO visits SELECT i, i FROM generate_series(0, 19) i
"""


@pytest.fixture
def kin(postgres: Any) -> Iterator[tuple[str, sa.Connection]]:
    url = postgres.url.replace("postgresql:", "postgresql+psycopg:")
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(TABLES)
        yield postgres.url, connection
        connection.exec_driver_sql("DROP SCHEMA kin CASCADE; DROP SCHEMA attic CASCADE")
    engine.dispose()


def sizes(db: gelgt.Database) -> dict[str, int]:
    return {name: db.num_rows(name) for name in db.table_names}


def test_each_row_is_read_once(kin: tuple[str, sa.Connection]) -> None:
    db = gelgt.open(kin[0], namespace="kin")
    assert sizes(db) == {
        "capitals": 5,
        "cities": 7,
        "marks": 1,
        "notes": 2,
        "payments": 36,
        "signs": 1,
        "visits": 20,
    }
    assert "state" in db.table("capitals").columns
    told = {(f.code, f.table): f.message for f in db.import_findings if f.code == "inherited_rows"}
    assert {table for _, table in told} == {"capitals", "cities", "marks", "notes", "payments"}
    assert "include those of 'payments_01', 'payments_02'" in told["inherited_rows", "payments"]
    assert "leave out those of 'capitals'" in told["inherited_rows", "cities"]


def test_parts_of_tables_that_are_not_read_are_tables(kin: tuple[str, sa.Connection]) -> None:
    assert sizes(gelgt.open(kin[0], namespace="attic")) == {"payments_00": 5, "visits_c": 10}


def test_a_part_is_read_when_it_is_named(kin: tuple[str, sa.Connection]) -> None:
    db = gelgt.open(kin[0], namespace="kin", tables=["payments_01", "cities"])
    assert sizes(db) == {"cities": 7, "payments_01": 10}


def test_without_the_fast_driver(
    kin: tuple[str, sa.Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    from gelgt.sources.postgres import PostgresSource

    monkeypatch.setattr(PostgresSource, "_rows", PostgresSource._cursor_rows)
    assert sizes(gelgt.open(kin[0], namespace="kin"))["cities"] == 7


def test_rows_that_come_to_heirs_are_added_once(kin: tuple[str, sa.Connection]) -> None:
    url, connection = kin
    tables = ["payments", "cities", "capitals"]
    base = gelgt.open(url, namespace="kin", tables=tables)
    options: dict[str, Any] = {"schema": stated(base.schema), "tables": tables, "namespace": "kin"}
    gelgt.open(url, **options)
    connection.exec_driver_sql("INSERT INTO kin.payments_02 VALUES (90, 1, '2024-05-01')")
    connection.exec_driver_sql("INSERT INTO kin.capitals VALUES (91, 'c', 's')")
    grown = gelgt.open(url, **options)
    assert grown.growth is not None
    assert sizes(grown) == {"payments": 37, "cities": 7, "capitals": 6}


def test_sakila(postgres: Any) -> None:
    """The payments of Pagila, whose months are heirs."""
    data = os.environ.get("GELGT_DATA", Path(__file__).parents[3] / "shared" / "data")
    dumps = sorted(Path(data).glob("classics/sakila-postgres-*.sql.gz"), reverse=True)
    if not dumps or not shutil.which("psql"):
        pytest.skip("needs psql, and the dump of Sakila in a folder that GELGT_DATA names")
    server, _, database = postgres.url.rpartition("/")
    schema, rows = (gzip.decompress(dump.read_bytes()) for dump in dumps)
    moved = b"""
        WITH moved AS (DELETE FROM ONLY payment WHERE payment_id % 2 = 0 RETURNING *)
        INSERT INTO payment_p2007_01 SELECT * FROM moved;"""

    def psql(statements: bytes, database: str) -> None:
        command = ["psql", "-q", f"{server}/{database}"]
        subprocess.run(command, input=statements, capture_output=True, check=True)

    psql(b"CREATE DATABASE sakila", database)
    psql(
        schema + rows + b"ALTER TABLE payment_p2007_01 DROP CONSTRAINT "
        b"payment_p2007_01_payment_date_check;" + moved,
        "sakila",
    )
    db = gelgt.open(f"{server}/sakila")
    assert len(db.table_names) == 15
    assert db.num_rows("payment") == 16_049
    origins = {fk.origin for table in db.schema.tables.values() for fk in table.foreign_keys}
    assert origins == {"declared"}
    times = {name: table.time_col for name, table in db.schema.tables.items() if table.time_col}
    assert times == {"payment": "payment_date", "rental": "rental_date"}
    assert db.table("customer").is_named_first, "create_date is that of a load"
    assert db.table("rental").kinds["return_date"].kind == "timestamp"
    assert not any(table.is_left_out for table in db.schema.tables.values())
