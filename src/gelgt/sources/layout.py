"""Which files of a folder, or of a prefix in object storage, hold which table.

    orders.parquet, orders.csv                  one file a table
    orders/2026-11.parquet                      a folder of Parquet parts
    orders/year=2026/month=11/part-0.parquet    the same, partitioned: `year` and `month` are
                                                columns, whose values the names of folders give

Names that begin with `.` or `_` are left out, and so is what lies in such folders: logs, markers
and temporary files of those who write tables.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from urllib.parse import unquote

import pyarrow as pa

from gelgt.errors import SourceError

CSV_ENDINGS = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
_NULL = "__HIVE_DEFAULT_PARTITION__"
_WHOLE = re.compile(r"[+-]?\d{1,18}", re.ASCII)


@dataclass(frozen=True)
class Part:
    """A file of a table.

    Attributes:
        name: Its name below the folder.
        values: The values that the names of its folders give to columns, None for null.
    """

    name: str
    values: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def is_parquet(self) -> bool:
        return self.name.endswith(".parquet")


def find_tables(names: Iterable[str], folder: str) -> dict[str, list[Part]]:
    """Table name → files, by the names of all files below a folder.

    Raises:
        SourceError: ``duplicate_table``, ``no_tables``.
    """
    tables: dict[str, list[Part]] = {}
    tops: dict[str, str] = {}  # of each table, the file or folder that gives it
    for path in sorted(PurePosixPath(name) for name in names):
        name = _table_name(path)
        if name is None:
            continue
        if tops.setdefault(name, path.parts[0]) != path.parts[0]:
            raise SourceError(
                "duplicate_table",
                f"Two files give the table '{name}': {tops[name]} and {path.parts[0]}.",
                hint="Remove or rename one of them.",
            )
        tables.setdefault(name, []).append(Part(str(path), _values(path)))
    if not tables:
        raise SourceError(
            "no_tables",
            f"There are no .csv, .tsv or .parquet files in {folder}.",
            hint="Give the folder that holds one file for each table.",
        )
    return tables


def _table_name(path: PurePosixPath) -> str | None:
    """The table that a file belongs to; None for files that hold no table."""
    if any(part.startswith((".", "_")) and "=" not in part for part in path.parts):
        return None
    if len(path.parts) > 1:
        return path.parts[0] if path.suffix == ".parquet" else None
    if path.suffix == ".parquet":
        return path.stem
    return path.name.split(".")[0] if path.name.lower().endswith(CSV_ENDINGS) else None


def _values(path: PurePosixPath) -> dict[str, str | None]:
    pairs = [part.partition("=") for part in path.parts[1:-1] if "=" in part]
    return {
        unquote(name): None if value == _NULL else unquote(value)
        for name, _, value in pairs
        if name
    }


def partition_types(parts: Iterable[Part]) -> dict[str, pa.DataType]:
    """The columns that the names of folders give: whole numbers where all values are, as other
    tools read them, else text (which becomes times where all values are dates)."""
    values: dict[str, set[str]] = {}
    for part in parts:
        for name, value in part.values.items():
            values.setdefault(name, set()).update([] if value is None else [value])
    return {
        name: pa.int64() if found and all(map(_WHOLE.fullmatch, found)) else pa.string()
        for name, found in values.items()
    }
