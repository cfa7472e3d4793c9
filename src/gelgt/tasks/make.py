"""`make_task`: one door for the four ways to say what is predicted.

make_task(db, "driver-dnf")                                              a task of the database, or
                                                                         a task folder
make_task(db, "PREDICT COUNT(orders.*, 0, 30, days) = 0 FOR EACH customers.id")
make_task(db, "SELECT …", timedelta="30 days", entity="customers.id")    DuckDB SQL over
                                                                         `timestamps`
make_task(db, frame, entity="customers.id", timedelta="30 days")         the user's own labels
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gelgt.errors import GelgtError, TaskError, did_you_mean
from gelgt.schema.manifest import MANIFEST
from gelgt.tasks.build import DEFAULT_K, Options, autocomplete, complete, forecast
from gelgt.tasks.engine import has_engine
from gelgt.tasks.events import empty_windows, event_groups
from gelgt.tasks.folder import (
    find_folder,
    has_labels,
    is_edited,
    parse_manifest,
    read_labels,
    read_manifest,
    task_names,
)
from gelgt.tasks.frame import duplicate_notice, fitting_split, is_frame, read_frame, split_frame
from gelgt.tasks.labels import autocomplete_sql, check_entities
from gelgt.tasks.numbering import database_of, is_same_numbering, renumbered, retimed
from gelgt.tasks.population import existing
from gelgt.tasks.predict import Plan, label_sql, parse, plan_sentence
from gelgt.tasks.split import Split, split_times
from gelgt.tasks.task import MAX_ROWS, SPLITS, TASK_TYPES, Definition, Task, TaskType
from gelgt.tasks.times import duration, timestamp

if TYPE_CHECKING:
    from gelgt.schema.model import TableSchema
    from gelgt.sources.database import Database


def make_task(
    db: Database,
    definition: Any,
    *,
    name: str | None = None,
    val: Any = None,
    test: Any = None,
    eval_timestamps: int | None = None,
    max_rows: int = MAX_ROWS,
    timedelta: Any = None,
    task_type: TaskType | None = None,
    entity: str | None = None,
    time_col: str | None = None,
    target_col: str | None = None,
    eval_k: int = DEFAULT_K,
    remove_columns: Iterable[str] = (),
) -> Task:
    """A task with its label tables; nothing is written until `Task.save`.

    Args:
        db: The database.
        definition: The name of a task of the database, a path to a task folder, a PREDICT sentence,
            DuckDB SQL with the relation ``timestamps`` and ``{timedelta}``, or a pandas or Arrow
            table of (entity, time, target).
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

    Raises:
        TaskError: the definition cannot be understood, or there is no room for its labels.

    Example:
        >>> import gelgt
        >>> db = gelgt.open("sqlite:///shop.db")  # doctest: +SKIP
        >>> task = make_task(db, "PREDICT COUNT(orders.*, 0, 30, days) = 0 FOR EACH customers.id")  # doctest: +SKIP
        >>> task.rows  # doctest: +SKIP
        {'train': 998, 'val': 146, 'test': 149}
    """
    given = Options(
        name,
        val,
        test,
        eval_timestamps,
        max_rows,
        timedelta,
        task_type,
        entity,
        time_col,
        target_col,
        eval_k,
        tuple(remove_columns),
    )
    _check(given)
    if is_frame(definition):
        return _from_frame(db, definition, given)
    if isinstance(definition, Path):
        return _from_folder(db, _folder_of(definition), given)
    text = str(definition)
    if re.match(r"\s*predict\b", text, re.IGNORECASE):
        return _from_sentence(db, text.strip(), given)
    if re.match(
        r"\s*(--[^\n]*\n\s*|/\*.*?\*/\s*)*(select|with|from)\b", text, re.IGNORECASE | re.DOTALL
    ):
        return _from_sql(db, text.strip(), given)
    return _from_name(db, text, given)


def _check(given: Options) -> None:
    if given.task_type is not None and given.task_type not in TASK_TYPES:
        raise TaskError(
            "unknown_task_type",
            f"There is no task type '{given.task_type}'.",
            hint=did_you_mean(given.task_type, TASK_TYPES),
        )
    for name in ("eval_timestamps", "max_rows", "eval_k"):
        value = getattr(given, name)
        if value is not None and (not isinstance(value, int) or value < 1):
            raise TaskError(
                "bad_option",
                f"{name} is {value!r}, but must be a whole number of at least 1.",
                hint="Give a larger number.",
            )
    if given.name is not None and (not re.fullmatch(r"[\w][\w .+-]*", given.name)):
        raise TaskError(
            "bad_name",
            f"A task cannot be named {given.name!r}.",
            hint="Use letters, digits, '-', '_' and '.'.",
        )


# (a) a task folder
def _from_name(db: Database, name: str, given: Options) -> Task:
    folder = find_folder(db, name) if name and "/" not in name and "\\" not in name else None
    if folder is not None:
        return _from_folder(db, folder, given)
    if (name and (Path(name).expanduser() / MANIFEST).is_file()) or name.endswith(MANIFEST):
        return _from_folder(db, _folder_of(Path(name).expanduser()), given)
    if len(name.split()) > 1:
        parse(name)  # not a name: say where it fails as a sentence
    raise TaskError(
        "unknown_task",
        f"'{db.schema.name}' has no task '{name}'.",
        hint=did_you_mean(name, task_names(db)),
    )


def _folder_of(path: Path) -> Path:
    folder = path.parent if path.name == MANIFEST else path
    if not (folder / MANIFEST).is_file():
        raise TaskError(
            "unknown_task",
            f"There is no task in {folder}.",
            hint=f"A task folder holds a {MANIFEST}.",
        )
    return folder


def _from_folder(db: Database, folder: Path, given: Options) -> Task:
    task, ours = read_manifest(db, folder)
    task = replace(task, name=given.name or task.name, task_type=given.task_type or task.task_type)
    asked = {
        k: getattr(given, k)
        for k in ("val", "test", "eval_timestamps", "timedelta")
        if getattr(given, k) is not None
    }
    if has_labels(folder) and not asked:
        return _from_files(db, folder, task, ours, given)
    if task.kind == "external":
        reason = f"takes no {', '.join(asked)}" if asked else "has no label files"
        raise TaskError(
            "no_labels",
            f"The labels of '{task.name}' are given, not made; it {reason}.",
            hint="Make a task from a frame instead.",
        )
    made = _made_anew(db, task, ours, given)
    if has_labels(folder) and is_edited(folder, task):
        edits = (
            f"the label files of '{task.name}' were edited; for another {' or '.join(asked)} "
            "labels are made anew, without the edits"
        )
        made = replace(made, notices=(*made.notices, edits))
    return made


def task_from_manifest(db: Database, content: Mapping[str, Any]) -> Task:
    """The task that a manifest defines, with labels made from the rows of a database.

    Raises:
        TaskError: its labels are given, not made.
    """
    task = parse_manifest(db, content)
    if task.kind == "external":
        raise TaskError(
            "no_labels",
            f"The labels of '{task.name}' are given, not made.",
            hint="Make a task from a frame instead.",
        )
    return _made_anew(db, task, content.get("gelgt") or {}, Options())


def _from_files(
    db: Database, folder: Path, task: Definition, ours: Mapping[str, Any], given: Options
) -> Task:
    """The labels of a folder, for the rows that they were made for: their numbers may mean others
    by now (numbering.py)."""
    raw, edited, notices = read_labels(folder, task), is_edited(folder, task), []
    numbered = (ours.get("labels") or {}).get("rows")
    is_moved, has_definition = False, task.kind != "external" and not edited
    if numbered is not None:
        is_moved = not is_same_numbering(db, numbered)
    elif (root := database_of(folder)) is not None:
        # RelBench's own, or an older gelgt's: numbers are those of the database around it
        is_moved = root != db.folder.resolve()
        # Whether they were edited is not known: what has keys keeps its labels. A table without
        # keys has its labels in a column.
        has_definition = task.kind == "autocomplete" and db.table(task.entity_table).pkey is None
    elif folder.resolve().parent.parent != db.cache_dir.resolve():
        notices.append(
            f"{folder.name} does not say which data its row numbers are from; they are taken for "
            "rows of this database"
        )
    if others := retimed(db, task, (ours.get("labels") or {}).get("times")):
        tables = " and ".join(f"'{name}'" for name in others)
        changed = f"rows of {tables} have other times than when '{task.name}' was saved"
        if has_definition and has_engine():
            made = _made_anew(db, task, ours, given)
            return replace(made, notices=(*made.notices, f"{changed}: the labels were made anew"))
        notices.append(f"{changed}; the labels of its files are kept")
    if is_moved and has_definition and has_engine():
        made = _made_anew(db, task, ours, given)
        return replace(
            made, notices=(*made.notices, _moved_notice(task, "the labels were made anew"))
        )
    if is_moved:
        raw = renumbered(db, task, raw, folder)
        notices.append(_moved_notice(task, "the labels of its files were matched by your own keys"))
    for split in SPLITS:
        check_entities(raw[split].rows, db, task)
    classes, kept = tuple(ours.get("classes") or ()), tuple(ours.get("notices") or ())
    read = complete(
        db,
        task,
        raw,
        _known_split(db, ours),
        classes=classes,
        notices=kept,
        is_read=True,
        is_edited=edited,
    )
    if task.kind == "forecast" and numbered is None:  # a saved task has said so already
        notices += empty_windows(read, event_groups(db, task))
    return replace(read, notices=(*read.notices, *notices))


def _moved_notice(task: Definition, what: str) -> str:
    tables = " or ".join(
        f"'{name}'" for name in (task.entity_table, task.dst_entity_table) if name is not None
    )
    return f"rows of {tables} are numbered otherwise than when '{task.name}' was saved: {what}"


def _made_anew(db: Database, task: Definition, ours: Mapping[str, Any], given: Options) -> Task:
    """A saved task with labels from its definition, with the options that it was saved with but for
    those given."""
    val = given.val or ours.get("val_timestamp")
    test = given.test or ours.get("test_timestamp")
    given = replace(
        given,
        val=val,
        test=test,
        max_rows=task.max_rows if given.max_rows == MAX_ROWS else given.max_rows,
    )
    if task.sentence is not None:
        made = _from_sentence(db, task.sentence, _as_before(task, given))
        return made if given.eval_timestamps else replace(made, is_open_ended=task.is_open_ended)
    if task.kind == "autocomplete":
        # the schema may name another by now
        task = replace(task, time_col=db.table(task.entity_table).time_col)
        return autocomplete(
            db, task, autocomplete_sql(db, task.entity_table, str(task.target_col)), given
        )
    task = replace(
        task, timedelta=duration(given.timedelta) if given.timedelta is not None else task.timedelta
    )
    made = forecast(
        db, task, given, given.eval_timestamps or task.num_eval_timestamps, is_relbench=not ours
    )
    return made if given.eval_timestamps else replace(made, is_open_ended=task.is_open_ended)


def _as_before(task: Definition, given: Options) -> Options:
    """The options that a saved sentence was made with, but for those that are given anew."""
    return replace(
        given,
        name=task.name,
        eval_timestamps=given.eval_timestamps or task.num_eval_timestamps,
        task_type=task.task_type,
        time_col=task.time_col,
        target_col=task.target_col,
        eval_k=task.eval_k or given.eval_k,
        remove_columns=[f"{table}.{column}" for table, column in task.remove_columns],
    )


def _known_split(db: Database, ours: Mapping[str, Any]) -> Split | None:
    val, test = (
        ours.get("val_timestamp") or db.val_timestamp,
        ours.get("test_timestamp") or db.test_timestamp,
    )
    return (
        None
        if val is None or test is None
        else Split(timestamp(val, "validation time"), timestamp(test, "test time"))
    )


# (b) a sentence
def _from_sentence(db: Database, text: str, given: Options) -> Task:
    import pandas as pd

    plan = plan_sentence(db, parse(text))
    task = Definition(
        name=given.name or _slug(plan, text),
        kind="forecast" if plan.column is None else "autocomplete",
        entity_table=plan.entity.name,
        entity_col=plan.binding.key,
        target_col=given.target_col or "target",
        time_col=given.time_col or _unlike("timestamp", plan.binding.key),
        task_type=given.task_type or plan.task_type,
        remove_columns=_pairs(db, given.remove_columns),
        sentence=text,
    )
    if plan.column is not None:
        column = plan.column
        task = replace(
            task,
            target_col=column,
            time_col=plan.entity.time_col,
            remove_columns=tuple(dict.fromkeys([(plan.entity.name, column), *task.remove_columns])),
        )
        sql = autocomplete_sql(db, plan.entity.name, column)
        if plan.sentence.where is not None:
            sql = label_sql(plan, (str(task.time_col), task.entity_col, column))
        return autocomplete(db, replace(task, sql=sql), sql, given, plan.is_category)
    task = replace(task, timedelta=pd.Timedelta(seconds=plan.seconds))
    if plan.destination is not None:
        column, table = plan.destination
        task = replace(
            task,
            target_col=None,
            dst_entity_table=table,
            dst_entity_col=_unlike(column, task.entity_col),
            eval_k=given.eval_k,
        )
    return forecast(db, task, given, given.eval_timestamps, plan)


# (c) SQL
def _from_sql(db: Database, sql: str, given: Options) -> Task:
    missing = [name for name in ("timedelta", "entity") if getattr(given, name) is None]
    if missing:
        raise TaskError(
            "missing_option",
            f"A task from SQL needs {' and '.join(missing)}.",
            hint="Give timedelta='30 days' and entity='table.column'.",
        )
    table, column = _entity(db, given)
    from gelgt.tasks.engine import engine

    window = duration(given.timedelta)
    with engine(db) as run:
        types = run.run(sql, np.array([], dtype="datetime64[us]"), window)
    columns = list(types)
    entity_col = column or next((c for c in columns if c == table.pkey), None)
    if entity_col is None or entity_col not in columns:
        raise TaskError(
            "unknown_column",
            f"The label SQL returns no column '{entity_col or table.pkey}' (entity).",
            hint=did_you_mean(str(entity_col or table.pkey), columns),
        )
    times = [c for c, kind in types.items() if kind.startswith("TIMESTAMP") or kind == "DATE"]
    time_col = given.time_col or (
        times[0] if len(times) == 1 else next((c for c in times if c.lower() == "timestamp"), None)
    )
    rest = [c for c in columns if c not in (entity_col, time_col)]
    target_col = given.target_col or (rest[0] if len(rest) == 1 else None)
    if time_col not in columns or target_col not in columns:
        raise TaskError(
            "unknown_column",
            f"The label SQL returns {', '.join(columns)}; time and target are not clear.",
            hint="Give time_col and target_col.",
        )
    task = Definition(
        name=given.name or f"{table.name}-{target_col}-{_digest(sql)}",
        kind="forecast",
        entity_table=table.name,
        entity_col=entity_col,
        target_col=target_col,
        time_col=time_col,
        task_type=given.task_type,
        timedelta=window,
        sql=sql,
        remove_columns=_pairs(db, given.remove_columns),
    )
    return forecast(db, task, given, given.eval_timestamps)


# (d) a frame
def _from_frame(db: Database, frame: Any, given: Options) -> Task:
    if given.entity is None:
        raise TaskError(
            "missing_option",
            "A task from a frame needs entity.",
            hint="Give entity='table.column'.",
        )
    table, column = _entity(db, given)
    read = read_frame(db, frame, table.name, column, given.time_col, given.target_col)
    window = None if given.timedelta is None else duration(given.timedelta)
    split = split_times(db, given.val, given.test)
    if split.is_inferred:
        split = fitting_split(read.rows.column("time").to_numpy(), split, window)
    task = Definition(
        name=given.name or f"{table.name}-{read.target_col}-{_digest(str(read.rows.to_pydict()))}",
        kind="external",
        entity_table=table.name,
        entity_col=read.entity_col,
        target_col=read.target_col,
        time_col=read.time_col,
        task_type=given.task_type,
        timedelta=window,
        remove_columns=_pairs(db, given.remove_columns),
    )
    known = len(existing(db, table.name, np.datetime64(split.test, "us")))
    raw = split_frame(db, table.name, read, split, window, known, given.max_rows)
    return complete(db, task, raw, split, notices=tuple(duplicate_notice(read)))


def _entity(db: Database, given: Options) -> tuple[TableSchema, str | None]:
    """The entity table, and the column of the labels that holds its keys where one is named."""
    text = str(given.entity)
    name, column = (
        (text, None)
        if text in db.table_names
        else text.rsplit(".", 1)
        if "." in text
        else (text, None)
    )
    try:
        return db.table(name), column
    except GelgtError as error:
        raise TaskError("unknown_table", error.message, hint=error.hint) from None


def _pairs(db: Database, columns: Iterable[str]) -> tuple[tuple[str, str], ...]:
    found = []
    for text in columns:
        table, _, column = str(text).rpartition(".")
        if table not in db.table_names or column not in db.table(table).columns:
            every = [f"{t}.{c}" for t in db.table_names for c in db.table(t).columns]
            raise TaskError(
                "unknown_column",
                f"There is no column '{text}' to remove.",
                hint=did_you_mean(str(text), every),
            )
        found.append((table, column))
    return tuple(found)


def _unlike(name: str, other: str) -> str:
    while name.lower() == other.lower():
        name += "_"
    return name


def _slug(plan: Plan, text: str) -> str:
    from gelgt.tasks.predict.syntax import Aggregate, Column, operands

    first = operands(plan.sentence.target)[0]
    words = (
        [plan.entity.name, first.name]
        if isinstance(first, Column)
        else [plan.entity.name, first.function, str(first.column.table)]
    )
    assert isinstance(first, Column | Aggregate)
    return re.sub(r"[^a-z0-9]+", "-", "-".join(words).lower()).strip("-") + f"-{_digest(text)}"


def _digest(text: str) -> str:
    return hashlib.blake2b(" ".join(text.split()).encode(), digest_size=3).hexdigest()
