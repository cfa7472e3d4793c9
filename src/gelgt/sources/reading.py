"""Reads the tables of a source to disk in one state, and what tells later if it has changed."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

from gelgt.errors import GelgtError, SourceError, did_you_mean
from gelgt.schema.model import Finding
from gelgt.sources.canonical import canonical_type
from gelgt.sources.check import check_names
from gelgt.sources.processes import Processes
from gelgt.sources.raw import RawTable, Source, elsewhere
from gelgt.sources.resolve import Stated, check_stated, stated_kinds
from gelgt.sources.stage import StagedTable, stage_table
from gelgt.sources.state import SourceState
from gelgt.sources.unchanged import Counted, Watch

_NO_COLUMNS = "it has no columns that can be read: it is left out"


@runtime_checkable
class Appended(Protocol):
    """A source that can tell by itself which rows are new."""

    def mark(self, tables: Mapping[str, RawTable]) -> Any:
        """What to remember of the present rows, as JSON; None where it would not help."""
        ...

    def appended(self, tables: Mapping[str, RawTable], mark: Any) -> dict[str, RawTable]:
        """The tables of which it is certain that all older rows are as they were, with nothing but
        the rows that came since."""
        ...


class Reading(NamedTuple):
    """The rows of a source on disk, before they are ordered."""

    tables: dict[str, StagedTable]
    left_out: list[Finding]  # about tables of which no column can be read
    unread: tuple[str, ...]
    state: SourceState | None  # that they were read in, where it is certain
    census: dict[str, Any] | None
    mark: Any  # see `Appended`


def read_source(
    source: Source,
    watch: Watch,
    only: list[str] | None,
    stage: Callable[[dict[str, RawTable]], dict[str, StagedTable]],
    processes: Processes | None = None,
) -> Reading:
    """Enter a source and put its tables on disk by `stage`; `processes`, where they are worth it,
    enter it too.

    Raises:
        SourceError: ``source_changed`` where it has no snapshot and changed meanwhile, and others.
    """
    if processes is not None:
        processes.start_for(source)  # before: it takes longer than to enter a source
        if source.has_snapshot:  # of which others should see the same, soon after
            processes.are_ready()
    with source:
        try:
            if processes is not None:
                processes.open(source)
            raw, left_out = _raw_tables(source, only, processes)
            mark = source.mark(raw) if isinstance(source, Appended) else None
            tables = stage(raw)
        except (GelgtError, OSError):
            watch.confirm()
            raise
        state = watch.state if watch.confirm() else None
        census = None
        if any(table.is_view for table in raw.values()):
            state = None
        elif isinstance(source, Counted) and (census := source.census(raw)) is not None:
            state = source.state()  # of the transaction that has read the rows
        return Reading(tables, left_out, unread_tables(source, only), state, census, mark)


def unread_tables(source: Source, only: list[str] | None) -> tuple[str, ...]:
    """The tables of a source that were not asked for."""
    return () if only is None else tuple(n for n in source.table_names() if n not in only)


def stage_tables(
    raw: Mapping[str, RawTable], work: Path, stated: Stated, processes: Processes
) -> dict[str, StagedTable]:
    """All rows of all tables on disk."""
    check_names({name: table.columns for name, table in raw.items()})
    check_stated(stated, {name: table.columns for name, table in raw.items()})
    kinds = {name: {c: k.kind for c, k in stated_kinds(stated, name).items()} for name in raw}
    numbered = list(enumerate(raw.items()))
    if processes.has_source:
        return processes.run(
            {
                name: ("stage", replace(table, batches=elsewhere), work, i, kinds[name])
                for i, (name, table) in numbered
            }
        )
    return {name: stage_table(table, work, i, kinds[name]) for i, (name, table) in numbered}


def _described(
    source: Source, only: list[str] | None, processes: Processes | None
) -> Iterable[RawTable]:
    """The tables of a source; by several processes where types show in the rows alone."""
    has_help = processes is not None and processes.has_source
    if not has_help or not getattr(source, "has_types_in_rows", False):
        return source.tables(only)
    assert processes is not None
    names = source.table_names() if only is None else only
    return processes.run({name: ("describe", name) for name in names}).values()


def _raw_tables(
    source: Source, only: list[str] | None, processes: Processes | None
) -> tuple[dict[str, RawTable], list[Finding]]:
    """The tables to read, and findings about those that are left out because none of their columns
    can be read."""
    found = _described(source, only, processes)
    raw = {table.name: table for table in sorted(found, key=lambda t: t.name)}
    if only is not None:
        for name in only:
            if name not in raw:
                raise SourceError(
                    "unknown_table",
                    f"{source.address} has no table '{name}'.",
                    hint=did_you_mean(name, raw),
                )
        raw = {name: table for name, table in raw.items() if name in only}
    left_out = [
        f
        for t in raw.values()
        if not _has_readable(t)
        for f in t.findings or (Finding("no_columns", t.name, message=_NO_COLUMNS),)
    ]
    if (only is not None and left_out) or len({f.table for f in left_out}) == len(raw):
        raise SourceError(
            left_out[0].code,
            f"{source.address}: table '{left_out[0].table}': {left_out[0].message}.",
            hint="Read other tables.",
        )
    return {name: table for name, table in raw.items() if _has_readable(table)}, left_out


def _has_readable(table: RawTable) -> bool:
    """Whether a table has columns, and not of bytes alone."""
    return any(canonical_type(arrow) is not None for arrow in table.columns.values())
