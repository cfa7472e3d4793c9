"""The rows of a shop in every form that gelgt opens, so that tests can check that each gives the
same graph.

Each function reads the SQLite file and writes proper types: 64-bit integers, doubles, booleans,
timestamps, text. Databases get the declared keys; files and frames have none, which is how such
sources arrive.
"""

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gelgt.demo.schema import TABLES, WORD_LENGTH, Table, create_statement
from gelgt.demo.shop import Shop
from gelgt.errors import GelgtError, some

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    import sqlalchemy as sa

_INSERT_ROWS = 2000


def to_frames(shop: Shop) -> dict[str, "pd.DataFrame"]:
    """Pandas frames as one would read them: a missing whole number turns its column to float64, a
    missing flag to object."""
    import pandas as pd

    frames = {}
    for table in TABLES.values():
        frame = pd.DataFrame(dict(zip([c.name for c in table.columns], _columns(shop, table))))
        for column in table.columns:
            if column.type == "time":
                frame[column.name] = pd.to_datetime(frame[column.name])
        frames[table.name] = frame
    return frames


def to_csv(shop: Shop, folder: str | Path) -> Path:
    """One CSV file for each table; missing values are empty fields, flags are `true` and
    `false`."""
    import pyarrow as pa
    from pyarrow import csv

    target = _folder(folder)
    for table in TABLES.values():
        arrow = _arrow(shop, table)
        # Arrow would write microseconds; the text of the shop itself is what people have in their
        # files.
        for i, column in enumerate(table.columns):
            if column.type == "time":
                arrow = arrow.set_column(
                    i, column.name, pa.array(_columns(shop, table)[i], pa.string())
                )
        csv.write_csv(arrow, target / f"{table.name}.csv", csv.WriteOptions(quoting_style="needed"))
    return target


def to_parquet(shop: Shop, folder: str | Path) -> Path:
    """One Parquet file for each table."""
    import pyarrow.parquet as pq

    target = _folder(folder)
    for table in TABLES.values():
        pq.write_table(_arrow(shop, table), target / f"{table.name}.parquet")
    return target


def to_duckdb(shop: Shop, file: str | Path) -> Path:
    """A DuckDB file with declared keys; it must not exist yet."""
    import duckdb

    target = Path(file)
    with duckdb.connect(str(target)) as connection:
        for table in TABLES.values():
            connection.execute(create_statement(table, "duckdb"))
            connection.register("incoming", _arrow(shop, table))
            # DuckDB checks a key to the same table against the rows of earlier statements only:
            # parents first, then children.
            selfs = [
                column for column, parent in table.foreign_keys.items() if parent == table.name
            ]
            parents_first = [
                f"{column} IS {word}" for column in selfs for word in ("NULL", "NOT NULL")
            ]
            for condition in parents_first or ["true"]:
                connection.execute(
                    f"INSERT INTO {table.name} SELECT * FROM incoming WHERE {condition}"
                )
            connection.unregister("incoming")
    return target


def to_sql(shop: Shop, url: str, *, replace: bool = False) -> None:
    """Tables with declared keys in a database that SQLAlchemy can reach, such as PostgreSQL or
    MySQL.

    Args:
        shop: The shop.
        url: A SQLAlchemy URL with its driver where the default one is not installed
            (``mysql+pymysql://…``).
        replace: Drop tables of the same names first. Without it a database that has one of them is
            left untouched.

    Raises:
        GelgtError: the database already has a table of one of these names.
    """
    import sqlalchemy as sa

    metadata = _sql_tables()
    engine = sa.create_engine(url)
    try:
        if replace:
            metadata.drop_all(engine)
        elif taken := sorted(set(sa.inspect(engine).get_table_names()) & set(TABLES)):
            raise GelgtError(
                "table_exists",
                f"The database already has the tables {some(taken)}.",
                hint="Use another database, or replace=True.",
            )
        metadata.create_all(engine)
        with engine.begin() as connection:
            for table in TABLES.values():
                rows = _arrow(shop, table).to_pylist()
                for start in range(0, len(rows), _INSERT_ROWS):
                    connection.execute(
                        metadata.tables[table.name].insert(), rows[start : start + _INSERT_ROWS]
                    )
    finally:
        engine.dispose()


def _sql_tables() -> "sa.MetaData":
    """The tables of the shop as SQLAlchemy declares them."""
    import sqlalchemy as sa

    types: dict[str, Any] = {
        "int": sa.BigInteger(),
        "float": sa.Double(),
        "bool": sa.Boolean(),
        "time": sa.DateTime(),
        "word": sa.String(WORD_LENGTH),
        "text": sa.Text(),
    }
    metadata = sa.MetaData()
    for table in TABLES.values():
        columns: list[sa.Column[Any]] = []
        for c in table.columns:
            target = f"{c.references}.{TABLES[c.references].key.name}" if c.references else ""
            # the shop brings its key values: no serial or AUTO_INCREMENT column
            columns.append(
                sa.Column(
                    c.name,
                    types[c.type],
                    *([sa.ForeignKey(target)] if target else []),
                    primary_key=c is table.key,
                    nullable=c.is_nullable,
                    autoincrement=False,
                )
            )
        sa.Table(table.name, metadata, *columns)
    return metadata


def _folder(folder: str | Path) -> Path:
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    return target


def _columns(shop: Shop, table: Table) -> list[list[Any]]:
    """Column by column in the order of the primary key; SQLite keeps flags as 0 and 1."""
    connection = sqlite3.connect(shop.path)
    try:
        rows = connection.execute(
            f"SELECT * FROM {table.name} ORDER BY {table.key.name}"
        ).fetchall()
    finally:
        connection.close()
    values = [list(column) for column in zip(*rows)] if rows else [[] for _ in table.columns]
    return [
        [None if v is None else bool(v) for v in column] if spec.type == "bool" else column
        for spec, column in zip(table.columns, values)
    ]


def _arrow(shop: Shop, table: Table) -> "pa.Table":
    import pyarrow as pa
    import pyarrow.compute as pc

    types = {
        "int": pa.int64(),
        "float": pa.float64(),
        "bool": pa.bool_(),
        "word": pa.string(),
        "text": pa.string(),
        "time": pa.string(),
    }
    arrays = []
    for spec, values in zip(table.columns, _columns(shop, table)):
        array = pa.array(values, types[spec.type])
        arrays.append(
            pc.strptime(array, "%Y-%m-%d %H:%M:%S", "us") if spec.type == "time" else array
        )
    return pa.table(arrays, names=[c.name for c in table.columns])
