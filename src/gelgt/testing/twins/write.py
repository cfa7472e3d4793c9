"""`make_twin`: a twin of a RelBench database as a RelBench folder, with the labels of all its
tasks."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from gelgt.errors import GelgtError
from gelgt.files import whole_folder
from gelgt.schema.manifest import MANIFEST, dump_yaml, parse_schema
from gelgt.sources.canonical import canonical_name, canonical_type
from gelgt.sources.database import Database
from gelgt.tasks import make_task
from gelgt.tasks.task import SPLITS, Task
from gelgt.testing.twins.facts import Facts, read_facts
from gelgt.testing.twins.rows import make_tables

_LINK = {"entity_table": "src_entity_table", "entity_col": "src_entity_col"}


def twin_tasks(name: str, recommendations: bool = False) -> tuple[str, ...]:
    """The names of a twin's tasks that predict a value; with `recommendations` of all its tasks.

    Example:
        >>> twin_tasks("rel-hm")
        ('user-churn', 'item-sales', 'transactions-price')
    """
    tasks = read_facts(name).tasks
    return tuple(
        task
        for task, spec in tasks.items()
        if recommendations or spec["task_type"] != "recommendation"
    )


def make_twin(
    name: str, folder: str | Path, *, seed: int = 0, scale: float = 1.0, kinds: bool = True
) -> Path:
    """Write a small generated database with exactly the schema and tasks of a RelBench database.

    Labels are computed from the rows by the tasks' own rules, so that their windows are RelBench's.

    Args:
        name: One of `TWINS`, such as ``rel-trial``.
        folder: Must not hold anything yet.
        seed: The same seed gives the same rows.
        scale: Times the number of rows; the largest tables have about 2,000 at 1. Below a half a
            task may find no labels.
        kinds: State the kinds of the columns in the manifest; hosted databases do not, and gelgt
            infers them.

    Returns:
        The folder, for `gelgt.open` and `relbench.load_dataset`.

    Raises:
        GelgtError: there is no such twin, the folder is taken, or the scale leaves a task without
            labels.
    """
    facts, target = read_facts(name), Path(folder)
    if not scale > 0:
        raise GelgtError(
            "bad_option",
            f"scale must be a positive number, got {scale}.",
            hint="1 gives the largest tables about 2,000 rows.",
        )
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise GelgtError(
            "not_empty",
            f"The folder {target} must be empty or new; it holds files.",
            hint="Choose another folder.",
        )
    with whole_folder(target) as temporary:
        _write(facts, temporary, seed, scale, kinds)
    return target


def _write(facts: Facts, folder: Path, seed: int, scale: float, kinds: bool) -> None:
    tables = make_tables(facts, seed, scale)
    (folder / "db").mkdir(parents=True)
    for name, table in tables.items():
        pq.write_table(table, folder / "db" / f"{name}.parquet")
    content = _manifest(facts, kinds)
    dump_yaml(content, folder / MANIFEST)
    columns = {
        name: {f.name: canonical_name(canonical_type(f.type)) for f in table.schema}
        for name, table in tables.items()
    }
    db = Database(folder, parse_schema(content, columns, MANIFEST), str(folder))
    for task, spec in facts.tasks.items():
        task_folder = folder / "tasks" / task
        task_folder.mkdir(parents=True)
        dump_yaml(_task_manifest(task, spec), task_folder / MANIFEST)
        labels = make_task(db, task_folder)
        for split in SPLITS:
            pq.write_table(_labels(labels, split), task_folder / f"{split}.parquet")


def _manifest(facts: Facts, kinds: bool) -> dict[str, Any]:
    content: dict[str, Any] = {
        "name": facts.name,
        "manifest_version": 1,
        "description": f"A small generated database with the schema of {facts.name}",
        "val_timestamp": facts.val_timestamp,
        "test_timestamp": facts.test_timestamp,
        "tables": {
            name: {"pkey": t.pkey, "time_col": t.time_col, "fkeys": dict(t.fkeys)}
            for name, t in facts.tables.items()
        },
    }
    if kinds:
        content["gelgt"] = {
            "tables": {name: {"kinds": stated_kinds(facts, name)} for name in facts.tables}
        }
    return content


def stated_kinds(facts: Facts, table: str) -> dict[str, Any]:
    """The kinds of a table's feature columns as its manifest states them; identifiers are no
    features."""
    stated: dict[str, Any] = {}
    spec = facts.tables[table]
    for column, kind in spec.columns.items():
        if column in (spec.pkey, *spec.fkeys):
            continue
        value = spec.value(column)
        name = str(value.get("kind") or ("ignored" if kind == "id" else kind))
        separator = value.get("separator")
        stated[column] = name if separator is None else {"kind": name, "separator": separator}
    return stated


def _task_manifest(name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    is_link = spec["task_type"] == "recommendation"
    content = {_LINK.get(key, key) if is_link else key: value for key, value in spec.items()}
    if spec["kind"] == "autocomplete":  # RelBench takes both from the table
        content = {
            key: value for key, value in content.items() if key not in ("entity_col", "time_col")
        }
    return {"name": name, **content, "manifest_version": 1}


def _labels(task: Task, split: str) -> pa.Table:
    """A label table as RelBench stores it: the target of an autocomplete task is the column
    itself."""
    table = task.table(split)
    if task.kind != "autocomplete":
        return table
    values = (
        task.database.read(task.entity_table, [task.label_col])
        .column(0)
        .take(table.column(task.entity_col))
    )
    return table.set_column(table.schema.get_field_index(task.label_col), task.label_col, values)
