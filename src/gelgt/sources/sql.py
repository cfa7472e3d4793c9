"""A SQL database as a source: SQLite, PostgreSQL, MySQL and MariaDB through SQLAlchemy's
reflection.

Keys are those that the database declares. Rows are read in one read-only transaction that sees one
state of the data, a batch at a time. What differs between the systems is in `sqlite.py`,
`postgres.py` and `mysql.py`.
"""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, Engine
from sqlalchemy.engine.reflection import Inspector
from sqlalchemy.exc import SAWarning, SQLAlchemyError

from gelgt.errors import SourceError, did_you_mean
from gelgt.schema.model import Finding, ForeignKey
from gelgt.sources.address import parse_url, safe_address, scrub
from gelgt.sources.raw import RawTable, Splits
from gelgt.sources.sql_types import arrow_type, plain_value
from gelgt.sources.state import SourceState

if TYPE_CHECKING:
    from gelgt.sources.adbc import AdbcSource

BATCH_ROWS = 50_000
PARTITION = "a partition"
UNREADABLE = "this user may not read it: it is left out"


class SQLSource:
    """Common part of all SQL databases. A dialect overrides `_engine`, `_begin`, `_arrow_type` and
    `_rows`."""

    splits: Splits | None = None
    has_snapshot = True
    extra = ""  # the pip extra of gelgt that brings the driver, where there is one
    check = "Check host, port, user, password and database name."  # where it cannot be opened

    def __init__(self, url: URL, namespace: str | None = None) -> None:
        self.url = url
        self.address = safe_address(url)
        path = (url.database or "database").rstrip("/")
        self.name = path.split("/")[-1].split(".")[0] or "database"
        self.namespace = namespace
        self._engine_: Engine | None = None
        self._connection: Connection

    def __enter__(self) -> "SQLSource":
        try:
            self._engine_ = self._engine()
            self._connection = self._engine_.connect()
            self._begin()
        except ModuleNotFoundError as error:
            raise SourceError(
                "missing_driver",
                f"{self.address} needs the Python package '{error.name}'.",
                hint=f"pip install '{f'gelgt[{self.extra}]' if self.extra else error.name}'",
            ) from None
        # a damaged file of SQLite can have errors that are no text
        except (SQLAlchemyError, OSError, UnicodeDecodeError) as error:
            self._close()
            raise self._failed("cannot_open", error, self.check) from None
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close()

    def _close(self) -> None:
        if self._engine_ is not None:
            if hasattr(self, "_connection"):
                # what was read is read, and a connection that is lost needs no end
                with suppress(SQLAlchemyError, OSError):
                    self._connection.close()
            self._engine_.dispose()
            self._engine_ = None

    def _failed(self, code: str, error: BaseException, hint: str) -> SourceError:
        cause = getattr(error, "orig", None) or error
        text = scrub(" ".join(str(cause).split()), self.url)
        return SourceError(code, f"{self.address}: {text}", hint=hint)

    def state(self) -> SourceState | None:
        return None

    def content_key(self) -> str | None:
        return None

    def table_names(self) -> list[str]:
        try:
            names = sa.inspect(self._connection).get_table_names(schema=self.namespace)
            hidden = self._hidden()
        except SQLAlchemyError as error:
            raise self._cannot_list(error) from None
        return [name for name in names if hidden.get(name) != PARTITION]

    def tables(self, only: Sequence[str] | None = None) -> list[RawTable]:
        try:
            with warnings.catch_warnings():
                # types that SQLAlchemy does not know are read as text
                warnings.simplefilter("ignore", SAWarning)
                return self._reflect(sa.inspect(self._connection), only)
        except SQLAlchemyError as error:
            raise self._cannot_list(error) from None

    def _cannot_list(self, error: SQLAlchemyError) -> SourceError:
        hint = "The user needs the right to read the tables; or name some: tables= (--tables)."
        return self._failed("cannot_read", error, hint)

    def _reflect(self, inspector: Inspector, only: Sequence[str] | None) -> list[RawTable]:
        names = sorted(set(self._names(inspector, only)))
        hidden = self._hidden()
        if only is None:
            names = [name for name in names if hidden.get(name) != PARTITION]
        tables = set(inspector.get_table_names(schema=self.namespace))
        return [
            _unreadable(name)
            if hidden.get(name) == UNREADABLE
            else replace(self._table(inspector, name), is_view=name not in tables)
            for name in names
        ]

    def _names(self, inspector: Inspector, only: Sequence[str] | None) -> list[str]:
        """The names of the tables to read; those of `only` may be views."""
        namespaces = inspector.get_schema_names()
        if self.namespace is not None and self.namespace not in namespaces:
            raise SourceError(
                "unknown_namespace",
                f"{self.address} has no schema '{self.namespace}'.",
                hint=did_you_mean(self.namespace, namespaces),
            )
        names = inspector.get_table_names(schema=self.namespace)
        if only is not None:
            readable = [*names, *self._views(inspector)]
            for name in only:
                if name not in readable:
                    raise SourceError(
                        "unknown_table",
                        f"{self.address} has no table '{name}'.",
                        hint=did_you_mean(name, readable),
                    )
            names = list(only)
        if not names:
            raise SourceError(
                "no_tables",
                f"{self.address} has no tables that this user can see.",
                hint=f"Name a schema with namespace= (--namespace). {did_you_mean('', namespaces)}",
            )
        return names

    def _table(self, inspector: Inspector, name: str) -> RawTable:
        reflected = self._columns(inspector, name)
        types = {column["name"]: self._arrow_type(name, column) for column in reflected}
        columns = {c: t for c, t in types.items() if t is not None}
        primary = inspector.get_pk_constraint(name, schema=self.namespace)
        keys = inspector.get_foreign_keys(name, schema=self.namespace)
        dropped = [
            Finding("binary_column", name, c, message="binary data is left out")
            for c, t in types.items()
            if t is None
        ]
        outside = [_outside_key(name, key) for key in keys if not self._is_inside(key)]
        return RawTable(
            name,
            columns,
            lambda: self._guarded(name, self._rows(name, columns)),
            tuple(self._unquoted(c) for c in primary.get("constrained_columns") or ()),
            tuple(self._foreign_key(key) for key in keys if self._is_inside(key)),
            time_columns=self._time_columns(reflected),
            findings=(*dropped, *outside),
        )

    def _foreign_key(self, key: Any) -> ForeignKey:
        return ForeignKey(
            tuple(self._unquoted(c) for c in key["constrained_columns"]),
            key["referred_table"],
            tuple(self._unquoted(c) for c in key["referred_columns"] or ()),
            "declared",
            "FOREIGN KEY of the database",
        )

    def _is_inside(self, key: Any) -> bool:
        """Whether a foreign key stays in the schema that is read."""
        return key.get("referred_schema") in (None, self.namespace)

    def _guarded(self, table: str, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from rows
        except SQLAlchemyError as error:
            raise self._unread(table, error) from None

    def _unread(self, table: str, error: BaseException) -> SourceError:
        hint = f"Reading the table '{table}' failed. Try again, or read others: tables= (--tables)."
        return self._failed("cannot_read", error, hint)

    # --- what a dialect may replace
    def _engine(self) -> Engine:
        return sa.create_engine(self.url)

    def _begin(self) -> None:
        """Start the read-only transaction that sees one state of the data."""

    def _columns(self, inspector: Inspector, table: str) -> list[Any]:
        return list(inspector.get_columns(table, schema=self.namespace))

    def _unquoted(self, column: str) -> str:
        """The name of a column that reflection gave."""
        return column

    def _abandon(self, cursor: Any) -> None:
        """Leave a cursor whose connection broke."""

    def _views(self, inspector: Inspector) -> list[str]:
        return inspector.get_view_names(schema=self.namespace)

    def _hidden(self) -> dict[str, str]:
        """Tables that are not read as such, and why: PARTITION (its rows come with the whole) or
        UNREADABLE."""
        return {}

    def _time_columns(self, reflected: list[Any]) -> frozenset[str]:
        return frozenset()

    def _arrow_type(self, table: str, column: Any) -> pa.DataType | None:
        """The Arrow type of a reflected column; None leaves it out."""
        return arrow_type(column["type"])

    def _rows(self, table: str, columns: dict[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
        query: Any = sa.select(*(sa.column(c) for c in columns)).select_from(
            sa.table(table, schema=self.namespace)
        )
        options = {"stream_results": True, "yield_per": BATCH_ROWS}
        result = self._connection.execute(query, execution_options=options)
        cursor = result.cursor
        try:
            for rows in result.partitions(BATCH_ROWS):
                values = list(zip(*rows)) if rows else [()] * len(columns)
                arrays = [self._array(table, c, t, v) for (c, t), v in zip(columns.items(), values)]
                yield pa.RecordBatch.from_arrays(arrays, names=list(columns))
        except SQLAlchemyError:
            self._abandon(cursor)
            raise

    def _array(
        self, table: str, column: str, arrow: pa.DataType, values: tuple[Any, ...]
    ) -> pa.Array:
        try:
            return pa.array([plain_value(v, arrow) for v in values], arrow)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, ValueError, TypeError) as error:
            message = f"'{table}.{column}': a value does not fit {arrow}: {error}"
            hint = "Repair the value or leave out the column."
            raise SourceError("bad_value", message, hint) from None


def _unreadable(table: str) -> RawTable:
    finding = Finding("unreadable_table", table, message=UNREADABLE)
    return RawTable(table, {}, lambda: iter(()), findings=(finding,))


def _outside_key(table: str, key: Any) -> Finding:
    parent = f"{key['referred_schema']}.{key['referred_table']}"
    message = f"refers to '{parent}' in another schema, which is not read"
    return Finding("outside_key", table, "+".join(key["constrained_columns"]), message=message)


def open_sql(text: str, namespace: str | None = None) -> "SQLSource | AdbcSource":
    """The source for a database URL."""
    from gelgt.sources.adbc import WAREHOUSES, AdbcSource
    from gelgt.sources.mysql import MySQLSource
    from gelgt.sources.postgres import PostgresSource
    from gelgt.sources.sqlite import SQLiteSource

    url = parse_url(text)
    dialect = url.drivername.split("+")[0]
    kinds: dict[str, type[SQLSource]] = {
        "sqlite": SQLiteSource,
        "postgresql": PostgresSource,
        "postgres": PostgresSource,
        "mysql": MySQLSource,
        "mariadb": MySQLSource,
    }
    if dialect in ("adbc", *WAREHOUSES):
        return AdbcSource(url, namespace)
    if dialect not in kinds:
        raise SourceError(
            "unknown_dialect",
            f"gelgt cannot read '{dialect}' databases.",
            hint=f"{did_you_mean(dialect, [*kinds, 'duckdb', *WAREHOUSES])} Or use an ADBC driver "
            "(adbc+DRIVER://…), or export the tables to Parquet.",
        )
    return kinds[dialect](url, namespace)
