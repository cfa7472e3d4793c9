"""The findings that a prediction rests on: those of the run, and what the import of the source has
noticed since."""

from gelgt.runs.record import RunRecord
from gelgt.schema.findings import ranked, weighed
from gelgt.schema.model import Finding
from gelgt.sources.database import Database
from gelgt.tasks.task import Definition
from gelgt.tasks.task_findings import used_tables


def prediction_findings(record: RunRecord, db: Database, task: Definition) -> list[Finding]:
    """Findings of the tables that a prediction reads, the gravest first. No row is looked at: what
    rows show was found when the run was trained."""
    recorded = [each.finding for each in record.findings]
    known, tables = {f.handle for f in recorded}, used_tables(db.schema, task)
    new = [f for f in db.import_findings if f.handle not in known and f.table in tables]
    return ranked([*recorded, *(weighed(db, f) for f in new)])
