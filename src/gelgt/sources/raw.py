"""What every source gives to the importer: tables as streams of Arrow batches, with the keys that
the source declares."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol, Self

import pyarrow as pa

from gelgt.schema.model import Finding, ForeignKey, Origin


@dataclass(frozen=True)
class RawTable:
    """One table of a source, not yet read.

    Attributes:
        columns: Arrow types of the columns that `batches` yields, in order.
        batches: Starts a fresh stream of the rows.
        is_text: The source has no types (CSV): all columns are strings, whose types are inferred.
        time_columns: Columns that the source declares to be dates or times although they arrive as
            text or numbers.
    """

    name: str
    columns: Mapping[str, pa.DataType]
    batches: Callable[[], Iterator[pa.RecordBatch]]
    primary_key: tuple[str, ...] = ()
    foreign_keys: tuple[ForeignKey, ...] = ()
    is_text: bool = False
    time_columns: frozenset[str] = frozenset()
    findings: tuple[Finding, ...] = field(default=())


@dataclass(frozen=True)
class Splits:
    """Validation and test times as ISO text."""

    times: tuple[str | None, str | None]
    origin: Origin


class StaticSource:
    """A source that has nothing to connect to or to close."""

    splits: Splits | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        return None


class Source(Protocol):
    """An opened source. Its tables are read inside one consistent, read-only view of the data."""

    address: str  # as the user gave it, without a password
    name: str
    splits: "Splits | None"  # split times, where the source names them

    def tables(self, only: Sequence[str] | None = None) -> list[RawTable]:
        """The tables that can be read; a view only if `only` names it. A table without columns is
        left out of the import, with its findings."""
        ...

    def content_key(self) -> str | None:
        """A hash of the content if it is cheaper than reading the rows, else None."""
        ...

    def __enter__(self) -> "Source": ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...
