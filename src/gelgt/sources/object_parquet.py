"""Reads Parquet objects ahead: the bytes of coming row groups arrive while others are decoded.

Only the bytes of wanted columns are asked for, in ranges of several columns where these lie side by
side, several ranges at a time. What waits is bounded in bytes: `WINDOW` and one row group, whatever
the size of the table.
"""

import io
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from gelgt.sources.layout import Part
from gelgt.sources.parquet_files import Wanted
from gelgt.storage import ObjectReader

READERS = 8  # ranges that are asked for at a time
WINDOW = 64 << 20  # bytes that may wait to be decoded
TAIL = 1 << 18  # bytes of the first request: a small object whole, of others the footer
PIECE = 8 << 20  # bytes of a request, at most
GAP = 1 << 16  # bytes that are read in vain rather than asked around
Item = TypeVar("Item")
Result = TypeVar("Result")


class ParquetObject(io.RawIOBase):
    """A Parquet object as a file, parts of which have been asked for already."""

    def __init__(self, reader: ObjectReader) -> None:
        super().__init__()
        self._reader, self.size, self._place = reader, reader.item.size, 0
        self._pieces: list[_Piece] = []
        tail = min(TAIL, self.size)
        self._tail_start, self._tail = self.size - tail, reader.range(self.size - tail, tail)
        # Not buffered: the pieces are the buffer.
        self.parquet = pq.ParquetFile(pa.PythonFile(self, mode="r"), pre_buffer=False)

    def fetch(self, group: int, wanted: Wanted, pool: ThreadPoolExecutor) -> int:
        """Ask for the wanted columns of a row group; returns the number of bytes."""
        ranges = _ranges(self.parquet.metadata.row_group(group), wanted)
        for start, end in ranges:
            end = min(end, self._tail_start)  # the rest is here
            for first in range(start, end, PIECE):
                length = min(PIECE, end - first)
                future = pool.submit(self._reader.range, first, length)
                self._pieces.append(_Piece(group, first, length, future))
        return sum(piece.length for piece in self._pieces if piece.group == group)

    def batches(self, group: int, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        """The rows of a row group, whose bytes are given up afterwards."""
        columns = wanted.columns(self.parquet.schema_arrow)
        yield from self.parquet.iter_batches(wanted.rows, row_groups=[group], columns=columns)
        self._pieces = [piece for piece in self._pieces if piece.group != group]

    def _range(self, start: int, length: int) -> bytes:
        """Bytes from what was asked for, else from the object."""
        blocks, end = [], start + length
        while start < end:
            blocks.append(self._block(start, end - start))
            start += len(blocks[-1])
        return blocks[0] if len(blocks) == 1 else b"".join(blocks)

    def _block(self, start: int, length: int) -> bytes:
        """At least the first of these bytes."""
        if start >= self._tail_start:
            return self._tail[start - self._tail_start :][:length]
        for piece in self._pieces:
            if piece.start <= start < piece.start + piece.length:
                return piece.future.result()[start - piece.start :][:length]
        return self._reader.range(start, length)

    # The protocol of a file.
    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self.size}[whence]
        self._place = base + offset
        return self._place

    def read(self, size: int = -1) -> bytes:
        left = max(0, self.size - self._place)
        block = self._range(self._place, left if size < 0 else min(size, left))
        self._place += len(block)
        return block


class _Piece(NamedTuple):
    group: int
    start: int
    length: int
    future: "Future[bytes]"


def _ranges(group: Any, wanted: Wanted) -> list[tuple[int, int]]:
    """Where the wanted columns of a row group lie, joined where little lies between them."""
    names = {field.name for field in wanted.fields}
    found: list[tuple[int, int]] = []
    for number in range(group.num_columns):
        column = group.column(number)
        path = column.path_in_schema  # a list inside a column adds to its name, after a dot
        if path in names or any(path.startswith(f"{name}.") for name in names):
            start = column.data_page_offset
            if column.has_dictionary_page and column.dictionary_page_offset:
                start = min(start, column.dictionary_page_offset)
            found.append((start, start + column.total_compressed_size))
    joined: list[tuple[int, int]] = []
    for start, end in sorted(found):
        if joined and start - joined[-1][1] <= GAP:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def read_objects(
    parts: Sequence[Part], opened: Callable[[Part], ObjectReader], wanted: Wanted
) -> Iterator[tuple[Part, pa.RecordBatch]]:
    """The batches of objects, in their order."""
    waiting: deque[tuple[Part, ParquetObject, int, int]] = deque()
    with readers() as pool:
        files = in_order(pool, lambda part: ParquetObject(opened(part)), parts)
        for part, file in zip(parts, files):
            for group in range(file.parquet.num_row_groups):
                waiting.append((part, file, group, file.fetch(group, wanted, pool)))
                while sum(size for *_, size in waiting) > WINDOW or len(waiting) > 2 * READERS:
                    yield from _decoded(*waiting.popleft(), wanted)
        while waiting:
            yield from _decoded(*waiting.popleft(), wanted)


@contextmanager
def readers() -> Iterator[ThreadPoolExecutor]:
    """Threads that ask for objects; after an error they end with what they are at."""
    pool = ThreadPoolExecutor(READERS)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _decoded(
    part: Part, file: ParquetObject, group: int, size: int, wanted: Wanted
) -> Iterator[tuple[Part, pa.RecordBatch]]:
    for batch in file.batches(group, wanted):
        yield part, batch


def in_order(
    pool: ThreadPoolExecutor, work: Callable[[Item], Result], items: Iterable[Item]
) -> Iterator[Result]:
    """Results in the order of their items, a few of them made ahead of their use."""
    coming: deque[Future[Result]] = deque()
    for item in items:
        coming.append(pool.submit(work, item))
        if len(coming) > READERS:
            yield coming.popleft().result()
    while coming:
        yield coming.popleft().result()
