"""The task of a run: its definition on a database, and its label tables."""

from dataclasses import fields
from typing import Any

from gelgt.errors import GelgtError
from gelgt.runs.folder import Run
from gelgt.sources.cache import hash_files
from gelgt.sources.database import Database
from gelgt.sources.readable import read_parquet
from gelgt.tasks import Task
from gelgt.tasks.manifest import parse_manifest
from gelgt.tasks.saved import task_from_manifest
from gelgt.tasks.task import SPLITS, Definition
from gelgt.tasks.times import timestamp


def run_definition(run: Run, db: Database) -> Definition:
    """What a run predicts, on a database that may have changed since.

    Raises:
        GelgtError: ``task.yaml`` does not hold a task of this database.
    """
    try:
        return parse_manifest(db, run.task)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise GelgtError(
            "bad_run", f"{run.folder / 'task.yaml'} holds no task ({error}).", hint="Train again."
        ) from None


def run_task(run: Run, db: Database) -> tuple[Task, bool]:
    """The task of a run with its label tables, and whether they are the run's own.

    The run's own hold row numbers of the data that it was trained on. Where the data has changed,
    labels are made again.

    Raises:
        GelgtError: ``labels_of_other_data``: they were given, not made, and belong to data that has
            changed.
    """
    if is_training_data(run, db):
        return _own_task(run, db), True
    definition = run_definition(run, db)
    if definition.kind == "external" or (run.task.get("gelgt") or {}).get("is_edited"):
        raise GelgtError(
            "labels_of_other_data",
            f"The labels of '{definition.name}' were given for data that has changed since.",
            hint="Evaluate on the data of the training run, or make the task again from a frame.",
        )
    return task_from_manifest(db, run.task), False


def given_task(run: Run, db: Database, task: Task | str, split: str) -> tuple[Task, bool]:
    """A task that a user names, and whether the labels of a split are the run's own.

    Raises:
        GelgtError: ``other_task`` for another kind of answer, ``other_data`` for labels of another
            database.
    """
    given = task if isinstance(task, Task) else db.task(task)
    if given.database.folder != db.folder:
        raise GelgtError(
            "other_data",
            "The labels of the task belong to another database.",
            hint="Make the task on the one given.",
        )
    known = run_definition(run, db)
    if (given.task_type, given.entity_table) != (known.task_type, known.entity_table):
        raise GelgtError(
            "other_task",
            f"The run predicts a {known.task_type} for '{known.entity_table}', not a "
            f"{given.task_type} for '{given.entity_table}'.",
            hint="Train on this task.",
        )
    return given, is_training_data(run, db) and given.table(split).equals(
        _own_task(run, db).table(split)
    )


def is_training_data(run: Run, db: Database) -> bool:
    """Whether a database holds the rows that a run was trained on, so that row numbers mean the
    same."""
    return run.record.data.hash == hash_files(db.all_paths())


def _own_task(run: Run, db: Database) -> Task:
    definition = run_definition(run, db)
    known: dict[str, Any] = {f.name: getattr(definition, f.name) for f in fields(Definition)}
    ours = run.task.get("gelgt") or {}
    val, test = (
        timestamp(ours[key], "split time") if ours.get(key) else None
        for key in ("val_timestamp", "test_timestamp")
    )
    labels = {}
    for split in SPLITS:
        path = run.folder / "labels" / f"{split}.parquet"
        labels[split] = read_parquet(path, "Copy the run folder again.", GelgtError)
    classes = run.target.space.labels if ours.get("classes") else ()
    return Task(
        **known, val_timestamp=val, test_timestamp=test, classes=classes, database=db, labels=labels
    )
