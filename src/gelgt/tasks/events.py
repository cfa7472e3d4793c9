"""The events that labels are about, and when their records begin and end.

A window can only be labelled while its events are being recorded. Customers who signed up before
the first order on record did not do without orders, and a table of planned campaigns says nothing
about orders: so windows begin with the oldest row of the tables that are aggregated and end with
the newest, not with those of the database:

    sentence       the tables of its windows ahead, in the target and in WHERE; where there are
                   several, the one that ends first, and of those that are counted or summed the
                   one that begins last: of a window without a row the others give no label
    SQL            the timed tables that it reads, except the entity table; nothing says which of
                   them it aggregates, so the one that begins first and the one that ends last count
    autocomplete   the entity table
    otherwise      all tables (given labels, SQL over tables without times)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gelgt.errors import TaskError
from gelgt.tasks.engine import tables_read
from gelgt.tasks.predict import Plan, parse, plan_sentence
from gelgt.tasks.task import Definition
from gelgt.tasks.times import TimeRange, row_times, time_range, time_text

if TYPE_CHECKING:
    import pandas as pd

    from gelgt.sources.database import Database
    from gelgt.tasks.task import Task


@dataclass(frozen=True)
class Events:
    """The tables that a task's labels are about.

    Attributes:
        groups: Every window needs a row of one table in each group; empty where nothing says which
            tables labels are about.
        tables: The group that ends first, which is where windows end; all tables where it is empty.
        span: From the earliest to the latest row of these tables.
        first: The group that begins last, which is where windows begin, of those without whose
            rows there are labels; all tables where it is empty.
        began: Its earliest row.
    """

    groups: tuple[tuple[str, ...], ...]
    tables: tuple[str, ...]
    span: TimeRange
    first: tuple[str, ...]
    began: pd.Timestamp

    @property
    def latest(self) -> pd.Timestamp:
        return self.span.latest

    @property
    def latest_row(self) -> str:
        """In words, for messages."""
        return f"the latest row of {_names(self.tables)}" if self.tables else "the latest row"

    @property
    def earliest_row(self) -> str:
        """In words, for messages."""
        return f"the earliest row of {_names(self.first)}" if self.first else "the earliest row"


def find_events(
    db: Database, task: Definition, plan: Plan | None = None, *, is_relbench: bool = False
) -> Events:
    """The events of a task on a database.

    Args:
        db: The database.
        task: The definition.
        plan: The plan of its sentence; made here where it is not given.
        is_relbench: Windows begin and end with the database, as in RelBench, whatever the labels
            are about.

    Raises:
        TaskError: no row has a time.
    """
    plan = plan or _plan(db, task)
    groups, whole = event_groups(db, task, plan), time_range(db)
    if is_relbench or not groups:
        return Events(groups, (), whole, (), whole.earliest)
    spans = {group: time_range(db, tables=group) for group in groups}
    last = min(groups, key=lambda group: spans[group].latest)
    counted = groups if plan is None else [(table,) for table in plan.counted_tables]
    first = max(counted, key=lambda group: spans[group].earliest, default=())
    began = spans[first].earliest if first else whole.earliest
    return Events(groups, last, spans[last], first, began)


def event_groups(
    db: Database, task: Definition, plan: Plan | None = None
) -> tuple[tuple[str, ...], ...]:
    """Groups of tables: a window that has no row of some group holds no event."""
    if task.kind == "autocomplete":
        return ((task.entity_table,),) if db.table(task.entity_table).time_col else ()
    plan = plan or _plan(db, task)
    if plan is not None:
        return tuple((table,) for table in plan.event_tables)
    read = tables_read(db, task.sql, task.timedelta) if task.sql is not None else []
    timed = [name for name in read if db.table(name).time_col]
    events = [name for name in timed if name != task.entity_table] or timed
    return (tuple(events),) if events else ()


def _plan(db: Database, task: Definition) -> Plan | None:
    """The plan of its sentence; None for other tasks."""
    if task.kind != "forecast" or task.sentence is None:
        return None
    return plan_sentence(db, parse(task.sentence))


def event_notices(db: Database, events: Events, window: pd.Timedelta) -> Iterator[str]:
    """Notices where windows begin after the database does or end before it, and about times that
    cannot be real."""
    if events.span.strays:
        rows = f"{events.span.strays:,} row{'s' * (events.span.strays > 1)}"
        yield f"{rows} far after {time_text(events.latest)} cannot be real times: windows end there"
    # nothing says which of the tables that SQL reads it aggregates
    for name in events.tables if len(events.tables) > 1 else ():
        times = _times(db, name)
        end = times[-1] if len(times) else events.span.earliest
        if events.latest - end >= window:
            yield (
                f"'{name}' ends at {time_text(end)}, windows at {time_text(events.latest)}: if "
                "labels are about it, give earlier times"
            )
    whole = time_range(db)
    if events.began - whole.earliest >= window:
        yield (
            f"windows begin at {time_text(events.began)}, {events.earliest_row}; other tables go "
            f"back to {time_text(whole.earliest)}"
        )
    if events.tables and whole.latest - events.latest >= window:
        yield (
            f"windows end at {time_text(events.latest)}, {events.latest_row}; other tables go "
            f"on to {time_text(whole.latest)}"
        )


def empty_windows(task: Task, groups: Sequence[Sequence[str]]) -> Iterator[str]:
    """Notices of how many windows of validation and test have labels, but hold no row that these
    could be about."""
    if task.time_col is None or task.timedelta is None:
        return
    window = np.timedelta64(task.timedelta, "us")
    rows = {table: _times(task.database, table) for group in groups for table in group}
    for split in ("val", "test"):
        times = task.table(split).column(task.time_col).to_numpy().astype("datetime64[us]")
        seeds = np.unique(times)
        for group in groups:
            empty = int(np.count_nonzero(~_has_row(seeds, window, group, rows)))
            if empty:
                yield (
                    f"{split}: {empty:,} of {len(seeds):,} windows hold no row of "
                    f"{_names(group)}; their labels say so"
                )


def _has_row(
    seeds: np.ndarray[Any, Any],
    window: np.timedelta64,
    group: Sequence[str],
    rows: Mapping[str, Any],
) -> Any:
    """(S,) whether a row of one of the tables lies in (t, t + window]."""
    counts = [
        np.searchsorted(rows[t], seeds + window, "right") - np.searchsorted(rows[t], seeds, "right")
        for t in group
    ]
    return np.sum(counts, axis=0) > 0


def _times(db: Database, table: str) -> np.ndarray[Any, Any]:
    batches = [np.zeros(0, np.int64), *row_times(db, table)]
    return np.sort(np.concatenate(batches)).astype("datetime64[us]")


def _names(tables: Sequence[str]) -> str:
    return " or ".join(f"'{name}'" for name in tables)


def newest_event(db: Database, task: Definition) -> pd.Timestamp | None:
    """The newest row of the tables that a task is about, of all tables where they have none; None
    where no row has a time."""
    try:
        return find_events(db, task).latest
    except TaskError:
        pass
    try:
        return time_range(db).latest
    except TaskError:
        return None
