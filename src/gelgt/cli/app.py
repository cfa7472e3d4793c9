"""The verbs of the command line. Each one calls the library and prints what it returns."""

from pathlib import Path
from typing import Annotated, Any

import typer

from gelgt.cli.output import note, print_json, say

app = typer.Typer(
    help="Predictions on relational databases with the Gaussian Relational Graph Transformer.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # plain lines, in a pipe too
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


@app.command("task")
def task_command(
    source: SourceArg,
    definition: Annotated[
        str, typer.Argument(help="PREDICT sentence, task name or folder, DuckDB SQL or .sql file, or a .csv/.parquet file of labels.")
    ],
    name: Annotated[str | None, typer.Option("--name", help="Name of the task.")] = None,
    val: Annotated[str | None, typer.Option("--val", help="Validation time.")] = None,
    test: Annotated[str | None, typer.Option("--test", help="Test time.")] = None,
    eval_timestamps: Annotated[
        int | None, typer.Option("--eval-timestamps", help="Windows in validation and test; as many as fit.")
    ] = None,
    max_rows: Annotated[int, typer.Option("--max-rows", help="Training rows above this number are sampled.")] = 2_000_000,
    timedelta: Annotated[
        str | None, typer.Option("--timedelta", help="How far labels look ahead, such as '30 days' (SQL and files).")
    ] = None,
    entity: Annotated[str | None, typer.Option("--entity", help="Entity as table.column (SQL and files).")] = None,
    task_type: Annotated[str | None, typer.Option("--task-type", help="Instead of the inferred one.")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Folder for the task instead of tasks/NAME of the database.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the labels and write nothing.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a task of the same name.")] = False,
    schema: SchemaOption = None,
    tables: TablesOption = None,
    namespace: NamespaceOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Turn a question into label tables: show them, then write them."""
    from gelgt.cli.task import print_task, read_definition, task_json

    db = open_source(source, schema, tables, namespace)
    task = db.task(
        read_definition(definition),
        name=name,
        val=val,
        test=test,
        eval_timestamps=eval_timestamps,
        max_rows=max_rows,
        timedelta=timedelta,
        entity=entity,
        task_type=task_type,
    )
    if not as_json:
        print_task(task)
    folder = None if dry_run else task.save(out, overwrite=overwrite)
    if as_json:
        print_json(task_json(task) | {"out": None if folder is None else str(folder)})
    elif folder is not None:
        say("", f"written to {folder}")


@app.command("demo")
def demo_command(
    out: Annotated[Path, typer.Option("--out", help="Folder for the demo's files.")] = Path("demo"),
    as_json: JsonFlag = False,
) -> None:
    """Make the demo shop and take it from a SQLite file to schema, task and graph."""
    from gelgt.cli.demo import run_demo

    result = run_demo(out, quiet=as_json)
    if as_json:
        print_json(result)


bench = typer.Typer(help="Benchmarks: each prints the machine, the figures and the ratio to a peer of the same run.", no_args_is_help=True)
app.add_typer(bench, name="bench")


@bench.command("graph")
def bench_graph_command(
    rows: Annotated[str, typer.Option("--rows", help="Sizes of the generated database, separated by commas.")] = "1400000,14000000",
    folder: Annotated[Path | None, typer.Option("--folder", help="Where the temporary files go (15 GB for 14 million rows).")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Import, graph and features of a generated database: seconds and peak memory of each phase."""
    from gelgt.bench.graph import bench_graph
    from gelgt.cli.bench import parse_sizes, print_bench

    result = bench_graph(parse_sizes(rows), folder, progress=note)
    if as_json:
        print_json(result)
    else:
        print_bench(result)


@bench.command("sampling")
def bench_sampling_command(
    dataset: Annotated[Path | None, typer.Option("--dataset", help="A RelBench folder, such as rel-f1, to sample from too.")] = None,
    task: Annotated[str, typer.Option("--task", help="Its task that gives the seeds.")] = "driver-dnf",
    rows: Annotated[str, typer.Option("--rows", help="Size of the generated graph.")] = "14000000",
    folder: Annotated[Path | None, typer.Option("--folder", help="Where the temporary files go (2 GB for 14 million rows).")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Microseconds to sample one seed, by strategy, budget and hops, beside a pure-Python sampler."""
    from gelgt.bench.sampling import bench_sampling
    from gelgt.cli.bench import parse_sizes, print_bench

    result = bench_sampling(dataset, task, parse_sizes(rows)[0], folder, progress=note)
    if as_json:
        print_json(result)
    else:
        print_bench(result)


@bench.command("theory")
def bench_theory_command(
    dataset: Annotated[Path, typer.Option("--dataset", help="A RelBench folder, such as rel-f1.")],
    task: Annotated[str, typer.Option("--task", help="Its task that gives the seeds.")] = "driver-dnf",
    as_json: JsonFlag = False,
) -> None:
    """The paper's theorems, measured on a data set."""
    from gelgt.bench.theory import bench_theory
    from gelgt.cli.bench import print_bench

    result = bench_theory(dataset, task)
    if as_json:
        print_json(result)
    else:
        print_bench(result)
