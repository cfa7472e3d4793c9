"""`gelgt inspect` and `gelgt import`: what is in a source, and a copy of it as a folder."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import wrap
from typing import Annotated, Any

import typer

from gelgt.cli.bundle import bundled
from gelgt.cli.options import JsonFlag, SourceOptions
from gelgt.cli.output import console, note, print_json, print_table, say
from gelgt.errors import SchemaError, did_you_mean

WIDTH = 120  # of lines in a pipe
FEW = 12  # tables up to which kinds and dating of each are printed too
MANY = 30  # tables from which lookup tables share lines
MOST_NAME, MOST_KEY, MOST_TIME = 36, 24, 32  # characters of a cell


@bundled
def inspect_command(
    source: SourceOptions,
    draw: Annotated[
        Path | None,
        typer.Option(
            "--draw", metavar="FILE", help="Draw the schema to this .svg or .mmd (Mermaid) file."
        ),
    ] = None,
    table: Annotated[
        str | None,
        typer.Option("--table", metavar="NAME", help="Show one table with its columns."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Show tables, keys, time columns, column kinds and whatever looks wrong."""
    from gelgt.schema.draw import write_drawing
    from gelgt.schema.report import inspect
    from gelgt.sources.cached_findings import findings_of

    db = source.open()
    if draw is not None:
        write_drawing(db.schema, {name: db.num_rows(name) for name in db.table_names}, draw)
    report = inspect(db, findings_of(db))
    if table is not None:
        report = _of_table(report, table)
    if as_json:
        print_json(report)
        return
    (print_inspection if table is None else _print_details)(report)
    if draw is not None:
        note(f"drawn to {draw}")


@bundled
def import_command(
    source: SourceOptions,
    out: Annotated[
        Path, typer.Argument(metavar="OUT", help="A new folder for the imported database.")
    ],
    as_json: JsonFlag = False,
) -> None:
    """Import a source into a RelBench v3 folder.

    gelgt reads it, and so does relbench.load_dataset."""
    from gelgt.schema.finding_text import listing
    from gelgt.schema.findings import weighed

    db = source.open(out)
    rows = {name: db.num_rows(name) for name in db.table_names}
    findings = [weighed(db, finding) for finding in db.import_findings]
    if as_json:
        listed = [finding.to_dict() for finding in findings]
        print_json({"out": str(out), "rows": rows, "findings": listed})
        return
    say(f"{out}: {len(rows)} tables, {sum(rows.values()):,} rows from {db.source}")
    say(*listing(findings))
    say(
        f"Edit keys, time columns and column kinds in {out / 'manifest.yaml'}; "
        f"see them with: gelgt inspect {out}"
    )


def print_inspection(report: dict[str, Any]) -> None:
    """The tables, a line each, then how they are dated, then the findings."""
    tables = report["tables"]
    total = sum(table["rows"] for table in tables.values())
    say(
        f"{report['name']} ({report['source']}): {len(tables)} table{'s' * (len(tables) > 1)}, "
        f"{total:,} rows",
        style="bold",
    )
    if report["val_timestamp"]:
        say(
            f"validation from {report['val_timestamp']}, test from {report['test_timestamp']} "
            f"({report['split_origin']})"
        )
    say("")
    lookups = [name for name, table in tables.items() if _is_lookup(table)]
    lookups = lookups if len(tables) > MANY else []
    _print_tables({name: t for name, t in tables.items() if name not in lookups})
    if lookups:
        listed = ", ".join(f"{name} {tables[name]['rows']:,}" for name in lookups)
        _say_wrapped(f"{len(lookups)} lookup tables (no time, no keys to others): {listed}")
    if len(tables) > FEW:
        say("", "A table with its columns: gelgt inspect SOURCE --table NAME")
    else:
        for name, table in tables.items():
            kinds = [f"{c} {e['kind']}" for c, e in table["columns"].items() if e["kind"] != "key"]
            say(f"{name}: {', '.join(kinds) or 'no columns but keys'}")
    _print_dating(tables)
    _print_findings(report)


def _print_tables(tables: Mapping[str, Any]) -> None:
    headers = ["table", "rows", "key", "time", "from … to", "columns", "foreign keys"]
    rows = [
        [
            _cut(name, MOST_NAME),
            f"{table['rows']:,}",
            _cut(_key(table["primary_key"]), MOST_KEY),
            _time(table),
            _span(table["time_range"]),
            str(sum(entry["kind"] != "key" for entry in table["columns"].values())),
        ]
        for name, table in tables.items()
    ]
    has_inferred = "*" in str([row[2:] for row in rows]) or any(
        _star(key) for table in tables.values() for key in table["foreign_keys"]
    )
    width = _width() - sum(max(len(row[i]) for row in [headers, *rows]) + 2 for i in range(6))
    # The range of times is in --table and --json too.
    if len(tables) > FEW and width < len("customer_id → customers"):
        width += max(len(row[4]) for row in [headers, *rows]) + 2
        headers, rows = [h for h in headers if h != "from … to"], [r[:4] + r[5:] for r in rows]
    for row, table in zip(rows, tables.values()):
        row.append(_links(table["foreign_keys"], 10 * WIDTH if len(tables) <= FEW else width))
    print_table(headers, rows, right=[1, len(headers) - 2])
    say("", *(["* inferred, not declared by the source"] if has_inferred else []))


def _print_dating(tables: Mapping[str, Any]) -> None:
    """How the tables without a time column are dated, and what a schema file could state."""
    from gelgt.schema.finding_text import answers

    undated = {n: t for n, t in tables.items() if t["readings"] and not _is_lookup(t)}
    if not undated:
        return
    if len(tables) > FEW:
        used = [table["readings"][0] for table in undated.values()]
        never = sum(reading["never_visible"] or 0 for reading in used)
        visible = sum(reading["reading"] == "always visible" for reading in used)
        _say_wrapped(
            f"{len(undated)} tables with keys or dates have no time column: {visible} are always "
            f"visible, {len(undated) - visible} are dated by other rows; {never:,} of their rows "
            "are never visible."
        )
        return
    say("", "Tables without a time column")
    for name, table in undated.items():
        first, *others = table["readings"]
        say(f"  {name}: {first['reading']}{_never(first, table['rows'])}")
        for reading in others:
            (stated,) = answers([reading["schema"]])[1:]
            say(f"    to state otherwise: {stated.strip()}   # {reading['reading']}")


def _print_findings(report: Mapping[str, Any]) -> None:
    from gelgt.schema.finding_text import answers, counts_text, listing
    from gelgt.schema.model import Finding

    findings = [Finding(**entry) for entry in report["findings"]]
    if not findings:
        say("", "No findings.")
        return
    plural = "s" * (len(findings) > 1)
    say("", f"{len(findings)} finding{plural}: {counts_text(findings)}", style="bold")
    say(*listing(findings, _width()))
    yaml = answers(f.repair for f in findings if f.severity != "notice")
    if yaml:
        say("", "To answer, where it is so, put lines of this into a file for --schema:")
        say(*(f"  {line}" for line in yaml[: FEW + 1]))
        if (rest := len(yaml) - FEW - 1) > 0:
            say(f"  # and of {rest} more tables: --table NAME, --json")


def _of_table(report: dict[str, Any], name: str) -> dict[str, Any]:
    """What the report says of one table."""
    if name not in report["tables"]:
        raise SchemaError(
            "unknown_table",
            f"There is no table '{name}' in {report['source']}.",
            hint=did_you_mean(name, report["tables"]),
        )
    findings = [finding for finding in report["findings"] if finding["table"] == name]
    return report | {"tables": {name: report["tables"][name]}, "findings": findings}


def _print_details(report: Mapping[str, Any]) -> None:
    """One table: keys, time, columns with their evidence, other readings, findings."""
    from gelgt.schema.finding_text import answers

    ((name, table),) = report["tables"].items()
    say(f"{name}: {table['rows']:,} rows", style="bold")
    for word, entry, shown in (
        ("key", table["primary_key"], _key(table["primary_key"])),
        ("time", table["time_column"], _time(table)),
        *(("foreign key", e, _links([e], WIDTH)) for e in table["foreign_keys"]),
    ):
        evidence = f" ({entry['evidence']})" if entry and entry["evidence"] else ""
        say(f"  {word:<12} {shown}{evidence}")
    if table["time_range"]:
        say(f"  {'from … to':<12} {' … '.join(table['time_range'])}")
    for i, reading in enumerate(table["readings"]):
        word = "dated" if i == 0 else "" if i > 1 else "otherwise"
        (stated,) = answers([reading["schema"]])[1:] or [""]
        tail = f"   # {stated.strip()}" if stated else ""
        say(f"  {word:<12} {reading['reading']}{_never(reading, table['rows'])}{tail}")
    say("")
    rows = [
        (column, entry["type"], f"{entry['kind']}{_star(entry)}", entry["evidence"])
        for column, entry in table["columns"].items()
    ]
    print_table(["column", "type", "kind", "evidence"], rows)
    _print_findings(report)


def _is_lookup(table: Mapping[str, Any]) -> bool:
    """Whether a table only lists what others name: no time, no date, no key to another table."""
    has_date = any(entry["type"] == "timestamp" for entry in table["columns"].values())
    return table["time_column"] is None and not table["foreign_keys"] and not has_date


def _never(reading: Mapping[str, Any], rows: int) -> str:
    count = reading["never_visible"]
    return f"; {count:,} of {rows:,} rows are never visible" if count else ""


def _star(entry: dict[str, Any]) -> str:
    return "*" if entry["origin"] == "inferred" else ""


def _key(entry: dict[str, Any] | None) -> str:
    return f"{' + '.join(entry['columns'])}{_star(entry)}" if entry else "–"


def _time(table: Mapping[str, Any]) -> str:
    """The time column, or in short what dates the rows."""
    if table["time_column"] is not None:
        return f"{table['time_column']['column']}{_star(table['time_column'])}"
    if table["dated_by"] is not None:
        first, *others = table["dated_by"]["times"].split(" and ")
        times = f"{_cut(first, MOST_TIME)}{f' + {len(others)}' if others else ''}"
        return f"as {times}{_star(table['dated_by'])}"
    words = table["readings"][0]["reading"]
    short = {"always visible": "–", "left out": "left out", "known from": "when first named"}
    return next((to for begin, to in short.items() if words.startswith(begin)), words)


def _span(ends: Sequence[str] | None) -> str:
    return " … ".join(end[:10] for end in ends) if ends else "–"


def _links(entries: Sequence[dict[str, Any]], width: int) -> str:
    """Foreign keys, or else the tables that they name, as many as fit; of others the number."""
    words = [f"{e['column']} → {e['table']}{_star(e)}" for e in entries]
    if len(", ".join(words)) > width:
        words = [f"→ {e['table']}{_star(e)}" for e in entries]
    shown = len(words)
    while shown and len(_joined(words, shown)) > width:
        shown -= 1
    return _joined(words, shown) or "–"


def _joined(words: list[str], shown: int) -> str:
    rest = len(words) - shown
    more = [f"{rest} more" if shown else f"{rest} foreign key{'s' * (rest > 1)}"] if rest else []
    return ", ".join([*words[:shown], *more])


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _width() -> int:
    out = console()
    return out.width if out.is_terminal else WIDTH


def _say_wrapped(text: str) -> None:
    say("", *wrap(text, _width(), break_long_words=False, break_on_hyphens=False))
