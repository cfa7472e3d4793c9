"""A task replayed at an earlier split time, so that choices rest on several periods and never on
its test labels.

    labels of train and val, by time   ├──────── train ────────┤─ val ─┤─ test ─┤
    origin 1                           ├──── train ────┤─ val ─┤─ test ─┤            test = its val
    origin 2                           ├ train ┤─ val ─┤─ test ─┤                 one block earlier

A block holds as many seed times as the task's validation split; for labels without windows it is as
long as the time between validation and test. The replayed task has split times of its own, and
everything follows from these: statistics, column kinds, windows, horizon, retraining. Labels whose
windows reach over a split are left out, and so are those of entities that do not exist yet at the
replayed test time, as in every task (docs/tasks.md).
"""

from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gelgt.errors import TaskError
from gelgt.tasks.frame_split import split_masks
from gelgt.tasks.predict import parse, plan_sentence
from gelgt.tasks.split import MIN_TRAIN_TIMES, Split, Times
from gelgt.tasks.task import Task
from gelgt.tasks.times import time_text

NAME = "{name}@origin-{origin}"


def replayed(task: Task, origin: int) -> Task:
    """The task at its `origin`-th earlier split time, with labels of its train and val tables.

    Args:
        task: With seed times and split times; its test labels are not used.
        origin: 1 scores what was validation, 2 the block before, and so on.

    Raises:
        TaskError: ``no_origin``, with the reason: the labels do not reach back that far.
    """
    if task.time_col is None or task.val_timestamp is None or task.test_timestamp is None:
        raise _no_origin(task, origin, "it has no seed times or no split times")
    labels = pa.concat_tables([task.table("train"), task.table("val")])
    times: Times = labels.column(task.time_col).to_numpy().astype("datetime64[us]")
    split, end = _by_windows(task, origin, times) if task.timedelta else _by_span(task, origin)
    masks, _ = split_masks(times, split, task.timedelta)
    masks["test"] &= times <= end
    usable = _exists(task, labels, split) & _is_whole(task, times, split)
    tables = {
        name: labels.filter(pa.array(inside & usable)).combine_chunks()
        for name, inside in masks.items()
    }
    for name, table in tables.items():
        if not table.num_rows:
            raise _no_origin(
                task,
                origin,
                f"no labels are left for {name} (validation from {time_text(split.val)}, test from "
                f"{time_text(split.test)})",
            )
    return replace(
        task,
        name=NAME.format(name=task.name, origin=origin),
        num_eval_timestamps=_seed_times(task) if task.timedelta else task.num_eval_timestamps,
        val_timestamp=split.val,
        test_timestamp=split.test,
        notices=(),
        labels=tables,
    )


def _by_windows(task: Task, origin: int, times: Times) -> tuple[Split, np.datetime64]:
    """Split times and the last seed time that is scored, in blocks of as many seed times as
    validation has."""
    import pandas as pd

    distinct, count = np.unique(times), _seed_times(task)
    end = len(distinct) - (origin - 1) * count
    test, val = end - count, end - 2 * count
    if count == 0 or val < MIN_TRAIN_TIMES:
        raise _no_origin(
            task,
            origin,
            f"of the {len(distinct):,} seed times of its training and validation labels, "
            f"{max(val, 0):,} are left for training, which needs {MIN_TRAIN_TIMES}; a block has "
            f"{count:,}",
        )
    split = Split(pd.Timestamp(distinct[val]), pd.Timestamp(distinct[test]))
    return split, distinct[end - 1]


def _by_span(task: Task, origin: int) -> tuple[Split, np.datetime64]:
    """The same for labels without windows, in blocks as long as the time between validation and
    test."""
    assert task.val_timestamp is not None
    assert task.test_timestamp is not None
    span = task.test_timestamp - task.val_timestamp
    test = task.val_timestamp - (origin - 1) * span
    return Split(test - span, test), np.datetime64(test + span, "us")


def _seed_times(task: Task) -> int:
    return len(np.unique(task.table("val").column(str(task.time_col)).to_numpy()))


def _exists(task: Task, labels: pa.Table, split: Split) -> NDArray[np.bool_]:
    """(S,) whether the entity of a label exists at the test time; a column is predicted for rows
    that come later."""
    if task.kind == "autocomplete":
        return np.ones(labels.num_rows, np.bool_)
    born = task.database.row_times(task.entity_table)
    moment = np.datetime64(split.test, "us").astype(np.int64)
    exists: NDArray[np.bool_] = born[labels.column(task.entity_col).to_numpy()] <= moment
    return exists


def _is_whole(task: Task, times: Times, split: Split) -> NDArray[np.bool_]:
    """(S,) whether the calendar months of a label end within its split: they may be longer than the
    30 days each that its `timedelta` counts."""
    whole = np.ones(len(times), np.bool_)
    if task.sentence is None or task.timedelta is None:
        return whole
    months = plan_sentence(task.database, parse(task.sentence)).months
    if not months:
        return whole
    import pandas as pd

    for moment in np.unique(times):
        start = pd.Timestamp(moment)
        reach = start + pd.DateOffset(months=months)
        if any(start < border < reach for border in (split.val, split.test)):
            whole[times == moment] = False
    return whole


def _no_origin(task: Task, origin: int, reason: str) -> TaskError:
    return TaskError(
        "no_origin",
        f"'{task.name}' cannot be replayed at origin {origin}: {reason}.",
        hint="Replay fewer origins (--origins).",
    )
