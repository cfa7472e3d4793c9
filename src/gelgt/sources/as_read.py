"""What an import remembers of the rows as its source gave them, before they were ordered.

    gelgt/as_read.json   for each table: rows, their digests (digest.py), the types in which the
                         columns came and in which they were kept, and what a column showed that
                         decided how it is read

New rows may be added to an import if they would have been read in the same way (grow.py).
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from gelgt.sources.canonical import ARROW_TYPES, canonical_name
from gelgt.sources.digest import DifferentRowsError, Digest
from gelgt.sources.stage import StagedColumn, StagedTable
from gelgt.sources.table_file import TableFile, mapped_table, read_batches

_FILE = Path("gelgt") / "as_read.json"


@dataclass(frozen=True)
class ColumnRead:
    """How a column was read; see `StagedColumn`."""

    stored: str
    type: str
    nulls: int
    is_whole: bool
    non_finite: int
    how: str
    stated: str | None  # the kind that was stated: it may decide the type

    @classmethod
    def of(cls, column: StagedColumn) -> "ColumnRead":
        facts = (column.nulls, column.is_whole, column.non_finite, column.how, column.stated)
        return cls(column.stored, canonical_name(column.type), *facts)

    def staged(self) -> StagedColumn:
        """The column with what is known of its values."""
        column = StagedColumn(self.stored, ARROW_TYPES[self.type], self.nulls, how=self.how)
        column.stated = self.stated
        column.is_whole, column.non_finite = self.is_whole, self.non_finite
        return column

    def plus(self, new: "ColumnRead") -> "ColumnRead":
        """The column with more rows."""
        return ColumnRead(
            self.stored,
            self.type,
            self.nulls + new.nulls,
            self.is_whole and new.is_whole,
            self.non_finite + new.non_finite,
            self.how,
            self.stated,
        )


@dataclass(frozen=True)
class TableRead:
    """How a table was read; see `StagedTable`."""

    rows: int
    delivered: dict[str, str]
    columns: dict[str, ColumnRead]
    digests: list[Digest]

    @classmethod
    def of(cls, table: StagedTable) -> "TableRead":
        columns = {name: ColumnRead.of(column) for name, column in table.columns.items()}
        return cls(table.rows, table.delivered, columns, table.digests)

    def staged(self, name: str) -> StagedTable:
        """The table as it was staged, without its file."""
        columns = {c: column.staged() for c, column in self.columns.items()}
        return StagedTable(name, Path(), self.rows, columns)

    def plus(self, new: "TableRead") -> "TableRead":
        """The table with more rows."""
        columns = {c: column.plus(new.columns[c]) for c, column in self.columns.items()}
        digests = [*self.digests, *new.digests]
        return TableRead(self.rows + new.rows, self.delivered, columns, digests)


def write_as_read(folder: Path, tables: Mapping[str, TableRead]) -> None:
    """Write to the folder of an import."""
    content = {name: asdict(table) for name, table in tables.items()}
    (folder / _FILE).write_text(json.dumps(content), encoding="utf-8")


def read_as_read(folder: Path) -> dict[str, TableRead] | None:
    """What an import remembers; None where it remembers nothing."""
    try:
        content: dict[str, Any] = json.loads((folder / _FILE).read_text(encoding="utf-8"))
        return {
            name: TableRead(
                entry["rows"],
                entry["delivered"],
                {c: ColumnRead(**column) for c, column in entry["columns"].items()},
                [(rows, text) for rows, text in entry["digests"]],
            )
            for name, entry in content.items()
        }
    except (OSError, ValueError, KeyError, TypeError):
        return None


def as_before(new: StagedTable, before: TableRead) -> StagedTable:
    """New rows of a table in the types that its older rows have.

    Raises:
        DifferentRowsError: read together, old and new rows would have other types.
    """
    targets: dict[str, pa.DataType] = {}
    for name, column in new.columns.items():
        old = before.columns[name]
        was, now = ARROW_TYPES[old.type], column.type
        if before.rows and old.nulls == before.rows and column.nulls < new.rows:
            raise DifferentRowsError  # the first values of a column decide its type
        is_empty, is_number = column.nulls == new.rows, (was, now) == (pa.float64(), pa.int64())
        if now != was and not is_empty and not (is_number and not old.how):
            raise DifferentRowsError
        if now == was and column.how != old.how and not is_empty:
            raise DifferentRowsError
        if now != was:
            targets[column.stored] = was
        column.type, column.how = was, old.how
    if targets:
        schema = mapped_table(new.path).schema
        fields = [f.with_type(targets.get(f.name, f.type)) for f in schema]
        target = new.path.with_suffix(".cast.arrow")
        with TableFile(target, pa.schema(fields)) as file:
            for batch in read_batches(new.path):
                file.write([batch.column(f.name).cast(f.type) for f in fields])
        new.path = target
    return new
