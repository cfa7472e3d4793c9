"""A SQL database as a source: SQLite, PostgreSQL, MySQL and MariaDB through SQLAlchemy's
reflection.

Keys are the database's own declarations. Rows are read inside one read-only transaction that sees
one state of the data, a batch at a time. What differs between the systems is in `sqlite.py`,
`postgres.py` and `mysql.py`.
"""

import warnings
from collections.abc import Iterator, Sequence
from datetime import date, datetime
from types import TracebackType
from typing import Any

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, Engine
from sqlalchemy.engine.reflection import Inspector
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SAWarning, SQLAlchemyError

from gelgt.errors import SourceError, did_you_mean
from gelgt.schema.model import Finding, ForeignKey
from gelgt.sources.address import safe_address, scrub
from gelgt.sources.canonical import STRINGS, TIME
from gelgt.sources.raw import RawTable, Splits

BATCH_ROWS = 50_000
PARTITION = "a partition"
UNREADABLE = "this user may not read it: it is left out"


class SQLSource:
    """Common part of all SQL databases. A dialect overrides `_engine`, `_begin`, `_arrow_type` and
    `_rows`."""

    splits: Splits | None = None

    extra = ""  # the pip extra that brings the driver

    def __init__(self, url: URL, namespace: str | None = None) -> None:
        self.url = url
        self.address = safe_address(url)
        self.name = (url.database or "database").rstrip("/").split("/")[-1].split(".")[
            0
        ] or "database"
        self._namespace = namespace
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
                hint=f"pip install 'gelgt[{self.extra}]'",
            ) from None
        except (SQLAlchemyError, OSError) as error:
            self._close()
            raise self._failed(
                "cannot_open", error, "Check host, port, user, password and database name."
            ) from None
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
                self._connection.close()
            self._engine_.dispose()

    def _failed(self, code: str, error: BaseException, hint: str) -> SourceError:
        cause = getattr(error, "orig", None) or error
        text = scrub(" ".join(str(cause).split()), self.url)
        return SourceError(code, f"{self.address}: {text}", hint=hint)

    def content_key(self) -> str | None:
        return None

    def tables(self, only: Sequence[str] | None = None) -> list[RawTable]:
        try:
            with warnings.catch_warnings():
                # types that SQLAlchemy does not know are read as text
                warnings.simplefilter("ignore", SAWarning)
                return self._reflect(sa.inspect(self._connection), only)
        except SQLAlchemyError as error:
            raise self._failed(
                "cannot_read", error, "The user needs the right to read the tables."
            ) from None

    def _reflect(self, inspector: Inspector, only: Sequence[str] | None) -> list[RawTable]:
        namespaces = inspector.get_schema_names()
        if self._namespace is not None and self._namespace not in namespaces:
            raise SourceError(
                "unknown_namespace",
                f"{self.address} has no schema '{self._namespace}'.",
                hint=did_you_mean(self._namespace, namespaces),
            )
        names = inspector.get_table_names(schema=self._namespace)
        if only is not None:
            known = [*names, *self._views(inspector)]
            for name in only:
                if name not in known:
                    raise SourceError(
                        "unknown_table",
                        f"{self.address} has no table '{name}'.",
                        hint=did_you_mean(name, known),
                    )
            names = list(only)
        if not names:
            raise SourceError(
                "no_tables",
                f"{self.address} has no tables that this user can see.",
                hint=f"Name a schema with namespace= (--namespace). {did_you_mean('', namespaces)}",
            )
        hidden = self._hidden()
        wanted = [
            name for name in sorted(set(names)) if only is not None or hidden.get(name) != PARTITION
        ]
        return [
            RawTable(
                name,
                {},
                lambda: iter(()),
                findings=(Finding("unreadable_table", name, message=UNREADABLE),),
            )
            if hidden.get(name) == UNREADABLE
            else self._table(inspector, name)
            for name in wanted
        ]

    def _table(self, inspector: Inspector, name: str) -> RawTable:
        reflected = inspector.get_columns(name, schema=self._namespace)
        types = {column["name"]: self._arrow_type(name, column) for column in reflected}
        columns = {c: t for c, t in types.items() if t is not None}
        primary = tuple(
            inspector.get_pk_constraint(name, schema=self._namespace).get("constrained_columns")
            or ()
        )
        keys = inspector.get_foreign_keys(name, schema=self._namespace)
        foreign = tuple(
            ForeignKey(
                tuple(key["constrained_columns"]),
                key["referred_table"],
                tuple(key["referred_columns"] or ()),
                "declared",
                "FOREIGN KEY of the database",
            )
            for key in keys
            if self._is_inside(key)
        )
        dropped = [
            Finding("binary_column", name, c, message="binary data is left out")
            for c, t in types.items()
            if t is None
        ]
        outside = [
            Finding(
                "outside_key",
                name,
                "+".join(key["constrained_columns"]),
                message=f"refers to {_place(key)}, which is not read",
            )
            for key in keys
            if not self._is_inside(key)
        ]
        return RawTable(
            name,
            columns,
            lambda: self._guarded(name, columns),
            primary,
            foreign,
            time_columns=self._time_columns(reflected),
            findings=(*dropped, *outside),
        )

    def _is_inside(self, key: Any) -> bool:
        """Whether a foreign key stays in the schema that is read."""
        return key.get("referred_schema") in (None, self._namespace)

    def _guarded(self, table: str, columns: dict[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._rows(table, columns)
        except SQLAlchemyError as error:
            raise self._failed(
                "cannot_read", error, f"Reading the table '{table}' failed."
            ) from None

    # --- what a dialect may replace
    # -------------------------------------------------------------------------------
    def _engine(self) -> Engine:
        return sa.create_engine(self.url)

    def _begin(self) -> None:
        """Start the read-only transaction that sees one state of the data."""

    def _views(self, inspector: Inspector) -> list[str]:
        return inspector.get_view_names(schema=self._namespace)

    def _hidden(self) -> dict[str, str]:
        """Tables that are not read as such, and why: PARTITION (its rows come with the whole) or
        UNREADABLE."""
        return {}

    def _time_columns(self, reflected: list[Any]) -> frozenset[str]:
        return frozenset()

    def _arrow_type(self, table: str, column: Any) -> pa.DataType | None:
        """The Arrow type of a reflected column; None leaves it out."""
        kind = column["type"]
        if isinstance(kind, sa.Boolean):
            return pa.bool_()
        if isinstance(kind, sa.Integer):
            return pa.int64()
        if isinstance(kind, (sa.Numeric, sa.Float)):
            # NUMERIC(18, 0) is a whole number, often a key, and a float would run its large values
            # together.
            is_whole = (
                getattr(kind, "scale", None) == 0
                and 0 < (getattr(kind, "precision", None) or 0) <= 18
            )
            return pa.int64() if is_whole else pa.float64()
        if isinstance(kind, (sa.DateTime, sa.Date)):
            return TIME
        if isinstance(kind, sa.LargeBinary):
            return None
        if isinstance(kind, sa.ARRAY):
            return STRINGS
        return pa.string()

    def _rows(self, table: str, columns: dict[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
        query: Any = sa.select(*(sa.column(c) for c in columns)).select_from(
            sa.table(table, schema=self._namespace)
        )
        result = self._connection.execution_options(
            stream_results=True, yield_per=BATCH_ROWS
        ).execute(query)
        for rows in result.partitions(BATCH_ROWS):
            values = list(zip(*rows)) if rows else [()] * len(columns)
            arrays = [self._array(table, c, t, v) for (c, t), v in zip(columns.items(), values)]
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))

    def _array(
        self, table: str, column: str, arrow: pa.DataType, values: tuple[Any, ...]
    ) -> pa.Array:
        try:
            return pa.array([_plain(v, arrow) for v in values], arrow)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, ValueError, TypeError) as error:
            raise SourceError(
                "bad_value",
                f"'{table}.{column}': a value does not fit {arrow}: {error}",
                hint="Repair the value or leave out the column.",
            ) from None


def _place(key: Any) -> str:
    return f"'{key['referred_schema']}.{key['referred_table']}' in another schema"


def _plain(value: Any, arrow: pa.DataType) -> Any:
    """A driver's Python value as one that Arrow takes for the type."""
    if value is None:
        return None
    if arrow == pa.float64():
        return float(value)
    if arrow == pa.bool_():
        return bool(int.from_bytes(value, "big")) if isinstance(value, bytes) else bool(value)
    if arrow == pa.int64():
        return int(value)
    if arrow == pa.string():
        return (
            value
            if isinstance(value, str)
            else value.hex()
            if isinstance(value, bytes)
            else str(value)
        )
    if arrow == TIME:
        # PyMySQL hands out the zero dates of MySQL, which are no dates, as text.
        return (
            None
            if isinstance(value, str)
            else value
            if isinstance(value, datetime)
            else _midnight(value)
        )
    if arrow == STRINGS:
        return (
            sorted(str(v) for v in value)
            if isinstance(value, (set, frozenset))
            else [str(v) for v in value]
        )
    return value


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day)


def parse_url(text: str) -> URL:
    """A SQLAlchemy URL, or an error that does not repeat what it could not read (it may hold a
    password)."""
    try:
        return sa.make_url(text)
    except (ArgumentError, NoSuchModuleError, ValueError):
        scheme = text.split("://", 1)[0]
        raise SourceError(
            "bad_url",
            f"The address '{scheme}://…' is not a database URL.",
            hint="Write dialect://user:password@host:port/database; characters such as @ or / in "
            "a password are written %40, %2F.",
        ) from None


def open_sql(text: str, namespace: str | None = None) -> SQLSource:
    """The source for a database URL."""
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
    if dialect not in kinds:
        known = ["sqlite", "postgresql", "mysql", "mariadb", "duckdb"]
        raise SourceError(
            "unknown_dialect",
            f"gelgt cannot read '{dialect}' databases.",
            hint=f"{did_you_mean(dialect, known)} Or export the tables to Parquet.",
        )
    return kinds[dialect](url, namespace)
