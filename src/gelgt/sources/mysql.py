"""MySQL and MariaDB, through PyMySQL's unbuffered cursor inside a consistent read-only snapshot."""

from typing import Any

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.dialects import mysql
from sqlalchemy.engine import Engine

from gelgt.sources.canonical import STRINGS, TIME
from gelgt.sources.sql import SQLSource


class MySQLSource(SQLSource):
    """A MySQL or MariaDB database."""

    extra = "mysql"

    def _engine(self) -> Engine:
        name = self.url.drivername
        url = self.url if "+" in name else self.url.set(drivername=f"{name}+pymysql")
        # `_begin` starts the transaction
        return sa.create_engine(url, isolation_level="AUTOCOMMIT")

    def _begin(self) -> None:
        self._connection.exec_driver_sql("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        self._connection.exec_driver_sql("SET time_zone = '+00:00'")
        self._connection.exec_driver_sql("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")

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
