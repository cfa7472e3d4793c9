"""`make_task`: the one function behind the four forms that a definition can have.

make_task(db, "driver-dnf")                                 a task of the database, by name, or
                                                            the path of a task folder
make_task(db, "PREDICT COUNT(orders.*, 0, 30, days) = 0 FOR EACH customers.id")
make_task(db, "SELECT …", timedelta="30 days", entity="customers.id")
                                                            DuckDB SQL over `timestamps`
make_task(db, frame, entity="customers.id", timedelta="30 days")
                                                            a frame of labels
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gelgt.errors import TaskError, did_you_mean
from gelgt.tasks.build import TaskOptions
from gelgt.tasks.define import from_frame, from_sentence, from_sql
from gelgt.tasks.frame import is_frame
from gelgt.tasks.saved import from_folder, from_name
from gelgt.tasks.task import TASK_TYPES, Task

if TYPE_CHECKING:
    from gelgt.sources.database import Database

_SENTENCE = re.compile(r"\s*predict\b", re.IGNORECASE)
_SQL = re.compile(
    r"\s*(--[^\n]*\n\s*|/\*.*?\*/\s*)*(select|with|from)\b", re.IGNORECASE | re.DOTALL
)


def make_task(db: Database, definition: Any, **options: Any) -> Task:
    """A task with its label tables; nothing is written until `Task.save`.

    Args:
        db: The database.
        definition: The name of a task of the database, a path to a task folder, a PREDICT sentence,
            DuckDB SQL with the relation ``timestamps`` and ``{timedelta}``, or a pandas or Arrow
            table of (entity, time, target).
        options: The fields of `TaskOptions`: ``name``, ``val``, ``test``, ``eval_timestamps``,
            ``max_rows``, ``timedelta``, ``task_type``, ``entity``, ``time_col``, ``target_col``,
            ``eval_k``, ``remove_columns``.

    Raises:
        TaskError: the definition cannot be understood, or no window fits into a split.

    Example:
        >>> import gelgt
        >>> db = gelgt.open("sqlite:///shop.db")  # doctest: +SKIP
        >>> churn = "PREDICT COUNT(orders.*, 0, 30, days) = 0 FOR EACH customers.id"
        >>> make_task(db, churn).rows  # doctest: +SKIP
        {'train': 998, 'val': 146, 'test': 149}
    """
    checked = TaskOptions(**options)
    _check(checked)
    if is_frame(definition):
        return from_frame(db, definition, checked)
    if isinstance(definition, Path):
        return from_folder(db, definition, checked)
    text = str(definition)
    if _SENTENCE.match(text):
        return from_sentence(db, text.strip(), checked)
    if _SQL.match(text):
        return from_sql(db, text.strip(), checked)
    return from_name(db, text, checked)


def _check(options: TaskOptions) -> None:
    if options.task_type is not None and options.task_type not in TASK_TYPES:
        raise TaskError(
            "unknown_task_type",
            f"There is no task type '{options.task_type}'.",
            hint=did_you_mean(options.task_type, TASK_TYPES),
        )
    for name in ("eval_timestamps", "max_rows", "eval_k"):
        value = getattr(options, name)
        if value is not None and (not isinstance(value, int) or value < 1):
            raise TaskError(
                "bad_option",
                f"{name} must be a whole number of at least 1, got {value!r}.",
                hint="Give a larger number.",
            )
    if options.name is not None and (not re.fullmatch(r"[\w][\w .+-]*", options.name)):
        raise TaskError(
            "bad_name",
            f"A task cannot be named {options.name!r}.",
            hint="Use letters, digits, '-', '_' and '.'.",
        )
