"""MySQL and MariaDB, through PyMySQL's unbuffered cursor inside a consistent read-only snapshot.

The snapshot holds for the rows of engines that have transactions (InnoDB). Rows of others (MyISAM,
Aria, MEMORY), and the columns of all tables, are those of the moment in which they are read. So the
definition of each table, with a checksum of rows that have no snapshot, is noted before the
snapshot is taken and compared when the table has been read.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.dialects import mysql
from sqlalchemy.engine import URL, Engine
from sqlalchemy.engine.reflection import Inspector
from sqlalchemy.exc import SQLAlchemyError

from gelgt.errors import SourceError
from gelgt.sources.canonical import STRINGS, TIME
from gelgt.sources.raw import RawTable
from gelgt.sources.sql import SQLSource

_SNAPSHOT = "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"
_WITHOUT_SNAPSHOT = """
    SELECT t.table_name FROM information_schema.tables t
    WHERE t.table_schema = COALESCE(:namespace, DATABASE()) AND t.engine NOT IN (
        SELECT e.engine FROM information_schema.engines e WHERE e.transactions = 'YES')"""
_COLUMNS = """
    SELECT c.column_name FROM information_schema.columns c
    WHERE c.table_schema = COALESCE(:namespace, DATABASE()) AND c.table_name = :name"""
_COUNTER = re.compile(r" AUTO_INCREMENT=\d+")  # of the rows that came, no part of the table


class MySQLSource(SQLSource):
    """A MySQL or MariaDB database."""

    extra = "mysql"

    def __init__(self, url: URL, namespace: str | None = None) -> None:
        super().__init__(url, namespace)
        self._without_snapshot: set[str] = set()
        self._marks: dict[str, tuple[Any, ...]] = {}  # what each table was before the snapshot

    def _engine(self) -> Engine:
        name = self.url.drivername
        url = self.url if "+" in name else self.url.set(drivername=f"{name}+pymysql")
        # `_begin` starts the transaction
        return sa.create_engine(url, isolation_level="AUTOCOMMIT")

    def _begin(self) -> None:
        self._connection.exec_driver_sql("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        self._connection.exec_driver_sql("SET time_zone = '+00:00'")
        # A server may be set up to give the first rows alone.
        self._connection.exec_driver_sql(f"SET SESSION sql_select_limit = {2**64 - 1}")
        self._connection.exec_driver_sql(_SNAPSHOT)

    def tables(self, only: Sequence[str] | None = None) -> list[RawTable]:
        names = self.table_names() if only is None else only
        try:
            query = sa.text(_WITHOUT_SNAPSHOT).bindparams(namespace=self.namespace)
            self._without_snapshot = set(self._connection.execute(query).scalars())
            self._marks = {name: self._mark(name) for name in names}
            self._connection.exec_driver_sql("COMMIT")
            self._connection.exec_driver_sql(_SNAPSHOT)
        except SQLAlchemyError as error:
            raise self._cannot_list(error) from None
        tables = super().tables(only)
        for name in sorted({*names} ^ {table.name for table in tables}):
            raise self._changed(name)
        return tables

    def _mark(self, table: str) -> tuple[Any, ...]:
        """What a table is, and which rows it holds where no snapshot keeps them; nothing for a
        table that is not there or may not be seen, which reading it will tell."""
        quote = self._connection.dialect.identifier_preparer.quote_identifier
        name = ".".join(quote(part) for part in (self.namespace, table) if part)
        try:
            definition = self._connection.exec_driver_sql(f"SHOW CREATE TABLE {_escaped(name)}")
            mark: tuple[Any, ...] = (_COUNTER.sub("", str(definition.one()[1])),)
            if table in self._without_snapshot:
                rows = self._connection.exec_driver_sql(f"CHECKSUM TABLE {_escaped(name)}")
                mark += (rows.one()[1],)
        except SQLAlchemyError:
            return ()
        return mark

    def _guarded(self, table: str, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from super()._guarded(table, rows)
        if self._mark(table) != self._marks.get(table, ()):
            raise self._changed(table)

    def _changed(self, table: str) -> SourceError:
        has_snapshot = table not in self._without_snapshot
        what = "altered or replaced" if has_snapshot else "changed (its engine has no snapshots)"
        allowed = "." if has_snapshot else ", or convert it: ALTER TABLE … ENGINE = InnoDB."
        return SourceError(
            "source_changed",
            f"{self.address}: the table '{table}' was {what} while it was read.",
            hint=f"Try again when nobody changes it{allowed}",
        )

    def _columns(self, inspector: Inspector, table: str) -> list[Any]:
        # The columns of a view are described in a statement whose per cent signs are escaped.
        is_view = table not in inspector.get_table_names(schema=self.namespace)
        columns = []
        for column in super()._columns(inspector, table):
            name = column["name"].replace("%%", "%") if is_view else column["name"]
            columns.append({**column, "name": self._unquoted(name)})
        self._check_columns(table, {column["name"] for column in columns})
        return columns

    def _check_columns(self, table: str, reflected: set[str]) -> None:
        """Reflection reads SHOW CREATE TABLE line by line, and leaves out a column whose name has a
        line break."""
        names = {"namespace": self.namespace, "name": table}
        for column in self._connection.execute(sa.text(_COLUMNS).bindparams(**names)).scalars():
            if column not in reflected:
                raise SourceError(
                    "unreadable_column",
                    f"{self.address}: the column {column!r} of the table '{table}' cannot be read.",
                    hint="Rename it, or read a view that names it otherwise: tables= (--tables).",
                )

    def _unquoted(self, column: str) -> str:
        return column.replace("``", "`")  # reflection leaves them as SHOW CREATE TABLE has them

    def _abandon(self, cursor: Any) -> None:
        # PyMySQL would read the rest of the rows from the closed connection when it forgets the
        # cursor, and print the error of that.
        answer = getattr(cursor, "_result", None)
        if answer is not None:
            answer.unbuffered_active = False

    def _arrow_type(self, table: str, column: Any) -> pa.DataType | None:
        kind = column["type"]
        if isinstance(kind, mysql.TINYINT) and kind.display_width == 1:
            return pa.bool_() if self._is_boolean(table, column["name"]) else pa.int64()
        if isinstance(kind, mysql.BIT):
            return pa.bool_() if (kind.length or 1) == 1 else None
        if isinstance(kind, mysql.YEAR):
            return pa.int64()
        if isinstance(kind, mysql.SET):
            return STRINGS
        if isinstance(kind, sa.types.NullType):  # geometry
            return None
        return super()._arrow_type(table, column)

    def _array(
        self, table: str, column: str, arrow: pa.DataType, values: tuple[Any, ...]
    ) -> pa.Array:
        if arrow == TIME:  # PyMySQL gives dates that are none, such as 0000-00-00, as text
            values = tuple(None if isinstance(value, str) else value for value in values)
        if arrow == STRINGS:  # and a SET as its members with commas, which no member has
            values = tuple(
                [member for member in value.split(",") if member]
                if isinstance(value, str)
                else value
                for value in values
            )
        return super()._array(table, column, arrow, values)

    def _is_boolean(self, table: str, column: str) -> bool:
        """Whether a TINYINT(1), which may be a BOOLEAN or a small number, holds only 0 and 1."""
        value: sa.ColumnElement[int] = sa.column(column)
        query = (
            sa.select(sa.func.count())
            .select_from(sa.table(table, schema=self.namespace))
            .where(value.not_in([0, 1]))
        )
        return not self._connection.execute(query).scalar_one()


def _escaped(name: str) -> str:
    """A name inside a statement that PyMySQL formats."""
    return name.replace("%", "%%")
