"""Digests of the rows of a table in the order in which a source gives them.

An import keeps them, a chunk of rows each, so that a later reading can tell whether a table begins
with the same rows: what comes after them is new. The digest of a chunk depends on its values alone,
neither on the batches that they come in nor on what lies in memory under a null.
"""

import hashlib
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, repeat
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gelgt.sources.canonical import STRINGS, TIME

CHUNK_ROWS = 1 << 16
Digest = tuple[int, str]  # rows of a chunk, and the hash of their values


class RowDigest:
    """Takes the rows of a table batch by batch; hashes them in another thread.

    Args:
        sizes: Rows of the first chunks; those after them have `CHUNK_ROWS`.
    """

    def __init__(self, sizes: Sequence[int] = ()) -> None:
        self._sizes = chain(sizes, repeat(CHUNK_ROWS))
        self._left = next(self._sizes)
        self._pieces: list[list[pa.Array]] = []
        self._thread = ThreadPoolExecutor(1)
        self._running: list[Future[Digest]] = []

    def add(self, arrays: Sequence[pa.Array]) -> None:
        """Add rows, given as the arrays of all columns."""
        start, rows = 0, len(arrays[0])
        while rows - start >= self._left:
            self._pieces.append([array.slice(start, self._left) for array in arrays])
            start += self._left
            self._finish()
            self._left = next(self._sizes)
        if start < rows:
            self._pieces.append([array.slice(start) for array in arrays])
            self._left -= rows - start

    def _finish(self) -> None:
        self._running.append(self._thread.submit(_digest, self._pieces))
        self._pieces = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._pieces:
            self._finish()
        self._thread.shutdown(cancel_futures=error[0] is not None)

    def result(self) -> list[Digest]:
        """The digests of all rows that were added, in order; after the end of the context."""
        return [future.result() for future in self._running]


def _digest(pieces: list[list[pa.Array]]) -> Digest:
    digest = hashlib.sha256()
    for parts in zip(*pieces):
        _add(digest, pa.concat_arrays(parts) if len(parts) > 1 else parts[0])
    return sum(len(piece[0]) for piece in pieces), digest.hexdigest()[:32]


def _add(digest: Any, values: pa.Array) -> None:
    """Add nulls, then values; a null counts as the empty or least value of its type."""
    digest.update(f"{values.type} {len(values)} {values.null_count}\0".encode())
    if values.null_count:
        is_valid = values.is_valid().to_numpy(zero_copy_only=False)
        digest.update(np.packbits(is_valid).data)
    for part in _plain(values):
        digest.update(part.data)


def _plain(values: pa.Array) -> Iterator[np.ndarray[Any, Any]]:
    """The values as plain arrays."""
    if values.type == STRINGS:
        yield pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False)
        yield from _plain(pc.list_flatten(values))
    elif values.type == pa.string():
        filled = values.fill_null("") if values.null_count else values
        yield pc.binary_length(filled).to_numpy(zero_copy_only=False)
        offsets = np.frombuffer(filled.buffers()[1], np.int32)[filled.offset :]
        first, last = (int(offsets[0]), int(offsets[len(filled)])) if len(filled) else (0, 0)
        if last > first:
            yield np.frombuffer(filled.buffers()[2], np.uint8)[first:last]
    elif values.type == pa.bool_():
        yield pc.fill_null(values, False).to_numpy(zero_copy_only=False)
    else:
        plain = values.view(pa.int64()) if values.type == TIME else values
        yield pc.fill_null(plain, 0).to_numpy(zero_copy_only=False)


class DifferentRowsError(Exception):
    """A table does not begin with the rows that it had."""


def rows_after(
    batches: Iterator[list[pa.Array]], known: Sequence[Digest]
) -> Iterator[list[pa.Array]]:
    """The rows of a table that come after known ones, in batches.

    Raises:
        DifferentRowsError: it does not begin with the known rows; before the first row is given.
    """
    left = sum(rows for rows, _ in known)
    rest: list[pa.Array] | None = None
    with RowDigest([rows for rows, _ in known]) as digest:
        while left:
            arrays = next(batches, None)
            if arrays is None:
                raise DifferentRowsError
            count = min(left, len(arrays[0]))
            digest.add([array.slice(0, count) for array in arrays])
            rest, left = [array.slice(count) for array in arrays], left - count
    if digest.result() != [tuple(entry) for entry in known]:
        raise DifferentRowsError
    if rest is not None and len(rest[0]):
        yield rest
    yield from batches
