"""`Task`: what is predicted, for which entities, at which times, with its label tables.

A label table has the columns (time, entity, target): the seed time in UTC without a zone, the row
number of the entity, and the label. It is sorted by (time, entity), as RelBench sorts:

    binary_classification       int64 0 or 1
    regression                  float64
    multiclass_classification   int64, an index into `task.classes`
    multilabel_classification   as the labels came
    recommendation              (time, source row, list of destination rows); there is no target
                                column
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gelgt.errors import TaskError, did_you_mean

if TYPE_CHECKING:
    import pandas as pd

    from gelgt.sources.database import Database

Kind = Literal["forecast", "autocomplete", "external"]
TaskType = Literal[
    "regression",
    "binary_classification",
    "multiclass_classification",
    "multilabel_classification",
    "recommendation",
]
KINDS: tuple[Kind, ...] = ("forecast", "autocomplete", "external")
TASK_TYPES: tuple[TaskType, ...] = (
    "regression",
    "binary_classification",
    "multiclass_classification",
    "multilabel_classification",
    "recommendation",
)
SPLITS = ("train", "val", "test")
MAX_ROWS = 2_000_000


@dataclass(frozen=True)
class Definition:
    """A task without its labels.

    Attributes:
        name: Also the name of its folder under ``tasks/``.
        kind: ``forecast`` (labels from SQL), ``autocomplete`` (labels are a column), ``external``
            (labels are given).
        entity_table: The table whose rows are predicted (the source table of a recommendation).
        entity_col: The column of the label table that holds their row numbers.
        target_col: The label; None for a recommendation.
        time_col: The seed time; None only for external tasks without times.
        task_type: One of RelBench's five, or None while it is to be inferred from the labels.
        timedelta: How far after the seed time a label looks.
        num_eval_timestamps: At most so many seed times each in validation and test.
        sql: DuckDB SQL over ``timestamps`` and the tables, with ``{timedelta}``.
        remove_columns: (table, column) pairs that a model must not see.
        dst_entity_table: The recommended table.
        dst_entity_col: The column of the label table that holds lists of its row numbers.
        eval_k: How many recommendations are evaluated.
        sentence: The PREDICT sentence that this task comes from.
        max_rows: Training rows above this number are sampled.
        is_open_ended: Whether `num_eval_timestamps` was not stated, but is as many as there are
            rows for.
        description: Free text from the manifest.
    """

    name: str
    kind: Kind
    entity_table: str
    entity_col: str
    target_col: str | None
    time_col: str | None
    task_type: TaskType | None = None
    timedelta: pd.Timedelta | None = None
    num_eval_timestamps: int = 1
    sql: str | None = None
    remove_columns: tuple[tuple[str, str], ...] = ()
    dst_entity_table: str | None = None
    dst_entity_col: str | None = None
    eval_k: int | None = None
    sentence: str | None = None
    description: str = ""
    max_rows: int = MAX_ROWS
    is_open_ended: bool = False

    @property
    def label_col(self) -> str:
        """The column of the label table that is predicted, whatever the task type."""
        return self.dst_entity_col or self.target_col or "target"

    @property
    def src_entity_table(self) -> str | None:
        return self.entity_table if self.dst_entity_table else None

    @property
    def src_entity_col(self) -> str | None:
        return self.entity_col if self.dst_entity_table else None


@dataclass(frozen=True)
class Preview:
    """What a task's label tables hold, without writing them.

    Attributes:
        rows: Label rows for each split.
        seed_times: The distinct seed times for each split, ascending.
        target: Statistics of the target for each split: ``positives`` (a share),
            ``min``/``median``/``max``, ``classes`` (value to count) or ``mean_length`` (of
            recommendation lists).
    """

    rows: Mapping[str, int]
    seed_times: Mapping[str, np.ndarray[Any, np.dtype[np.datetime64]]]
    target: Mapping[str, Mapping[str, Any]]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for ``--json``; seed times as their number, first and last."""
        times = {
            split: {
                "count": len(t),
                "first": str(t[0]) if len(t) else None,
                "last": str(t[-1]) if len(t) else None,
            }
            for split, t in self.seed_times.items()
        }
        return {
            "rows": dict(self.rows),
            "seed_times": times,
            "target": {s: dict(v) for s, v in self.target.items()},
        }


@dataclass(frozen=True)
class Task(Definition):
    """A task with its label tables; made by `gelgt.tasks.make_task` or `Database.task`.

    Attributes:
        val_timestamp: Training labels lie before it, validation labels after it.
        test_timestamp: Validation labels lie before it, test labels after it.
        classes: The original values of a multiclass target; the index is the class.
        notices: What the user should know about the labels.
        is_edited: Whether the label files that the task was read from hold other values than its
            definition gave.
        is_read: Whether the labels were read from files, not made from the definition.
        database: The database that the labels were made from.
        labels: One label table for each split.
    """

    val_timestamp: pd.Timestamp | None = None
    test_timestamp: pd.Timestamp | None = None
    classes: tuple[Any, ...] = ()
    notices: tuple[str, ...] = ()
    is_edited: bool = False
    is_read: bool = field(default=False, compare=False)
    database: Database = field(kw_only=True, repr=False, compare=False)
    labels: Mapping[str, pa.Table] = field(kw_only=True, repr=False, compare=False)

    def table(self, split: str) -> pa.Table:
        """The label table of ``train``, ``val`` or ``test``, sorted by (time, entity)."""
        if split not in SPLITS:
            raise TaskError(
                "unknown_split", f"There is no split '{split}'.", hint=did_you_mean(split, SPLITS)
            )
        return self.labels[split]

    @property
    def rows(self) -> dict[str, int]:
        """Label rows for each split."""
        return {split: self.labels[split].num_rows for split in SPLITS}

    def preview(self) -> Preview:
        """Counts, seed times and target statistics; nothing is written."""
        times = {split: _distinct_times(self.table(split), self.time_col) for split in SPLITS}
        return Preview(
            self.rows, times, {split: self._target_stats(self.table(split)) for split in SPLITS}
        )

    def population(self, db: Database, at: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Row numbers of the eligible entities at a time.

        The conditions of a PREDICT sentence on the entity and on past windows apply; those on
        future windows cannot be checked yet and are left out.
        """
        from gelgt.tasks.population import population

        return population(self, db, at)

    @property
    def population_sql(self) -> str | None:
        """The SQL of `population` where the task comes from a sentence."""
        from gelgt.tasks.population import population_sql

        return population_sql(self, self.database)

    def save(self, folder: str | Path | None = None, *, overwrite: bool = False) -> Path:
        """Write the manifest and the label tables as a RelBench task folder, whole or not at all.

        Args:
            folder: Where; by default ``tasks/NAME`` in the database folder, or in the cache if that
                is read-only.
            overwrite: Replace a task of the same name that is defined differently.
        """
        from gelgt.tasks.folder import save_task

        return save_task(self, None if folder is None else Path(folder), overwrite=overwrite)

    def _target_stats(self, table: pa.Table) -> dict[str, Any]:
        values = table.column(self.label_col)
        if len(values) == 0:
            return {}
        if self.task_type == "binary_classification":
            return {"positives": float(pc.mean(values).as_py())}
        if self.task_type == "regression":
            low, middle, high = np.quantile(values.to_numpy(), [0, 0.5, 1])
            return {"min": float(low), "median": float(middle), "max": float(high)}
        if self.task_type == "multiclass_classification":
            counts = np.bincount(values.to_numpy(), minlength=len(self.classes))
            return {"classes": {value: int(n) for value, n in zip(self.classes, counts)}}
        if pa.types.is_list(values.type):
            return {"mean_length": float(pc.mean(pc.list_value_length(values)).as_py())}
        return {}


def _distinct_times(
    table: pa.Table, column: str | None
) -> np.ndarray[Any, np.dtype[np.datetime64]]:
    if column is None:
        return np.array([], dtype="datetime64[us]")
    times: np.ndarray[Any, np.dtype[np.datetime64]]
    times = np.sort(pc.unique(table.column(column)).to_numpy())
    return times
