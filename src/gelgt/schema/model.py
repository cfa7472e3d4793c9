"""What gelgt knows about a database: keys, times and column kinds, each with its origin and evidence.

These are plain frozen records. `schema/manifest.py` reads and writes them, `schema/infer.py` fills in what a
source does not declare, `sources/importer.py` checks them against the rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Origin = Literal["declared", "inferred", "manifest"]
Kind = Literal["numerical", "categorical", "multicategorical", "timestamp", "text", "ignored"]
KINDS: tuple[Kind, ...] = ("numerical", "categorical", "multicategorical", "timestamp", "text", "ignored")


@dataclass(frozen=True)
class PrimaryKey:
    """The columns that identify a row; `columns` are the user's own, one or several."""

    columns: tuple[str, ...]
    origin: Origin = "declared"
    evidence: str = ""


@dataclass(frozen=True)
class ForeignKey:
    """`columns` of this table hold values of `referred` columns (the primary key if empty) of `table`."""

    columns: tuple[str, ...]
    table: str
    referred: tuple[str, ...] = ()
    origin: Origin = "declared"
    evidence: str = ""
    stored: str = ""  # set where `columns` alone would not name a column of its own

    @property
    def column(self) -> str:
        """The single column that holds the row number of the parent in gelgt's own files."""
        return self.stored or key_column(self.columns)


@dataclass(frozen=True)
class TimeColumn:
    """The column that says when a row became known."""

    column: str
    origin: Origin = "declared"
    evidence: str = ""


@dataclass(frozen=True)
class ColumnKind:
    """How a column becomes features: a PyTorch Frame stype, or ``ignored``."""

    kind: Kind
    origin: Origin = "inferred"
    evidence: str = ""
    separator: str | None = None  # multicategorical strings only


@dataclass(frozen=True)
class TableSchema:
    """One table: its columns with canonical types, keys, time and kinds."""

    name: str
    columns: Mapping[str, str] = field(default_factory=dict)  # name -> int64|float64|bool|string|timestamp|list
    primary_key: PrimaryKey | None = None
    time_column: TimeColumn | None = None
    foreign_keys: tuple[ForeignKey, ...] = ()
    kinds: Mapping[str, ColumnKind] = field(default_factory=dict)  # feature columns only, never keys

    @property
    def pkey(self) -> str | None:
        """Name of the column that numbers the rows 0…n-1 in gelgt's own files."""
        return key_column(self.primary_key.columns) if self.primary_key else None

    @property
    def time_col(self) -> str | None:
        return self.time_column.column if self.time_column else None

    @property
    def key_columns(self) -> set[str]:
        """Columns that hold row numbers and are therefore never features."""
        found = {fk.column for fk in self.foreign_keys}
        return found | {self.pkey} if self.pkey else found


@dataclass(frozen=True)
class DatabaseSchema:
    """All tables of a database and its split times (ISO text, UTC)."""

    name: str
    tables: Mapping[str, TableSchema]
    val_timestamp: str | None = None
    test_timestamp: str | None = None
    split_origin: Origin = "declared"
    description: str = ""


@dataclass(frozen=True)
class Finding:
    """Something a user should know about the data before trusting a prediction."""

    code: str  # dangling_key, null_time, constant_column, suspected_leak, …
    table: str
    column: str | None = None
    count: int | None = None
    message: str = ""

    def to_dict(self) -> dict[str, object]:
        return {"code": self.code, "table": self.table, "column": self.column, "count": self.count, "message": self.message}


def key_column(columns: tuple[str, ...]) -> str:
    """A composite key lives in one column of row numbers, named after its parts."""
    return "+".join(columns)
