"""The verbs of the command line. Each one calls the library and prints what it returns."""

from pathlib import Path
from typing import Annotated, Any

import typer

from gelgt.cli.output import note, print_json, say

app = typer.Typer(
    help="Predictions on relational databases with the Gaussian Relational Graph Transformer.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,  # locals may hold a password
    context_settings={"help_option_names": ["-h", "--help"]},
)

SourceArg = Annotated[
    str, typer.Argument(help="RelBench folder or name, database URL, SQLite or DuckDB file, folder of CSV or Parquet files.")
]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
SchemaOption = Annotated[
    Path | None, typer.Option("--schema", help="YAML file with keys, times and kinds to use instead of inferred ones.")
]
TablesOption = Annotated[str | None, typer.Option("--tables", help="Read only these tables, separated by commas.")]
NamespaceOption = Annotated[str | None, typer.Option("--namespace", help="Schema of a SQL database, such as public.")]


@app.callback(invoke_without_command=True)
def root(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        from gelgt import __version__

        say(__version__)
        raise typer.Exit


def open_source(source: str, schema: Path | None, tables: str | None, namespace: str | None, out: Path | None = None) -> Any:
    """Open what the user named on the command line."""
    from gelgt.sources import open

    only = [name.strip() for name in tables.split(",") if name.strip()] if tables else None
    return open(source, schema=schema, tables=only, namespace=namespace, out=out)


@app.command("inspect")
def inspect_command(
    source: SourceArg,
    schema: SchemaOption = None,
    tables: TablesOption = None,
    namespace: NamespaceOption = None,
    draw: Annotated[Path | None, typer.Option("--draw", help="Draw the schema to this .svg or .mmd (Mermaid) file.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Show tables, keys, times, column kinds and everything that looks wrong."""
    from gelgt.cli.inspect import print_inspection, write_drawing
    from gelgt.schema.report import inspect

    db = open_source(source, schema, tables, namespace)
    if draw is not None:
        write_drawing(db, draw)
    report = inspect(db)
    if as_json:
        print_json(report)
        return
    print_inspection(report)
    if draw is not None:
        note(f"drawn to {draw}")


@app.command("import")
def import_command(
    source: SourceArg,
    out: Annotated[Path, typer.Argument(help="A new folder for the imported database.")],
    schema: SchemaOption = None,
    tables: TablesOption = None,
    namespace: NamespaceOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Import a source into a RelBench v3 folder that gelgt and relbench.load_dataset read."""
    db = open_source(source, schema, tables, namespace, out)
    rows = {name: db.num_rows(name) for name in db.table_names}
    if as_json:
        print_json({"out": str(out), "rows": rows, "findings": [f.to_dict() for f in db.import_findings]})
        return
    say(f"{out}: {len(rows)} tables, {sum(rows.values()):,} rows from {db.source}")
    for finding in db.import_findings:
        where = f"{finding.table}.{finding.column}" if finding.column else finding.table
        say(f"  {finding.code}: {where}: {finding.message}" + (f" ({finding.count:,})" if finding.count is not None else ""))
    say(f"Edit keys, times and kinds in {out / 'manifest.yaml'}; see them with: gelgt inspect {out}")
