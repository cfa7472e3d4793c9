"""Files of rows that a thread reads or writes while other rows are sorted or looked at.

NAME.parquet    what lasts, and look-ups
NAME.arrow      staged rows: Arrow's own form, which is written and read without encoding, so
                that DuckDB works on the mapped file
"""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from gelgt.sources.canonical import STRINGS

# Written once, read a few times, then removed. Compression would cost more time than it saves.
SCRATCH: dict[str, Any] = {
    "compression": "none",
    "use_dictionary": False,
    "write_statistics": False,
}
BATCH_ROWS = 60 << 11  # as many as DuckDB gives at once when several threads sort
_BATCH_VALUES = 1 << 24
_TEXTS = (pa.string(), STRINGS)
_DICTIONARY = 1 << 18  # bytes: enough for categories; prose gives up its dictionary early
_WAITING = 2  # batches that may wait for the writer


def lasting(schema: pa.Schema, coded: list[str]) -> dict[str, Any]:
    """How the files of an imported database are written.

    Numbers gain little from a dictionary or from compression and cost much.

    Args:
        schema: The columns.
        coded: Text columns of features.
    """
    compression = {f.name: "snappy" if f.type in _TEXTS else "none" for f in schema}
    return {
        "use_dictionary": coded,
        "dictionary_pagesize_limit": _DICTIONARY,
        "compression": compression,
        "write_page_checksum": True,  # compared by `readable.py`
    }


def batch_rows(columns: int) -> int:
    """Rows of a batch of so many columns: fewer where a table is wide, so that a batch stays below
    a few hundred megabytes."""
    return max(1 << 12, min(BATCH_ROWS, _BATCH_VALUES // max(columns, 1)))


class TableFile:
    """A Parquet or Arrow file, by the ending of its name, written batch by batch in another thread.

    An error of the writer, such as a full disk, is raised by a later `write` or at the end.
    """

    def __init__(self, path: Path, schema: pa.Schema, **options: Any) -> None:
        self.schema = schema
        self._sink = pa.OSFile(str(path), "wb")
        create = pa.ipc.new_file if path.suffix == ".arrow" else pq.ParquetWriter
        self._writer = create(self._sink, schema, **options)
        self._thread = ThreadPoolExecutor(1)
        self._running: deque[Future[None]] = deque()

    def write(self, arrays: list[pa.Array]) -> None:
        """Append rows, given as the arrays of all columns."""
        batch = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        self._running.append(self._thread.submit(self._writer.write_batch, batch))
        if len(self._running) > _WAITING:
            self._running.popleft().result()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            while error is None and self._running:
                self._running.popleft().result()
        finally:
            self._thread.shutdown(cancel_futures=True)
            with self._sink:
                self._writer.close()


def read_batches(
    path: Path, columns: list[str] | None = None, batch_size: int | None = None
) -> Iterator[pa.RecordBatch]:
    """Batches of an Arrow file, one of them in memory at a time."""
    with pa.OSFile(str(path)) as file:
        reader = pa.ipc.open_file(file)
        for i in range(reader.num_record_batches):
            batch = reader.get_batch(i)
            batch = batch if columns is None else batch.select(columns)
            step = batch_size or max(batch.num_rows, 1)
            yield from (batch[start : start + step] for start in range(0, batch.num_rows, step))


def mapped_table(path: Path) -> pa.Table:
    """The rows of an Arrow file, of which the system reads and drops pages as they are used."""
    return pa.ipc.open_file(pa.memory_map(str(path))).read_all()


def read_ahead(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same batches, each read while the one before it is used."""
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(next, batches, None)
        while (batch := coming.result()) is not None:
            coming = thread.submit(next, batches, None)
            yield batch


class KeyFiles:
    """The keys of a table in final row order: the user's key values, and a look-up of row numbers
    for the joins of other tables.

    Args:
        keys: The file of the user's values; left out where these are the row numbers already.
        lookup: The file of the look-up; None where no other table refers to this one.
        key: Names of the columns of the primary key; none without one.
        types: Types of these columns and of further ones that other tables refer to.
    """

    def __init__(
        self, keys: Path, lookup: Path | None, key: tuple[str, ...], types: list[pa.DataType]
    ) -> None:
        self._path, self._row, self._is_numbered = keys, 0, len(key) == 1
        self._files = ExitStack()
        self._lookup = self._keys = None
        if lookup is not None:
            fields = [pa.field(f"k{i}", arrow) for i, arrow in enumerate(types)]
            schema = pa.schema([*fields, pa.field("row", pa.int64())])
            self._lookup = self._files.enter_context(TableFile(lookup, schema, **SCRATCH))
        if key:
            named = pa.schema(list(zip(key, types)))
            self._keys = self._files.enter_context(TableFile(keys, named, **lasting(named, [])))

    def write(self, values: list[pa.Array]) -> None:
        numbers = np.arange(self._row, self._row + len(values[0]))
        self._row += len(numbers)
        if self._lookup is not None:
            self._lookup.write([*values, pa.array(numbers)])
        if self._keys is not None:
            self._keys.write(values[: len(self._keys.schema)])
            self._is_numbered = self._is_numbered and _are_numbers(values[0], numbers)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._files.__exit__(kind, error, trace)
        if self._is_numbered:
            self._path.unlink(missing_ok=True)


def _are_numbers(keys: pa.Array, numbers: NDArray[np.int64]) -> bool:
    """Whether keys are the row numbers."""
    return pa.types.is_int64(keys.type) and np.array_equal(
        keys.to_numpy(zero_copy_only=False), numbers
    )
