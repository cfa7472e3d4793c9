"""Findings in words: grouped, the gravest first, with the YAML that answers them.

leak     suspected_leak: customers.cancelled_at (312): later than 'signed_up_at' in 100% of its …
warning  null_time: 2 tables have rows without a time, which no model sees: a.at (9), b.at (3)
notice   constant_column: 14 columns have one value in all rows: status of 12 tables, a.x, b.y
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from textwrap import wrap
from typing import Any, NamedTuple

import yaml

from gelgt.schema.findings import ranked
from gelgt.schema.model import Finding
from gelgt.schema.severity import SEVERITIES, has_counts, several

WIDTH = 120
MOST_TOLD = 8  # lines where a command does something else
MANY_TABLES = 3  # that have a column of one name, from which they share a line
MOST_LISTED = 12  # findings of one code that have a line each in a listing


class Line(NamedTuple):
    """A line of text, and the findings that it is about."""

    text: str
    findings: tuple[Finding, ...]


def listing(findings: Iterable[Finding], width: int = WIDTH) -> list[str]:
    """All findings, those of one code together, in lines of a width."""
    lines: list[str] = []
    for line in _lines(findings, lambda f: f.message, MOST_LISTED, 2 * (width - 20)):
        first = line.findings[0]
        text = f"{first.severity:<8} {first.code}: {line.text}"
        indent = " " * 11
        lines += wrap(
            text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )
    return lines


def told(findings: Iterable[Finding], source: str, most: int = MOST_TOLD) -> list[str]:
    """The gravest findings in a few lines, each with its answer; the others are counted.

    Args:
        findings: Those of the tables that are used.
        source: What `gelgt inspect` is given to see all.
        most: Lines about findings.
    """
    every = ranked(findings)
    graver = [f for f in every if f.severity != "notice"]
    lines = list(_lines(graver, _answered, most, 10 * WIDTH))[:most]
    shown = {id(f) for line in lines for f in line.findings}
    text = [f"{line.findings[0].severity}: {line.text}" for line in lines]
    if rest := [f for f in every if id(f) not in shown]:
        more = "… and " if lines else ""
        text.append(f"{more}{counts_text(rest)} about these tables: gelgt inspect {source}")
    return text


def counts_text(findings: Iterable[Finding]) -> str:
    """How many findings there are of each severity: ``2 leaks, 1 notice``."""
    counts = Counter(f.severity for f in findings)
    return ", ".join(f"{counts[s]} {s}{'s' * (counts[s] > 1)}" for s in SEVERITIES if counts[s])


def answers(repairs: Iterable[Mapping[str, Any] | None]) -> list[str]:
    """One YAML document of several statements, a line for each table; empty without any."""
    tables: dict[str, Any] = {}
    for repair in repairs:
        _join(tables, (repair or {}).get("tables") or {})
    return ["tables:", *(f"  {table_yaml(name, entry)}" for name, entry in tables.items())] * bool(
        tables
    )


def table_yaml(table: str, entry: Any) -> str:
    """What a schema file says of a table, in one line."""
    return f"{_flow(table)}: {_flow(entry)}"


def repair_text(finding: Finding) -> str:
    """The answer to a finding in one line of YAML; empty where there is none."""
    tables = (finding.repair or {}).get("tables") or {}
    return ", ".join(table_yaml(name, entry) for name, entry in tables.items())


def _answered(finding: Finding) -> str:
    answer = repair_text(finding)
    return f"{finding.message} (to answer, --schema: {answer})" if answer else finding.message


def _lines(
    findings: Iterable[Finding], message: Callable[[Finding], str], most: int, width: int
) -> Iterator[Line]:
    """A line for each error and leak, as far as there are not too many, and for each other code."""
    for _, group in groupby(ranked(findings), lambda f: (f.severity, f.code)):
        each = list(group)
        severity = each[0].severity
        if severity not in ("error", "leak") and len(each) > 1:
            yield _together(each, width)
            continue
        shared = _shared_columns(each)
        alone = [f for f in each if f.column not in shared]
        for finding in alone[:most]:
            yield Line(f"{_counted(finding)}: {message(finding)}", (finding,))
        for column, of_column in shared.items():
            head = f"{column} of {len(of_column)} tables: {of_column[0].message}: "
            tables = _listed([f.table for f in of_column], width - len(head))
            yield Line(head + tables, tuple(of_column))
        if rest := alone[most:]:
            yield _together(rest, width, "more: ")


def _together(findings: Sequence[Finding], width: int, before: str = "") -> Line:
    """Findings of one code in a line."""
    head = f"{before}{several(findings[0].code, len(findings))}: "
    shared = _shared_columns(findings)
    places = [f"{column} of {len(group)} tables" for column, group in shared.items()]
    places += [_counted(f) for f in findings if f.column not in shared]
    return Line(head + _listed(places, width - len(head)), tuple(findings))


def _shared_columns(findings: Sequence[Finding]) -> dict[str, list[Finding]]:
    """Findings about columns of one name in many tables, such as `modified_at`, by that name."""
    names = Counter(f.column for f in findings if f.column is not None)
    return {
        name: [f for f in findings if f.column == name]
        for name, count in names.items()
        if count >= MANY_TABLES
    }


def _counted(finding: Finding) -> str:
    """The place of a finding, with its count where that tells how grave it is."""
    count = f" ({finding.count:,})" if has_counts(finding.code) and finding.count else ""
    return f"{finding.place}{count}"


def _listed(places: Sequence[str], width: int) -> str:
    """As many places as fit, at least one, and the number of the others."""
    shown = 1
    while shown < len(places) and len(", ".join(places[: shown + 1])) < width - 15:
        shown += 1
    rest = len(places) - shown
    return ", ".join(places[:shown]) + (f" and {rest} more" if rest else "")


def _join(into: dict[str, Any], entries: Mapping[str, Any]) -> None:
    """Put statements into others, table by table; what was stated first stays."""
    for name, entry in entries.items():
        here = into.setdefault(name, entry if not isinstance(entry, Mapping) else {})
        if isinstance(entry, Mapping) and isinstance(here, dict):
            _join(here, entry)
        elif isinstance(entry, list) and isinstance(here, list):
            into[name] = [*here, *(each for each in entry if each not in here)]


def _flow(value: Any) -> str:
    text = yaml.safe_dump(
        value, default_flow_style=True, width=10**6, allow_unicode=True, sort_keys=False
    )
    return text.strip().removesuffix("...").strip()
