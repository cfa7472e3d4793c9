"""Findings in the report: the grave ones row by row with their YAML, notices summed up."""

from html import unescape
from typing import Any

from pages import update, words

from gelgt.report.run import Run
from gelgt.report.sections import data_findings, headline
from gelgt.report.write import page

LEAK = {
    "code": "suspected_leak",
    "severity": "leak",
    "table": "customers",
    "column": "cancelled_at",
    "count": 1312,
    "message": "later than 'signed_up_at' <b>in</b> 100% of its rows",
    "repair": {"tables": {"customers": {"kinds": {"cancelled_at": "ignored"}}}},
    "share": 0.614,
}
ERROR = {
    "code": "no_times",
    "severity": "error",
    "table": "customers",
    "message": "no table has a time column",
    "is_accepted": True,
}
NOTICES = [
    {"code": "constant_column", "severity": "notice", "table": f"t{i}", "column": "status"}
    for i in range(14)
]


def test_grave_findings_and_their_answers(made_run: Any) -> None:
    folder = made_run()
    update(folder, findings=[ERROR, LEAK, *NOTICES])
    section = data_findings.section(Run(folder))
    assert section is not None
    text = words(section.html())
    assert "1 error, 1 leak, 14 notices about the tables that this run reads." in text
    assert "error, accepted customers no table has a time column" in text
    assert "leak customers.cancelled_at later than" in text
    assert "1,312 61 %" in text
    assert "customers: {kinds: {cancelled_at: ignored}}" in text
    assert "constant_column: 14 columns have one value in all rows: status of 14 tables" in text
    assert "<b>in</b>" not in section.html()


def test_the_head_says_why_scores_may_be_wrong(made_run: Any) -> None:
    folder = made_run()
    assert "may be wrong" not in words(headline.header(Run(folder)))
    small = {**LEAK, "column": "reason", "share": 0.001}
    update(folder, findings=[small, LEAK, *NOTICES])
    text = unescape(words(headline.header(Run(folder))))
    first = text.index("customers.cancelled_at: suspected leak, 61 % of the trees' gain")
    assert first < text.index("customers.reason: suspected leak, less than 1 % of the trees' gain")
    assert 'href="#findings"' in page(Run(folder))
    assert "status" not in text


def test_a_run_without_findings_has_no_section(made_run: Any) -> None:
    folder = made_run()
    assert data_findings.section(Run(folder)) is None
    update(folder, findings=NOTICES)
    assert "may be wrong" not in words(headline.header(Run(folder)))
    section = data_findings.section(Run(folder))
    assert section is not None
    assert "--schema" not in section.html()
