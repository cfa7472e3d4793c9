"""The task of a run: its definition on a database, and its label tables."""

import tempfile
from dataclasses import fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from gelgt.errors import GelgtError
from gelgt.schema.manifest import MANIFEST, dump_yaml
from gelgt.sources.cache import hash_files
from gelgt.sources.database import Database
from gelgt.tasks import Task
from gelgt.tasks.folder import read_manifest
from gelgt.tasks.task import SPLITS, Definition
from gelgt.tasks.times import timestamp
from gelgt.training import Run


def run_definition(run: Run, db: Database) -> Definition:
    """What a run predicts, on a database that may have changed since."""
    with tempfile.TemporaryDirectory(prefix="gelgt-task-") as folder:
        return read_manifest(db, _write_manifest(run, Path(folder)))[0]


def hidden_columns(task: Definition) -> dict[str, tuple[str, ...]]:
    """The columns that a task must not see, by table."""
    return {table: tuple(c for t, c in task.remove_columns if t == table) for table, _ in task.remove_columns}


def run_task(run: Run, db: Database) -> tuple[Task, bool]:
    """The task of a run with its label tables, and whether they are the run's own.

    The run's own hold row numbers of the data that it was trained on. Where the data has changed, labels are made again.

    Raises:
        GelgtError: ``labels_of_other_data``: they were given, not made, and belong to data that has changed.
    """
    if hash_files([db.path(name) for name in db.table_names]) == run.metrics["data"]["hash"]:
        return _own_task(run, db), True
    if run.task["kind"] == "external":
        raise GelgtError(
            "labels_of_other_data",
            f"The labels of '{run.task['name']}' were given for data that has changed since.",
            hint="Evaluate on the data of the training run, or make the task again from a frame.",
        )
    with tempfile.TemporaryDirectory(prefix="gelgt-task-") as folder:
        return db.task(_write_manifest(run, Path(folder))), False


def _write_manifest(run: Run, folder: Path) -> Path:
    dump_yaml(run.task, folder / MANIFEST)
    return folder


def _own_task(run: Run, db: Database) -> Task:
    definition = run_definition(run, db)
    known: dict[str, Any] = {f.name: getattr(definition, f.name) for f in fields(Definition)}
    ours = run.task.get("gelgt") or {}
    val, test = (timestamp(ours[key], "split time") if ours.get(key) else None for key in ("val_timestamp", "test_timestamp"))
    labels = {}
    for split in SPLITS:
        path = run.folder / "labels" / f"{split}.parquet"
        try:
            labels[split] = pq.read_table(path)
        except (pa.ArrowInvalid, OSError) as error:
            raise GelgtError("damaged_file", f"{path} is not readable: {error}.", hint="Copy the run folder again.") from None
    classes = run.target.space.labels if ours.get("classes") else ()
    return Task(**known, val_timestamp=val, test_timestamp=test, classes=classes, database=db, labels=labels)
