"""CSV files: all columns arrive as strings, and `stage.py` infers their types. An empty field is
null."""

import csv
import gzip
import zlib
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv

from gelgt.errors import SourceError, some
from gelgt.sources.raw import RawTable
from gelgt.sources.text_types import TextProfile, parse_text

Opener = Callable[[], Any]  # gives the bytes of a file from its beginning


def csv_table(name: str, file: str, opened: Opener) -> RawTable:
    """A table of one CSV file, compressed where its name says so.

    Args:
        file: The name of the file.
        opened: Opens it.
    """
    header, delimiter = _header(name, file, opened)

    def batches() -> Iterator[pa.RecordBatch]:
        options: dict[str, Any] = {
            "read_options": pacsv.ReadOptions(
                column_names=header, skip_rows_after_names=1, block_size=8 << 20
            ),
            "parse_options": pacsv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            "convert_options": pacsv.ConvertOptions(
                column_types={c: pa.string() for c in header},
                strings_can_be_null=True,
                null_values=[""],
                quoted_strings_can_be_null=True,
            ),
        }
        try:
            with opened() as plain:
                source = pa.PythonFile(plain, mode="r")
                if file.lower().endswith(".gz"):
                    source = pa.CompressedInputStream(source, "gzip")
                yield from pacsv.open_csv(source, **options)
        except pa.ArrowInvalid as error:
            raise _csv_error(name, file, header, str(error)) from None
        except OSError as error:  # a compressed file that ends too early
            raise unreadable(name, file, error) from None

    return RawTable(name, {c: pa.string() for c in header}, batches, is_text=True)


def read_csv(path: Path) -> pa.Table:
    """A CSV file in memory, in the types that an import would infer."""
    raw = csv_table(path.stem, path.name, lambda: path.open("rb"))
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


def _header(name: str, file: str, opened: Opener) -> tuple[list[str], str]:
    try:
        with opened() as plain:
            lines: Any = gzip.GzipFile(fileobj=plain) if file.lower().endswith(".gz") else plain
            line: bytes = lines.readline()
            # a quoted name may hold a line break
            while line.count(b'"') % 2 and (more := lines.readline()):
                line += more
    except (OSError, EOFError, zlib.error) as error:
        raise unreadable(name, file, error) from None
    try:
        text = line.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _not_utf8(name, file, f"its header ({error.reason} at byte {error.start})") from None
    delimiter = "\t" if ".tsv" in file.lower() else max(",;\t|", key=text.count)
    header = next(csv.reader(StringIO(text, newline=""), delimiter=delimiter), [])
    if not header:
        raise SourceError(
            "empty_file",
            f"Table '{name}': {file} is empty.",
            hint="Give it at least a header line, or remove it.",
        )
    header = [c if c.strip() else f"unnamed_{i}" for i, c in enumerate(header)]
    repeated = sorted({c for c in header if header.count(c) > 1})
    if repeated:
        raise SourceError(
            "duplicate_column",
            f"Table '{name}': {file} has columns of the same name: {some(repeated)}.",
            hint="Rename them.",
        )
    return header, delimiter


def unreadable(name: str, file: str, error: Exception) -> SourceError:
    """The error of a file that cannot be read."""
    return SourceError(
        "unreadable_file",
        f"Table '{name}': {file} cannot be read: {error}.",
        hint="Write the file again.",
    )


def _csv_error(name: str, file: str, header: list[str], message: str) -> SourceError:
    if "UTF8" in message or "utf8" in message.lower():
        number = message.split("CSV column #")[1].split(":")[0] if "CSV column #" in message else ""
        where = (
            f"column '{header[int(number)]}'"
            if number.isdigit() and int(number) < len(header)
            else "a column"
        )
        return _not_utf8(name, file, where)
    return SourceError(
        "bad_csv",
        f"Table '{name}': {file} is not a regular CSV file: {message}",
        hint="Every line needs as many fields as the header.",
    )


def _not_utf8(name: str, file: str, where: str) -> SourceError:
    return SourceError(
        "not_utf8",
        f"Table '{name}': {file} is not UTF-8: {where}.",
        hint=f"Convert it, for example: iconv -f latin1 -t utf-8 {file} > converted.csv",
    )
