"""PostgreSQL. Rows come as Arrow through ADBC, inside a snapshot exported by the connection that
reads the catalogue.

Without the ADBC driver the rows come through a server-side cursor of psycopg instead.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql
from sqlalchemy.engine import URL, Connection, Engine
from sqlalchemy.engine.reflection import Inspector
from sqlalchemy.exc import SQLAlchemyError

from gelgt.errors import SourceError, some
from gelgt.schema.model import Finding
from gelgt.sources.canonical import STRINGS, TIME
from gelgt.sources.duckdb_engine import quote
from gelgt.sources.postgres_state import (
    grown_tables,
    matches_census,
    take_census,
    take_snapshot,
)
from gelgt.sources.postgres_tables import (
    Family,
    base_type,
    catalogue_entries,
    dropped_tables,
    read_family,
)
from gelgt.sources.raw import RawTable
from gelgt.sources.sql import PARTITION, UNREADABLE, SQLSource
from gelgt.sources.state import SourceState

Answer = TypeVar("Answer")
LEAST_SHARED = 1 << 30  # bytes from which several processes read it
_CASTS = {pa.float64(): "float8", pa.int64(): "int8", pa.string(): "text", STRINGS: "text[]"}


_UNREADABLE = """
    SELECT c.relname
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT has_table_privilege(c.oid, 'SELECT')
      AND CASE WHEN :namespace IS NULL THEN pg_table_is_visible(c.oid)
               ELSE n.nspname = :namespace END"""


class PostgresSource(SQLSource):
    """A PostgreSQL database; one repeatable-read, read-only snapshot for everything."""

    extra = "postgres"

    def __init__(self, url: URL, namespace: str | None = None) -> None:
        super().__init__(url, namespace)
        self._snapshot: str | None = None
        self._given: str | None = None  # the snapshot of another process
        self._intervals: set[tuple[str, str]] = set()  # read as seconds
        self._family_: Family | None = None

    def state(self) -> SourceState | None:
        snapshot = self._ask(take_snapshot)
        return None if snapshot is None else SourceState(snapshot.key)

    def census(self, tables: Iterable[str]) -> dict[str, Any] | None:
        names = [self._qualified(table) for table in tables]
        return self._ask(lambda connection: take_census(connection, names))

    def matches(self, census: dict[str, Any]) -> bool:
        return bool(self._ask(lambda connection: matches_census(connection, census)))

    def mark(self, tables: Mapping[str, RawTable]) -> Any:
        return self.census(tables)

    def appended(self, tables: Mapping[str, RawTable], mark: Any) -> dict[str, RawTable]:
        """Tables that have all their older rows, with the rows of later transactions."""
        grown = self._ask(lambda connection: grown_tables(connection, mark)) or {}
        return {
            name: self._newer(table, condition)
            for name, table in tables.items()
            if (condition := grown.get(self._qualified(name))) is not None and not table.is_view
        }

    def _newer(self, table: RawTable, condition: str) -> RawTable:
        columns = dict(table.columns)
        return replace(
            table,
            batches=lambda: self._guarded(table.name, self._rows(table.name, columns, condition)),
        )

    def _ask(self, question: Callable[[Connection], Answer]) -> Answer | None:
        """An answer of the server, in the open transaction or one of its own; None where it only
        resembles PostgreSQL and cannot answer."""
        if self._engine_ is None:
            with self:
                return self._ask(question)
        try:
            with self._connection.begin_nested():  # an error must not end the transaction
                return question(self._connection)
        except SQLAlchemyError:
            return None

    def _engine(self) -> Engine:
        has_driver = "+" in self.url.drivername
        url = self.url if has_driver else self.url.set(drivername="postgresql+psycopg")
        # In a database without an encoding (SQL_ASCII) psycopg would give texts as bytes.
        is_psycopg = url.drivername == "postgresql+psycopg"
        arguments = {"client_encoding": "utf8"} if is_psycopg else {}
        return sa.create_engine(url, isolation_level="REPEATABLE READ", connect_args=arguments)

    # For other processes: they see the snapshot that this one has exported.
    def size(self) -> int:
        query = "SELECT pg_database_size(current_database())"
        return self._ask(lambda server: int(server.exec_driver_sql(query).scalar_one())) or 0

    def share(self) -> "PostgresSource | None":
        """A small database is read sooner than further processes have connected."""
        if self.size() < LEAST_SHARED:
            return None
        copy = PostgresSource(self.url, self.namespace)
        copy._given = self._snapshot
        return copy

    def is_shared(self) -> bool:
        return True

    def batches(self, table: RawTable) -> Iterator[pa.RecordBatch]:
        return self._table(sa.inspect(self._connection), table.name).batches()

    def _begin(self) -> None:
        self._family_ = None
        self._connection.exec_driver_sql("SET TRANSACTION READ ONLY")
        if self._given is not None:
            self._connection.exec_driver_sql(f"SET TRANSACTION SNAPSHOT '{self._given}'")
        self._connection.exec_driver_sql("SET LOCAL TIME ZONE 'UTC'")
        self._snapshot = (
            self._given
            or self._connection.exec_driver_sql("SELECT pg_export_snapshot()").scalar_one()
        )

    def _views(self, inspector: Inspector) -> list[str]:
        return [
            *super()._views(inspector),
            *inspector.get_materialized_view_names(schema=self.namespace),
        ]

    def tables(self, only: Sequence[str] | None = None) -> list[RawTable]:
        tables = super().tables(only)
        if self.namespace is None and only is None:
            for name in self._ask(dropped_tables) or ():
                raise self._changed(name)
        return tables

    def _hidden(self) -> dict[str, str]:
        query = sa.text(_UNREADABLE).bindparams(sa.bindparam("namespace", self.namespace, sa.Text))
        hidden = dict.fromkeys(self._connection.execute(query).scalars(), UNREADABLE)
        parts = (name for names in self._family.parts.values() for name in names)
        return hidden | dict.fromkeys([*parts, *self._family.partitions], PARTITION)

    @property
    def _family(self) -> Family:
        if self._family_ is None:
            self._family_ = self._ask(lambda server: read_family(server, self.namespace))
        return self._family_ or Family()

    def _table(self, inspector: Inspector, name: str) -> RawTable:
        raw, family = super()._table(inspector, name), self._family
        told = []
        if name in family.parts:
            parts = some(family.parts[name])
            told.append(f"its rows include those of {parts}, which inherit its columns")
        if name in family.heirs:
            heirs = some(family.heirs[name])
            told.append(f"its rows leave out those of {heirs}, which have columns of their own")
        findings = (Finding("inherited_rows", name, message=text) for text in told)
        return replace(raw, findings=(*raw.findings, *findings))

    def _arrow_type(self, table: str, column: Any) -> pa.DataType | None:
        kind = column["type"]
        if isinstance(kind, postgresql.DOMAIN):
            kind = base_type(self._connection, kind)
        if isinstance(kind, postgresql.BYTEA):
            return None
        if isinstance(kind, postgresql.INTERVAL):
            self._intervals.add((table, column["name"]))
            return pa.float64()
        return super()._arrow_type(table, {**column, "type": kind})

    def _guarded(self, table: str, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        entries = self._ask(lambda server: catalogue_entries(server, table, self.namespace))
        yield from super()._guarded(table, rows)
        if entries is not None and entries != self._entries_now(table):
            raise self._changed(table)

    def _changed(self, table: str) -> SourceError:
        what = f"the table '{table}' was altered, emptied or replaced while it was read."
        hint = "Try again when nobody changes the tables themselves; rows may change."
        return SourceError("source_changed", f"{self.address}: {what}", hint=hint)

    def _entries_now(self, table: str) -> str:
        """See `catalogue_entries`; as a transaction that begins now sees it."""
        assert self._engine_ is not None
        try:
            with self._engine_.connect() as connection:
                return catalogue_entries(connection, table, self.namespace)
        except SQLAlchemyError as error:
            raise self._unread(table, error) from None

    def _rows(
        self, table: str, columns: dict[str, pa.DataType], condition: str = "true"
    ) -> Iterator[pa.RecordBatch]:
        try:
            from adbc_driver_postgresql import dbapi
        except ModuleNotFoundError:
            yield from self._cursor_rows(table, columns, condition)
            return
        query = self._query(table, columns, condition)
        try:
            with dbapi.connect(self._adbc_uri()) as connection, connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
                cursor.execute("SET LOCAL client_encoding = 'UTF8'")
                cursor.execute(f"SET TRANSACTION SNAPSHOT '{self._snapshot}'")
                cursor.execute("SET LOCAL TIME ZONE 'UTC'")
                cursor.execute(query)
                for batch in cursor.fetch_record_batch():
                    if batch.num_rows:
                        yield batch.rename_columns(list(columns))
        except (dbapi.Error, pa.ArrowException, OSError) as error:  # the last two amid the rows
            raise self._unreadable(table, columns, error) from None

    def _unreadable(
        self, table: str, columns: dict[str, pa.DataType], error: Exception
    ) -> SourceError:
        """The error, with the column where a value is the cause, such as a NaN in a NUMERIC(9, 0):
        the server does not name it."""
        for column, arrow in columns.items():
            query = f"SELECT count(v) FROM ({self._select(table, {column: arrow})}) AS part (v)"
            try:
                with self._connection.begin_nested():
                    self._connection.execute(sa.text(query.replace(":", "\\:")))
            except SQLAlchemyError as cause:
                state = getattr(getattr(cause, "orig", None), "sqlstate", None) or ""
                if not state.startswith(("22", "0A")):  # a value, or one without a place
                    break
                hint = "Repair the value, or read a view without the column."
                bad = self._failed("bad_value", cause, hint)
                message = bad.message.removeprefix(f"{self.address}: ")
                return SourceError("bad_value", f"'{table}.{column}': {message}.", hint)
        return self._unread(table, error)

    def _cursor_rows(
        self, table: str, columns: dict[str, pa.DataType], condition: str = "true"
    ) -> Iterator[pa.RecordBatch]:
        query = self._query(table, columns, condition)
        # Options of the connection would hold for the questions after this one too.
        result = self._connection.execute(
            sa.text(query.replace(":", "\\:")), execution_options={"stream_results": True}
        )
        for rows in result.partitions(50_000):
            arrays = [self._array(table, c, t, v) for (c, t), v in zip(columns.items(), zip(*rows))]
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))

    def _query(self, table: str, columns: dict[str, pa.DataType], condition: str) -> str:
        if left_out := self._family.left_out.get(table):
            condition = f"{condition} AND tableoid NOT IN ({', '.join(map(str, left_out))})"
        return f"{self._select(table, columns)} WHERE {condition}"

    def _select(self, table: str, columns: dict[str, pa.DataType]) -> str:
        """Every column is cast on the server to the type it arrives in, so enums, UUIDs, JSON and
        numerics need no driver support."""
        selected = ", ".join(self._cast(table, c, t) for c, t in columns.items())
        return f"SELECT {selected} FROM {self._qualified(table)}"

    def _cast(self, table: str, column: str, arrow: pa.DataType) -> str:
        name = quote(column)
        if arrow == TIME:
            # Timestamps and dates become UTC instants without a zone; infinity has no place on a
            # time axis and is null.
            return f"CASE WHEN isfinite({name}) THEN {name}::timestamp END AS {name}"
        if arrow == pa.float64() and (table, column) in self._intervals:
            return f"extract(epoch FROM {name})::float8 AS {name}"
        return f"{name}::{_CASTS[arrow]} AS {name}" if arrow in _CASTS else name

    def _qualified(self, table: str) -> str:
        return f"{quote(self.namespace)}.{quote(table)}" if self.namespace else quote(table)

    def _adbc_uri(self) -> str:
        if self.url.host is None and not self.url.query:
            raise SourceError(
                "bad_url",
                f"{self.address} names no host.",
                hint="Write postgresql://user@host/database.",
            )
        # SQLAlchemy leaves spaces as they are, which libpq takes for the end of the address.
        url = self.url.set(drivername="postgresql")
        return url.render_as_string(hide_password=False).replace(" ", "%20")
