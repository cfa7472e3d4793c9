"""Saved tasks: from a task folder with its label files, or from a manifest alone.

Label files count as they are unless the rows that they number have moved since (`numbering.py`).
Then the labels are made again from the definition, or, where the files hold what no definition
gives, matched by the user's keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gelgt.errors import TaskError, did_you_mean
from gelgt.schema.manifest import MANIFEST
from gelgt.tasks.build import TaskOptions, autocomplete, complete, forecast
from gelgt.tasks.define import from_sentence
from gelgt.tasks.engine import has_engine
from gelgt.tasks.events import empty_windows, event_groups
from gelgt.tasks.folder import find_folder, has_labels, is_edited, read_labels, task_names
from gelgt.tasks.labels import Raw, autocomplete_sql, check_entities
from gelgt.tasks.manifest import parse_manifest, read_manifest
from gelgt.tasks.numbering import database_of, is_same_numbering, renumbered, retimed
from gelgt.tasks.predict import parse
from gelgt.tasks.split import Split
from gelgt.tasks.task import MAX_ROWS, SPLITS, Definition, Task
from gelgt.tasks.times import duration, timestamp

if TYPE_CHECKING:
    from gelgt.sources.database import Database


def from_name(db: Database, name: str, options: TaskOptions) -> Task:
    """A task of the database by its name, or of a folder by its path."""
    folder = find_folder(db, name) if name and "/" not in name and "\\" not in name else None
    if folder is not None:
        return from_folder(db, folder, options)
    if (name and (Path(name).expanduser() / MANIFEST).is_file()) or name.endswith(MANIFEST):
        return from_folder(db, Path(name).expanduser(), options)
    if len(name.split()) > 1:
        parse(name)  # not a name: the error says where it fails as a sentence
    raise TaskError(
        "unknown_task",
        f"'{db.schema.name}' has no task '{name}'.",
        hint=did_you_mean(name, task_names(db)),
    )


def from_folder(db: Database, path: Path, options: TaskOptions) -> Task:
    """The task of a folder, or of the manifest in it.

    Its label files are read; other split times, windows or seed times than those that it was saved
    with need new labels.
    """
    folder = path.parent if path.name == MANIFEST else path
    if not (folder / MANIFEST).is_file():
        raise TaskError(
            "unknown_task",
            f"There is no task in {folder}.",
            hint=f"A task folder holds a {MANIFEST}.",
        )
    task, extra = read_manifest(db, folder)
    task = replace(
        task, name=options.name or task.name, task_type=options.task_type or task.task_type
    )
    names = ("val", "test", "eval_timestamps", "timedelta")
    changed = [name for name in names if getattr(options, name) is not None]
    if has_labels(folder) and not changed:
        return _SavedLabels(db, folder, task, extra).task(options)
    if task.kind == "external":
        reason = f"takes no {', '.join(changed)}" if changed else "has no label files"
        raise TaskError(
            "no_labels",
            f"The labels of '{task.name}' are given, not made; it {reason}.",
            hint="Make a task from a frame instead.",
        )
    new = _with_new_labels(db, task, extra, options)
    if has_labels(folder) and is_edited(folder, task):
        return _add_notices(
            new,
            f"the label files of '{task.name}' were edited; for another {' or '.join(changed)} the "
            "labels are made again from the definition, without the edits",
        )
    return new


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
    return _with_new_labels(db, task, content.get("gelgt") or {}, TaskOptions())


@dataclass
class _SavedLabels:
    """The label files of a folder.

    Attributes:
        extra: What the manifest has under ``gelgt``.
        raw: The rows of the files.
        is_edited: Whether the files hold other values than gelgt wrote.
        is_moved: Whether the row numbers in the files mean other rows by now.
        has_definition: Whether the definition gives what the files hold.
        notices: What the user should know about it.
    """

    db: Database
    folder: Path
    definition: Definition
    extra: Mapping[str, Any]
    raw: dict[str, Raw] = field(init=False)
    is_edited: bool = field(init=False)
    is_moved: bool = field(init=False, default=False)
    has_definition: bool = field(init=False)
    notices: list[str] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        task, folder = self.definition, self.folder
        self.raw, self.is_edited = read_labels(folder, task), is_edited(folder, task)
        self.has_definition = task.kind != "external" and not self.is_edited
        if self._numbering is not None:
            self.is_moved = not is_same_numbering(self.db, self._numbering)
        elif (root := database_of(folder)) is not None:
            # A folder of RelBench, or of an older gelgt: numbers are those of its database.
            self.is_moved = root != self.db.folder.resolve()
            # Nothing says whether they were edited, so that labels of a table with keys are
            # matched by these. A table without keys has its labels in a column.
            has_keys = self.db.table(task.entity_table).pkey is not None
            self.has_definition = task.kind == "autocomplete" and not has_keys
        elif folder.resolve().parent.parent != self.db.cache_dir.resolve():
            self.notices.append(
                f"{folder.name} does not say which data its row numbers are from; they are taken "
                "for rows of this database"
            )

    @property
    def _numbering(self) -> Any:
        return (self.extra.get("labels") or {}).get("rows")

    def task(self, options: TaskOptions) -> Task:
        """The task with the labels of the files, or with new ones where the rows have moved or have
        other times."""
        can_make = self.has_definition and has_engine()
        task, times = self.definition, (self.extra.get("labels") or {}).get("times")
        if tables := retimed(self.db, task, times):
            names = " and ".join(f"'{name}'" for name in tables)
            changed = f"rows of {names} have other times than when '{task.name}' was saved"
            if can_make:
                return self._made_again(options, changed)
            self.notices.append(f"{changed}; the labels of its files stay as they are")
        if self.is_moved and can_make:
            return self._made_again(options, self._moved)
        return self._read()

    def _made_again(self, options: TaskOptions, reason: str) -> Task:
        new = _with_new_labels(self.db, self.definition, self.extra, options)
        return _add_notices(new, f"{reason}: the labels were made again")

    def _read(self) -> Task:
        db, task, raw = self.db, self.definition, self.raw
        if self.is_moved:
            raw = renumbered(db, task, raw, self.folder)
            self.notices.append(f"{self._moved}: the labels of its files were matched by your keys")
        for split in SPLITS:
            check_entities(raw[split].rows, db, task)
        read = complete(
            db,
            task,
            raw,
            _saved_split(db, self.extra),
            classes=tuple(self.extra.get("classes") or ()),
            notices=tuple(self.extra.get("notices") or ()),
            is_read=True,
            is_edited=self.is_edited,
        )
        if task.kind == "forecast" and self._numbering is None:  # a saved task has said so already
            self.notices += empty_windows(read, event_groups(db, task))
        return _add_notices(read, *self.notices)

    @property
    def _moved(self) -> str:
        task = self.definition
        names = [task.entity_table, *([task.dst_entity_table] if task.dst_entity_table else [])]
        tables = " or ".join(f"'{name}'" for name in names)
        return f"rows of {tables} have other numbers than when '{task.name}' was saved"


def _add_notices(task: Task, *notices: str) -> Task:
    return replace(task, notices=(*task.notices, *notices))


def _with_new_labels(
    db: Database, task: Definition, extra: Mapping[str, Any], options: TaskOptions
) -> Task:
    """A saved task with labels from its definition; options that are not given are those that it
    was saved with."""
    options = replace(
        options,
        val=options.val or extra.get("val_timestamp"),
        test=options.test or extra.get("test_timestamp"),
        max_rows=task.max_rows if options.max_rows == MAX_ROWS else options.max_rows,
    )
    if task.kind == "autocomplete" and task.sentence is None:
        # the schema may name another time column by now
        task = replace(task, time_col=db.table(task.entity_table).time_col)
        sql = autocomplete_sql(db, task.entity_table, str(task.target_col))
        return autocomplete(db, task, sql, options)
    if task.sentence is not None:
        new = from_sentence(db, task.sentence, _saved_options(task, options))
    else:
        if options.timedelta is not None:
            task = replace(task, timedelta=duration(options.timedelta))
        count = options.eval_timestamps or task.num_eval_timestamps
        new = forecast(db, task, options, count, is_relbench=not extra)
    return new if options.eval_timestamps else replace(new, is_open_ended=task.is_open_ended)


def _saved_options(task: Definition, options: TaskOptions) -> TaskOptions:
    """The options that a saved sentence was made with, except for those that are given now."""
    return replace(
        options,
        name=task.name,
        eval_timestamps=options.eval_timestamps or task.num_eval_timestamps,
        task_type=task.task_type,
        time_col=task.time_col,
        target_col=task.target_col,
        eval_k=task.eval_k or options.eval_k,
        remove_columns=[f"{table}.{column}" for table, column in task.remove_columns],
    )


def _saved_split(db: Database, extra: Mapping[str, Any]) -> Split | None:
    val = extra.get("val_timestamp") or db.val_timestamp
    test = extra.get("test_timestamp") or db.test_timestamp
    if val is None or test is None:
        return None
    return Split(timestamp(val, "validation time"), timestamp(test, "test time"))
