"""`Database`: a RelBench v3 folder with its schema, the object that every later stage reads.

    folder/manifest.yaml            keys, times, split times; origins and kinds under `gelgt:`
    folder/db/TABLE.parquet         rows ordered by time; the primary key numbers them 0…n-1
    folder/tasks/TASK/…             tasks and their label tables
    folder/gelgt/keys/TABLE.parquet the user's key values, row by row

An import in the cache that grew (`growth.py`) has further rows in TABLE.more/N.parquet beside each
of these files.

What can be rebuilt (graph, features) lives in the cache, never in the user's folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from gelgt.errors import SchemaError, did_you_mean
from gelgt.schema.model import DatabaseSchema, Finding, TableSchema
from gelgt.sources.cache import cache_root, stat_key
from gelgt.sources.canonical import canonical_array, canonical_type
from gelgt.sources.growth import Growth, read_growth
from gelgt.sources.readable import open_parquet, parquet_rows, parquet_schema, read_parquet
from gelgt.sources.some_rows import read_rows

if TYPE_CHECKING:
    import pandas as pd

    from gelgt.features import Features
    from gelgt.graph import Graph
    from gelgt.tasks import Task


MORE = ".more"  # ending of the folder of further rows, beside a Parquet file


class Database:
    """Tables, keys and times of one database, read from a RelBench v3 folder.

    Obtain one with `gelgt.open`. Row `i` of a table is the row whose primary key column holds `i`;
    `keys(table)` gives the user's key values in that order.
    """

    def __init__(
        self, folder: Path, schema: DatabaseSchema, source: str, findings: Sequence[Finding] = ()
    ) -> None:
        self.folder = folder
        self.schema = schema
        self.source = source  # the address that was opened, without a password
        self.import_findings = list(findings)  # noticed by the import, no longer seen in the rows
        self.follows_contract = True  # rows are ordered and numbered as described above
        self._held_keys: dict[str, pa.Table] = {}
        self.unread_tables: tuple[str, ...] = ()  # of the source, not asked for when it was opened

    def __repr__(self) -> str:
        rows = ", ".join(f"{name}={self.num_rows(name):,}" for name in self.table_names)
        return f"Database({self.schema.name!r}: {rows})"

    @property
    def table_names(self) -> list[str]:
        return list(self.schema.tables)

    def table(self, name: str) -> TableSchema:
        """The schema of one table, or an error that names the nearest table."""
        if name not in self.schema.tables:
            raise SchemaError(
                "unknown_table",
                f"There is no table '{name}' in {self.source}.",
                hint=did_you_mean(name, self.table_names),
            )
        return self.schema.tables[name]

    def paths(self, table: str) -> list[Path]:
        """The Parquet files of a table, in the order of its rows."""
        self.table(table)
        return parts(self.folder / "db" / f"{table}.parquet")

    def all_paths(self) -> list[Path]:
        """The Parquet files of all tables."""
        return [path for name in self.table_names for path in self.paths(name)]

    def num_rows(self, table: str) -> int:
        return self._rows[table]

    def batches(
        self,
        table: str,
        columns: Sequence[str] | None = None,
        batch_size: int = 1 << 17,
        first_row: int = 0,
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a table from `first_row` on, in order, in canonical types, a bounded number
        at a time."""
        names = list(self.table(table).columns) if columns is None else list(columns)
        if not names:
            yield from (
                pa.RecordBatch.from_struct_array(pa.array([{}] * n, pa.struct([])))
                for n in _sizes(self.num_rows(table) - first_row, batch_size)
            )
            return
        # A fresh reader each time: batches() may be used from several threads at once.
        skipped = first_row
        for path in self.paths(table):
            with open_parquet(path) as file:
                if skipped >= file.metadata.num_rows:
                    skipped -= file.metadata.num_rows
                    continue
                groups, skipped = _groups_from(file.metadata, skipped)
                for batch in file.iter_batches(batch_size, groups, names):
                    part = batch.slice(skipped)  # of no rows, where more are to be skipped
                    skipped -= batch.num_rows - part.num_rows
                    if part.num_rows:
                        arrays = [canonical_array(part.column(c), table, c) for c in names]
                        yield pa.RecordBatch.from_arrays(arrays, names=names)

    def column_from_end(self, table: str, column: str) -> Iterator[pa.Array]:
        """A column in parts from the last rows to the first; within a part rows are in order."""
        for path in reversed(self.paths(table)):
            with open_parquet(path) as file:
                for group in reversed(range(file.num_row_groups)):
                    values = file.read_row_group(group, columns=[column]).column(0)
                    for chunk in reversed(values.chunks):
                        yield canonical_array(chunk, table, column)

    def read(self, table: str, columns: Sequence[str] | None = None) -> pa.Table:
        """A table (or some columns of it) in memory, in canonical types."""
        names = list(self.table(table).columns) if columns is None else list(columns)
        fields = parquet_schema(self.paths(table)[0])
        schema = pa.schema([pa.field(c, canonical_type(fields.field(c).type)) for c in names])
        return pa.Table.from_batches(list(self.batches(table, names)), schema=schema)

    def row_times(self, table: str) -> NDArray[np.int64]:
        """(rows,) when each row becomes visible, in microseconds since 1970; see
        `gelgt.sources.row_times`."""
        from gelgt.sources.row_times import RowTimes

        return RowTimes(self).of(table)

    def keys(self, table: str) -> pa.Table | None:
        """The user's key values, one row for each row of the table; None where the row numbers are
        the keys."""
        if table in self._held_keys:
            return self._held_keys[table]
        files = self._key_files(table)
        if not files:
            return None
        return pa.concat_tables(read_parquet(path) for path in files)

    def keys_of(self, table: str, rows: NDArray[np.int64]) -> pa.Table | None:
        """The user's keys of some rows (n,), in their order; the keys of a large table are not all
        read for a few of them."""
        if table in self._held_keys:
            return self._held_keys[table].take(pa.array(rows))
        files = self._key_files(table)
        return read_rows(files, rows) if files else None

    def hold_keys(self, table: str) -> None:
        """Keep the user's keys of a table in memory, for someone who asks for them again and
        again."""
        keys = self.keys(table)
        if keys is not None:
            self._held_keys[table] = keys.combine_chunks()

    def key_schema(self, table: str) -> pa.Schema | None:
        """Names and types of the user's keys; None where the row numbers are the keys."""
        if table in self._held_keys:
            return self._held_keys[table].schema
        files = self._key_files(table)
        return parquet_schema(files[0]) if files else None

    def _key_files(self, table: str) -> list[Path]:
        path = self.folder / "gelgt" / "keys" / f"{table}.parquet"
        return parts(path) if path.exists() else []

    @property
    def val_timestamp(self) -> pd.Timestamp | None:
        return _timestamp(self.schema.val_timestamp)

    @property
    def test_timestamp(self) -> pd.Timestamp | None:
        return _timestamp(self.schema.test_timestamp)

    @cached_property
    def cache_dir(self) -> Path:
        """Where data derived from this folder goes; its key changes with every file and with the
        schema."""
        return cache_root() / "derived" / stat_key(self.all_paths(), extra=repr(self.schema))

    @cached_property
    def growth(self) -> Growth | None:
        """The older import that this one grew out of, and the rows that are new; None where it was
        read whole."""
        return read_growth(self.folder)

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {
            name: sum(parquet_rows(path) for path in self.paths(name)) for name in self.table_names
        }

    # The verbs of later stages, imported when they are used.
    def task(self, definition: Any, **options: Any) -> Task:
        """A task from a PREDICT sentence, SQL, a task name, a task folder or a frame; see
        `gelgt.tasks.make_task`."""
        from gelgt.tasks import make_task

        return make_task(self, definition, **options)

    def graph(self) -> Graph:
        """The temporal graph of this database, built once and memory-mapped."""
        from gelgt.graph import open_graph

        return open_graph(self)

    def features(self, fit_until: object = None) -> Features:
        """The row features, with statistics fitted on rows up to `fit_until` (the validation time
        by default)."""
        from gelgt.features import open_features

        return open_features(self, fit_until)


def parts(path: Path) -> list[Path]:
    """A Parquet file of an import and those that hold its further rows, in order."""
    more = path.with_suffix(MORE)
    if not more.is_dir():
        return [path]
    return [path, *sorted(more.glob("*.parquet"), key=lambda part: int(part.stem))]


def _timestamp(text: str | None) -> pd.Timestamp | None:
    if text is None:
        return None
    import pandas as pd

    try:
        stamp = pd.Timestamp(text)
    except (ValueError, TypeError, OverflowError):
        raise SchemaError(
            "bad_manifest",
            f"The split time {str(text)[:40]!r} is no time.",
            hint="Write val_timestamp and test_timestamp like '2025-09-01'.",
        ) from None
    return stamp.tz_convert("UTC").tz_localize(None) if stamp.tzinfo else stamp


def _sizes(total: int, step: int) -> Iterator[int]:
    for start in range(0, total, step):
        yield min(step, total - start)


def _groups_from(metadata: pq.FileMetaData, first_row: int) -> tuple[list[int], int]:
    """The row groups that hold a row and those after it, and how many rows of the first of them
    come before it."""
    start, groups = 0, range(metadata.num_row_groups)
    for group in groups:
        stop = start + metadata.row_group(group).num_rows
        if first_row < stop:
            return list(groups[group:]), first_row - start
        start = stop
    return [], 0
