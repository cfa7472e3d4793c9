"""What a prediction says of its source: what the run recorded, and what was noticed since."""

import pandas as pd

import gelgt
from gelgt.inference.run_findings import prediction_findings
from gelgt.runs.record import FindingFacts, RunRecord, TaskFacts
from gelgt.schema.model import Finding
from gelgt.tasks.task import Definition

DAYS = pd.date_range("2024-01-01", periods=4)


def test_recorded_findings_and_new_ones_of_its_tables() -> None:
    users = pd.DataFrame({"id": [1, 2, 3, 4], "joined_at": DAYS})
    alone = pd.DataFrame({"name": ["a", "b", "c", "d"], "at": DAYS})
    db = gelgt.open({"users": users, "alone": alone})
    task = Definition("t", "forecast", "users", "id", "target", "timestamp", "regression")
    leak = FindingFacts(code="suspected_leak", severity="leak", table="users", column="left")
    known = FindingFacts(code="mixed_types", severity="warning", table="users", column="size")
    record = RunRecord(
        task=TaskFacts(name="t", task_type="regression"),
        metric="mae",
        metrics={},
        findings=[known, leak],
    )
    db.import_findings = [
        Finding("mixed_types", "users", "size", 3),
        Finding("dangling_key", "users", "boss_id", 2),
        Finding("dangling_key", "alone", "other_id", 2),
    ]
    assert [(f.handle, f.severity) for f in prediction_findings(record, db, task)] == [
        ("suspected_leak:users.left", "leak"),
        ("mixed_types:users.size", "warning"),
        ("dangling_key:users.boss_id", "warning"),
    ]
