"""SQLite. Any column may hold values of any type there, so the types are counted before a column is
read."""

import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.engine import URL, Engine
from sqlalchemy.exc import SQLAlchemyError

from gelgt.errors import SourceError
from gelgt.schema.model import Finding
from gelgt.sources.duckdb_engine import quote
from gelgt.sources.raw import RawTable
from gelgt.sources.sql import BATCH_ROWS, SQLSource
from gelgt.sources.state import SourceState, database_state


class _Values(NamedTuple):
    """How many values of each type a column holds, and the smallest and largest."""

    integer: int
    real: int
    text: int
    blob: int
    low: Any
    high: Any


class SQLiteSource(SQLSource):
    """A SQLite file, opened read-only."""

    has_types_in_rows = True
    check = (
        "Try again when nobody writes to it. If it is damaged, which sqlite3 FILE 'PRAGMA "
        "quick_check' tells, restore it from a copy."
    )

    def __init__(self, url: URL, namespace: str | None = None) -> None:
        super().__init__(url, namespace)
        if not url.database or url.database == ":memory:":
            raise SourceError(
                "bad_url",
                "An in-memory SQLite database cannot be opened by its address.",
                hint="Save it to a file, or pass frames.",
            )
        self._path = Path(url.database).expanduser()
        self._outside: sqlite3.Connection | None = None
        self._findings: dict[str, list[Finding]] = {}
        self._seen: dict[str, dict[str, _Values | None]] = {}
        if not self._path.is_file():
            raise SourceError(
                "not_found",
                f"There is no SQLite file {self._path}.",
                hint="sqlite:/// takes a relative path, sqlite://// an absolute one.",
            )

    def state(self) -> SourceState | None:
        return database_state(self._path, "-wal")

    def _engine(self) -> Engine:
        return sa.create_engine("sqlite://", creator=self._connect)

    # For other processes, each of which has a transaction of its own: these see one state if nobody
    # has committed between the first that began and the last. SQLite tells that to a connection
    # that has no transaction open, by a number that changes with the commits of others.
    def size(self) -> int:
        return self._path.stat().st_size

    def share(self) -> "SQLiteSource":
        return SQLiteSource(self.url, self.namespace)

    def is_shared(self) -> bool:
        return self._changes is not None and self._changes == self._count_changes()

    def batches(self, table: RawTable) -> Iterator[pa.RecordBatch]:
        return self._guarded(table.name, self._rows(table.name, dict(table.columns)))

    def _count_changes(self) -> int | None:
        try:
            assert self._outside is not None
            return int(self._outside.execute("PRAGMA data_version").fetchone()[0])
        except sqlite3.Error:
            return None

    def _connect(self) -> sqlite3.Connection:
        address = f"{self._path.resolve().as_uri()}?mode=ro"
        return sqlite3.connect(address, uri=True, check_same_thread=False)

    def _begin(self) -> None:
        self._outside = self._connect()
        self._changes = self._count_changes()
        # Python's sqlite3 opens no transaction for reads by itself; without one, each table could
        # come from another state.
        self._connection.exec_driver_sql("BEGIN")
        self._connection.exec_driver_sql("SELECT count(*) FROM sqlite_master")

    def _close(self) -> None:
        super()._close()
        if self._outside is not None:
            self._outside.close()

    def _time_columns(self, reflected: list[Any]) -> frozenset[str]:
        return frozenset(
            c["name"]
            for c in reflected
            if isinstance(c["type"], (sa.DateTime, sa.Date, sa.TIMESTAMP))
        )

    def _table(self, inspector: Any, name: str) -> RawTable:
        columns = [c["name"] for c in inspector.get_columns(name, schema=self.namespace)]
        self._seen[name] = self._scan(name, columns)
        raw = super()._table(inspector, name)
        return replace(raw, findings=(*raw.findings, *self._findings.get(name, [])))

    def _arrow_type(self, table: str, column: Any) -> pa.DataType | None:
        name, kind, values = column["name"], column["type"], self._values(table, column["name"])
        numbers, others = values.integer + values.real, values.text + values.blob
        if values.blob and not (numbers or values.text):
            return None
        is_number = isinstance(kind, (sa.Numeric, sa.Float, sa.Integer, sa.Boolean))
        # Stray texts must not turn declared numbers into text: one in a later row would change
        # every earlier one.
        if is_number and 0 < others < numbers:
            self._add_finding(table, name, "text in a column of numbers counts as missing", others)
            is_whole = isinstance(kind, (sa.Integer, sa.Boolean)) and not values.real
            return pa.int64() if is_whole else pa.float64()
        if (values.text and numbers) or values.blob:
            self._add_finding(table, name, "values of several types, read as text")
            return pa.string()
        if values.text:
            return pa.string()
        if isinstance(kind, sa.Boolean) and {values.low, values.high} <= {0, 1, None}:
            return pa.bool_()
        if values.real or isinstance(kind, (sa.Numeric, sa.Float)):
            return pa.float64()
        if values.integer:
            return pa.int64()
        return super()._arrow_type(table, column)  # no value at all

    def _scan(self, table: str, columns: list[str]) -> dict[str, _Values | None]:
        """The values of all columns by one scan; None, or no entry, where it does not tell."""
        terms = "count({0}), total(typeof({0}) = 'real'), min({0}), max({0})"
        selected = ", ".join(terms.format(quote(c)) for c in columns)
        try:
            query = f"SELECT {selected} FROM {quote(table)}"
            counted = tuple(self._connection.exec_driver_sql(query).one())
        except SQLAlchemyError:  # more columns than a query may have, or text that is not UTF-8
            return {}
        return {c: _plain(*counted[4 * i : 4 * i + 4]) for i, c in enumerate(columns)}

    def _values(self, table: str, column: str) -> _Values:
        if (seen := self._seen.get(table, {}).get(column)) is not None:
            return seen
        name = quote(column)
        counts = ", ".join(
            f"coalesce(sum(typeof({name}) = '{t}'), 0)" for t in ("integer", "real", "text", "blob")
        )
        query = f"SELECT {counts}, min({name}), max({name}) FROM {quote(table)}"
        try:
            return _Values(*self._connection.exec_driver_sql(query).one())
        except SQLAlchemyError as error:
            raise self._decode_error(table, column, error) from None

    def _add_finding(self, table: str, column: str, message: str, count: int | None = None) -> None:
        finding = Finding("mixed_types", table, column, count, message)
        self._findings.setdefault(table, []).append(finding)

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
            # rows that nobody reads to the end may outlive the connection, which closed the cursor
            with suppress(sqlite3.ProgrammingError):
                cursor.close()

    def _array(
        self, table: str, column: str, arrow: pa.DataType, values: tuple[Any, ...]
    ) -> pa.Array:
        try:
            if arrow in (pa.string(), pa.float64(), pa.int64()):
                return pa.array(values, arrow)
            if arrow == pa.bool_():
                return pa.array(values, pa.int64()).cast(arrow)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            pass  # a fraction among whole numbers: value by value
        return super()._array(table, column, arrow, values)

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


def _plain(count: int, real: float, low: Any, high: Any) -> _Values | None:
    """How many values of each type there are, from their count and extremes; None for a mixture.

    SQLite sorts numbers before texts and these before binary data, so the extremes show whether
    all values are of one type.
    """
    if isinstance(low, bytes):
        return _Values(0, 0, 0, count, low, high)
    if isinstance(low, str):
        return _Values(0, 0, count, 0, low, high) if isinstance(high, str) else None
    if isinstance(high, (str, bytes)):
        return None
    return _Values(count - int(real), int(real), 0, 0, low, high)
