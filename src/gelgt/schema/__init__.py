"""Keys, time columns and column kinds: read, inferred, checked, drawn."""

from gelgt.schema.model import (
    KINDS,
    ColumnKind,
    DatabaseSchema,
    Finding,
    ForeignKey,
    PrimaryKey,
    TableSchema,
    TimeColumn,
)

__all__ = [
    "KINDS",
    "ColumnKind",
    "DatabaseSchema",
    "Finding",
    "ForeignKey",
    "PrimaryKey",
    "TableSchema",
    "TimeColumn",
]
