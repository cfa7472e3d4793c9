"""More training labels from the same definition: seed times closer together than the length of a
window.

RelBench's training tables have one seed time a window, so that no row of the database counts in two
labels. A model does not need that: a customer on the 1st and on the 8th are two examples of what
history says about the next 30 days, and small tables overfit within a few epochs. Validation and
test stay as they are, and so do the first and the last seed time of training: every window still
ends before the validation time. A retrain after validation learns from all windows that end by the
test time.

Label files that differ from the definition count as they are: somebody may have edited them.
`differing_labels` counts such rows.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from gelgt.errors import TaskError
from gelgt.tasks.engine import engine, find_column
from gelgt.tasks.labels import collect_rows, label_bounds
from gelgt.tasks.split import Split, Times
from gelgt.tasks.sql_text import quote, time_literal
from gelgt.tasks.targets import finish_rows
from gelgt.tasks.task import Task


def has_windows(task: Task) -> bool:
    """Whether labels can be made at other seed times: they come from SQL over windows of a fixed
    length, with one value or one list of rows for each entity."""
    is_dated = task.val_timestamp is not None and task.test_timestamp is not None
    has_rule = task.sql is not None and task.timedelta is not None
    return (
        task.kind == "forecast"
        and has_rule
        and is_dated
        and task.task_type != "multilabel_classification"
    )


def with_more_windows(task: Task, each: int, *, until_test: bool = False) -> Task:
    """The task with `each` seed times in the length of every training window.

    Args:
        task: One that `has_windows`.
        each: How many times as many seed times; 1 changes nothing.
        until_test: Whether training goes on to the last window that ends by the test time, that is
            through validation.
    """
    if not has_windows(task) or (each < 2 and not until_test):
        return task
    db, split = task.database, _split(task)
    assert task.sql is not None
    with engine(db, split.test) as run:
        columns = run.run(task.sql, _close_times(task, each, until_test), task.timedelta)
        bounds = label_bounds(db, task, split)
        raw = collect_rows(db, run, task, columns, bounds, task.max_rows)
    try:
        rows = finish_rows(raw.rows, task, task.classes)
    except TaskError as error:
        raise TaskError(
            error.code,
            f"The label tables of '{task.name}' make it a {task.task_type}, but other windows do "
            f"not fit: {error.message}",
            hint="State its task type (--task-type), or train on the label tables alone: "
            "train.windows = 1, train.retrain = false.",
        ) from None
    return replace(task, labels={**task.labels, "train": rows})


def _split(task: Task) -> Split:
    assert task.val_timestamp is not None
    assert task.test_timestamp is not None
    return Split(task.val_timestamp, task.test_timestamp)


def _seed_times(task: Task, split: str) -> Times:
    assert task.time_col is not None
    times: Times = task.table(split).column(task.time_col).to_numpy().astype("datetime64[us]")
    return times


def _close_times(task: Task, each: int, until_test: bool) -> Times:
    """`each` seed times in every window, back from the last one of training, or from the last one
    whose window ends by the test time."""
    saved = _seed_times(task, "train").astype(np.int64)
    length = int(np.timedelta64(task.timedelta, "us").astype(np.int64))
    last = int(saved.max())
    if until_test:
        last = int(np.datetime64(task.test_timestamp, "us").astype(np.int64)) - length
    step = length // each
    steps = np.arange((last - int(saved.min())) // step + 1, dtype=np.int64)
    times: Times = (last - step * steps)[::-1].astype("datetime64[us]")
    return times


def differing_labels(task: Task) -> int:
    """How many training and validation labels are not what the task's SQL gives at the same seed
    times: other values, more rows or fewer.

    One query. Where `max_rows` sampled the rows, the same rows are sampled, and rows that cannot be
    labels are left out of both.
    """
    assert task.sql is not None
    db, split = task.database, _split(task)
    saved = {name: _seed_times(task, name) for name in ("train", "val")}
    # A seed time between others that the files lack altogether is an edit too.
    length = np.timedelta64(task.timedelta, "us")
    first, last = saved["train"].min(), saved["train"].max()
    regular = last - length * np.arange((last - first) // length + 1)
    count = 0
    with engine(db, split.test) as run:
        columns = run.run(task.sql, np.concatenate([regular, *saved.values()]), task.timedelta)
        time = quote(find_column(columns, str(task.time_col), "time"))
        bounds = label_bounds(db, task, split)
        for name, sign in (("train", "<"), ("val", ">=")):
            table, part = task.table(name), f"{time} {sign} {time_literal(split.val)}"
            is_sampled = name == "train" and table.num_rows == task.max_rows
            most = table.num_rows if is_sampled else None
            raw = collect_rows(db, run, task, columns, bounds, most, part)
            try:
                count += _different_rows(table, finish_rows(raw.rows, task, task.classes))
            except TaskError:  # values that do not fit the task's type
                count += table.num_rows
    return count


def _different_rows(one: pa.Table, other: pa.Table) -> int:
    """How many rows are in one of two label tables only, or have another label; the last digits
    of floats may differ."""
    time, entity, label = one.column_names
    if pa.types.is_list(one.schema.field(label).type):
        return len(_listed(one) ^ _listed(other))
    frames = []
    for table in (one, other):
        frame = table.to_pandas().sort_values([time, entity, label], ignore_index=True)
        frame = frame[np.isfinite(frame[label].astype(float))]  # a missing label is none
        frames.append(frame.assign(repeat=frame.groupby([time, entity]).cumcount()))
    both = frames[0].merge(
        frames[1], on=[time, entity, "repeat"], how="outer", suffixes=("", "_other")
    )
    same = np.isclose(
        both[label].astype(float), both[f"{label}_other"].astype(float), rtol=1e-5, atol=1e-9
    )
    return int(np.count_nonzero(~same))


def _listed(table: pa.Table) -> set[tuple[Any, ...]]:
    """The rows of a recommendation's label table, each list without its order."""
    time, entity, label = (column.to_pylist() for column in table.columns)
    return {(t, e, tuple(sorted(set(rows or ())))) for t, e, rows in zip(time, entity, label)}
