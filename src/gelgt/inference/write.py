"""Writes predictions as they come, in bounded memory: Parquet or CSV by the file's ending.

A file appears under its name only when it is whole: it is written beside it under a hidden name and
renamed. An error or Ctrl-C on the way leaves nothing. What goes to object storage is written to the
cache first and then sent; what could not be sent stays there, because it may have taken hours.
"""

import json
import shutil
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from gelgt.errors import GelgtError, did_you_mean
from gelgt.files import whole_file
from gelgt.sources.cache import cache_root
from gelgt.storage import Store, is_storage, safe_place

FORMATS = (".parquet", ".csv")
GROUP_ROWS = 1 << 16  # rows that are collected for a row group


def check_path(path: str | Path) -> Path | Store:
    """A path, or a place in object storage, that predictions can be written to, or a GelgtError;
    ask before hours of work, not after."""
    target = Path(safe_place(str(path)) if is_storage(path) else path).expanduser()
    if target.suffix.lower() not in FORMATS:
        raise GelgtError(
            "unknown_format",
            f"Predictions cannot be written to {target.name}: '{target.suffix}' is no known "
            "ending.",
            hint=f"{did_you_mean(target.suffix, FORMATS)} Name the file so.",
        )
    if is_storage(path):
        return _check_store(Store(str(path)))
    if target.is_dir():
        raise GelgtError("cannot_write", f"{target} is a folder.", hint="Give a file in it.")
    return target


def _check_store(store: Store) -> Store:
    """Whether a bucket answers. Who may write need not be allowed to look: that shows later."""
    try:
        store.check_bucket()
    except GelgtError as error:
        if error.code != "no_access":
            raise
    return store


def write_predictions(batches: Iterable[pa.Table | pa.RecordBatch], path: str | Path) -> int:
    """Write tables behind each other into one file, whole or not at all.

    Args:
        batches: Tables of one schema, such as `Predictor.predict_table` yields.
        path: A .parquet or .csv file, here or in object storage (``s3://bucket/x.parquet``); one
            that exists is replaced.

    Returns:
        The number of rows.

    Raises:
        GelgtError: another ending, a folder, a disk that is full; the error of `batches` itself
            passes through.
    """
    target = check_path(path)
    if isinstance(target, Store):
        return _send(batches, target)
    try:
        with whole_file(target) as temporary:
            return _write(batches, temporary, target.suffix.lower() == ".csv")
    except OSError as error:
        raise GelgtError(
            "cannot_write",
            f"Predictions cannot be written to {target}: {error.strerror or error}.",
            hint="Give another file.",
        ) from None


def _send(batches: Iterable[pa.Table | pa.RecordBatch], store: Store) -> int:
    """Write to the cache, then to object storage."""
    name = PurePosixPath(store.place.path).name
    folder = cache_root() / "unsent" / uuid.uuid4().hex[:8]
    rows = write_predictions(batches, folder / name)
    try:
        store.write(folder / name)
    except GelgtError as error:
        raise GelgtError(
            error.code,
            f"The predictions could not be sent. {error.message}",
            hint=f"{error.hint} They are whole in {folder / name}.",
        ) from None
    shutil.rmtree(folder, ignore_errors=True)
    return rows


def _write(batches: Iterable[pa.Table | pa.RecordBatch], path: Path, is_csv: bool) -> int:
    writer, rows = None, 0
    try:
        for table in _groups(batches):
            table = _for_csv(table) if is_csv else table
            if writer is None:
                writer = (
                    pyarrow.csv.CSVWriter(str(path), table.schema)
                    if is_csv
                    else pq.ParquetWriter(path, table.schema)
                )
            writer.write_table(table)
            rows += table.num_rows
    finally:
        if writer is not None:
            writer.close()
    if writer is None:
        raise GelgtError(
            "no_rows", "There are no predictions to write.", hint="Ask for at least one entity."
        )
    return rows


def _groups(batches: Iterable[pa.Table | pa.RecordBatch]) -> Iterator[pa.Table]:
    """The same rows in tables of about `GROUP_ROWS`."""
    waiting: list[pa.Table] = []
    for batch in batches:
        waiting.append(batch if isinstance(batch, pa.Table) else pa.Table.from_batches([batch]))
        if sum(t.num_rows for t in waiting) >= GROUP_ROWS:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)


def _for_csv(table: pa.Table) -> pa.Table:
    """Seed times without their empty fractions, lists as JSON."""
    for place, field in enumerate(table.schema):
        column = table.column(place)
        if field.name == "time" and pa.types.is_timestamp(field.type):
            table = table.set_column(place, field.name, column.cast(pa.timestamp("s")))
        elif pa.types.is_list(field.type):
            texts = [
                None if v is None else json.dumps(v, ensure_ascii=False, default=str)
                for v in column.to_pylist()
            ]
            table = table.set_column(place, field.name, pa.array(texts, pa.string()))
    return table


@contextmanager
def written_text(path: Path) -> Iterator[Any]:
    """A text file that is renamed into place when all is written."""
    try:
        with (
            whole_file(path) as temporary,
            temporary.open("w", encoding="utf-8", newline="") as file,
        ):
            yield file
    except OSError as error:
        raise GelgtError(
            "cannot_write",
            f"{path} cannot be written: {error.strerror or error}.",
            hint="Give another file.",
        ) from None
