"""Eligible entities: those that a task predicts for at a given time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from gelgt.sources.row_times import NEVER, RowTimes, instant
from gelgt.tasks import predict
from gelgt.tasks.times import time_range, timestamp

if TYPE_CHECKING:
    from gelgt.sources.database import Database
    from gelgt.tasks.task import Definition

Rows = np.ndarray[Any, np.dtype[np.int64]]


def population(task: Definition, db: Database, at: Any) -> Rows:
    """Row numbers of the eligible entities at a time, ascending: they exist and fulfil the
    sentence's conditions on the entity and the past."""
    time = np.datetime64(timestamp(at, "prediction time"), "us")
    sql = population_sql(task, db)
    if sql is None:
        return existing(db, task.entity_table, time)
    from gelgt.tasks.engine import engine

    numbered = task.entity_table if db.table(task.entity_table).pkey is None else None
    with engine(db, None, numbered) as run:
        run.run(sql, np.array([time]))
        batches = list(run.batches({"entity": "CAST(entity AS BIGINT)"}, "entity IS NOT NULL"))
    table = pa.Table.from_batches(batches, pa.schema([("entity", pa.int64())]))
    rows: Rows = table.column(0).to_numpy()
    return np.sort(rows)


def population_sql(task: Definition, db: Database) -> str | None:
    """The SQL for a sentence with conditions; None where every entity that exists at the time is
    eligible.

    It is compiled for the database at hand: the row numbers of keys that the sentence names may
    differ from those of the database that the task was made from.
    """
    if task.sentence is None:
        return None
    sentence = predict.parse(task.sentence)
    if sentence.where is None:
        return None
    return predict.population_sql(predict.plan_sentence(db, sentence))


def existing(db: Database, table: str, time: np.datetime64) -> Rows:
    """Rows that exist at `time`, by their time column or by the rows that date them; all rows of a
    table that is always visible, or whose rows exist from the first that names them where `time` is
    not before the newest of these."""
    if not db.table(table).has_time:
        return np.arange(db.num_rows(table), dtype=np.int64)
    times, moment = RowTimes(db).of(table), instant(time)
    exists = (times <= moment) & (times != NEVER)
    if db.table(table).is_named_first and _newest_naming(db, table) <= time:
        exists |= times == NEVER  # no row names it so far, but it is there
    return np.flatnonzero(exists).astype(np.int64)


def _newest_naming(db: Database, table: str) -> np.datetime64:
    """The time of the newest row that names rows of a table."""
    names = [
        other.name
        for other in db.schema.tables.values()
        if other.time_col and any(fk.table == table for fk in other.foreign_keys)
    ]
    return np.datetime64(time_range(db, None, names).latest, "us")
