"""`gelgt bench graph`, `scale`, `latency`, `cluster`, `serve`, `sampling`, `attention`,
`efficiency`, `theory` and `recommend`: benchmarks that train no model to the end. Each prints the
machine, its figures and their ratios."""

from pathlib import Path
from typing import Annotated, Any

import typer

from gelgt.cli.options import (
    DeviceOption,
    JsonFlag,
    RelbenchOption,
    RunArg,
    SeedTaskOption,
    SetOption,
)
from gelgt.cli.output import note, print_json, print_table, say
from gelgt.cli.parse import sizes

TemporaryOption = Annotated[
    Path | None,
    typer.Option(
        "--folder",
        metavar="FOLDER",
        help="Folder for temporary files (14 million rows: 15 GB for graph, 2 GB for sampling).",
    ),
]


def graph_command(
    rows: Annotated[
        str,
        typer.Option(
            "--rows", metavar="A,B", help="Sizes of the generated database, separated by commas."
        ),
    ] = "1400000,14000000",
    folder: TemporaryOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Measure import, graph and features of a generated database.

    Prints seconds and peak memory of each phase, beside a pandas implementation."""
    from gelgt.bench.graph import bench_graph

    show(bench_graph(sizes(rows), folder, progress=note), as_json)


def scale_command(
    rows: Annotated[
        str,
        typer.Option(
            "--rows", metavar="A,B", help="Sizes of the generated database, separated by commas."
        ),
    ] = "1e6,1e7",
    memory_limit: Annotated[
        str | None,
        typer.Option(
            "--memory-limit",
            metavar="SIZE",
            help="Repeat each size under this hard limit of memory, such as 2GiB.",
        ),
    ] = None,
    entities: Annotated[
        int, typer.Option("--entities", metavar="N", help="Most entities to predict for.")
    ] = 20_000,
    steps: Annotated[int, typer.Option("--steps", metavar="N", help="Training steps.")] = 50,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--folder", metavar="FOLDER", help="Folder for the files (about 350 bytes a row)."
        ),
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the files in --folder when all is measured.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Measure import, graph, features, task, training and prediction by the number of rows.

    Prints seconds, speed and peak memory of each phase, and its cost over that at the smallest
    size. Example:

    gelgt bench scale --rows 1e6,1e7,1e8 --memory-limit 2GiB"""
    from gelgt.bench.scale import ScaleOptions, bench_scale
    from gelgt.memory import byte_count

    limit = None if memory_limit is None else byte_count(memory_limit)
    options = ScaleOptions(limit, steps=steps, entities=entities, folder=folder, is_kept=keep)
    show(bench_scale(sizes(rows), options, progress=note), as_json)


def serve_command(
    run: RunArg,
    source: Annotated[
        str | None,
        typer.Option("--source", metavar="S", help="By default where the run was trained."),
    ] = None,
    seconds: Annotated[
        float, typer.Option("--seconds", min=1, metavar="S", help="Seconds of each round.")
    ] = 5.0,
    clients: Annotated[
        int, typer.Option("--clients", min=1, metavar="N", help="Clients that ask at once.")
    ] = 32,
    minutes: Annotated[
        float,
        typer.Option("--minutes", min=0, metavar="M", help="Go on so long, to watch the memory."),
    ] = 0.0,
    as_json: JsonFlag = False,
) -> None:
    """Measure how many requests a second gelgt serve answers, beside the same in process (needs
    wrk)."""
    from gelgt.bench.serve import bench_serve

    show(bench_serve(run, source, seconds, clients, minutes, progress=note), as_json)


def latency_command(
    rows: Annotated[
        str, typer.Option("--rows", metavar="N", help="Size of the generated database.")
    ] = "1.4e6",
    calls: Annotated[
        int, typer.Option("--calls", min=1, metavar="N", help="Repetitions of a call.")
    ] = 3,
    folder: TemporaryOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Measure how long gelgt predict takes for two entities, also after new rows.

    Runs the whole command on the demo shop (SQLite) and on a generated database (Parquet files),
    with a model of three training steps: the first call, the next ones, the first after 1 % more
    rows, and one that reads everything anew."""
    from gelgt.bench.latency import bench_latency

    (size,) = sizes(rows)
    show(bench_latency(size, calls, folder, progress=note), as_json)


def cluster_command(
    rows: Annotated[
        str, typer.Option("--rows", metavar="N", help="Size of the generated database.")
    ] = "1e7",
    rounds: Annotated[
        int, typer.Option("--rounds", min=1, metavar="N", help="Repetitions of each command.")
    ] = 2,
    folder: TemporaryOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Measure what a second core, a second worker and Ray make of training and prediction.

    Runs gelgt predict for all entities of a generated database on one core, in two processes, on
    two cores and on Ray, and gelgt train in one process and with two workers."""
    from gelgt.bench.cluster import bench_cluster

    (size,) = sizes(rows)
    show(bench_cluster(size, rounds, folder=folder, progress=note), as_json)


def sampling_command(
    dataset: Annotated[
        Path | None,
        typer.Option(
            "--dataset", metavar="FOLDER", help="RelBench folder, such as rel-f1, to sample too."
        ),
    ] = None,
    task: SeedTaskOption = "driver-dnf",
    rows: Annotated[
        str, typer.Option("--rows", metavar="N", help="Size of the generated graph.")
    ] = "14000000",
    folder: TemporaryOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Measure the sampler, beside a pure-Python one.

    Prints microseconds for one seed, by strategy, budget and hops."""
    from gelgt.bench.sampling import bench_sampling

    show(bench_sampling(dataset, task, sizes(rows)[0], folder, progress=note), as_json)


def attention_command(
    rows: Annotated[
        str,
        typer.Option("--rows", metavar="A,B", help="Rows of a subgraph, separated by commas."),
    ] = "300,3000,30000",
    flex: Annotated[
        bool, typer.Option("--flex", help="Measure FlexAttention too, which takes minutes.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Measure attention with the Gaussian bias, beside flash attention.

    Prints time, memory and numerical error of a forward and a backward pass. Flash attention has
    no bias."""
    from gelgt.bench.attention import bench_attention

    show(bench_attention(tuple(sizes(rows)), flex, progress=note), as_json)


def efficiency_command(
    dataset: RelbenchOption,
    task: SeedTaskOption = "driver-dnf",
    preset: Annotated[
        str, typer.Option("--preset", metavar="NAME", help="cpu, gpu or paper.")
    ] = "paper",
    models: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            metavar="NAME",
            help="Model to measure; repeatable; all for every built-in one. Default: gelgt.",
        ),
    ] = None,
    steps: Annotated[
        int, typer.Option("--steps", metavar="N", help="Training steps to measure.")
    ] = 200,
    settings: SetOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Measure training steps and predictions, part by part and end to end.

    Steps replayed as CUDA graphs stand beside eager ones of the same run."""
    from gelgt.bench.efficiency import bench_efficiency
    from gelgt.presets import parse_settings

    changes = parse_settings(settings or ())
    result = bench_efficiency(
        dataset,
        task,
        preset,
        models=models or ["gelgt"],
        steps=steps,
        changes=changes,
        progress=note,
    )
    show(result, as_json)
    if not as_json and preset == "paper":
        published = ", ".join(f"{name} {value:g}" for name, value in result["reference"].items())
        note(f"the authors' code on an H200, driver-dnf, not measured in this run: {published}")


def theory_command(
    dataset: RelbenchOption, task: SeedTaskOption = "driver-dnf", as_json: JsonFlag = False
) -> None:
    """Measure the paper's theorems on a data set."""
    from gelgt.bench.theory.measure import bench_theory

    show(bench_theory(dataset, task), as_json)


def recommend_command(
    destinations: Annotated[
        str, typer.Option("--destinations", metavar="N", help="Rows of the recommended table.")
    ] = "1e6",
    links: Annotated[
        str, typer.Option("--links", metavar="N", help="Rows that tie users to them.")
    ] = "1e7",
    users: Annotated[
        int, typer.Option("--users", min=1, metavar="N", help="Users to recommend to.")
    ] = 10_000,
    k: Annotated[int, typer.Option("--k", min=1, metavar="N", help="Rows for each.")] = 100,
    steps: Annotated[int, typer.Option("--steps", min=1, metavar="N", help="Training steps.")] = 20,
    folder: Annotated[
        Path | None, typer.Option("--folder", metavar="FOLDER", help="Folder for the files.")
    ] = None,
    device: DeviceOption = "auto",
    as_json: JsonFlag = False,
) -> None:
    """Measure candidates, training steps and the first k of a large table.

    On a generated database of users, items and links. The candidates of a seed are found by
    gelgt's kernel and by the same walk in pure Python."""
    from gelgt.bench.recommend import bench_recommend

    result = bench_recommend(
        sizes(destinations)[0],
        sizes(links)[0],
        users=users,
        k=k,
        steps=steps,
        folder=folder,
        device=device,
        progress=note,
    )
    show(result, as_json)


def add_to(bench: typer.Typer) -> None:
    """Add the commands to `gelgt bench`."""
    bench.command("graph")(graph_command)
    bench.command("scale")(scale_command)
    bench.command("latency")(latency_command)
    bench.command("cluster")(cluster_command)
    bench.command("serve")(serve_command)
    bench.command("sampling")(sampling_command)
    bench.command("attention")(attention_command)
    bench.command("efficiency")(efficiency_command)
    bench.command("theory")(theory_command)
    bench.command("recommend")(recommend_command)


def show(result: dict[str, Any], as_json: bool) -> None:
    """Print a benchmark: as JSON, or the machine, a table and a line for each ratio."""
    if as_json:
        print_json(result)
        return
    on = result["machine"]
    gpu = f"{on['gpu']}, " if "gpu" in on else ""
    say(
        f"{gpu}{on['cpu']}, {on['cores']} cores, {on['memory_gib']} GiB, {on['platform']}, Python "
        f"{on['python']}",
        style="bold",
    )
    say(", ".join(f"{name} {version}" for name, version in on["versions"].items()), "")
    headers = list(dict.fromkeys(key for entry in result["results"] for key in entry))
    rows = [[_cell(entry.get(key, "")) for key in headers] for entry in result["results"]]
    numbers = [
        i
        for i, key in enumerate(headers)
        if any(isinstance(entry.get(key), (int, float)) for entry in result["results"])
    ]
    print_table(headers, rows, right=numbers)
    say("", *(f"{name}: {value:g}" for name, value in result["ratios"].items()))


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.3f}" if abs(value) < 100 else f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
