"""Whom to predict for, and when: from the user's keys and times to rows and seconds.

    entities=[42, 57], at="2026-11-01"      these, then
    entities=None, at=None                  everyone whom the task is about, now
    frame=…                                 (key, time) row by row, in its own order

Everything is checked here, before anything is computed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gelgt.errors import GelgtError, TaskError, some
from gelgt.graph import NEVER, Graph
from gelgt.inference.keys import find_rows, unknown_keys
from gelgt.sources.database import Database
from gelgt.sources.row_times import is_there
from gelgt.tasks import predict
from gelgt.tasks.events import newest_event
from gelgt.tasks.frame import is_frame, read_frame
from gelgt.tasks.keys import key_names
from gelgt.tasks.population import existing, population
from gelgt.tasks.task import Definition
from gelgt.tasks.times import seconds, time_text, timestamp

if TYPE_CHECKING:
    import pandas as pd

POSITION = "gelgt position"  # a frame's own order, on its way through `read_frame`


@dataclass(frozen=True)
class SeedRows:
    """S rows of the entity table, each with its seed time.

    Attributes:
        rows: (S,) row numbers.
        times: (S,) seconds since 1970.
        notices: What the user should know about the choice.
    """

    rows: NDArray[np.int64]
    times: NDArray[np.int64]
    notices: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.rows)


def choose_seeds(
    db: Database,
    graph: Graph,
    task: Definition,
    entities: Any = None,
    at: Any = None,
    frame: Any = None,
) -> SeedRows:
    """The rows and times that a user asks for.

    Args:
        db: The database.
        graph: Its graph.
        task: What is predicted.
        entities: Keys of the entity table (tuples or mappings where a key has several parts); None
            means everyone whom the task is about at that time.
        at: The time; by default now, and just after the newest row of the tables that the task is
            about where that lies more than one window back. The rows of an autocomplete task have
            times of their own, which count by default.
        frame: A pandas or Arrow table with the key columns and a time column, instead of `entities`
            and `at`.

    Raises:
        GelgtError: ``unknown_keys``, ``not_there_yet``, ``bad_time``, …
    """
    if frame is not None:
        if entities is not None or at is not None:
            raise GelgtError(
                "bad_option",
                "A frame brings its own entities and times.",
                hint="Leave out entities and at.",
            )
        return _from_frame(db, graph, task, frame)
    if is_frame(entities):
        raise GelgtError(
            "bad_option",
            "A frame was given as entities.",
            hint="Pass it as frame=…, or one of its columns as entities.",
        )
    if at is None and task.kind == "autocomplete":
        return _at_own_times(db, graph, task, entities)
    moment, notices = (
        (timestamp(at, "prediction time"), [])
        if at is not None
        else default_time(task, newest_event(db, task))
    )
    second = seconds(moment)
    if entities is None:
        rows = population(task, db, moment)
        created = graph.node_time[graph.nodes(task.entity_table, rows)]
        is_dated = (created != NEVER) | db.table(task.entity_table).is_named_first
        rows = rows[is_dated]
        notices += _about_future(db, task)
        if len(rows) == 0:
            raise GelgtError(
                "no_entities",
                f"At {time_text(moment)} there is no row of '{task.entity_table}' to predict for.",
                hint="Ask for a later time.",
            )
        return SeedRows(rows, np.broadcast_to(np.int64(second), len(rows)), tuple(notices))
    rows = find_rows(db, task.entity_table, entities)
    times = np.broadcast_to(np.int64(second), len(rows))
    _check_there(db, graph, task, rows, times)
    return SeedRows(rows, times, tuple(notices))


def named_seeds(
    db: Database,
    graph: Graph,
    task: Definition,
    entities: Sequence[Any],
    times: Sequence[int | None],
) -> SeedRows:
    """Keys of the entity table, each at a time of its own in seconds since 1970; None is the time
    of the row itself.

    Raises:
        GelgtError: ``unknown_keys``, ``not_there_yet``, …
    """
    rows = find_rows(db, task.entity_table, entities)
    own = np.asarray(graph.node_time[graph.nodes(task.entity_table, rows)])
    chosen = np.array([o if t is None else t for o, t in zip(own, times)], np.int64)
    _check_there(db, graph, task, rows, chosen)
    return SeedRows(rows, chosen)


def _from_frame(db: Database, graph: Graph, task: Definition, frame: Any) -> SeedRows:
    data = frame if isinstance(frame, pa.Table) else _arrow(frame)
    if data.num_rows == 0:
        raise GelgtError("no_entities", "The frame has no rows.", hint="Give rows of (key, time).")
    named = next((name for name in ("time", task.time_col) if name in data.column_names), None)
    keys = key_names(db, task.entity_table)
    if named in keys:
        named = None
    wanted = [*keys, *([named] if named else [n for n in data.column_names if n not in keys])]
    missing = [name for name in keys if name not in data.column_names]
    data = data.select([name for name in wanted if name not in missing]).append_column(
        POSITION, pa.array(np.arange(data.num_rows))
    )
    try:
        read = read_frame(db, data, task.entity_table, None, named, POSITION).rows
    except TaskError as error:
        raise unknown_keys(error) from None
    order = np.argsort(read.column("target").to_numpy())  # back to the frame's own order
    rows = read.column("entity").to_numpy()[order]
    times = read.column("time").cast(pa.int64()).to_numpy()[order] // 1_000_000
    _check_there(db, graph, task, rows, times)
    return SeedRows(rows, times)


def _arrow(frame: Any) -> pa.Table:
    if hasattr(frame, "reset_index") and any(name is not None for name in frame.index.names):
        frame = frame.reset_index()
    try:
        return (
            pa.Table.from_pandas(frame, preserve_index=False)
            if hasattr(frame, "iloc")
            else pa.table(frame)
        )
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, ValueError) as error:
        raise GelgtError(
            "bad_frame",
            f"The frame cannot be read: {error}.",
            hint="Give a pandas or Arrow table of (key, time).",
        ) from None


def _at_own_times(db: Database, graph: Graph, task: Definition, entities: Any) -> SeedRows:
    """Rows of an autocomplete task, each at its own time."""
    far = np.datetime64("9999-12-31", "us")
    rows = (
        existing(db, task.entity_table, far)
        if entities is None
        else find_rows(db, task.entity_table, entities)
    )
    times = np.asarray(graph.node_time[graph.nodes(task.entity_table, rows)])
    if entities is None:
        rows, times = rows[times != NEVER], times[times != NEVER]
    _check_there(db, graph, task, rows, times)
    return SeedRows(rows, times)


def default_time(
    task: Definition, newest: "pd.Timestamp | None"
) -> tuple["pd.Timestamp", list[str]]:
    """Now, or just after the newest row of the tables that the task is about where that lies more
    than one window back; and what there is to say about that."""
    import pandas as pd

    now = pd.Timestamp.now("UTC").tz_localize(None).floor("s")
    if newest is None or now <= newest + (task.timedelta or pd.Timedelta(0)):
        return now, []
    at = newest.floor("s") + pd.Timedelta(seconds=1)
    return at, [
        f"The newest row is from {time_text(newest)}, so predictions are made for {at}, just "
        "after it; give a time for another."
    ]


def _about_future(db: Database, task: Definition) -> list[str]:
    if (
        task.sentence is None
        or not predict.plan_sentence(db, predict.parse(task.sentence)).has_future_condition
    ):
        return []
    return ["The condition on the future cannot be known and is left out."]


def _check_there(
    db: Database, graph: Graph, task: Definition, rows: NDArray[np.int64], times: NDArray[np.int64]
) -> None:
    """Whether every entity exists at its seed time."""
    created = graph.node_time[graph.nodes(task.entity_table, rows)]
    late = np.flatnonzero(~is_there(db.table(task.entity_table), created, times))
    if len(late) == 0:
        return
    few = rows[late[:1000]]
    keys = db.keys_of(task.entity_table, few)
    shown = few.tolist() if keys is None else list(zip(*(c.to_pylist() for c in keys.columns)))
    listed = dict.fromkeys(
        key[0] if isinstance(key, tuple) and len(key) == 1 else key for key in shown
    )
    is_one, has_time = len(late) == 1, created[late[0]] != NEVER
    what = (
        f"1 entity of '{task.entity_table}' {'does not exist yet' if has_time else 'has no time'}"
        if is_one
        else f"{len(late):,} entities of '{task.entity_table}' "
        f"{'do not exist yet' if has_time else 'have no time'}"
    )
    when = f" at the time of {'its' if is_one else 'their'} prediction" if has_time else ""
    raise GelgtError(
        "not_there_yet",
        f"{what}{when}: {some(listed)}.",
        hint=f"Leave {'it' if is_one else 'them'} out, or ask for a later time.",
    )
