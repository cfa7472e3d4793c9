"""The findings of a task are those of its tables, and errors among them want an answer."""

from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

import gelgt
from gelgt.errors import GelgtError
from gelgt.schema.model import Finding
from gelgt.tasks.task import Definition
from gelgt.tasks.task_findings import check_answered, task_findings, used_tables

DAYS = pd.date_range("2024-01-01", periods=200)


def chain() -> Any:
    """a ← b ← c ← d, and a table `far` that nothing links."""
    tables = {"a": pd.DataFrame({"id": range(5), "at": DAYS[:5], "kind": "x"})}
    for name, parent in (("b", "a"), ("c", "b"), ("d", "c")):
        tables[name] = pd.DataFrame(
            {"id": range(5), f"{parent}_id": range(5), "at": DAYS[:5], "kind": "x"}
        )
    tables["far"] = pd.DataFrame({"name": ["p", "q"], "at": DAYS[:2], "kind": "x"})
    return gelgt.open(tables)


TASK = Definition("t", "forecast", "a", "id", "target", "timestamp", "regression")


def test_tables_within_the_hops_and_those_of_the_labels() -> None:
    db = chain()
    assert used_tables(db.schema, TASK, 1) == {"a", "b"}
    assert used_tables(db.schema, TASK, 2) == {"a", "b", "c"}
    asked = replace(TASK, sql='SELECT … FROM timestamps t JOIN "d" ON d.at > t.timestamp')
    assert used_tables(db.schema, asked, 1) == {"a", "b", "d"}


def test_findings_of_these_tables_without_hidden_columns() -> None:
    db = chain()
    about = [(f.code, f.table) for f in task_findings(db, TASK)]
    assert about == [("constant_column", name) for name in ("a", "b", "c")]
    hidden = replace(TASK, remove_columns=(("b", "kind"),))
    assert [f.table for f in task_findings(db, hidden)] == ["a", "c"]


def test_an_error_names_its_answers() -> None:
    repair = {"tables": {"refunds": {"dated_by": "order_id"}}}
    undecided = Finding("no_times", "refunds", None, 9, "two readings", repair=repair)
    no_answer = Finding("no_times", "gifts", "sent", 9, "two more readings")
    leak = Finding("suspected_leak", "a", "b")
    with pytest.raises(GelgtError) as error:
        check_answered([undecided, no_answer, leak], ())
    assert error.value.code == "unanswered_findings"
    assert "no_times:refunds: two readings" in error.value.message
    assert "refunds: {dated_by: order_id}" in error.value.hint
    assert "--accept no_times:refunds --accept no_times:gifts.sent" in error.value.hint
    with pytest.raises(GelgtError, match="1 finding would"):
        check_answered([undecided, no_answer], ["no_times:refunds"])
    check_answered([undecided, no_answer], ["no_times:refunds", "no_times:gifts.sent"])
    check_answered([leak], ())
