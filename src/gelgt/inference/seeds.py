"""Whom to predict for, and when: from the user's keys and times to rows and seconds.

    entities=[42, 57], at="2026-11-01"      these, then
    entities=None, at=None                  everyone whom the task is about, now
    frame=…                                 (key, time) row by row, in its own order

Everything is checked here, before anything is computed.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gelgt.errors import GelgtError, TaskError, some
from gelgt.graph import NEVER, TIMELESS, Graph
from gelgt.sources.database import Database
from gelgt.tasks import predict
from gelgt.tasks.events import newest_event
from gelgt.tasks.frame import is_frame, read_frame
from gelgt.tasks.keys import key_names, row_numbers
from gelgt.tasks.population import existing, population
from gelgt.tasks.task import Definition
from gelgt.tasks.times import time_text, timestamp

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
        (timestamp(at, "prediction time"), []) if at is not None else _default_time(db, task)
    )
    second = int(np.datetime64(moment, "s").astype(np.int64))
    if entities is None:
        rows = population(task, db, moment)
        rows = rows[graph.node_time[graph.nodes(task.entity_table, rows)] != NEVER]
        notices += _about_future(db, task)
        if len(rows) == 0:
            raise GelgtError(
                "no_entities",
                f"At {time_text(moment)} there is no row of '{task.entity_table}' to predict for.",
                hint="Ask for a later time.",
            )
    else:
        rows = find_rows(db, task.entity_table, entities)
    times = np.broadcast_to(np.int64(second), len(rows))
    if entities is not None:
        _check_there(db, graph, task, rows, times)
    return SeedRows(rows, times, tuple(notices))


def find_rows(db: Database, table: str, entities: Any) -> NDArray[np.int64]:
    """Row numbers of the user's keys, in their order; a key may come several times.

    Raises:
        GelgtError: ``unknown_keys``, with a list of them.
    """
    names = key_names(db, table)
    parts = _key_parts(entities, names, table)
    keys = db.keys(table)
    types = [pa.int64()] if keys is None else [keys.schema.field(name).type for name in names]
    columns = [_key_column(values, kind, table) for values, kind in zip(parts, types)]
    try:
        return row_numbers(db, table, columns)
    except TaskError as error:
        raise _unknown(error) from None


def _key_parts(entities: Any, names: list[str], table: str) -> list[list[Any]]:
    """The values of each part of some keys."""
    if isinstance(entities, (str, bytes, Mapping)) or not isinstance(entities, Iterable):
        entities = [entities]  # one key
    values = (
        entities.to_pylist()
        if isinstance(entities, (pa.Array, pa.ChunkedArray))
        else list(entities)
    )
    if not values:
        raise GelgtError(
            "no_entities",
            "The list of entities is empty.",
            hint=f"Give keys of '{table}', or ask for all of them.",
        )
    if len(names) == 1:
        return [[_single(value, names[0]) for value in values]]
    found: list[list[Any]] = [[] for _ in names]
    for value in values:
        parts = [value.get(name) for name in names] if isinstance(value, Mapping) else value
        if (
            isinstance(parts, (str, bytes))
            or not isinstance(parts, Sequence)
            or len(parts) != len(names)
        ):
            raise GelgtError(
                "bad_key",
                f"{value!r} is no key of '{table}', whose keys have {len(names)} parts: "
                f"{', '.join(names)}.",
                hint="Give tuples in this order, or mappings with these names.",
            )
        for column, part in zip(found, parts):
            column.append(_plain(part))
    return found


def _single(value: Any, name: str) -> Any:
    value = value.get(name) if isinstance(value, Mapping) else value
    return _plain(value[0] if isinstance(value, tuple) and len(value) == 1 else value)


def _plain(value: Any) -> Any:
    """A Python value instead of a NumPy scalar."""
    return (
        value.item()
        if isinstance(value, np.generic) and not isinstance(value, np.datetime64)
        else value
    )


def _key_column(values: list[Any], kind: pa.DataType, table: str) -> pa.ChunkedArray:
    """Keys in the type of the table's own; a command line brings numbers as text."""
    if pa.types.is_integer(kind):
        numbers = [_whole(value) for value in values]
        bad = [value for value, number in zip(values, numbers) if number is None]
        if bad:
            count, shown = (
                f"{len(bad):,} {'key is' if len(bad) == 1 else 'keys are'}",
                some(dict.fromkeys(map(str, bad))),
            )
            raise GelgtError(
                "unknown_keys",
                f"{count} not in the table '{table}': {shown}.",
                hint="Its keys are whole numbers.",
            )
        return pa.chunked_array([pa.array(numbers, pa.int64())])
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pa.chunked_array([pa.array([None if v is None else str(v) for v in values], kind)])
    try:
        return pa.chunked_array([pa.array(values)])
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.chunked_array([pa.array([str(v) for v in values])])


def _whole(value: Any) -> int | None:
    try:
        number = int(value) if not isinstance(value, float) or value.is_integer() else None
    except (TypeError, ValueError, OverflowError):
        return None
    return (
        number
        if number is not None and -(2**63) <= number < 2**63 and not isinstance(value, bool)
        else None
    )


def _unknown(error: TaskError) -> GelgtError:
    if error.code != "unknown_key":
        return error
    return GelgtError(
        "unknown_keys",
        error.message,
        hint="Check the keys; rows that are new have to be in the source that is predicted on.",
    )


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
        raise _unknown(error) from None
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


def _default_time(db: Database, task: Definition) -> tuple["pd.Timestamp", list[str]]:
    """Now, or just after the newest row of the tables that the task is about where that lies more
    than one window back."""
    import pandas as pd

    now = pd.Timestamp.now("UTC").tz_localize(None).floor("s")
    newest = newest_event(db, task)
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
    own = graph.node_time[graph.nodes(task.entity_table, rows)]
    late = np.flatnonzero((own > times) & (own != TIMELESS))
    if len(late) == 0:
        return
    keys = db.keys(task.entity_table)
    few = rows[late[:1000]]
    shown = (
        few.tolist()
        if keys is None
        else list(zip(*(c.to_pylist() for c in keys.take(pa.array(few)).columns)))
    )
    listed = dict.fromkeys(
        key[0] if isinstance(key, tuple) and len(key) == 1 else key for key in shown
    )
    why = (
        "have no time"
        if own[late[0]] == NEVER
        else "do not exist yet at the time of their prediction"
    )
    raise GelgtError(
        "not_there_yet",
        f"{len(late):,} entities of '{task.entity_table}' {why}: {some(listed)}.",
        hint="Leave them out, or ask for a later time.",
    )
