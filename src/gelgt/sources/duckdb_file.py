"""A DuckDB file as a source, through DuckDB's catalogue (SQLAlchemy's dialect fails to reflect keys
with DuckDB 2)."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa

from gelgt.errors import SourceError, did_you_mean
from gelgt.schema.model import Finding, ForeignKey
from gelgt.sources.duckdb_engine import arrow_reader, quote
from gelgt.sources.raw import RawTable, Splits
from gelgt.sources.state import SourceState, database_state

_BINARY = ("BLOB", "BIT")


class DuckDBSource:
    """Tables of the main schema (or another), read in one transaction of a read-only connection."""

    splits: Splits | None = None
    has_snapshot = True

    def __init__(self, path: Path, address: str, namespace: str | None = None) -> None:
        self.address = address
        self.name = path.stem
        self._path = path
        self.namespace = namespace
        self._schema = namespace or "main"
        self._connection: Any = None

    def __enter__(self) -> "DuckDBSource":
        import duckdb

        try:
            self._connection = duckdb.connect(
                str(self._path), read_only=True, config={"autoinstall_known_extensions": False}
            )
        except duckdb.Error as error:
            raise SourceError(
                "cannot_open",
                f"{self.address}: DuckDB cannot open the file: {error}",
                hint="Close other writers of the file.",
            ) from None
        self._connection.execute("BEGIN TRANSACTION")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._connection.close()

    def state(self) -> SourceState | None:
        return database_state(self._path, ".wal", ".wal.checkpoint", ".wal.recovery")

    def content_key(self) -> str | None:
        return None

    def size(self) -> int:
        return self._path.stat().st_size

    def table_names(self) -> list[str]:
        return self._names(
            "SELECT table_name FROM duckdb_tables() WHERE schema_name = ? AND NOT internal AND "
            "NOT temporary ORDER BY 1"
        )

    def tables(self, only: Sequence[str] | None = None) -> list[RawTable]:
        names, views = self.table_names(), []
        if only is not None:
            views = self._names(
                "SELECT view_name FROM duckdb_views() WHERE schema_name = ? AND NOT internal AND "
                "NOT temporary ORDER BY 1"
            )
            names = [name for name in [*names, *views] if name in only] or names
        if not names:
            schemas = self._connection.execute(
                "SELECT DISTINCT schema_name FROM duckdb_tables() WHERE NOT internal ORDER BY 1"
            ).fetchall()
            raise SourceError(
                "no_tables",
                f"{self.address} has no tables in the schema '{self._schema}'.",
                hint="Name another with namespace= (--namespace). "
                f"{did_you_mean(self._schema, [row[0] for row in schemas])}",
            )
        return [replace(self._table(name), is_view=name in views) for name in names]

    def _names(self, query: str) -> list[str]:
        return [row[0] for row in self._connection.execute(query, [self._schema]).fetchall()]

    def _table(self, name: str) -> RawTable:
        columns = self._connection.execute(
            "SELECT column_name, data_type FROM duckdb_columns() WHERE schema_name = ? AND "
            "table_name = ? ORDER BY column_index",
            [self._schema, name],
        ).fetchall()
        dropped = tuple(
            Finding("binary_column", name, c, message="binary data is left out")
            for c, t in columns
            if t.startswith(_BINARY)
        )
        selected = ", ".join(_select(c, t) for c, t in columns if not t.startswith(_BINARY))
        if not selected:
            return RawTable(name, {}, lambda: iter(()), findings=dropped)
        query = f"SELECT {selected} FROM {quote(self._schema)}.{quote(name)}"

        def batches() -> Iterator[pa.RecordBatch]:
            yield from arrow_reader(self._connection, query)

        schema = arrow_reader(self._connection, query + " LIMIT 0").read_all().schema
        primary, foreign = self._keys(name)
        return RawTable(
            name,
            {field.name: field.type for field in schema},
            batches,
            primary,
            foreign,
            findings=dropped,
        )

    def _keys(self, table: str) -> tuple[tuple[str, ...], tuple[ForeignKey, ...]]:
        rows = self._connection.execute(
            "SELECT constraint_type, constraint_column_names, referenced_table, "
            "referenced_column_names FROM duckdb_constraints() "
            "WHERE schema_name = ? AND table_name = ? ORDER BY constraint_index",
            [self._schema, table],
        ).fetchall()
        primary: tuple[str, ...] = ()
        foreign = []
        for kind, columns, referred_table, referred in rows:
            if kind == "PRIMARY KEY":
                primary = tuple(columns)
            elif kind == "FOREIGN KEY":
                key = tuple(columns), referred_table, tuple(referred)
                foreign.append(ForeignKey(*key, "declared", "FOREIGN KEY of the database"))
        return primary, tuple(foreign)


def _select(column: str, data_type: str) -> str:
    name = quote(column)
    # infinity has no place on a time axis and is null
    if data_type.startswith(("TIMESTAMP", "DATE")):
        return f"CASE WHEN isfinite({name}) THEN {name} END AS {name}"
    # types that Arrow or pandas cannot hold arrive as text
    if data_type.startswith(("INTERVAL", "UUID", "TIME")):
        return f"CAST({name} AS VARCHAR) AS {name}"
    is_number = data_type.startswith(("HUGEINT", "UHUGEINT", "DECIMAL"))
    return f"CAST({name} AS DOUBLE) AS {name}" if is_number else name
