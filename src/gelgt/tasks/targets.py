"""Turns raw targets into labels: infers the task type, numbers the classes, checks the values.

The same rule for every kind of task, on the training labels alone:

    true and false, or only the numbers 0 and 1   binary_classification
    other numbers                                 regression
    texts                                         multiclass_classification; binary where that is
                                                  asked for and they say true and false
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gelgt.errors import TaskError, some
from gelgt.tasks.labels import Raw, split_notices
from gelgt.tasks.task import SPLITS, Definition, TaskType

MAX_CLASSES = 10_000
# texts that say true or false
TRUTHS = {"t": 1, "true": 1, "y": 1, "yes": 1, "1": 1, "f": 0, "false": 0, "n": 0, "no": 0, "0": 0}


@dataclass(frozen=True)
class Labels:
    """Finished label tables, with the task type and the classes that follow from their values."""

    tables: Mapping[str, pa.Table]
    task_type: TaskType
    classes: tuple[Any, ...]
    notices: tuple[str, ...]


def finish(raw: Mapping[str, Raw], task: Definition, classes: tuple[Any, ...] = ()) -> Labels:
    """Label tables of the right type.

    Args:
        raw: The rows of each split.
        task: Its `task_type` counts where it is set.
        classes: The classes of a multiclass task, where they are given.

    Raises:
        TaskError: a split is empty, or its values do not fit the task type.
    """
    notices = split_notices(raw)
    targets = {split: raw[split].rows.column("target") for split in SPLITS}
    task_type = task.task_type or _infer_type(targets["train"])
    rows = {split: raw[split].rows for split in SPLITS}
    if task_type == "multiclass_classification":
        classes = classes or _classes(targets["train"], task)
        for split in SPLITS:
            rows[split], unseen = _number_classes(rows[split], classes)
            if unseen:
                notices.append(
                    f"{split}: {unseen:,} rows of classes that training does not have were left out"
                )
    elif task_type == "binary_classification":
        rows = {split: _with_target(rows[split], _binary(targets[split], task)) for split in SPLITS}
    elif task_type == "regression":
        rows = {
            split: _with_target(rows[split], _numbers(targets[split], task)) for split in SPLITS
        }
    _check_filled(rows, task)
    if task_type == "binary_classification" and len(pc.unique(rows["train"].column("target"))) == 1:
        notices.append(f"every training label is {rows['train'].column('target')[0].as_py()}")
    tables = {split: _named(rows[split], task) for split in SPLITS}
    return Labels(
        tables,
        task_type,
        classes if task_type == "multiclass_classification" else (),
        tuple(notices),
    )


def finish_rows(rows: pa.Table, task: Definition, classes: tuple[Any, ...]) -> pa.Table:
    """Label rows at further seed times of a task with a type and classes; rows of other classes
    are left out."""
    if task.task_type == "multiclass_classification":
        return _named(_number_classes(rows, classes)[0], task)
    if task.task_type == "recommendation":
        return _named(rows, task)
    convert = _binary if task.task_type == "binary_classification" else _numbers
    return _named(_with_target(rows, convert(rows.column("target"), task)), task)


def _named(rows: pa.Table, task: Definition) -> pa.Table:
    if task.time_col is None:
        return rows.select(["entity", "target"]).rename_columns([task.entity_col, task.label_col])
    return rows.rename_columns([task.time_col, task.entity_col, task.label_col])


def _with_target(rows: pa.Table, target: pa.ChunkedArray) -> pa.Table:
    return rows.set_column(rows.schema.get_field_index("target"), "target", target)


def _infer_type(train: pa.ChunkedArray) -> TaskType:
    """From the training labels alone: later labels must not change what is learned."""
    arrow = train.type
    if pa.types.is_boolean(arrow):
        return "binary_classification"
    if pa.types.is_string(arrow):
        return "multiclass_classification"
    if pa.types.is_list(arrow):
        raise TaskError(
            "bad_target",
            "A target that is a list needs its task type.",
            hint="Set task_type to 'multilabel_classification'.",
        )
    return (
        "binary_classification"
        if set(pc.unique(train).slice(0, 3).to_pylist()) == {0, 1}
        else "regression"
    )


def _binary(values: pa.ChunkedArray, task: Definition) -> pa.ChunkedArray:
    if pa.types.is_string(values.type):
        values = _truths(values, task)
    odd = [v for v in pc.unique(values).to_pylist() if v not in (0, 1)]
    if odd:
        raise TaskError(
            "bad_target",
            f"'{task.target_col}' of a binary task holds values other than 0 and 1: {some(odd)}.",
            hint="Use task_type='regression'.",
        )
    return values.cast(pa.int64())


def _truths(values: pa.ChunkedArray, task: Definition) -> pa.ChunkedArray:
    """0 and 1 for texts such as `t` and `f`, which many databases hold instead; some tasks of
    RelBench have such targets."""
    texts = pc.unique(values)
    truths = [
        None if text is None else TRUTHS.get(text.strip().lower()) for text in texts.to_pylist()
    ]
    if None in truths:
        raise TaskError(
            "bad_target",
            f"'{task.target_col}' holds texts, not 0 and 1: {some(texts.to_pylist())}.",
            hint="Use yes/no, true/false or 0/1, or predict a comparison.",
        )
    return pa.array(truths, pa.int64()).take(pc.index_in(values, value_set=texts))


def _numbers(values: pa.ChunkedArray, task: Definition) -> pa.ChunkedArray:
    if pa.types.is_string(values.type):
        raise TaskError(
            "bad_target",
            f"'{task.target_col}' of a regression task holds texts: "
            f"{some(pc.unique(values).to_pylist())}.",
            hint="Use task_type='multiclass_classification'.",
        )
    return (
        values.cast(pa.int64()).cast(pa.float64(), safe=False)
        if pa.types.is_boolean(values.type)
        else values.cast(pa.float64(), safe=False)
    )


def _classes(train: pa.ChunkedArray, task: Definition) -> tuple[Any, ...]:
    classes = sorted(pc.unique(train).to_pylist())
    if len(classes) > MAX_CLASSES:
        raise TaskError(
            "too_many_classes",
            f"'{task.target_col}' has {len(classes):,} different values in training.",
            hint=f"A multiclass target may have {MAX_CLASSES:,}; predict a coarser column.",
        )
    if len(classes) == 1:
        raise TaskError(
            "one_class",
            f"'{task.target_col}' has the single value {classes[0]!r} in training.",
            hint="Choose a column or a split with at least two values.",
        )
    return tuple(classes)


def _number_classes(rows: pa.Table, classes: tuple[Any, ...]) -> tuple[pa.Table, int]:
    values = rows.column("target")
    index = pc.index_in(values, value_set=pa.array(classes, values.type)).cast(pa.int64())
    is_class = pc.is_valid(index)
    unseen = len(values) - int(pc.sum(is_class).as_py() or 0)
    return _with_target(rows, index).filter(is_class), unseen


def _check_filled(rows: Mapping[str, pa.Table], task: Definition) -> None:
    counts = {split: rows[split].num_rows for split in SPLITS}
    if not all(counts.values()):
        shown = ", ".join(f"{split} {count:,}" for split, count in counts.items())
        raise TaskError(
            "no_labels",
            f"The task '{task.name}' has no label rows in "
            f"{' and '.join(s for s in SPLITS if not counts[s])} ({shown}).",
            hint="Move the split times, widen the window, or loosen the condition.",
        )


def category_type(raw: Mapping[str, Raw]) -> TaskType:
    """The task type of numbers that name categories: two of them, 0 and 1, are a binary target."""
    values = set(pc.unique(raw["train"].rows.column("target")).slice(0, 3).to_pylist())
    return "binary_classification" if values == {0, 1} else "multiclass_classification"
