"""Label tables as arrays: numbers, class numbers, or one column of 0 and 1 for each label.

Multilabel targets come in two forms. Lists of one length that hold only 0 and 1 are indicators, one
for each label; any other lists name the labels that apply, and the label space is what the training
labels name, sorted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gelgt.errors import TaskError
from gelgt.tasks.task import Task


@dataclass(frozen=True)
class LabelSpace:
    """What the columns of a prediction mean.

    Attributes:
        task_type: The task type.
        labels: The classes of a multiclass task, the labels of a multilabel one; empty where a
            prediction is one number.
        is_indicator: Multilabel lists hold a 0 or 1 for each label.
    """

    task_type: str
    labels: tuple[Any, ...] = ()
    is_indicator: bool = False

    @property
    def width(self) -> int:
        """Columns of a prediction; 0 where it is one number."""
        return len(self.labels)


def label_space(task: Task) -> LabelSpace:
    """The label space of a task, from its training labels alone.

    Raises:
        TaskError: the type of the task is not known.
    """
    if task.task_type is None:
        raise TaskError(
            "no_task_type",
            f"The type of the task '{task.name}' is not known.",
            hint="State it in the task's manifest, or with --task-type.",
        )
    if task.task_type == "multiclass_classification":
        return LabelSpace(task.task_type, task.classes)
    if task.task_type != "multilabel_classification":
        return LabelSpace(task.task_type)
    column = task.table("train").column(task.label_col).combine_chunks()
    lengths = pc.unique(pc.list_value_length(column).drop_null())
    values = pc.unique(pc.list_flatten(column).drop_null())
    is_binary = pa.types.is_primitive(values.type) and set(values.to_pylist()) <= {0, 1}
    if len(lengths) == 1 and is_binary:
        return LabelSpace(task.task_type, tuple(range(lengths[0].as_py())), is_indicator=True)
    return LabelSpace(task.task_type, tuple(sorted(values.to_pylist())))


def targets(task: Task, split: str, space: LabelSpace | None = None) -> NDArray[Any]:
    """The labels of a split: float64 (S,) for regression, int64 (S,) 0/1 or class numbers, float32
    (S, L) for multilabel; int64 (S, Y) rows of the recommended table, -1 behind the last."""
    space = space or label_space(task)
    column = task.table(split).column(task.label_col)
    if space.task_type == "multilabel_classification":
        return _indicators(column, space)
    if space.task_type == "recommendation":
        return _lists(column)
    values: NDArray[Any] = column.to_numpy()
    return values.astype(np.float64 if space.task_type == "regression" else np.int64)


def _indicators(column: pa.ChunkedArray, space: LabelSpace) -> NDArray[np.float32]:
    indicators = np.zeros((len(column), space.width), np.float32)
    rows = np.repeat(
        np.arange(len(column)), pc.fill_null(pc.list_value_length(column), 0).to_numpy()
    )
    values = pc.list_flatten(column)
    if not space.is_indicator:
        places = pc.fill_null(
            pc.index_in(values, value_set=pa.array(space.labels, values.type)), -1
        ).to_numpy()
        # labels that training never saw cannot be predicted
        indicators[rows[places >= 0], places[places >= 0]] = 1
        return indicators
    within = np.arange(len(rows)) - np.searchsorted(rows, rows)
    inside = within < space.width
    indicators[rows[inside], within[inside]] = pc.fill_null(values, 0).to_numpy()[inside]
    return indicators


def _lists(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """Lists of row numbers behind each other, distinct and ascending, padded with -1."""
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy().astype(np.int64)
    values = pc.fill_null(pc.list_flatten(column), -1).to_numpy().astype(np.int64)
    rows = np.repeat(np.arange(len(lengths)), lengths)
    rows, values = rows[values >= 0], values[values >= 0]
    if len(rows):
        rows, values = np.unique(np.stack([rows, values], 1), axis=0).T
    within = np.arange(len(rows)) - np.searchsorted(rows, rows)
    out = np.full((len(lengths), int(within.max(initial=0)) + 1), -1, np.int64)
    out[rows, within] = values
    return out


def joined_labels(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Labels behind each other; lists are padded to the longest."""
    if parts[0].ndim == 1:
        return np.concatenate(parts)
    width = max(part.shape[1] for part in parts)
    pads = [((0, 0), (0, width - part.shape[1])) for part in parts]
    return np.concatenate(
        [np.pad(part, pad, constant_values=-1) for part, pad in zip(parts, pads, strict=True)]
    )
