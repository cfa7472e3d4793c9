"""Every code has its severity in one table, and findings come in that order."""

import re
from pathlib import Path

import gelgt
from gelgt.schema.model import Finding
from gelgt.schema.severity import CODES, SEVERITIES, rank, severity_of

SOURCES = Path(gelgt.__file__).parent


def test_every_code_that_is_raised_is_listed() -> None:
    texts = [path.read_text(encoding="utf-8") for path in SOURCES.rglob("*.py")]
    raised = {code for text in texts for code in re.findall(r'\bFinding\(\s*"(\w+)"', text)}
    assert len(raised) > 15
    assert raised <= set(CODES)


def test_a_finding_without_a_severity_has_that_of_its_code() -> None:
    stored = {"code": "suspected_leak", "table": "t", "column": "c", "count": 3, "message": ""}
    assert Finding(**stored).severity == "leak"
    assert Finding("null_time", "t").severity == "notice"
    assert Finding("null_time", "t", severity="warning").severity == "warning"
    assert severity_of("of_a_later_version") == "warning"


def test_a_finding_survives_its_dictionary() -> None:
    finding = Finding("dangling_key", "t", "c", 3, "…", "warning", {"tables": {"t": {}}})
    assert Finding(**finding.to_dict()) == finding
    assert finding.handle == "dangling_key:t.c"
    assert Finding("no_times", "t").handle == "no_times:t"


def test_the_gravest_come_first() -> None:
    order = sorted(CODES, key=lambda code: rank(severity_of(code), code))
    severities = [SEVERITIES.index(severity_of(code)) for code in order]
    assert severities == sorted(severities)
    assert order[-1] == "timeless_table"
    assert rank("warning", "null_time") < rank("notice", "dangling_key")
