"""Task folders: `tasks/NAME/manifest.yaml` with `train.parquet`, `val.parquet` and `test.parquet`.

The manifest is RelBench's, so that `relbench.load_dataset(folder).load_task(name)` reads it; ours
lies under `gelgt:`.

    name: churn
    kind: forecast
    task_type: binary_classification
    entity_table: customers
    entity_col: id
    target_col: target
    time_col: timestamp
    timedelta: 30 days
    num_eval_timestamps: 3
    sql: …
    gelgt:
      sentence: PREDICT COUNT(orders.*, 0, 30, days) = 0 FOR EACH customers.id
      val_timestamp: '2025-09-01'
      test_timestamp: '2025-11-01'
      is_open_ended: true               # num_eval_timestamps is as many as there were rows for
      max_rows: 100000                  # where it is not the default
      classes: […]                      # multiclass only: the files hold these values, not their
                                        numbers
      notices: […]
      is_edited: true                   # where the labels are not what the definition gives, but
                                        what somebody wrote into the files
      labels: {…}                       # what the labels were made from (numbering.py)
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from gelgt.errors import SchemaError, TaskError, did_you_mean
from gelgt.files import whole_folder
from gelgt.schema.manifest import MANIFEST, dump_yaml, load_yaml
from gelgt.sources.canonical import canonical_array
from gelgt.sources.relbench_folder import is_relbench_folder
from gelgt.tasks.labels import Raw
from gelgt.tasks.numbering import describe, label_hash, write_keys
from gelgt.tasks.task import KINDS, MAX_ROWS, SPLITS, TASK_TYPES, Definition, Task
from gelgt.tasks.times import duration, duration_text, time_text

if TYPE_CHECKING:
    from gelgt.sources.database import Database

_REQUIRED = {
    "forecast": ("entity_table", "entity_col", "target_col", "time_col", "timedelta", "sql"),
    "autocomplete": ("entity_table", "target_col"),
}
_LINK = ("src_entity_table", "src_entity_col", "dst_entity_table", "dst_entity_col")


def find_folder(db: Database, name: str) -> Path | None:
    """The folder of a task by its name: in the database folder, else in the cache."""
    for root in _roots(db):
        if (root / "tasks" / name / MANIFEST).is_file():
            return root / "tasks" / name
    return None


def task_names(db: Database) -> list[str]:
    """The names of the tasks that a database has."""
    found = {p.parent.name for root in _roots(db) for p in root.glob(f"tasks/*/{MANIFEST}")}
    # half-written folders are hidden
    return sorted(name for name in found if not name.startswith("."))


def _roots(db: Database) -> list[Path]:
    """Where the tasks of a database lie; a folder whose rows had to be ordered anew was imported to
    the cache, its tasks were not."""
    opened = (
        [Path(db.source)] if "://" not in db.source and is_relbench_folder(Path(db.source)) else []
    )
    return [db.folder, *opened, db.cache_dir]


def read_manifest(db: Database, folder: Path) -> tuple[Definition, dict[str, Any]]:
    """The definition in a task folder, and what is under its `gelgt:` key."""
    try:
        content = load_yaml(folder / MANIFEST)
    except SchemaError as error:
        raise TaskError("bad_manifest", error.message, hint=error.hint) from None
    return parse_manifest(db, content, folder.name), content.get("gelgt") or {}


def parse_manifest(db: Database, content: Mapping[str, Any], name: str = "") -> Definition:
    """The definition that a manifest holds; `name` is for one that says none.

    Raises:
        TaskError: it lacks something, or has what no task has.
    """
    name = str(content.get("name") or name)
    where = f"The manifest of task '{name}'"
    kind, task_type = content.get("kind"), content.get("task_type")
    for value, known, key in ((kind, KINDS, "kind"), (task_type, TASK_TYPES, "task_type")):
        if value not in known:
            raise TaskError(
                "bad_manifest",
                f"{where} has the {key} {value!r}.",
                hint=did_you_mean(str(value), known),
            )
    is_link = task_type == "recommendation"
    required = (
        _LINK + (("timedelta", "sql") if kind == "forecast" else ())
        if is_link
        else _REQUIRED.get(str(kind), ("entity_table",))
    )
    missing = [key for key in required if not content.get(key)]
    if missing:
        raise TaskError(
            "bad_manifest", f"{where} lacks {', '.join(missing)}.", hint="Add them to the file."
        )
    return _definition(db, content, name, is_link)


def _definition(db: Database, content: Mapping[str, Any], name: str, is_link: bool) -> Definition:
    table = db.table(str(content["src_entity_table" if is_link else "entity_table"]))
    hidden = [(str(t), str(c)) for t, c in content.get("remove_columns") or ()]
    if content["kind"] == "autocomplete":
        hidden.append((table.name, str(content["target_col"])))
    return Definition(
        name=name,
        kind=content["kind"],
        entity_table=table.name,
        entity_col=str(
            content.get("src_entity_col" if is_link else "entity_col")
            or table.pkey
            or "primary_key"
        ),
        target_col=None if is_link else str(content.get("target_col") or "target"),
        time_col=content.get("time_col")
        or (table.time_col if content["kind"] == "autocomplete" else None),
        task_type=content["task_type"],
        timedelta=duration(content["timedelta"]) if content.get("timedelta") else None,
        num_eval_timestamps=int(content.get("num_eval_timestamps") or 1),
        sql=content.get("sql"),
        remove_columns=tuple(dict.fromkeys(hidden)),
        dst_entity_table=content.get("dst_entity_table") if is_link else None,
        dst_entity_col=content.get("dst_entity_col") if is_link else None,
        eval_k=content.get("eval_k"),
        sentence=(content.get("gelgt") or {}).get("sentence"),
        description=str(content.get("description") or ""),
        max_rows=int((content.get("gelgt") or {}).get("max_rows") or MAX_ROWS),
        is_open_ended=bool((content.get("gelgt") or {}).get("is_open_ended")),
    )


def has_labels(folder: Path) -> bool:
    return all((folder / f"{split}.parquet").is_file() for split in SPLITS)


def read_labels(folder: Path, task: Definition) -> dict[str, Raw]:
    """The label tables of a folder as they are, entities by the row numbers that they hold."""
    found = {}
    for split in SPLITS:
        path = folder / f"{split}.parquet"
        try:
            table = pq.read_table(path)
        except (pa.ArrowInvalid, OSError) as error:
            raise TaskError(
                "unreadable_file",
                f"{path} is not a readable Parquet file: {error}",
                hint="Make the labels again.",
            ) from None
        missing = [
            c for c in _columns(task).values() if c is not None and c not in table.column_names
        ]
        if missing:
            raise TaskError(
                "unknown_column",
                f"{folder.name}/{path.name} has no column '{missing[0]}'.",
                hint=did_you_mean(missing[0], table.column_names),
            )
        found[split] = Raw(_by_role(table, task), table.num_rows)
    return found


def is_edited(folder: Path, task: Definition) -> bool:
    """Whether the label files hold other values than gelgt wrote; false where it did not write
    them."""
    ours = load_yaml(folder / MANIFEST).get("gelgt") or {}
    written = (ours.get("labels") or {}).get("hash")
    if ours.get("is_edited") or written is None or not has_labels(folder):
        return bool(ours.get("is_edited"))
    return bool(
        written != label_hash({split: raw.rows for split, raw in read_labels(folder, task).items()})
    )


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


def manifest(task: Task) -> dict[str, Any]:
    """The manifest of a task: RelBench's keys, then ours."""
    is_link = task.dst_entity_table is not None
    content: dict[str, Any] = {"name": task.name, "kind": task.kind, "task_type": task.task_type}
    entity = _LINK if is_link else ("entity_table", "entity_col", "target_col")
    for key in ("description", *entity, "time_col", "eval_k"):
        if getattr(task, key):
            content[key] = getattr(task, key)
    if task.timedelta is not None and task.kind != "autocomplete":
        content["timedelta"] = duration_text(task.timedelta)
    if task.num_eval_timestamps != 1:
        content["num_eval_timestamps"] = task.num_eval_timestamps
    # RelBench hides the target of an autocomplete task by itself and stumbles over a second
    # mention.
    hidden = [
        list(pair)
        for pair in task.remove_columns
        if task.kind != "autocomplete" or pair != (task.entity_table, task.target_col)
    ]
    if hidden:
        content["remove_columns"] = hidden
    if task.sql:
        content["sql"] = task.sql
    content["manifest_version"] = 1
    times = {"val_timestamp": task.val_timestamp, "test_timestamp": task.test_timestamp}
    ours: dict[str, Any] = {
        "sentence": task.sentence,
        **{k: time_text(v) for k, v in times.items() if v is not None},
    }
    ours |= {
        "classes": list(task.classes),
        "notices": list(task.notices),
        "is_open_ended": task.is_open_ended,
    }
    ours |= {"is_edited": task.is_edited}
    ours |= {"max_rows": task.max_rows} if task.max_rows != MAX_ROWS else {}
    content["gelgt"] = {k: v for k, v in ours.items() if v}
    return content


def save_task(task: Task, folder: Path | None, *, overwrite: bool) -> Path:
    """Write a task folder under a temporary name and put it in place whole."""
    target = folder or _default_folder(task)
    if (target / MANIFEST).exists() and not overwrite:
        _check_same(task, target)
    elif target.exists() and not (target / MANIFEST).exists() and any(target.iterdir()):
        raise TaskError(
            "not_a_task",
            f"The folder {target} holds something else than a task.",
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

    RelBench knows one pair of split times for all tasks; those of a later task stay under its own
    `gelgt:` key.
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
    stated = {key: time_text(value) for key, value in times.items()}
    if {key: content.get(key) for key in stated} != stated and "gelgt" in content:
        content |= stated
        content["gelgt"]["split_origin"] = "manifest"
        dump_yaml(content, path)


def _original(task: Task, split: str) -> pa.Table:
    """A label table as RelBench knows it: classes by their values."""
    table = task.table(split)
    if not task.classes:
        return table
    place = table.schema.get_field_index(task.label_col)
    return table.set_column(place, task.label_col, pa.array(task.classes).take(table.column(place)))


def _default_folder(task: Task) -> Path:
    db = task.database
    known = db.folder / "tasks"
    probe = next(p for p in (known / task.name, known, db.folder) if p.exists())
    root = (
        known
        if os.access(probe, os.W_OK) and os.access(known if known.exists() else db.folder, os.W_OK)
        else db.cache_dir / "tasks"
    )
    return root / task.name


def _check_same(task: Task, folder: Path) -> None:
    theirs, mine = load_yaml(folder / MANIFEST), manifest(task)
    schema = task.database
    ours = {"val_timestamp": schema.val_timestamp, "test_timestamp": schema.test_timestamp} | (
        theirs.get("gelgt") or {}
    )
    keys = (set(theirs) | set(mine)) - {"gelgt", "description", "manifest_version", "name"}
    if task.kind == "autocomplete":
        keys -= {"entity_col", "time_col", "sql"}  # RelBench takes these from the table
    different = sorted(k for k in keys if _plain(theirs.get(k), k) != _plain(mine.get(k), k))
    different += [
        k
        for k in ("val_timestamp", "test_timestamp")
        if k in mine["gelgt"] and str(mine["gelgt"][k]) != time_text(ours[k])
    ]
    if (
        not different
        and has_labels(folder)
        and (task.kind == "external" or is_edited(folder, task))
    ):
        different = [
            split
            for split in SPLITS
            if not pq.read_table(folder / f"{split}.parquet").equals(_original(task, split))
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
