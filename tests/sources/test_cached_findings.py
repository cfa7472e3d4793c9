"""Findings are computed once for the same rows, and are what `find` gives."""

import pandas as pd
import pytest

import gelgt
from gelgt.schema.findings import find
from gelgt.schema.model import Finding
from gelgt.sources import cached_findings
from gelgt.sources.cached_findings import findings_of

DAYS = pd.date_range("2024-01-01", periods=4)
TABLES = {
    "users": pd.DataFrame({"id": [1, 2, 3], "joined_at": DAYS[:3], "country": "SE"}),
    "orders": pd.DataFrame({"id": [5, 6, 7, 8], "user_id": [1, 1, 2, 99], "placed_at": DAYS}),
}
SCHEMA = {"orders": {"fkeys": {"user_id": "users"}}}


def test_computed_once(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setenv("GELGT_CACHE", str(tmp_path))
    db = gelgt.open(TABLES, schema=SCHEMA)
    computed = find(db)
    assert [(f.code, f.severity) for f in computed] == [
        ("dangling_key", "warning"),
        ("constant_column", "notice"),
    ]
    assert findings_of(db) == computed
    monkeypatch.setattr(cached_findings, "find", lambda _: 1 / 0)
    assert findings_of(db) == computed
    assert findings_of(gelgt.open(TABLES, schema=SCHEMA)) == computed
    other = gelgt.open(TABLES, schema={**SCHEMA, "users": {"time_col": None}})
    with pytest.raises(ZeroDivisionError):
        findings_of(other)


def test_what_the_import_notices_is_not_cached(tmp_path: object) -> None:
    db = gelgt.open(TABLES, schema=SCHEMA)
    before = findings_of(db)
    db.import_findings = [*db.import_findings, Finding("mixed_types", "users", "country")]
    assert [f.code for f in findings_of(db)] == ["mixed_types", *(f.code for f in before)]
