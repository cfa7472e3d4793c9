"""What every source gives to the importer: tables as streams of Arrow batches, with the keys that
the source declares."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import NoReturn, Protocol, Self, runtime_checkable

import pyarrow as pa

from gelgt.schema.model import Finding, ForeignKey, Origin
from gelgt.sources.state import SourceState


@dataclass(frozen=True)
class RawTable:
    """One table of a source, not yet read.

    Attributes:
        columns: Arrow types of the columns that `batches` yields, in order.
        batches: Starts a fresh stream of the rows.
        is_text: The source has no types (CSV): all columns are strings, whose types are inferred.
        time_columns: Columns that the source declares to be dates or times although they arrive as
            text or numbers.
        partitions: Columns that the names of folders give.
        is_view: Its rows may depend on more than the database, such as the time or other files.
    """

    name: str
    columns: Mapping[str, pa.DataType]
    batches: Callable[[], Iterator[pa.RecordBatch]]
    primary_key: tuple[str, ...] = ()
    foreign_keys: tuple[ForeignKey, ...] = ()
    is_text: bool = False
    time_columns: frozenset[str] = frozenset()
    partitions: frozenset[str] = frozenset()
    findings: tuple[Finding, ...] = field(default=())
    is_view: bool = False


def elsewhere() -> NoReturn:
    """In place of the rows of a table that another process reads."""
    raise AssertionError


@dataclass(frozen=True)
class Splits:
    """Times of the whole source, as ISO text: validation and test, and up to when rows decide what
    is inferred."""

    times: tuple[str | None, str | None] | None
    origin: Origin
    inferred_until: str | None = None


class StaticSource:
    """A source that has nothing to connect to or to close."""

    splits: Splits | None = None
    namespace: str | None = None
    has_snapshot = False

    def state(self) -> SourceState | None:
        return None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        return None


class Source(Protocol):
    """A source: entered, it gives its tables."""

    address: str  # as the user gave it, without a password
    name: str
    namespace: str | None  # the schema of a SQL database
    splits: "Splits | None"  # split times, where the source names them
    has_snapshot: bool  # all tables are read in one state, however much is written meanwhile

    def tables(self, only: Sequence[str] | None = None) -> list[RawTable]:
        """The tables that can be read; a view only if `only` names it. A table without columns is
        left out of the import, with its findings."""
        ...

    def table_names(self) -> list[str]:
        """The tables that `tables` gives without `only`."""
        ...

    def state(self) -> SourceState | None:
        """What tells whether the source has changed, entered or not; None where nothing does."""
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


@runtime_checkable
class Sized(Protocol):
    """A source that knows how large it is, before it is entered."""

    def size(self) -> int:
        """Bytes, about."""
        ...


@runtime_checkable
class Shared(Sized, Protocol):
    """A source of which several processes can read one state (processes.py)."""

    def share(self) -> Source | None:
        """A source that can be sent to another process and read there what this one, which is
        entered, reads here; None where one process is as fast as several."""
        ...

    def is_shared(self) -> bool:
        """Whether that is so; asked when the others have entered theirs."""
        ...

    def batches(self, table: RawTable) -> Iterator[pa.RecordBatch]:
        """The rows of a table that `tables` gave in another process."""
        ...
