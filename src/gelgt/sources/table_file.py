"""Parquet files that a thread reads or writes while other rows are sorted or looked at."""

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
BATCH_ROWS = 1 << 17
_BATCH_VALUES = 1 << 24
_TEXTS = (pa.string(), STRINGS)
_WAITING = 2  # batches that may wait for the writer


def lasting(schema: pa.Schema, coded: list[str]) -> dict[str, Any]:
    """How the files of an imported database are written.

    Numbers gain little from a dictionary or from compression and cost much.

    Args:
        schema: The columns.
        coded: Text columns of features.
    """
    compression = {f.name: "snappy" if f.type in _TEXTS else "none" for f in schema}
    return {"use_dictionary": coded, "compression": compression}


def batch_rows(columns: int) -> int:
    """Rows of a batch of so many columns: fewer where a table is wide, so that a batch stays below
    a few hundred megabytes."""
    return max(1 << 12, min(BATCH_ROWS, _BATCH_VALUES // max(columns, 1)))


class TableFile:
    """A Parquet file, written batch by batch in another thread.

    An error of the writer, such as a full disk, is raised by a later `write` or at the end.
    """

    def __init__(self, path: Path, schema: pa.Schema, **options: Any) -> None:
        self.schema = schema
        self._writer = pq.ParquetWriter(path, schema, **options)
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
            self._writer.close()


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
