"""The findings that a task is about: those of the tables that its labels and its model read."""

import re
from collections.abc import Collection, Iterable

from gelgt.errors import GelgtError
from gelgt.schema.finding_text import answers
from gelgt.schema.model import DatabaseSchema, Finding
from gelgt.sources.cached_findings import findings_of
from gelgt.sources.database import Database
from gelgt.tasks.task import Definition

HOPS = 2  # that a model looks around an entity where nothing else is said
OF_ALL = ("no_times",)  # codes that are about the whole database


def task_findings(db: Database, task: Definition, hops: int = HOPS) -> list[Finding]:
    """The findings of the tables that a task uses, the gravest first; columns that the task hides
    are left out.

    Args:
        db: The database.
        task: What is predicted.
        hops: How far a model looks around an entity.
    """
    tables, hidden = used_tables(db.schema, task, hops), set(task.remove_columns)
    return [
        f
        for f in findings_of(db)
        if f.code in OF_ALL or (f.table in tables and (f.table, f.column) not in hidden)
    ]


def used_tables(schema: DatabaseSchema, task: Definition, hops: int = HOPS) -> set[str]:
    """The tables of entity and events, and those that keys link to the entity within some hops."""
    used = {table for table in (task.entity_table, task.dst_entity_table) if table is not None}
    sql = (task.sql or "").lower()
    for _ in range(hops):
        links = [(t.name, fk.table) for t in schema.tables.values() for fk in t.foreign_keys]
        used |= {b for a, b in links if a in used} | {a for a, b in links if b in used}
    return used | {name for name in schema.tables if _is_named(name, sql)}


def _is_named(table: str, sql: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(table.lower())}(?!\w)", sql) is not None


def check_answered(findings: Iterable[Finding], accepted: Collection[str]) -> None:
    """Refuse to train where a finding leaves the answers wrong and nobody has accepted that.

    Args:
        findings: Those of the task.
        accepted: Findings that the user accepts, each as ``CODE:TABLE.COLUMN`` or ``CODE:TABLE``.

    Raises:
        GelgtError: ``unanswered_findings``, with the YAML and the option that answer each.
    """
    errors = [f for f in findings if f.severity == "error" and f.handle not in accepted]
    if not errors:
        return
    listed = "".join(f"\n  {f.handle}: {f.message}" for f in errors)
    yaml = "".join(f"\n  {line}" for line in answers(f.repair for f in errors))
    state = (
        f"State the answer in a file for --schema:{yaml}\n  or go on with: "
        if yaml
        else ("Go on with: ")
    )
    options = " ".join(f"--accept {f.handle}" for f in errors)
    raise GelgtError(
        "unanswered_findings",
        f"{len(errors)} finding{'s' * (len(errors) > 1)} would make the predictions wrong:{listed}",
        hint=f"{state}{options} (fit(accept=[…]) in Python).",
    )
