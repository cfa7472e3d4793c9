"""Databases and warehouses that have an ADBC driver: Snowflake, BigQuery, Databricks, …

    snowflake://user:password@account/database/schema?warehouse=…     (extra `snowflake`)
    bigquery://project/dataset                                        (extra `bigquery`)
    databricks://token:…@host:443/sql/1.0/warehouses/…
    adbc+DRIVER://…          any other driver: the package adbc_driver_DRIVER, or a driver of this
                             name that ADBC's driver manager finds

What ADBC itself defines is enough: the catalogue with its keys, the schema of a table, and a query
whose rows come as Arrow. The columns that an import keeps are named in the query, so no others are
read. A table is a query of its own: warehouses offer no snapshot that all drivers could ask for, so
tables that are written meanwhile may come from different states.
"""

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from types import TracebackType
from typing import Any

import pyarrow as pa
from sqlalchemy.engine import URL

from gelgt.errors import SourceError, did_you_mean
from gelgt.schema.model import Finding, ForeignKey
from gelgt.sources.adbc_options import OPTIONS
from gelgt.sources.address import safe_address, scrub
from gelgt.sources.canonical import canonical_type
from gelgt.sources.raw import RawTable, Splits
from gelgt.sources.state import SourceState

WAREHOUSES = ("snowflake", "bigquery", "databricks")
_BACKTICKS = ("bigquery", "databricks")  # where others quote names by "


class AdbcSource:
    """A database that an ADBC driver reads.

    Args:
        url: Its address, as `adbc+DRIVER://…` or of a warehouse.
        namespace: The schema or dataset; the one that the connection is in by default.
    """

    splits: Splits | None = None
    has_snapshot = False

    def __init__(self, url: URL, namespace: str | None = None) -> None:
        self.url = url
        self.driver = url.drivername.removeprefix("adbc+")
        self.address = safe_address(url)
        path = (url.database or url.host or "database").rstrip("/")
        self.name = path.split("/")[-1].split(".")[0] or "database"
        self.namespace = namespace
        self._connection: Any = None
        self._tables: dict[str, dict[str, Any]] = {}

    def __enter__(self) -> "AdbcSource":
        try:
            self._connection = self._connect()
        except Exception as error:  # each driver has its own classes, and some raise others
            if isinstance(error, SourceError):
                raise
            if isinstance(error, ModuleNotFoundError):
                raise self._missing(str(error.name)) from None
            hint = "Check account, user, password, database, and the driver that is installed."
            raise self._failed("cannot_open", error, hint) from None
        self._tables = {entry["table_name"]: entry for entry in self._catalogue()}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._connection.close()

    def _connect(self) -> Any:
        try:
            manager = import_module("adbc_driver_manager.dbapi")
        except ModuleNotFoundError:
            raise self._missing("adbc-driver-manager") from None
        address = self.url.set(drivername=self.driver).render_as_string(hide_password=False)
        try:
            driver = import_module(f"adbc_driver_{self.driver}.dbapi")
        except ModuleNotFoundError:
            if self.driver in OPTIONS:
                raise self._missing(f"adbc-driver-{self.driver}") from None
            return self._connect_by_name(manager, address)
        if self.driver in OPTIONS:
            return driver.connect(db_kwargs=OPTIONS[self.driver](self.url), autocommit=True)
        if self.driver == "duckdb":
            return driver.connect(self.url.database, autocommit=True)
        return driver.connect(address, autocommit=True)

    def _connect_by_name(self, manager: Any, address: str) -> Any:
        try:
            return manager.connect(self.driver, db_kwargs={"uri": address}, autocommit=True)
        except manager.Error as error:
            if "Could not load" not in str(error):
                raise
        # Databricks' is no Python package
        first = "" if self.driver == "databricks" else f"pip install adbc-driver-{self.driver}; or "
        hint = "Install it where ADBC's driver manager looks, such as the folder ADBC_DRIVER_PATH."
        raise SourceError(
            "missing_extra",
            f"{self.address} needs the ADBC driver '{self.driver}', which is not installed.",
            hint=f"{first}{hint[0].lower() if first else hint[0]}{hint[1:]}",
        )

    def _missing(self, package: str) -> SourceError:
        what = f"'gelgt[{self.driver}]'" if self.driver in OPTIONS else package
        return SourceError(
            "missing_extra",
            f"{self.address} needs the Python package '{package}'.",
            hint=f"pip install {what}",
        )

    def _failed(self, code: str, error: BaseException, hint: str) -> SourceError:
        text = scrub(" ".join(str(error).split()), self.url)
        return SourceError(code, f"{self.address}: {text}", hint=hint)

    def _catalogue(self) -> list[dict[str, Any]]:
        """The tables and views of the schema, with their columns and keys."""
        catalogue = self._current("adbc_current_catalog")
        namespace = self.namespace or self._current("adbc_current_db_schema")
        try:
            found = self._connection.adbc_get_objects(
                depth="all", catalog_filter=catalogue, db_schema_filter=namespace
            ).read_all()
        except Exception as error:
            hint = "The user needs the right to read the catalogue."
            raise self._failed("cannot_read", error, hint) from None
        schemas = {
            schema["db_schema_name"]: schema["db_schema_tables"] or []
            for entry in found.to_pylist()
            if catalogue is None or entry["catalog_name"] == catalogue  # a filter is a pattern
            for schema in entry["catalog_db_schemas"] or []
            if schema["db_schema_tables"]
        }
        if namespace is None and len(schemas) == 1:
            namespace = next(iter(schemas))
        if namespace not in schemas:
            raise SourceError(
                "no_tables",
                f"{self.address} has no tables in the schema '{namespace}'."
                if namespace
                else f"{self.address} names no schema.",
                hint="Name one with namespace= (--namespace). "
                f"{did_you_mean(namespace or '', schemas)}",
            )
        self._schema, self._catalog = str(namespace), catalogue
        return schemas[namespace]

    def _current(self, what: str) -> str | None:
        try:
            return str(getattr(self._connection, what)) or None
        except Exception:  # a driver need not know it
            return None

    def state(self) -> SourceState | None:
        return None

    def content_key(self) -> str | None:
        return None

    def table_names(self) -> list[str]:
        return sorted(name for name, entry in self._tables.items() if not _is_view(entry))

    def tables(self, only: Sequence[str] | None = None) -> list[RawTable]:
        names = self.table_names() if only is None else sorted(set(only))
        for name in names:
            if name not in self._tables:
                raise SourceError(
                    "unknown_table",
                    f"{self.address} has no table '{name}'.",
                    hint=did_you_mean(name, self._tables),
                )
        return [self._table(name) for name in names]

    def _table(self, name: str) -> RawTable:
        try:
            schema = self._connection.adbc_get_table_schema(
                name, catalog_filter=self._catalog, db_schema_filter=self._schema
            )
        except Exception as error:
            raise self._unreadable(name, error) from None
        columns = {f.name: _delivered(f.type) for f in schema}
        kept = {c: t for c, t in columns.items() if canonical_type(t) is not None}
        dropped = [
            Finding("binary_column", name, c, message="binary data is left out")
            for c in columns
            if c not in kept
        ]
        primary, foreign, outside = self._keys(name)
        return RawTable(
            name,
            kept,
            lambda: self._rows(name, kept),
            primary,
            foreign,
            findings=(*dropped, *outside),
            is_view=_is_view(self._tables[name]),
        )

    def _keys(self, name: str) -> tuple[tuple[str, ...], tuple[ForeignKey, ...], list[Finding]]:
        primary: tuple[str, ...] = ()
        foreign, outside = [], []
        for key in self._tables[name]["table_constraints"] or []:
            columns = tuple(key["constraint_column_names"] or ())
            used = key["constraint_column_usage"] or []
            if key["constraint_type"] == "PRIMARY KEY":
                primary = columns
            elif key["constraint_type"] == "FOREIGN KEY" and used:
                parent, schema = used[0]["fk_table"], used[0]["fk_db_schema"]
                if schema not in (None, "", self._schema) or parent not in self._tables:
                    message = f"refers to '{schema}.{parent}', which is not read"
                    outside.append(Finding("outside_key", name, "+".join(columns), message=message))
                    continue
                referred = tuple(column["fk_column_name"] for column in used)
                evidence = "FOREIGN KEY of the database"
                foreign.append(ForeignKey(columns, parent, referred, "declared", evidence))
        return primary, tuple(foreign), outside

    def _rows(self, name: str, columns: Mapping[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
        selected = ", ".join(self._quoted(c) for c in columns)
        table = ".".join(self._quoted(part) for part in (self._schema, name))
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(f"SELECT {selected} FROM {table}")
                for batch in cursor.fetch_record_batch():
                    arrays = [
                        _as_declared(batch.column(i), arrow, name, column)
                        for i, (column, arrow) in enumerate(columns.items())
                    ]
                    if batch.num_rows:
                        yield pa.RecordBatch.from_arrays(arrays, names=list(columns))
        except SourceError:
            raise
        except Exception as error:
            raise self._unreadable(name, error) from None

    def _unreadable(self, table: str, error: Exception) -> SourceError:
        hint = f"Reading the table '{table}' failed. The user needs the right to read it; or name "
        return self._failed("cannot_read", error, f"{hint}the tables to read with tables=.")

    def _quoted(self, name: str) -> str:
        mark = "`" if self.driver in _BACKTICKS else '"'
        return mark + name.replace(mark, mark * 2) + mark


def _is_view(entry: Mapping[str, Any]) -> bool:
    return "VIEW" in str(entry["table_type"]).upper()


def _delivered(arrow: pa.DataType) -> pa.DataType:
    """A decimal without a fraction is a whole number, often a key: as floats, large keys would
    become equal."""
    is_whole = pa.types.is_decimal(arrow) and arrow.scale == 0
    return pa.int64() if is_whole else arrow


def _as_declared(array: pa.Array, arrow: pa.DataType, table: str, column: str) -> pa.Array:
    """A column in the type that the catalogue gave; a query may give a wider one."""
    target = canonical_type(arrow)
    if canonical_type(array.type) == target:
        return array
    try:
        return array.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SourceError(
            "bad_value",
            f"'{table}.{column}': a value of type {array.type} does not fit {target}: {error}",
            hint="Read a view without the column.",
        ) from None
