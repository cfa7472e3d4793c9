"""Generated tables (`databases.py`) in a database server."""

from typing import Any

import pyarrow as pa

from campaigns.server_world import Session, source_of
from database_servers import DatabaseServer

KINDS = ("postgres", "mariadb")
_TYPES = {
    "postgres": {
        pa.int64(): "bigint",
        pa.float64(): "float8",
        pa.bool_(): "boolean",
        pa.string(): "text",
        pa.timestamp("us"): "timestamp",
        pa.date32(): "date",
    },
    "mariadb": {
        pa.int64(): "bigint",
        pa.float64(): "double",
        pa.bool_(): "boolean",
        pa.string(): "longtext",
        pa.timestamp("us"): "datetime(6)",
        pa.date32(): "date",
    },
}


def write_tables(
    tables: dict[str, pa.Table], server: DatabaseServer, session: Session
) -> dict[str, Any]:
    """What `gelgt.open` takes for these tables, without any declared key."""
    session.clear()
    if session.kind == "mariadb":  # or it would cut and change values to make them fit
        session.run("SET SESSION sql_mode = 'STRICT_ALL_TABLES'")
    for name, table in tables.items():
        _write(session, name, table)
    return source_of(server)


def _write(session: Session, name: str, table: pa.Table) -> None:
    types = _TYPES[session.kind]
    columns = ", ".join(f"{session.quoted(f.name)} {types[f.type]}" for f in table.schema)
    session.run(f"CREATE TABLE {session.quoted(name)} ({columns})")
    marks = f"({', '.join(['%s'] * table.num_columns)})"
    values = [v for row in zip(*(column.to_pylist() for column in table.columns)) for v in row]
    target = session.quoted(name).replace("%", "%%")
    if table.num_rows:
        all_marks = ", ".join([marks] * table.num_rows)
        session.run_many(f"INSERT INTO {target} VALUES {all_marks}", [tuple(values)])


def unwritable() -> tuple[type[Exception], ...]:
    """What the drivers raise over names and values that a server does not hold."""
    import psycopg
    import pymysql

    return psycopg.Error, pymysql.Error
