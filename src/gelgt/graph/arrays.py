"""Plain `.npy` files, written in place and opened memory-mapped.

The graph and the features keep their arrays here: nothing but numpy is needed to read them, and a
store that is larger than memory works. NumPy cannot map a file without elements, so an empty array
is read instead.
"""

import hashlib
import math
import mmap
import os
from collections.abc import Iterable
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import DTypeLike, NDArray

_HASH_ITEMS = 1 << 21


def create_array(path: Path, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """A new array on disk, filled with zeros and writable through memory.

    Its space is taken at once: a disk that is full when a page of a mapped file is written ends the
    process, without an error to catch.
    """
    if 0 in shape:
        np.save(path, np.zeros(shape, dtype))
        return np.zeros(shape, dtype)
    with path.open("wb") as file:
        _write_header(file, np.dtype(dtype), shape)
        size = file.tell() + math.prod(shape) * np.dtype(dtype).itemsize
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)
        else:
            file.truncate(size)
    return np.asarray(np.load(path, mmap_mode="r+", allow_pickle=False))


def load_array(path: Path) -> NDArray[Any]:
    """An array of the store, read-only; pages are read when they are touched."""
    with path.open("rb") as file:
        version = np.lib.format.read_magic(file)
        header = (
            np.lib.format.read_array_header_1_0
            if version == (1, 0)
            else np.lib.format.read_array_header_2_0
        )
        shape, _, _ = header(file)
    if 0 in shape:
        return np.asarray(np.load(path, allow_pickle=False))
    return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))


def release(*arrays: NDArray[Any]) -> None:
    """Give back the memory of mapped arrays that have been read or written: their pages count as
    memory of the process until the system reclaims them. What was written stays written."""
    _advise(arrays, "MADV_DONTNEED")


def read_at_random(*arrays: NDArray[Any]) -> None:
    """Read the pages of mapped arrays that are touched, and not those behind them: where memory
    holds a part of an array, what is read ahead throws out what is needed."""
    _advise(arrays, "MADV_RANDOM")


def _advise(arrays: Iterable[NDArray[Any]], advice: str) -> None:
    """Advice to the system on mapped arrays, where it takes it."""
    for array in arrays:
        base: Any = array
        while isinstance(base, np.ndarray):
            base = base.base
        if isinstance(base, mmap.mmap) and hasattr(mmap, advice):
            base.madvise(getattr(mmap, advice))


class RowWriter:
    """A two-dimensional array on disk, written by blocks of rows in any order and from several
    threads.

    Written, not mapped: pages of a mapped file count as memory of the process until the system
    reclaims them.
    """

    def __init__(self, path: Path, rows: int, width: int, dtype: DTypeLike) -> None:
        self.dtype, self.width = np.dtype(dtype), width
        self._lock = Lock()
        self._file = path.open("wb")
        _write_header(self._file, self.dtype, (rows, width))
        self._first = self._file.tell()
        self._file.truncate(self._first + rows * width * self.dtype.itemsize)

    def write(self, start: int, block: NDArray[Any]) -> None:
        """Write the rows from `start` on (n, width)."""
        data = np.ascontiguousarray(block, self.dtype).data
        with self._lock:
            self._file.seek(self._first + start * self.width * self.dtype.itemsize)
            self._file.write(data)

    def __enter__(self) -> "RowWriter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()


class ArrayWriter:
    """A one-dimensional array on disk that grows block by block."""

    def __init__(self, path: Path, dtype: DTypeLike) -> None:
        self.dtype = np.dtype(dtype)
        self.length = 0
        self._file = path.open("wb")
        _write_header(self._file, self.dtype, (0,))

    def append(self, values: NDArray[Any]) -> None:
        self._file.write(np.ascontiguousarray(values, self.dtype).data)
        self.length += len(values)

    def __enter__(self) -> "ArrayWriter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # NumPy pads headers so that the length may grow without moving the data.
        self._file.seek(0)
        _write_header(self._file, self.dtype, (self.length,))
        self._file.close()


def _write_header(file: BinaryIO, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    description = {
        "descr": np.lib.format.dtype_to_descr(dtype),
        "fortran_order": False,
        "shape": shape,
    }
    np.lib.format.write_array_header_1_0(file, description)


def hash_arrays(text: str, arrays: Iterable[tuple[str, NDArray[Any]]]) -> str:
    """Content hash over a text and named arrays: types, shapes and bytes, not where they lie."""
    digest = hashlib.blake2b(text.encode(), digest_size=16)
    for name, array in arrays:
        digest.update(f"\0{name}\0{array.dtype.str}\0{array.shape}\0".encode())
        flat = array.reshape(-1)
        for start in range(0, len(flat), _HASH_ITEMS):
            digest.update(np.ascontiguousarray(flat[start : start + _HASH_ITEMS]).data)
    return digest.hexdigest()
