"""The schema of a database: keys, times and column kinds, each with its origin and evidence.

These are plain frozen records. `schema/manifest.py` reads and writes them, `schema/infer.py` fills
in what a source does not declare, `sources/importer.py` checks them against the rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from gelgt.schema.severity import Severity, severity_of

Origin = Literal["declared", "inferred", "manifest"]
Kind = Literal["numerical", "categorical", "multicategorical", "timestamp", "text", "ignored"]
KINDS: tuple[Kind, ...] = (
    "numerical",
    "categorical",
    "multicategorical",
    "timestamp",
    "text",
    "ignored",
)


@dataclass(frozen=True)
class PrimaryKey:
    """The columns of the user's table that identify a row."""

    columns: tuple[str, ...]
    origin: Origin = "declared"
    evidence: str = ""


@dataclass(frozen=True)
class ForeignKey:
    """`columns` of this table hold values of `referred` columns (the primary key if empty) of
    `table`."""

    columns: tuple[str, ...]
    table: str
    referred: tuple[str, ...] = ()
    origin: Origin = "declared"
    evidence: str = ""
    stored: str = ""  # the column of row numbers, where the key shares `columns` with another

    @property
    def column(self) -> str:
        """The single column that holds the row number of the parent in gelgt's files."""
        return self.stored or key_column(self.columns)


@dataclass(frozen=True)
class TimeColumn:
    """The column that says since when a row exists."""

    column: str
    origin: Origin = "declared"
    evidence: str = ""


DatingRule = Literal["keys", "named", "unknown"]


@dataclass(frozen=True)
class Dating:
    """When the rows of a table without a time column become visible.

    Attributes:
        keys: Columns of the foreign keys that date a row: it is as new as the newest row that it
            names. Without any, the rows are always visible.
        pointers: Columns of foreign keys that a model does not follow, because they are filled or
            changed after the row came to be (`users.last_order_id`): their values of today are
            about the future of a seed.
        required: Groups of `keys`. A row that names no row by any key of a group is never visible:
            without its order, a line must not be dated by its older product.
        rule: ``keys``; ``named``: a row exists from the first timed row that names it;
            ``unknown``: nothing says when, so the table is left out of the model.
        doubt: Why labels over the rows are refused: there are two readings of their times.
    """

    keys: tuple[str, ...] = ()
    pointers: tuple[str, ...] = ()
    origin: Origin = "inferred"
    evidence: str = ""
    required: tuple[tuple[str, ...], ...] = ()
    rule: DatingRule = "keys"
    doubt: str = ""


Rest = bool | float | int | str | None


@dataclass(frozen=True)
class EventDate:
    """A date inside a row that a model does not know before it happens, such as
    `orders.cancelled_at`.

    Attributes:
        column: The column of the date. Before the date, a model reads it as missing.
        filled: Columns that are filled along with it (`cancel_reason`), each with its value before
            the date: what it holds where the date is missing.
    """

    column: str
    filled: Mapping[str, Rest] = field(default_factory=dict)
    origin: Origin = "inferred"
    evidence: str = ""

    @property
    def masked(self) -> dict[str, Rest]:
        """The columns that are unknown before the date, with their values before."""
        return {self.column: None, **self.filled}


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
    # name -> int64|float64|bool|string|timestamp|list
    columns: Mapping[str, str] = field(default_factory=dict)
    primary_key: PrimaryKey | None = None
    time_column: TimeColumn | None = None
    foreign_keys: tuple[ForeignKey, ...] = ()
    # feature columns only, never keys
    kinds: Mapping[str, ColumnKind] = field(default_factory=dict)
    # None while nothing is stated or inferred; beside a time column it only names pointers
    dating: Dating | None = None
    # None while nothing is stated or inferred
    event_dates: tuple[EventDate, ...] | None = None

    @property
    def pkey(self) -> str | None:
        """Name of the column that numbers the rows 0…n-1 in gelgt's files."""
        return key_column(self.primary_key.columns) if self.primary_key else None

    @property
    def time_col(self) -> str | None:
        return self.time_column.column if self.time_column else None

    @property
    def dating_keys(self) -> tuple[ForeignKey, ...]:
        """The foreign keys whose rows date this table's; none where it has a time column or is
        always visible."""
        if self.time_column is not None or self.dating is None:
            return ()
        return tuple(fk for fk in self.foreign_keys if fk.column in self.dating.keys)

    @property
    def has_time(self) -> bool:
        """Whether rows become visible at some time: by a time column, by the rows that they name,
        or by those that name them. The rows of a table that is left out never do."""
        return self.time_column is not None or self.is_dated

    @property
    def is_dated(self) -> bool:
        """Whether other rows say since when the rows of this table exist, or nothing does."""
        dating = self.dating
        has_rule = dating is not None and (bool(dating.keys) or dating.rule != "keys")
        return has_rule and self.time_column is None

    @property
    def is_left_out(self) -> bool:
        """Whether nothing says since when the rows exist, so that no model sees them."""
        return self.time_column is None and self._rule == "unknown"

    @property
    def is_named_first(self) -> bool:
        """Whether each row exists from the first timed row that names it."""
        return self.time_column is None and self._rule == "named"

    @property
    def _rule(self) -> DatingRule:
        return "keys" if self.dating is None else self.dating.rule

    @property
    def pointers(self) -> frozenset[str]:
        """Columns of foreign keys that a model does not follow."""
        return frozenset() if self.dating is None else frozenset(self.dating.pointers)

    @property
    def key_columns(self) -> set[str]:
        """Columns that hold row numbers and are therefore never features."""
        columns = {fk.column for fk in self.foreign_keys}
        return columns | {self.pkey} if self.pkey else columns


@dataclass(frozen=True)
class DatabaseSchema:
    """All tables of a database and its split times (ISO text, UTC)."""

    name: str
    tables: Mapping[str, TableSchema]
    val_timestamp: str | None = None
    test_timestamp: str | None = None
    split_origin: Origin = "declared"
    description: str = ""
    inferred_until: str | None = None  # rows up to then decided what is inferred

    @property
    def is_relbench(self) -> bool:
        """Whether the rows are read as RelBench reads them: those of a folder that gelgt did not
        import."""
        return self.inferred_until is None


@dataclass(frozen=True)
class Finding:
    """Something a user should know about the data before trusting a prediction.

    Attributes:
        code: What it is, such as ``dangling_key``; its severity follows from it (`severity.py`).
        count: Rows, or values, that it is about.
        message: The evidence, in words.
        severity: Where it differs from that of the code.
        repair: What a ``--schema`` file would state to answer it; None where nothing can be stated.
    """

    code: str
    table: str
    column: str | None = None
    count: int | None = None
    message: str = ""
    severity: Severity = ""  # type: ignore[assignment]
    repair: Mapping[str, Any] | None = field(default=None, hash=False)

    def __post_init__(self) -> None:
        if not self.severity:
            object.__setattr__(self, "severity", severity_of(self.code))

    @property
    def place(self) -> str:
        """The column, or the table, that it is about."""
        return self.table if self.column is None else f"{self.table}.{self.column}"

    @property
    def handle(self) -> str:
        """What `gelgt train --accept` calls it."""
        return f"{self.code}:{self.place}"

    def to_dict(self) -> dict[str, Any]:
        return {
            "code": self.code,
            "severity": self.severity,
            "table": self.table,
            "column": self.column,
            "count": self.count,
            "message": self.message,
            "repair": self.repair,
        }


def dated_text(schema: DatabaseSchema, table: TableSchema) -> str:
    """What dates the rows of a table, down to the time columns: ``orders.placed_at``, or
    ``order_items (orders.placed_at)``."""
    names = []
    for fk in table.dating_keys:
        parent = schema.tables[fk.table]
        names.append(
            f"{fk.table}.{parent.time_col}"
            if parent.time_col
            else f"{fk.table} ({dated_text(schema, parent)})"
        )
    return " and ".join(dict.fromkeys(names))


def key_column(columns: tuple[str, ...]) -> str:
    """The column of row numbers of a key, named after its columns."""
    return "+".join(columns)
