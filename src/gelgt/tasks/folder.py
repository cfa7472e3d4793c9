"""Task folders: `tasks/NAME/manifest.yaml` with `train.parquet`, `val.parquet` and `test.parquet`.

What the manifest holds is in `manifest.py`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from gelgt.errors import TaskError, did_you_mean
from gelgt.files import whole_folder
from gelgt.schema.manifest import MANIFEST, dump_yaml, load_yaml
from gelgt.sources.canonical import canonical_array
from gelgt.sources.readable import read_parquet
from gelgt.sources.relbench_folder import is_relbench_folder
from gelgt.tasks.labels import Raw
from gelgt.tasks.manifest import manifest
from gelgt.tasks.numbering import describe, label_hash, write_keys
from gelgt.tasks.task import SPLITS, Definition, Task
from gelgt.tasks.times import duration, time_text

if TYPE_CHECKING:
    from gelgt.sources.database import Database


def find_folder(db: Database, name: str) -> Path | None:
    """The folder of a task by its name: in the database folder, else in the cache."""
    for root in _roots(db):
        if (root / "tasks" / name / MANIFEST).is_file():
            return root / "tasks" / name
    return None


def task_names(db: Database) -> list[str]:
    """The names of the tasks that a database has."""
    names = {p.parent.name for root in _roots(db) for p in root.glob(f"tasks/*/{MANIFEST}")}
    # folders that are being written have hidden names
    return sorted(name for name in names if not name.startswith("."))


def _roots(db: Database) -> list[Path]:
    """Where the tasks of a database lie. A folder whose rows had to be sorted was imported to the
    cache, but its tasks were not."""
    is_folder = "://" not in db.source and is_relbench_folder(Path(db.source))
    return [db.folder, *([Path(db.source)] if is_folder else []), db.cache_dir]


def has_labels(folder: Path) -> bool:
    return all((folder / f"{split}.parquet").is_file() for split in SPLITS)


def read_labels(folder: Path, task: Definition) -> dict[str, Raw]:
    """The label tables of a folder as they are, entities by the row numbers that they hold."""
    labels = {}
    for split in SPLITS:
        path = folder / f"{split}.parquet"
        table = read_parquet(path, "Make the labels again.", TaskError)
        columns = [name for name in _columns(task).values() if name is not None]
        missing = [name for name in columns if name not in table.column_names]
        if missing:
            raise TaskError(
                "unknown_column",
                f"{folder.name}/{path.name} has no column '{missing[0]}'.",
                hint=did_you_mean(missing[0], table.column_names),
            )
        labels[split] = Raw(_by_role(table, task), table.num_rows)
    return labels


def is_edited(folder: Path, task: Definition) -> bool:
    """Whether the label files hold other values than gelgt wrote; false where it did not write
    them."""
    extra = load_yaml(folder / MANIFEST).get("gelgt") or {}
    written = (extra.get("labels") or {}).get("hash")
    if extra.get("is_edited") or written is None or not has_labels(folder):
        return bool(extra.get("is_edited"))
    labels = {split: raw.rows for split, raw in read_labels(folder, task).items()}
    return bool(written != label_hash(labels))


def _columns(task: Definition) -> dict[str, str | None]:
    return {"time": task.time_col, "entity": task.entity_col, "target": task.label_col}


def _by_role(table: pa.Table, task: Definition) -> pa.Table:
    """The columns time, entity and target of a label table, in canonical types."""
    return pa.table(
        {
            role: pa.nulls(table.num_rows, pa.timestamp("us"))
            if name is None
            else _column(table.column(name), name, role)
            for role, name in _columns(task).items()
        }
    )


def _column(values: pa.ChunkedArray, name: str, role: str) -> pa.ChunkedArray:
    if role == "target" and pa.types.is_list(values.type):
        return values
    arrays = [canonical_array(chunk, "labels", name) for chunk in values.chunks]
    if not arrays:
        return pa.chunked_array([canonical_array(pa.array([], values.type), "labels", name)])
    return pa.chunked_array([a.cast(pa.int64()) for a in arrays] if role == "entity" else arrays)


def save_task(task: Task, folder: Path | None, *, overwrite: bool) -> Path:
    """Write a task folder under a temporary name and put it in place whole."""
    target = folder or _default_folder(task)
    if (target / MANIFEST).exists() and not overwrite:
        _check_same(task, target)
    elif target.exists() and not (target / MANIFEST).exists() and any(target.iterdir()):
        raise TaskError(
            "not_a_task",
            f"The folder {target} is not empty and holds no task.",
            hint="Choose another folder.",
        )
    with whole_folder(target) as temporary:
        for split in SPLITS:
            pq.write_table(_original(task, split), temporary / f"{split}.parquet")
        labels = {split: _by_role(_original(task, split), task) for split in SPLITS}
        write_keys(task.database, task, labels, temporary)
        content = manifest(task)
        content["gelgt"]["labels"] = describe(task.database, task, labels)
        dump_yaml(content, temporary / MANIFEST)
    if target.parent == task.database.folder / "tasks":
        _state_splits(task)
    return target


def _state_splits(task: Task) -> None:
    """Write the split times of a database's first task to its manifest, where they were only
    guessed.

    RelBench has one pair of split times for all tasks; those of a later task stay under `gelgt:` in
    its manifest.
    """
    db, path = task.database, task.database.folder / MANIFEST
    times = {"val_timestamp": task.val_timestamp, "test_timestamp": task.test_timestamp}
    if (
        db.schema.split_origin != "inferred"
        or None in times.values()
        or task_names(db) != [task.name]
    ):
        return
    content = load_yaml(path)
    texts = {key: time_text(value) for key, value in times.items()}
    if {key: content.get(key) for key in texts} != texts and "gelgt" in content:
        content |= texts
        content["gelgt"]["split_origin"] = "manifest"
        dump_yaml(content, path)


def _original(task: Task, split: str) -> pa.Table:
    """A label table in RelBench's form: classes by their values."""
    table = task.table(split)
    if not task.classes:
        return table
    place = table.schema.get_field_index(task.label_col)
    return table.set_column(place, task.label_col, pa.array(task.classes).take(table.column(place)))


def _default_folder(task: Task) -> Path:
    db = task.database
    tasks = db.folder / "tasks"
    existing = [path for path in (tasks / task.name, tasks, db.folder) if path.exists()]
    parent = tasks if tasks.exists() else db.folder
    is_writable = os.access(existing[0], os.W_OK) and os.access(parent, os.W_OK)
    return (tasks if is_writable else db.cache_dir / "tasks") / task.name


def _check_same(task: Task, folder: Path) -> None:
    """A task of the same name that is defined differently, or whose files hold other labels, is
    an error."""
    saved, new = load_yaml(folder / MANIFEST), manifest(task)
    keys = (set(saved) | set(new)) - {"gelgt", "description", "manifest_version", "name"}
    if task.kind == "autocomplete":
        keys -= {"entity_col", "time_col", "sql"}  # RelBench takes these from the table
    different = sorted(k for k in keys if _plain(saved.get(k), k) != _plain(new.get(k), k))
    db, extra = task.database, saved.get("gelgt") or {}
    splits = {"val_timestamp": db.val_timestamp, "test_timestamp": db.test_timestamp} | extra
    different += [
        k
        for k in ("val_timestamp", "test_timestamp")
        if k in new["gelgt"] and str(new["gelgt"][k]) != time_text(splits[k])
    ]
    if (
        not different
        and has_labels(folder)
        and (task.kind == "external" or is_edited(folder, task))
    ):
        different = [
            split
            for split in SPLITS
            if not read_parquet(folder / f"{split}.parquet").equals(_original(task, split))
        ]
    if different:
        raise TaskError(
            "task_exists",
            f"There is another task '{task.name}' in {folder.parent}; it differs in "
            f"{', '.join(different)}.",
            hint="Give the task another name, or overwrite it.",
        )


def _plain(value: Any, key: str) -> Any:
    if key == "num_eval_timestamps":
        return value or 1
    if key == "timedelta" and value:
        return duration(value)
    return value.strip() if isinstance(value, str) else value
