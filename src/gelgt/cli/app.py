"""The verbs of the command line. Each one calls the library and prints what it returns."""

from pathlib import Path
from typing import Annotated

import typer

from gelgt.cli.analyses import add_to as add_analyses
from gelgt.cli.config import show_command
from gelgt.cli.demo import demo_command
from gelgt.cli.options import (
    DefinitionArg,
    EntityOption,
    EvalTimestampsOption,
    JsonFlag,
    MaxRowsOption,
    NameOption,
    NamespaceOption,
    SchemaOption,
    SetOption,
    SourceArg,
    TablesOption,
    TaskTypeOption,
    TestOption,
    TimedeltaOption,
    ValOption,
    open_source,
)
from gelgt.cli.output import note, print_json, say
from gelgt.cli.predict import evaluate_command, predict_command
from gelgt.cli.studies import add_to as add_studies
from gelgt.cli.train import report_command, train_command

app = typer.Typer(
    help="Predictions on relational databases with the Gaussian Relational Graph Transformer.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # plain lines, in a pipe too
    pretty_exceptions_show_locals=False,  # locals may hold a password
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        from gelgt import __version__

        say(__version__)
        raise typer.Exit


@app.command("inspect")
def inspect_command(
    source: SourceArg,
    schema: SchemaOption = None,
    tables: TablesOption = None,
    namespace: NamespaceOption = None,
    draw: Annotated[
        Path | None,
        typer.Option("--draw", help="Draw the schema to this .svg or .mmd (Mermaid) file."),
    ] = None,
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
        print_json(
            {"out": str(out), "rows": rows, "findings": [f.to_dict() for f in db.import_findings]}
        )
        return
    say(f"{out}: {len(rows)} tables, {sum(rows.values()):,} rows from {db.source}")
    for finding in db.import_findings:
        where = f"{finding.table}.{finding.column}" if finding.column else finding.table
        say(
            f"  {finding.code}: {where}: {finding.message}"
            + (f" ({finding.count:,})" if finding.count is not None else "")
        )
    say(
        f"Edit keys, times and kinds in {out / 'manifest.yaml'}; see them with: gelgt inspect {out}"
    )


@app.command("task")
def task_command(
    source: SourceArg,
    definition: DefinitionArg,
    name: NameOption = None,
    val: ValOption = None,
    test: TestOption = None,
    eval_timestamps: EvalTimestampsOption = None,
    max_rows: MaxRowsOption = 2_000_000,
    timedelta: TimedeltaOption = None,
    entity: EntityOption = None,
    task_type: TaskTypeOption = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Folder for the task instead of tasks/NAME of the database."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the labels and write nothing.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a task of the same name.")
    ] = False,
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


app.command("train")(train_command)
app.command("evaluate")(evaluate_command)
app.command("predict")(predict_command)
app.command("report")(report_command)
app.command("demo")(demo_command)

config = typer.Typer(
    help="Presets and settings: each value, where it comes from and what it means.",
    no_args_is_help=True,
)
config.command("show")(show_command)
app.add_typer(config, name="config")

bench = typer.Typer(
    help="The paper's tables, and benchmarks beside a peer of the same run.", no_args_is_help=True
)
app.add_typer(bench, name="bench")


@bench.command("graph")
def bench_graph_command(
    rows: Annotated[
        str, typer.Option("--rows", help="Sizes of the generated database, separated by commas.")
    ] = "1400000,14000000",
    folder: Annotated[
        Path | None,
        typer.Option("--folder", help="Where the temporary files go (15 GB for 14 million rows)."),
    ] = None,
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
    dataset: Annotated[
        Path | None,
        typer.Option("--dataset", help="A RelBench folder, such as rel-f1, to sample from too."),
    ] = None,
    task: Annotated[
        str, typer.Option("--task", help="Its task that gives the seeds.")
    ] = "driver-dnf",
    rows: Annotated[str, typer.Option("--rows", help="Size of the generated graph.")] = "14000000",
    folder: Annotated[
        Path | None,
        typer.Option("--folder", help="Where the temporary files go (2 GB for 14 million rows)."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Microseconds to sample one seed, by strategy, budget and hops, beside a pure-Python
    sampler."""
    from gelgt.bench.sampling import bench_sampling
    from gelgt.cli.bench import parse_sizes, print_bench

    result = bench_sampling(dataset, task, parse_sizes(rows)[0], folder, progress=note)
    if as_json:
        print_json(result)
    else:
        print_bench(result)


@bench.command("attention")
def bench_attention_command(
    rows: Annotated[
        str, typer.Option("--rows", help="Rows of a subgraph, separated by commas.")
    ] = "300,3000,30000",
    flex: Annotated[
        bool, typer.Option("--flex", help="Measure FlexAttention too; it takes minutes.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Attention with the Gaussian bias, forward and backward: time, memory and error, beside flash
    attention without a bias."""
    from gelgt.bench.attention import bench_attention
    from gelgt.cli.bench import parse_sizes, print_bench

    result = bench_attention(tuple(parse_sizes(rows)), flex, progress=note)
    if as_json:
        print_json(result)
    else:
        print_bench(result)


@bench.command("efficiency")
def bench_efficiency_command(
    dataset: Annotated[Path, typer.Option("--dataset", help="A RelBench folder, such as rel-f1.")],
    task: Annotated[str, typer.Option("--task", help="Its task.")] = "driver-dnf",
    preset: Annotated[str, typer.Option("--preset", help="cpu, gpu or paper.")] = "paper",
    steps: Annotated[int, typer.Option("--steps", help="Training steps that are measured.")] = 200,
    settings: SetOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Training steps and predictions, part by part and end to end, beside the plain path of the
    same run."""
    from gelgt.bench.efficiency import bench_efficiency
    from gelgt.cli.bench import print_bench
    from gelgt.presets import parse_settings

    result = bench_efficiency(
        dataset, task, preset, steps=steps, changes=parse_settings(settings or ()), progress=note
    )
    if as_json:
        print_json(result)
    else:
        print_bench(result)
        if preset == "paper":
            found = ", ".join(f"{name} {value:g}" for name, value in result["reference"].items())
            note(f"the authors' code on an H200, driver-dnf, not measured in this run: {found}")


@bench.command("theory")
def bench_theory_command(
    dataset: Annotated[Path, typer.Option("--dataset", help="A RelBench folder, such as rel-f1.")],
    task: Annotated[
        str, typer.Option("--task", help="Its task that gives the seeds.")
    ] = "driver-dnf",
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


add_studies(bench)
add_analyses(bench)
