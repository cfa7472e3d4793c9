"""A SQLite file before it is read. `SQLiteSource` reads it through SQLAlchemy, whose import takes
longer than to see that a file has not changed."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import pyarrow as pa

from gelgt.sources.address import parse_url
from gelgt.sources.raw import RawTable, Source, Splits
from gelgt.sources.state import SourceState, database_state

if TYPE_CHECKING:
    from gelgt.sources.sqlite import SQLiteSource


class SQLiteFile:
    """A SQLite file, which is opened when it is entered."""

    has_types_in_rows = True
    module = "gelgt.sources.sqlite"  # that reads it; see `Processes.start`

    splits: Splits | None = None
    has_snapshot = True

    def __init__(self, path: Path, address: str, namespace: str | None = None) -> None:
        self.address, self.namespace = address, namespace
        self.name = path.name.split(".")[0] or "database"
        self._path = path
        self._reader: SQLiteSource

    def __enter__(self) -> "SQLiteFile":
        from gelgt.sources.sqlite import SQLiteSource

        self._reader = SQLiteSource(parse_url(self.address), self.namespace)
        self._reader.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._reader.__exit__(kind, error, trace)

    def tables(self, only: Sequence[str] | None = None) -> list[RawTable]:
        return self._reader.tables(only)

    def table_names(self) -> list[str]:
        return self._reader.table_names()

    def state(self) -> SourceState | None:
        return database_state(self._path, "-wal")

    def content_key(self) -> str | None:
        return None

    # For other processes.
    def size(self) -> int:
        return self._path.stat().st_size

    def share(self) -> Source:
        return self._reader.share()

    def is_shared(self) -> bool:
        return self._reader.is_shared()

    def batches(self, table: RawTable) -> Iterator[pa.RecordBatch]:
        return self._reader.batches(table)
