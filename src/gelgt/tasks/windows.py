"""More training labels from the same definition: seed times closer together than the length of a
window.

RelBench's training tables have one seed time a window, so that no row of the database counts in two
labels. For a model that is no need: a customer on the 1st and on the 8th are two examples of what
history says about the next 30 days, and small tables overfit within a few epochs. Validation and
test stay as they are, and so do the first and the last seed time of training: every window still
ends before the validation time. Once validation has chosen, all windows that end by the test time
can be learned from.

Label files rule where they say otherwise than the definition: somebody may have edited them.
`differing_labels` counts such rows.
"""

from dataclasses import replace

import numpy as np
import pyarrow as pa

from gelgt.errors import TaskError
from gelgt.tasks.engine import engine, find_column, rows_until
from gelgt.tasks.labels import collect_rows
from gelgt.tasks.split import Split, Times
from gelgt.tasks.sql_text import quote, time_literal
from gelgt.tasks.targets import finish_rows
from gelgt.tasks.task import Task


def has_windows(task: Task) -> bool:
    """Whether a task's labels can be made at other seed times: they come from SQL over windows of a
    length, one value an entity."""
    is_dated = task.val_timestamp is not None and task.test_timestamp is not None
    has_rule = task.sql is not None and task.timedelta is not None and task.dst_entity_table is None
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
    assert task.time_col is not None
    assert task.timedelta is not None
    assert task.test_timestamp is not None
    own = (
        task.table("train")
        .column(task.time_col)
        .to_numpy()
        .astype("datetime64[us]")
        .astype(np.int64)
    )
    length = int(np.timedelta64(task.timedelta, "us").astype(np.int64))
    step, first = length // each, int(own.min())
    last = (
        int(np.datetime64(task.test_timestamp, "us").astype(np.int64)) - length
        if until_test
        else int(own.max())
    )
    times: Times = (last - step * np.arange((last - first) // step + 1, dtype=np.int64))[
        ::-1
    ].astype("datetime64[us]")
    assert task.sql is not None
    assert task.val_timestamp is not None
    db, split = task.database, Split(task.val_timestamp, task.test_timestamp)
    with engine(db, split.test) as run:
        columns = run.run(task.sql, times, task.timedelta)
        raw = collect_rows(
            db,
            run,
            task,
            columns,
            {"entity": rows_until(db, task.entity_table, split.test)},
            task.max_rows,
        )
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


def differing_labels(task: Task) -> int:
    """How many training and validation labels are not what the task's SQL gives at the same seed
    times: other values, more rows or fewer.

    One query. Rows that the task's `max_rows` sampled are sampled alike, and rows that cannot be
    labels are left out alike.
    """
    assert task.time_col is not None
    assert task.timedelta is not None
    assert task.sql is not None
    assert task.val_timestamp is not None
    assert task.test_timestamp is not None
    db, split = task.database, Split(task.val_timestamp, task.test_timestamp)
    own = {
        name: task.table(name).column(task.time_col).to_numpy().astype("datetime64[us]")
        for name in ("train", "val")
    }
    # A seed time between others that the files lack altogether is an edit too.
    length, first, last = (
        np.timedelta64(task.timedelta, "us"),
        own["train"].min(),
        own["train"].max(),
    )
    regular = last - length * np.arange((last - first) // length + 1)
    count = 0
    with engine(db, split.test) as run:
        columns = run.run(task.sql, np.concatenate([regular, *own.values()]), task.timedelta)
        time = quote(find_column(columns, task.time_col, "time"))
        bounds = {"entity": rows_until(db, task.entity_table, split.test)}
        for name, sign in (("train", "<"), ("val", ">=")):
            table = task.table(name)
            sampled = (
                table.num_rows if name == "train" and table.num_rows == task.max_rows else None
            )
            raw = collect_rows(
                db, run, task, columns, bounds, sampled, f"{time} {sign} {time_literal(split.val)}"
            )
            try:
                count += _different_rows(table, finish_rows(raw.rows, task, task.classes))
            except TaskError:  # values that do not fit the task's type
                count += table.num_rows
    return count


def _different_rows(one: pa.Table, other: pa.Table) -> int:
    """How many rows of two label tables are in one alone, or have another label; sums of floats
    differ in their last digits."""
    time, entity, label = one.column_names
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
