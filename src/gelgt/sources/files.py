"""A folder of CSV or Parquet files as a source: one file (or one sub-folder of Parquet parts) is
one table.

CSV files have no types: all columns arrive as strings and `stage.py` infers the types. An empty
field is null.
"""

import csv
import gzip
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from gelgt.errors import SourceError, some
from gelgt.sources.cache import hash_files
from gelgt.sources.raw import RawTable, StaticSource
from gelgt.sources.state import SourceState, files_state
from gelgt.sources.table_file import batch_rows, read_ahead
from gelgt.sources.text_types import TextProfile, parse_text

CSV_ENDINGS = (".csv", ".tsv", ".csv.gz", ".tsv.gz")


class FilesSource(StaticSource):
    """The CSV and Parquet files of a folder."""

    def __init__(self, folder: Path, address: str) -> None:
        self.address = address
        self.name = folder.resolve().name
        self._folder = folder
        self._files = find_tables(folder)

    def table_names(self) -> list[str]:
        return list(self._files)

    def tables(self, only: Sequence[str] | None = None) -> list[RawTable]:
        return [
            _parquet_table(name, paths) if _is_parquet(paths) else _csv_table(name, paths[0])
            for name, paths in self._files.items()
        ]

    def state(self) -> SourceState | None:
        return files_state(p for paths in self._files.values() for p in paths)

    def mark(self, tables: Mapping[str, RawTable]) -> Any:
        """The Parquet files of each table, unless one has changed so lately that a further change
        might not show."""
        parts = {name: self._files[name] for name in tables if _is_parquet(self._files[name])}
        states = {name: [files_state([path]) for path in paths] for name, paths in parts.items()}
        return {
            name: [state.key for state in found]
            for name, found in states.items()
            if not any(state.doubtful for state in found)
        }

    def appended(self, tables: Mapping[str, RawTable], mark: Any) -> dict[str, RawTable]:
        """Tables whose older files are as they were, with the files that come after them."""
        appended = {}
        for name, table in tables.items():
            known, paths = mark.get(name), self._files[name]
            if known and [files_state([path]).key for path in paths[: len(known)]] == known:
                new = _parquet_table(name, paths[len(known) :], table.columns)
                appended[name] = replace(table, batches=new.batches)
        return appended

    def content_key(self) -> str | None:
        names = "\n".join(
            f"{name}: {[p.name for p in paths]}" for name, paths in self._files.items()
        )
        return hash_files([p for paths in self._files.values() for p in paths], extra=names)


def find_tables(folder: Path) -> dict[str, list[Path]]:
    """Table name → files."""
    tables: dict[str, list[Path]] = {}
    for path in sorted(folder.iterdir()):
        if path.name.startswith((".", "_")):
            continue
        if path.is_dir():
            parts = sorted(p for p in path.rglob("*.parquet") if not p.name.startswith((".", "_")))
            if not parts:
                continue
            name, files = path.name, parts
        elif path.suffix == ".parquet" or path.name.lower().endswith(CSV_ENDINGS):
            name = path.stem if path.suffix == ".parquet" else path.name.split(".")[0]
            files = [path]
        else:
            continue
        if name in tables:
            raise SourceError(
                "duplicate_table",
                f"Two files give the table '{name}': {tables[name][0].name} and {path.name}.",
                hint="Remove or rename one of them.",
            )
        tables[name] = files
    if not tables:
        raise SourceError(
            "no_tables",
            f"There are no .csv, .tsv or .parquet files in {folder}.",
            hint="Give the folder that holds one file for each table.",
        )
    return tables


def _is_parquet(paths: list[Path]) -> bool:
    return paths[0].suffix == ".parquet"


def _parquet_table(
    name: str, paths: list[Path], columns: Mapping[str, pa.DataType] | None = None
) -> RawTable:
    """A table of Parquet files, in given columns where these are known."""
    try:
        schemas = [pq.read_schema(path) for path in paths]
        schema = (
            pa.schema(list(columns.items()))
            if columns is not None
            else pa.unify_schemas(
                [s.remove_metadata() for s in schemas], promote_options="permissive"
            )
        )
    except (pa.ArrowInvalid, pa.ArrowTypeError, OSError) as error:
        raise SourceError(
            "unreadable_file",
            f"Table '{name}': {paths[0].name} is not readable as Parquet: {error}",
            hint="Write the file again.",
        ) from None
    fields = [field for field in schema if not field.name.startswith("__index_level_")]

    def batches() -> Iterator[pa.RecordBatch]:
        for path in paths:
            try:
                yield from _parquet_batches(path, fields)
            except (pa.ArrowInvalid, OSError) as error:  # damaged, or changed since it was opened
                raise _unreadable(name, path, error) from None

    types = {field.name: field.type for field in fields}
    return RawTable(name, types, lambda: read_ahead(batches()))


def _parquet_batches(path: Path, fields: list[pa.Field]) -> Iterator[pa.RecordBatch]:
    # Not mapped: a mapped file that somebody cuts short ends the process. Not buffered: that would
    # hold the whole file.
    with pq.ParquetFile(path, pre_buffer=False) as file:
        present = [f.name for f in fields if f.name in file.schema_arrow.names]
        for batch in file.iter_batches(batch_size=batch_rows(len(fields)), columns=present):
            arrays = [
                batch.column(f.name).cast(f.type)
                if f.name in present
                else pa.nulls(batch.num_rows, f.type)
                for f in fields
            ]
            yield pa.RecordBatch.from_arrays(arrays, names=[f.name for f in fields])


def _csv_table(name: str, path: Path) -> RawTable:
    header, delimiter = _header(name, path)

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            reader = pacsv.open_csv(
                path,
                read_options=pacsv.ReadOptions(
                    column_names=header, skip_rows_after_names=1, block_size=8 << 20
                ),
                parse_options=pacsv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
                convert_options=pacsv.ConvertOptions(
                    column_types={c: pa.string() for c in header},
                    strings_can_be_null=True,
                    null_values=[""],
                    quoted_strings_can_be_null=True,
                ),
            )
            yield from reader
        except pa.ArrowInvalid as error:
            raise _csv_error(name, path, header, str(error)) from None
        except OSError as error:  # a compressed file that ends too early
            raise _unreadable(name, path, error) from None

    return RawTable(name, {c: pa.string() for c in header}, batches, is_text=True)


def read_csv(path: Path) -> pa.Table:
    """A CSV file in memory, in the types that an import would infer."""
    raw = _csv_table(path.stem, path)
    table = pa.Table.from_batches(
        list(raw.batches()), pa.schema([pa.field(c, t) for c, t in raw.columns.items()])
    ).combine_chunks()
    columns = []
    for name in table.column_names:
        profile = TextProfile(path.stem, name, numbers=True)
        chunks = table.column(name).chunks
        for chunk in chunks:
            profile.add(chunk)
        arrow = profile.verdict()
        columns.append(
            pa.chunked_array([parse_text(chunk, arrow, path.stem, name) for chunk in chunks], arrow)
        )
    return pa.table(columns, names=table.column_names)


def _header(name: str, path: Path) -> tuple[list[str], str]:
    opener: Any = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rb") as file:
            line: bytes = file.readline()
            # a quoted name may hold a line break
            while line.count(b'"') % 2 and (more := file.readline()):
                line += more
    except (OSError, EOFError, zlib.error) as error:
        raise _unreadable(name, path, error) from None
    try:
        text = line.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _not_utf8(name, path, f"its header ({error.reason} at byte {error.start})") from None
    delimiter = "\t" if ".tsv" in path.name.lower() else max(",;\t|", key=text.count)
    header = next(csv.reader(StringIO(text, newline=""), delimiter=delimiter), [])
    if not header:
        raise SourceError(
            "empty_file",
            f"Table '{name}': {path.name} is empty.",
            hint="Give it at least a header line, or remove it.",
        )
    header = [c if c.strip() else f"unnamed_{i}" for i, c in enumerate(header)]
    repeated = sorted({c for c in header if header.count(c) > 1})
    if repeated:
        raise SourceError(
            "duplicate_column",
            f"Table '{name}': {path.name} has columns of the same name: {some(repeated)}.",
            hint="Rename them.",
        )
    return header, delimiter


def _unreadable(name: str, path: Path, error: Exception) -> SourceError:
    return SourceError(
        "unreadable_file",
        f"Table '{name}': {path.name} cannot be read: {error}.",
        hint="Write the file again.",
    )


def _csv_error(name: str, path: Path, header: list[str], message: str) -> SourceError:
    if "UTF8" in message or "utf8" in message.lower():
        number = message.split("CSV column #")[1].split(":")[0] if "CSV column #" in message else ""
        where = (
            f"column '{header[int(number)]}'"
            if number.isdigit() and int(number) < len(header)
            else "a column"
        )
        return _not_utf8(name, path, where)
    return SourceError(
        "bad_csv",
        f"Table '{name}': {path.name} is not a regular CSV file: {message}",
        hint="Every line needs as many fields as the header.",
    )


def _not_utf8(name: str, path: Path, where: str) -> SourceError:
    return SourceError(
        "not_utf8",
        f"Table '{name}': {path.name} is not UTF-8: {where}.",
        hint=f"Convert it, for example: iconv -f latin1 -t utf-8 {path.name} > converted.csv",
    )
