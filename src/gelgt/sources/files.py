"""A folder of CSV or Parquet files as a source; layout.py says which file holds which table."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from gelgt.sources.cache import hash_files
from gelgt.sources.csv_files import csv_table
from gelgt.sources.layout import Part, find_tables
from gelgt.sources.parquet_files import Wanted, parquet_table, part_batches, read_batches_of
from gelgt.sources.raw import RawTable, StaticSource
from gelgt.sources.state import SourceState, files_state


class FilesSource(StaticSource):
    """The CSV and Parquet files of a folder."""

    def __init__(self, folder: Path, address: str) -> None:
        self.address = address
        self.name = folder.resolve().name
        self._folder = folder
        self._files = folder_tables(folder)

    def table_names(self) -> list[str]:
        return list(self._files)

    def tables(self, only: Sequence[str] | None = None) -> list[RawTable]:
        return [self._table(name, parts) for name, parts in self._files.items()]

    def _table(self, name: str, parts: list[Part]) -> RawTable:
        if parts[0].is_parquet:
            return parquet_table(name, parts, self._schemas, self._read)
        path = self._folder / parts[0].name
        return csv_table(name, path.name, lambda: path.open("rb"))

    def _schemas(self, parts: Sequence[Part]) -> Iterator[pa.Schema]:
        return (pq.read_schema(self._folder / part.name) for part in parts)

    def _read(self, parts: Sequence[Part], wanted: Wanted) -> Iterator[tuple[Part, pa.RecordBatch]]:
        for part in parts:
            # Not mapped: a mapped file that somebody cuts short ends the process. Not buffered:
            # that would hold the whole file.
            with pq.ParquetFile(self._folder / part.name, pre_buffer=False) as file:
                for batch in read_batches_of(file, wanted):
                    yield part, batch

    def state(self) -> SourceState | None:
        state = files_state(self._paths())
        # what was imported before the names of folders gave columns is another content
        has_values = any(part.values for parts in self._files.values() for part in parts)
        return replace(state, key=f"{state.key} partitioned") if has_values else state

    def mark(self, tables: Mapping[str, RawTable]) -> Any:
        """The Parquet files of each table, unless one has changed so lately that a further change
        might not show."""
        parts = {name: self._files[name] for name in tables if self._files[name][0].is_parquet}
        states = {name: self._states(found) for name, found in parts.items()}
        return {
            name: {part: state.key for part, state in found.items()}
            for name, found in states.items()
            if not any(state.doubtful for state in found.values())
        }

    def _states(self, parts: Sequence[Part]) -> dict[str, SourceState]:
        return {part.name: files_state([self._folder / part.name]) for part in parts}

    def appended(self, tables: Mapping[str, RawTable], mark: Any) -> dict[str, RawTable]:
        """Tables whose older files are as they were, with the rows of the others."""
        appended = {}
        for name, table in tables.items():
            older = [part for part in self._files[name] if part.name in (mark.get(name) or {})]
            keys = {part: state.key for part, state in self._states(older).items()}
            if keys and keys == mark[name]:
                new = [part for part in self._files[name] if part.name not in keys]
                appended[name] = with_parts(table, new, self._read)
        return appended

    # For other processes, which read these files: `state` tells whether they change meanwhile.
    def size(self) -> int:
        return sum(path.stat().st_size for path in self._paths())

    def share(self) -> "FilesSource | None":
        """Parquet's reader keeps several cores busy by itself."""
        has_csv = any(not parts[0].is_parquet for parts in self._files.values())
        return self if has_csv else None

    def is_shared(self) -> bool:
        return True

    def batches(self, table: RawTable) -> Iterator[pa.RecordBatch]:
        return self._table(table.name, self._files[table.name]).batches()

    def content_key(self) -> str | None:
        names = "\n".join(
            f"{name}: {[part.name for part in parts]}" for name, parts in self._files.items()
        )
        return hash_files(self._paths(), extra=names)

    def _paths(self) -> list[Path]:
        return [self._folder / part.name for parts in self._files.values() for part in parts]


def with_parts(table: RawTable, parts: Sequence[Part], read: Any) -> RawTable:
    """A table of Parquet files with the rows of some of its files."""
    return replace(table, batches=lambda: part_batches(table.name, table.columns, parts, read))


def folder_tables(folder: Path) -> dict[str, list[Part]]:
    """Table name → files of a local folder."""
    names: list[str] = []
    for path in folder.iterdir():
        if path.name.startswith((".", "_")):
            continue  # and not walked: it may be large
        files = path.rglob("*") if path.is_dir() else [path]
        names += [file.relative_to(folder).as_posix() for file in files if file.is_file()]
    return find_tables(names, str(folder))
