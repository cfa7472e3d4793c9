"""From a definition to a task: split times, seed times, label rows, labels.

The four ways in `make.py` end here, so that all of them follow the same split rules and say the
same things.
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


@dataclass(frozen=True)
class Options:
    """The arguments of `make_task`, for the functions behind it."""

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
    given: Options,
    wanted: int | None,
    plan: Plan | None = None,
    *,
    is_relbench: bool = False,
) -> Task:
    """A task whose labels come from SQL at seed times, `wanted` of them in val and test (None: as
    many as fit).

    `is_relbench` is a task that RelBench defines: its windows go on as long as any table does, as
    RelBench's own labels.
    """
    assert task.timedelta is not None
    window, months = task.timedelta, plan.months if plan is not None else 0
    events = find_events(db, task, plan, is_relbench=is_relbench)
    split = split_times(db, given.val, given.test, longest(window, months), events)
    if task.dst_entity_table is not None:
        wanted = 1  # RelBench evaluates recommendations at one time only
    times = seed_times(db, split, window, wanted, months, events)
    count = wanted or max(len(times["val"]), len(times["test"]))
    task = replace(
        task, num_eval_timestamps=count, is_open_ended=wanted is None, max_rows=given.max_rows
    )
    if plan is not None:
        task = replace(
            task,
            sql=label_sql(
                plan, (str(task.time_col), task.entity_col, task.label_col), split, events.latest
            ),
        )
    raw = forecast_rows(db, task, split, times, given.max_rows)
    notices: tuple[str, ...] = (
        ("the condition on the future applies to the labels; predictions leave it out",)
        if plan is not None and plan.has_future_condition
        else ()
    )
    notices = (*notices, *event_notices(db, events, window))
    made = complete(
        db, task, raw, split, is_category=plan is not None and plan.is_category, notices=notices
    )
    return replace(made, notices=(*made.notices, *empty_windows(made, events.groups)))


def autocomplete(
    db: Database, task: Definition, sql: str, given: Options, is_category: bool = False
) -> Task:
    """A task whose labels are a column."""
    split = split_times(db, given.val, given.test, events=find_events(db, task))
    return complete(
        db,
        task,
        autocomplete_rows(db, task, split, sql, given.max_rows),
        split,
        is_category=is_category,
    )


def complete(
    db: Database,
    task: Definition,
    raw: Mapping[str, Raw],
    split: Split | None,
    *,
    is_category: bool = False,
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
        is_category: Numbers in the target name categories.
        is_read: The rows come from a saved task, whose notices are told as they are.
        is_edited: Somebody changed the rows of a saved task.
        classes: The classes where they are known.
        notices: What there is to say besides.
    """
    if is_category and task.task_type is None:
        task = replace(task, task_type=category_type(raw))
    labels = finish(raw, task, classes)
    known = {f.name: getattr(task, f.name) for f in fields(Definition)} | {
        "task_type": labels.task_type
    }
    told = notices if is_read and notices else (*notices, *labels.notices)
    return Task(
        **known,
        val_timestamp=None if split is None else split.val,
        test_timestamp=None if split is None else split.test,
        classes=labels.classes,
        notices=told,
        is_read=is_read,
        is_edited=is_edited,
        database=db,
        labels=labels.tables,
    )
