"""Prints the result of `gelgt inspect`, and writes its drawings."""

from pathlib import Path
from typing import Any

from gelgt.cli.output import print_table, say
from gelgt.errors import GelgtError
from gelgt.files import write_text


def print_inspection(report: dict[str, Any]) -> None:
    """Tables first, then the kinds of their columns, then the findings."""
    tables = report["tables"]
    total = sum(t["rows"] for t in tables.values())
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
    rows = [
        (
            name,
            f"{t['rows']:,}",
            _key(t["primary_key"]),
            _time(t["time_column"], t["dated_by"]),
            " … ".join(t["time_range"] or ("–",)),
            _links(t["foreign_keys"]),
        )
        for name, t in tables.items()
    ]
    print_table(
        ["table", "rows", "primary key", "time column", "time range", "foreign keys"],
        rows,
        right=[1],
    )
    for name, t in tables.items():
        if t["dated_by"] is not None:
            keys = ", ".join(t["dated_by"]["keys"])
            say(
                f"{name} is dated by {t['dated_by']['times']} (through {keys}): a row is not "
                "visible before what it names"
            )
    say(
        "",
        *(
            ["* inferred, not declared by the source", ""]
            if "*" in str([row[2:] for row in rows])
            else []
        ),
    )
    for name, t in tables.items():
        kinds = [
            f"{c} {entry['kind']}" for c, entry in t["columns"].items() if entry["kind"] != "key"
        ]
        say(f"{name}: {', '.join(kinds) or 'no columns but keys'}")
    say("")
    print_findings(report["findings"])


def print_findings(findings: list[dict[str, Any]]) -> None:
    if not findings:
        say("No findings.")
        return
    say(f"{len(findings)} finding{'s' if len(findings) > 1 else ''}", style="bold")
    for f in findings:
        where = f"{f['table']}.{f['column']}" if f["column"] else f["table"]
        count = f" ({f['count']:,})" if f["count"] is not None else ""
        say(f"  {f['code']}: {where}{count}: {f['message']}")


def _star(entry: dict[str, Any]) -> str:
    return "*" if entry["origin"] == "inferred" else ""


def _key(entry: dict[str, Any] | None) -> str:
    return f"{' + '.join(entry['columns'])}{_star(entry)}" if entry else "–"


def _time(entry: dict[str, Any] | None, dating: dict[str, Any] | None) -> str:
    if dating is not None:
        return f"dated by {dating['times']}{_star(dating)}"
    return f"{entry['column']}{_star(entry)}" if entry else "–"


def _links(entries: list[dict[str, Any]]) -> str:
    return ", ".join(f"{e['column']} → {e['table']}{_star(e)}" for e in entries) or "–"


def write_drawing(db: Any, path: Path) -> None:
    """The schema as .svg or Mermaid text, by the file's ending."""
    from gelgt.schema.draw import mermaid, svg

    if path.suffix not in (".svg", ".mmd", ".md"):
        raise GelgtError(
            "unknown_format",
            f"Cannot draw to '{path.name}'.",
            hint="Use an ending .svg, or .mmd or .md for Mermaid.",
        )
    if not path.parent.is_dir():
        raise GelgtError(
            "not_found",
            f"There is no folder {path.parent} to draw to.",
            hint="Make it first, or draw elsewhere.",
        )
    if path.suffix == ".svg":
        text = svg(db.schema, {name: db.num_rows(name) for name in db.table_names})
    else:
        text = mermaid(db.schema)
        text = f"```mermaid\n{text}```\n" if path.suffix == ".md" else text
    write_text(path, text)
