"""New tasks: from a PREDICT sentence, from SQL, or from a frame of labels."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gelgt.errors import GelgtError, TaskError, did_you_mean
from gelgt.tasks.build import TaskOptions, autocomplete, complete, forecast
from gelgt.tasks.frame import duplicate_notice, read_frame
from gelgt.tasks.frame_split import fitting_split, split_frame
from gelgt.tasks.labels import autocomplete_sql
from gelgt.tasks.population import existing
from gelgt.tasks.predict import Plan, label_sql, parse, plan_sentence
from gelgt.tasks.split import split_times
from gelgt.tasks.task import Definition, Task
from gelgt.tasks.times import duration

if TYPE_CHECKING:
    from gelgt.schema.model import TableSchema
    from gelgt.sources.database import Database


def from_sentence(db: Database, text: str, options: TaskOptions) -> Task:
    """The task that a PREDICT sentence defines."""
    plan = plan_sentence(db, parse(text))
    key = plan.binding.key
    task = Definition(
        name=options.name or _sentence_name(plan, text),
        kind="forecast" if plan.column is None else "autocomplete",
        entity_table=plan.entity.name,
        entity_col=key,
        target_col=options.target_col or "target",
        time_col=options.time_col or _name_unlike("timestamp", key),
        task_type=options.task_type or plan.task_type,
        remove_columns=_removed_columns(db, options.remove_columns),
        sentence=text,
    )
    if plan.column is None:
        return _forecast_of(db, task, plan, options)
    return _autocomplete_of(db, task, plan, plan.column, options)


def _forecast_of(db: Database, task: Definition, plan: Plan, options: TaskOptions) -> Task:
    import pandas as pd

    task = replace(task, timedelta=pd.Timedelta(seconds=plan.seconds))
    if plan.destination is not None:
        column, table = plan.destination
        task = replace(
            task,
            target_col=None,
            dst_entity_table=table,
            dst_entity_col=_name_unlike(column, task.entity_col),
            eval_k=options.eval_k,
        )
    return forecast(db, task, options, options.eval_timestamps, plan)


def _autocomplete_of(
    db: Database, task: Definition, plan: Plan, column: str, options: TaskOptions
) -> Task:
    hidden = dict.fromkeys([(plan.entity.name, column), *task.remove_columns])
    task = replace(
        task,
        target_col=column,
        time_col=plan.entity.time_col,
        remove_columns=tuple(hidden),
    )
    if plan.sentence.where is None:
        sql = autocomplete_sql(db, plan.entity.name, column)
    else:
        sql = label_sql(plan, (str(task.time_col), task.entity_col, column))
    return autocomplete(db, replace(task, sql=sql), sql, options, plan.is_category)


def from_sql(db: Database, sql: str, options: TaskOptions) -> Task:
    """The task of DuckDB SQL that gives (time, entity, target) for the relation `timestamps`."""
    missing = [name for name in ("timedelta", "entity") if getattr(options, name) is None]
    if missing:
        raise TaskError(
            "missing_option",
            f"A task from SQL needs {' and '.join(missing)}.",
            hint="Give timedelta='30 days' and entity='table.column'.",
        )
    table, column = _entity(db, options)
    from gelgt.tasks.engine import engine

    window = duration(options.timedelta)
    with engine(db) as run:
        types = run.run(sql, np.array([], dtype="datetime64[us]"), window)
    entity_col, time_col, target_col = _sql_columns(types, table, column, options)
    task = Definition(
        name=options.name or f"{table.name}-{target_col}-{_digest(sql)}",
        kind="forecast",
        entity_table=table.name,
        entity_col=entity_col,
        target_col=target_col,
        time_col=time_col,
        task_type=options.task_type,
        timedelta=window,
        sql=sql,
        remove_columns=_removed_columns(db, options.remove_columns),
    )
    return forecast(db, task, options, options.eval_timestamps)


def _sql_columns(
    types: Mapping[str, str], table: TableSchema, column: str | None, options: TaskOptions
) -> tuple[str, str, str]:
    """The entity, time and target columns among the columns of a result and their types."""
    columns = list(types)
    entity_col = column or next((c for c in columns if c == table.pkey), None)
    if entity_col is None or entity_col not in columns:
        raise TaskError(
            "unknown_column",
            f"The label SQL returns no column '{entity_col or table.pkey}' (entity).",
            hint=did_you_mean(str(entity_col or table.pkey), columns),
        )
    times = [c for c, kind in types.items() if kind.startswith("TIMESTAMP") or kind == "DATE"]
    if len(times) != 1:
        times = [c for c in times if c.lower() == "timestamp"]
    time_col = options.time_col or (times[0] if times else None)
    rest = [c for c in columns if c not in (entity_col, time_col)]
    target_col = options.target_col or (rest[0] if len(rest) == 1 else None)
    if time_col not in columns or target_col not in columns:
        raise TaskError(
            "unknown_column",
            f"The label SQL must return one entity, one time and one target column, but returns "
            f"{', '.join(columns)}; time and target are not clear.",
            hint="Give time_col and target_col.",
        )
    return entity_col, str(time_col), str(target_col)


def from_frame(db: Database, frame: Any, options: TaskOptions) -> Task:
    """The task of a frame of labels."""
    if options.entity is None:
        raise TaskError(
            "missing_option",
            "A task from a frame needs entity.",
            hint="Give entity='table.column'.",
        )
    table, column = _entity(db, options)
    labels = read_frame(db, frame, table.name, column, options.time_col, options.target_col)
    window = None if options.timedelta is None else duration(options.timedelta)
    split = split_times(db, options.val, options.test)
    if split.is_inferred:
        split = fitting_split(labels.rows.column("time").to_numpy(), split, window)
    digest = _digest(str(labels.rows.to_pydict()))
    task = Definition(
        name=options.name or f"{table.name}-{labels.target_col}-{digest}",
        kind="external",
        entity_table=table.name,
        entity_col=labels.entity_col,
        target_col=labels.target_col,
        time_col=labels.time_col,
        task_type=options.task_type,
        timedelta=window,
        remove_columns=_removed_columns(db, options.remove_columns),
    )
    existing_rows = len(existing(db, table.name, np.datetime64(split.test, "us")))
    raw = split_frame(db, table.name, labels, split, window, existing_rows, options.max_rows)
    return complete(db, task, raw, split, notices=tuple(duplicate_notice(labels)))


def _entity(db: Database, options: TaskOptions) -> tuple[TableSchema, str | None]:
    """The entity table, and the column of the labels that holds its keys where one is named."""
    name, column = str(options.entity), None
    if name not in db.table_names and "." in name:
        name, column = name.rsplit(".", 1)
    try:
        return db.table(name), column
    except GelgtError as error:
        raise TaskError("unknown_table", error.message, hint=error.hint) from None


def _removed_columns(db: Database, columns: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """(table, column) of each ``"table.column"``."""
    pairs = []
    for text in columns:
        table, _, column = str(text).rpartition(".")
        if table not in db.table_names or column not in db.table(table).columns:
            every = [f"{t}.{c}" for t in db.table_names for c in db.table(t).columns]
            raise TaskError(
                "unknown_column",
                f"There is no column '{text}' to remove.",
                hint=did_you_mean(str(text), every),
            )
        pairs.append((table, column))
    return tuple(pairs)


def _name_unlike(name: str, other: str) -> str:
    while name.lower() == other.lower():
        name += "_"
    return name


def _sentence_name(plan: Plan, text: str) -> str:
    from gelgt.tasks.predict.syntax import Column, operands

    first = operands(plan.sentence.target)[0]
    words = [plan.entity.name]
    words += (
        [first.name] if isinstance(first, Column) else [first.function, str(first.column.table)]
    )
    return re.sub(r"[^a-z0-9]+", "-", "-".join(words).lower()).strip("-") + f"-{_digest(text)}"


def _digest(text: str) -> str:
    return hashlib.blake2b(" ".join(text.split()).encode(), digest_size=3).hexdigest()
