"""`gelgt inspect` and `gelgt import`: what is in a source, and a copy of it as a folder."""

from pathlib import Path
from typing import Annotated, Any

import typer

from gelgt.cli.bundle import bundled
from gelgt.cli.options import JsonFlag, SourceOptions
from gelgt.cli.output import note, print_json, print_table, say


@bundled
def inspect_command(
    source: SourceOptions,
    draw: Annotated[
        Path | None,
        typer.Option(
            "--draw", metavar="FILE", help="Draw the schema to this .svg or .mmd (Mermaid) file."
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Show tables, keys, time columns, column kinds and whatever looks wrong."""
    from gelgt.schema.draw import write_drawing
    from gelgt.schema.report import inspect

    db = source.open()
    if draw is not None:
        write_drawing(db.schema, {name: db.num_rows(name) for name in db.table_names}, draw)
    report = inspect(db)
    if as_json:
        print_json(report)
        return
    print_inspection(report)
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
    db = source.open(out)
    rows = {name: db.num_rows(name) for name in db.table_names}
    findings = [finding.to_dict() for finding in db.import_findings]
    if as_json:
        print_json({"out": str(out), "rows": rows, "findings": findings})
        return
    say(f"{out}: {len(rows)} tables, {sum(rows.values()):,} rows from {db.source}")
    for finding in findings:
        say(_finding(finding))
    say(
        f"Edit keys, time columns and column kinds in {out / 'manifest.yaml'}; "
        f"see them with: gelgt inspect {out}"
    )


def print_inspection(report: dict[str, Any]) -> None:
    """Tables first, then the kinds of their columns, then the findings."""
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
    _print_tables(tables)
    for name, table in tables.items():
        kinds = [f"{c} {e['kind']}" for c, e in table["columns"].items() if e["kind"] != "key"]
        say(f"{name}: {', '.join(kinds) or 'no columns but keys'}")
    findings = report["findings"]
    if not findings:
        say("", "No findings.")
        return
    say("", f"{len(findings)} finding{'s' if len(findings) > 1 else ''}", style="bold")
    say(*(_finding(finding) for finding in findings))


def _print_tables(tables: dict[str, Any]) -> None:
    rows = [
        (
            name,
            f"{table['rows']:,}",
            _key(table["primary_key"]),
            _time(table["time_column"], table["dated_by"]),
            " … ".join(table["time_range"] or ("–",)),
            _links(table["foreign_keys"]),
        )
        for name, table in tables.items()
    ]
    headers = ["table", "rows", "primary key", "time column", "time range", "foreign keys"]
    print_table(headers, rows, right=[1])
    for name, table in tables.items():
        if table["dated_by"] is not None:
            keys = ", ".join(table["dated_by"]["keys"])
            say(
                f"{name} is dated by {table['dated_by']['times']} (through {keys}): a row is not "
                "visible before the rows that it refers to"
            )
    has_inferred = "*" in str([row[2:] for row in rows])
    say("", *(["* inferred, not declared by the source", ""] if has_inferred else []))


def _finding(finding: dict[str, Any]) -> str:
    where = f"{finding['table']}.{finding['column']}" if finding["column"] else finding["table"]
    count = f" ({finding['count']:,})" if finding["count"] is not None else ""
    return f"  {finding['code']}: {where}{count}: {finding['message']}"


def _star(entry: dict[str, Any]) -> str:
    return "*" if entry["origin"] == "inferred" else ""


def _key(entry: dict[str, Any] | None) -> str:
    return f"{' + '.join(entry['columns'])}{_star(entry)}" if entry else "–"


def _time(entry: dict[str, Any] | None, dated_by: dict[str, Any] | None) -> str:
    if dated_by is not None:
        return f"dated by {dated_by['times']}{_star(dated_by)}"
    return f"{entry['column']}{_star(entry)}" if entry else "–"


def _links(entries: list[dict[str, Any]]) -> str:
    return ", ".join(f"{e['column']} → {e['table']}{_star(e)}" for e in entries) or "–"
