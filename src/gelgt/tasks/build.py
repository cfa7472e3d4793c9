"""From a definition to a task: split times, seed times, label rows, labels.

All definitions end here (`define.py`, `saved.py`), so that the same split rules and notices apply
to them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from gelgt.tasks.events import empty_windows, event_notices, find_events
from gelgt.tasks.labels import Raw, autocomplete_rows, forecast_rows
from gelgt.tasks.predict import Plan, label_sql
from gelgt.tasks.split import Split, longest, seed_times, split_times
from gelgt.tasks.targets import category_type, finish
from gelgt.tasks.task import MAX_ROWS, Definition, Task, TaskType

if TYPE_CHECKING:
    from gelgt.sources.database import Database


DEFAULT_K = 10
FUTURE_CONDITION = "the condition on the future applies to the labels; predictions leave it out"


@dataclass(frozen=True)
class TaskOptions:
    """What a user may state about a task besides its definition.

    Attributes:
        name: The name of the task; by default made from the definition.
        val: The validation time; by default the database's.
        test: The test time; by default the database's.
        eval_timestamps: How many seed times validation and test have each; by default as many as
            fit.
        max_rows: Training rows above this number are sampled.
        timedelta: How far the labels of SQL or of a frame look ahead.
        task_type: One of RelBench's five; by default inferred.
        entity: ``"table.column"`` for SQL or a frame: the entity table and the column of the labels
            that refers to it.
        time_col: The column of the labels with the seed time.
        target_col: The column of the labels with the target.
        eval_k: How many recommendations are evaluated.
        remove_columns: ``"table.column"`` of what a model must not see.
    """

    name: str | None = None
    val: Any = None
    test: Any = None
    eval_timestamps: int | None = None
    max_rows: int = MAX_ROWS
    timedelta: Any = None
    task_type: TaskType | None = None
    entity: str | None = None
    time_col: str | None = None
    target_col: str | None = None
    eval_k: int = DEFAULT_K
    remove_columns: Iterable[str] = ()


def forecast(
    db: Database,
    task: Definition,
    options: TaskOptions,
    eval_timestamps: int | None,
    plan: Plan | None = None,
    *,
    is_relbench: bool = False,
) -> Task:
    """A task whose labels come from SQL at seed times.

    Args:
        db: The database.
        task: The definition.
        options: Split times and the limit of training rows.
        eval_timestamps: How many seed times validation and test have each; None for as many as fit.
        plan: The sentence, where it is one.
        is_relbench: Whether RelBench defines the task: its windows then go on as long as any table
            does, as in RelBench's labels.
    """
    assert task.timedelta is not None
    window, months = task.timedelta, plan.months if plan is not None else 0
    events = find_events(db, task, plan, is_relbench=is_relbench)
    split = split_times(db, options.val, options.test, longest(window, months), events)
    if task.dst_entity_table is not None:
        eval_timestamps = 1  # RelBench evaluates recommendations at one time only
    times = seed_times(db, split, window, eval_timestamps, months, events)
    task = replace(
        task,
        num_eval_timestamps=eval_timestamps or max(len(times["val"]), len(times["test"])),
        is_open_ended=eval_timestamps is None,
        max_rows=options.max_rows,
    )
    notices = list(event_notices(db, events, window))
    if plan is not None:
        columns = str(task.time_col), task.entity_col, task.label_col
        task = replace(task, sql=label_sql(plan, columns, split, events.latest))
    if plan is not None and plan.has_future_condition:
        notices.insert(0, FUTURE_CONDITION)
    raw = forecast_rows(db, task, split, times, options.max_rows)
    task = _with_category_type(task, raw, plan is not None and plan.is_category)
    labelled = complete(db, task, raw, split, notices=tuple(notices))
    return replace(labelled, notices=(*labelled.notices, *empty_windows(labelled, events.groups)))


def autocomplete(
    db: Database, task: Definition, sql: str, options: TaskOptions, is_category: bool = False
) -> Task:
    """A task whose labels are a column; `is_category` says that its numbers name categories."""
    split = split_times(db, options.val, options.test, events=find_events(db, task))
    raw = autocomplete_rows(db, task, split, sql, options.max_rows)
    return complete(db, _with_category_type(task, raw, is_category), raw, split)


def _with_category_type(task: Definition, raw: Mapping[str, Raw], is_category: bool) -> Definition:
    """The definition with the task type of numbers that name categories, where none is stated."""
    if is_category and task.task_type is None:
        return replace(task, task_type=category_type(raw))
    return task


def complete(
    db: Database,
    task: Definition,
    raw: Mapping[str, Raw],
    split: Split | None,
    *,
    is_read: bool = False,
    is_edited: bool = False,
    classes: tuple[Any, ...] = (),
    notices: tuple[str, ...] = (),
) -> Task:
    """The task of some label rows.

    Args:
        db: The database.
        task: The definition; a missing task type is inferred.
        raw: The rows of each split.
        split: The split times, None where they are not known.
        is_read: The rows come from a saved task, whose notices are given again as they are.
        is_edited: Somebody changed the rows of a saved task.
        classes: The classes, where they are given.
        notices: Notices that come before those about the labels.
    """
    labels = finish(raw, task, classes)
    definition = {f.name: getattr(task, f.name) for f in fields(Definition)}
    return Task(
        **definition | {"task_type": labels.task_type},
        val_timestamp=None if split is None else split.val,
        test_timestamp=None if split is None else split.test,
        classes=labels.classes,
        notices=notices if is_read and notices else (*notices, *labels.notices),
        is_read=is_read,
        is_edited=is_edited,
        database=db,
        labels=labels.tables,
    )
