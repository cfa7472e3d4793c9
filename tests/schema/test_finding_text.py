"""Findings in lines: the gravest first, grouped, with YAML that can be pasted."""

import yaml

from gelgt.schema.finding_text import MOST_TOLD, answers, counts_text, listing, told
from gelgt.schema.model import Finding


def leak(table: str, column: str = "closed_at") -> Finding:
    repair = {"tables": {table: {"kinds": {column: "ignored"}}}}
    return Finding("suspected_leak", table, column, 9, "later than 'at'", repair=repair)


NOTICES = [Finding("timeless_table", f"t{i}", f"d{i}", message="no time") for i in range(14)]


def test_leaks_come_first_and_tables_without_a_time_in_one_line_last() -> None:
    constant = Finding("constant_column", "a", "x", 7, "one value in all rows: 1")
    lines = listing([*NOTICES, constant, leak("orders"), Finding("no_times", "a")])
    assert [line.split()[0] for line in lines[:3]] == ["error", "leak", "notice"]
    assert lines[1] == "leak     suspected_leak: orders.closed_at (9): later than 'at'"
    assert "14 tables have dates but no time column: t0.d0, t1.d1, " in lines[3]
    assert max(map(len, lines)) <= 120
    assert len(lines) <= 5


def test_columns_of_one_name_share_a_line() -> None:
    tables = ["orders", "visits", "loans"]
    (line,) = listing([leak(table) for table in tables])
    assert line == (
        "leak     suspected_leak: closed_at of 3 tables: later than 'at': orders, visits, loans"
    )
    assert len(listing([leak(table) for table in tables[:2]])) == 2


def test_what_does_not_fit_is_counted() -> None:
    lines = listing([leak(f"table_{i}", f"column_{i}") for i in range(40)])
    assert len(lines) <= 15
    assert "more: 28 columns may tell the future: table_12.column_12 (9)" in lines[12]
    words = "".join(lines[12:]).split(" and ")[-1].split()
    assert words[1] == "more"
    assert "".join(lines[12:]).count("table_") + int(words[0]) == 28


def test_a_few_lines_where_a_command_does_something_else() -> None:
    leaks = [leak(f"table_{i}", f"column_{i}") for i in range(20)]
    lines = told([*NOTICES, *leaks], "shop.db")
    assert len(lines) == MOST_TOLD + 1
    assert lines[0].startswith("leak: table_0.column_0 (9): later than 'at'")
    assert "table_0: {kinds: {column_0: ignored}}" in lines[0]
    assert lines[-1] == "… and 12 leaks, 14 notices about these tables: gelgt inspect shop.db"
    assert told(NOTICES[:1], "shop.db") == ["1 notice about these tables: gelgt inspect shop.db"]
    assert told([], "shop.db") == []


def test_counts() -> None:
    assert counts_text([leak("a"), *NOTICES, leak("b")]) == "2 leaks, 14 notices"


def test_answers_are_one_document() -> None:
    pointers = {"tables": {"users": {"dated_by": {"pointers": ["last"]}}}}
    more = {"tables": {"users": {"dated_by": {"pointers": ["newest"]}, "time_col": "at"}}}
    odd = leak("or: ders", "yes")
    lines = answers([leak("users").repair, pointers, None, more, odd.repair])
    assert yaml.safe_load("\n".join(lines)) == {
        "tables": {
            "users": {
                "kinds": {"closed_at": "ignored"},
                "dated_by": {"pointers": ["last", "newest"]},
                "time_col": "at",
            },
            "or: ders": {"kinds": {"yes": "ignored"}},
        }
    }
    assert len(lines) == 3
    assert answers([None]) == []
