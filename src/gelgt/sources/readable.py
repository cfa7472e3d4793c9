"""Reads Parquet files that gelgt did not write just now: what is wrong with one is told as an error
of the file, and pages that carry a checksum are compared with it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from gelgt.errors import GelgtError, SourceError

CHECKED: dict[str, Any] = {"page_checksum_verification": True}


REPAIR = "Import it again, or restore it from a copy."


@contextmanager
def readable(
    path: Path, hint: str = REPAIR, kind: type[GelgtError] = SourceError
) -> Iterator[None]:
    """Tell errors of reading a Parquet file as errors of the file.

    Raises:
        GelgtError: ``unreadable_file``, of this kind and with this hint.
    """
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        message = f"{path} is not a readable Parquet file: {error}"
        raise kind("unreadable_file", message, hint) from None


@contextmanager
def open_parquet(
    path: Path, hint: str = REPAIR, kind: type[GelgtError] = SourceError
) -> Iterator[pq.ParquetFile]:
    """A Parquet file, mapped; errors as in `readable`."""
    with readable(path, hint, kind):
        if not path.is_file():  # a pipe would be waited for
            raise FileNotFoundError("there is no such file")
        with pq.ParquetFile(path, memory_map=True, **CHECKED) as file:
            yield file


def read_parquet(path: Path, hint: str = REPAIR, kind: type[GelgtError] = SourceError) -> pa.Table:
    """A Parquet file in memory; errors as in `readable`."""
    with open_parquet(path, hint, kind) as file:
        return file.read()


def parquet_schema(path: Path) -> pa.Schema:
    """The columns of a Parquet file."""
    with readable(path):
        if not path.is_file():
            raise FileNotFoundError("there is no such file")
        return pq.read_schema(path)


def parquet_rows(path: Path) -> int:
    """The number of rows of a Parquet file."""
    with readable(path):
        return int(pq.read_metadata(path).num_rows)
