"""The manifest of a task folder, read and written.

It is RelBench's, so that `relbench.load_dataset(folder).load_task(name)` reads it; what gelgt adds
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
      is_open_ended: true       # num_eval_timestamps is as many as there were rows for
      max_rows: 100000          # where it is not the default
      classes: […]              # multiclass only: the files hold these values, not their numbers
      notices: […]
      is_edited: true           # somebody changed the label files, and they count as they are
      labels: {…}               # what the labels were made from (numbering.py)
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gelgt.errors import SchemaError, TaskError, did_you_mean
from gelgt.schema.manifest import MANIFEST, load_yaml
from gelgt.schema.shape import shaped
from gelgt.tasks.sql_text import ROW_NUMBER
from gelgt.tasks.task import KINDS, MAX_ROWS, TASK_TYPES, Definition, Task
from gelgt.tasks.times import duration, duration_text, time_text

if TYPE_CHECKING:
    from gelgt.sources.database import Database

_REQUIRED = {
    "forecast": ("entity_table", "entity_col", "target_col", "time_col", "timedelta", "sql"),
    "autocomplete": ("entity_table", "target_col"),
}
_LINK = ("src_entity_table", "src_entity_col", "dst_entity_table", "dst_entity_col")


def read_manifest(db: Database, folder: Path) -> tuple[Definition, dict[str, Any]]:
    """The definition in a task folder, and what is under its `gelgt:` key."""
    try:
        content = load_yaml(folder / MANIFEST)
    except SchemaError as error:
        raise TaskError("bad_manifest", error.message, hint=error.hint) from None
    with shaped(str(folder / MANIFEST), kind=TaskError):
        extra = dict(content.get("gelgt") or {})
        kinds = {"labels": dict, "classes": list, "notices": list}
        extra |= {key: kind(extra[key] or ()) for key, kind in kinds.items() if key in extra}
    return parse_manifest(db, content, folder.name), extra


def parse_manifest(db: Database, content: Mapping[str, Any], name: str = "") -> Definition:
    """The definition in a manifest; `name` is used where the manifest has none.

    Raises:
        TaskError: a key is missing, or has a value that no task has.
    """
    name = str(content.get("name") or name)
    with shaped(f"The manifest of task '{name}'", kind=TaskError):
        return _parsed(db, content, name)


def _parsed(db: Database, content: Mapping[str, Any], name: str) -> Definition:
    where = f"The manifest of task '{name}'"
    kind, task_type = content.get("kind"), content.get("task_type")
    for value, values, key in ((kind, KINDS, "kind"), (task_type, TASK_TYPES, "task_type")):
        if value not in values:
            raise TaskError(
                "bad_manifest",
                f"{where} has the {key} {value!r}.",
                hint=did_you_mean(str(value), values),
            )
    is_link = task_type == "recommendation"
    required = _REQUIRED.get(str(kind), ("entity_table",))
    if is_link:
        required = _LINK + (("timedelta", "sql") if kind == "forecast" else ())
    missing = [key for key in required if not content.get(key)]
    if missing:
        raise TaskError(
            "bad_manifest", f"{where} lacks {', '.join(missing)}.", hint="Add them to the file."
        )
    if not isinstance(content.get("sql") or "", str):
        raise TaskError(
            "bad_manifest",
            f"{where} has sql that is no text: {content['sql']!r:.80}.",
            hint="Write one query.",
        )
    return _definition(db, content, name, is_link)


def _definition(db: Database, content: Mapping[str, Any], name: str, is_link: bool) -> Definition:
    table = db.table(str(content["src_entity_table" if is_link else "entity_table"]))
    extra = content.get("gelgt") or {}
    hidden = [(str(t), str(c)) for t, c in content.get("remove_columns") or ()]
    if content["kind"] == "autocomplete":
        hidden.append((table.name, str(content["target_col"])))
    entity_col = content.get("src_entity_col" if is_link else "entity_col")
    return Definition(
        name=name,
        kind=content["kind"],
        entity_table=table.name,
        entity_col=str(entity_col or table.pkey or ROW_NUMBER),
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
        sentence=extra.get("sentence"),
        description=str(content.get("description") or ""),
        max_rows=int(extra.get("max_rows") or MAX_ROWS),
        is_open_ended=bool(extra.get("is_open_ended")),
    )


def manifest(task: Task) -> dict[str, Any]:
    """The manifest of a task: RelBench's keys, then gelgt's."""
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
    # RelBench hides the target of an autocomplete task by itself and fails where it is listed too.
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
    extra: dict[str, Any] = {
        "sentence": task.sentence,
        **{k: time_text(v) for k, v in times.items() if v is not None},
        "classes": list(task.classes),
        "notices": list(task.notices),
        "is_open_ended": task.is_open_ended,
        "is_edited": task.is_edited,
        "max_rows": task.max_rows if task.max_rows != MAX_ROWS else None,
    }
    content["gelgt"] = {k: v for k, v in extra.items() if v}
    return content
