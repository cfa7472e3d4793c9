"""SQLite. Any column may hold any type there, so each column is asked what it holds before it is
read."""

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.engine import URL, Engine
from sqlalchemy.exc import SQLAlchemyError

from gelgt.errors import SourceError
from gelgt.schema.model import Finding
from gelgt.sources.duckdb_engine import quote
from gelgt.sources.raw import RawTable
from gelgt.sources.sql import BATCH_ROWS, SQLSource


class SQLiteSource(SQLSource):
    """A SQLite file, opened read-only."""

    def __init__(self, url: URL, namespace: str | None = None) -> None:
        super().__init__(url, namespace)
        if not url.database or url.database == ":memory:":
            raise SourceError(
                "bad_url",
                "An in-memory SQLite database cannot be opened by its address.",
                hint="Save it to a file, or pass frames.",
            )
        self._path = Path(url.database).expanduser()
        self._findings: dict[str, list[Finding]] = {}
        if not self._path.is_file():
            raise SourceError(
                "not_found",
                f"There is no SQLite file {self._path}.",
                hint="sqlite:/// takes a relative path, sqlite://// an absolute one.",
            )

    def _engine(self) -> Engine:
        address = f"{self._path.resolve().as_uri()}?mode=ro"
        return sa.create_engine(
            "sqlite://", creator=lambda: sqlite3.connect(address, uri=True, check_same_thread=False)
        )

    def _begin(self) -> None:
        # Python's sqlite3 opens no transaction for reads by itself; without one, each table could
        # come from another state.
        self._connection.exec_driver_sql("BEGIN")
        self._connection.exec_driver_sql("SELECT count(*) FROM sqlite_master")

    def _time_columns(self, reflected: list[Any]) -> frozenset[str]:
        return frozenset(
            c["name"]
            for c in reflected
            if isinstance(c["type"], (sa.DateTime, sa.Date, sa.TIMESTAMP))
        )

    def _table(self, inspector: Any, name: str) -> RawTable:
        raw = super()._table(inspector, name)
        return replace(raw, findings=(*raw.findings, *self._findings.get(name, [])))

    def _arrow_type(self, table: str, column: Any) -> pa.DataType | None:
        c, kind = quote(column["name"]), column["type"]
        kinds = ", ".join(
            f"coalesce(sum(typeof({c}) = '{t}'), 0)" for t in ("integer", "real", "text", "blob")
        )
        query = f"SELECT {kinds}, min({c}), max({c}) FROM {quote(table)}"
        try:
            integer, real, text, blob, low, high = self._connection.exec_driver_sql(query).one()
        except SQLAlchemyError as error:
            raise self._decode_error(table, column["name"], error) from None
        if blob and not (integer or real or text):
            return None
        # Stray texts must not turn declared numbers into text: one in a later row would change
        # every earlier one.
        if (
            isinstance(kind, (sa.Numeric, sa.Float, sa.Integer, sa.Boolean))
            and 0 < text + blob < integer + real
        ):
            self._findings.setdefault(table, []).append(
                Finding(
                    "mixed_types",
                    table,
                    column["name"],
                    text + blob,
                    "text in a column of numbers counts as missing",
                )
            )
            return (
                pa.float64()
                if real or not isinstance(kind, (sa.Integer, sa.Boolean))
                else pa.int64()
            )
        if (text and (integer or real)) or blob:
            self._findings.setdefault(table, []).append(
                Finding(
                    "mixed_types",
                    table,
                    column["name"],
                    message="values of several types, read as text",
                )
            )
            return pa.string()
        if text:
            return pa.string()
        if isinstance(kind, sa.Boolean) and low in (0, 1, None) and high in (0, 1, None):
            return pa.bool_()
        if real or isinstance(kind, (sa.Numeric, sa.Float)):
            return pa.float64()
        if integer:
            return pa.int64()
        return super()._arrow_type(table, column)  # no value at all

    def _rows(self, table: str, columns: dict[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
        number = "CASE WHEN typeof({0}) IN ('integer', 'real') THEN {1} END"
        cast = {
            pa.string(): "CAST({0} AS TEXT)",
            pa.float64(): number.format("{0}", "CAST({0} AS REAL)"),
            pa.int64(): number.format("{0}", "{0}"),
        }
        selected = ", ".join(
            cast.get(arrow, "{0}").format(quote(name)) for name, arrow in columns.items()
        )
        raw: Any = self._connection.connection.driver_connection
        cursor = raw.cursor()
        try:
            cursor.execute(f"SELECT {selected} FROM {quote(table)}")
            while rows := cursor.fetchmany(BATCH_ROWS):
                arrays = [
                    self._array(table, c, t, v) for (c, t), v in zip(columns.items(), zip(*rows))
                ]
                yield pa.RecordBatch.from_arrays(arrays, names=list(columns))
        except sqlite3.Error as error:
            raise self._decode_error(table, None, error) from None
        finally:
            cursor.close()

    def _decode_error(self, table: str, column: str | None, error: Exception) -> SourceError:
        text = str(getattr(error, "orig", None) or error)
        if "decode to UTF-8" in text:
            where = f"'{table}.{column}'" if column else f"table '{table}'"
            return SourceError(
                "not_utf8",
                f"{self.address}: {where} holds text that is not UTF-8: {text}",
                hint="Re-encode the column as UTF-8.",
            )
        return self._failed(
            "cannot_read", error, "The file may be damaged: run PRAGMA integrity_check."
        )
