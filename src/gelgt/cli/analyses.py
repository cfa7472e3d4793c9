"""`gelgt bench homophily`, `budget`, `temporal` and `results`: what needs no training of its own,
or looks into trained runs."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from gelgt.cli import options as given
from gelgt.cli.output import note, print_json, say
from gelgt.cli.studies import INTERRUPTED, chosen_tasks, run, study_options
from gelgt.errors import GelgtError


def homophily_command(
    dataset: Annotated[
        str,
        typer.Option(
            "--dataset", metavar="SOURCE", help="A RelBench folder or name, or another source."
        ),
    ],
    tasks: Annotated[
        list[str],
        typer.Option(
            "--task", metavar="TASK", help="A task's name, or what `gelgt train` takes; repeatable."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FOLDER", help="Where tables go; runs/bench/DATASET by default."
        ),
    ] = None,
    seeds: Annotated[
        int,
        typer.Option(
            "--rows", min=1, metavar="N", help="Training rows whose neighbourhoods are looked at."
        ),
    ] = 2000,
    hops: Annotated[
        int,
        typer.Option(
            "--hops", min=1, metavar="N", help="Depth: entities are often four foreign keys apart."
        ),
    ] = 4,
    budget: Annotated[
        int, typer.Option("--rows-each", min=2, metavar="N", help="Rows of a neighbourhood.")
    ] = 1000,
    visibility: Annotated[
        str | None, typer.Option("--visibility", metavar="REGIME", help="frozen or seed-time.")
    ] = None,
    as_json: given.JsonFlag = False,
) -> None:
    """Whether linked rows have the same label: edge homophily of a task, beside what chance would
    give. Nothing is trained."""
    if visibility is not None:
        given.one_of("--visibility", visibility, ("frozen", "seed-time"))
    from gelgt.bench.homophily import homophily
    from gelgt.cli.task import read_definition
    from gelgt.presets import RunConfig
    from gelgt.training.regime import in_regime

    db = given.open_source(dataset, None, None, None)
    entries, made, regime = [], dict[str, Any](), ""
    chosen: Any = visibility
    for definition in tasks:
        task = db.task(read_definition(definition))
        changes = {"sampling.hops": hops, "sampling.budget": budget, "sampling.fanout": None}
        sampling = in_regime(RunConfig.of("cpu", task.task_type, changes), task, chosen).sampling
        entries.append(homophily(db, task, sampling, seeds))
        made[task.name], regime = task, sampling.visibility
    about = f"Neighbourhoods of {hops} hops and at most {budget:,} rows."
    finish(
        db,
        dataset,
        "homophily",
        "Do linked rows have the same label?",
        about,
        entries,
        out,
        as_json,
        made,
        {"regime": regime},
    )


def analysis_command(look: Callable[..., None]) -> Callable[..., None]:
    """A command with the options of a study, whose runs are trained first where they are not
    there."""
    own = {
        name: p
        for name, p in inspect.signature(look).parameters.items()
        if name not in ("result", "out", "values")
    }

    def command(**values: Any) -> None:
        from gelgt.bench import studies

        of_look = {name: values.pop(name) for name in own}
        if values["visibility"] == "both":
            raise GelgtError(
                "bad_option",
                "This analysis has one table, of one regime.",
                hint="Choose frozen or seed-time.",
            )
        (result,), out = run(studies.temporal, **values, baselines=False, write=False)
        if result["left"]:
            raise typer.Exit(INTERRUPTED)
        look(result, out, values, **of_look)

    shared = {
        name: p
        for name, p in inspect.signature(study_options).parameters.items()
        if name != "baselines"
    }
    ordered = sorted(
        [*own.values(), *shared.values()], key=lambda p: p.default is not inspect.Parameter.empty
    )
    command.__signature__ = inspect.Signature(ordered)  # type: ignore[attr-defined]  # what typer reads
    command.__annotations__ = {name: p.annotation for name, p in {**own, **shared}.items()}
    command.__doc__ = look.__doc__
    return command


def budget(
    result: dict[str, Any],
    out: Path,
    values: dict[str, Any],
    sizes: Annotated[
        str, typer.Option("--sizes", metavar="A,B", help="Rows of a neighbourhood.")
    ] = "100,200,300,500,1000",
) -> None:
    """Effective neighbours of trained models by soft gating, as neighbourhoods grow. Analysis
    only."""
    from gelgt.bench.gating import effective_neighbours
    from gelgt.bench.paper import EFFECTIVE_NEIGHBOURS, is_published
    from gelgt.cli.bench import parse_sizes
    from gelgt.runs.folder import load_run

    db = given.open_source(values["dataset"], None, None, None)
    entries, made = [], dict[str, Any]()
    for task in chosen_tasks(db, values["tasks"]):
        made[task.name] = task
        folder = next(out / f["folder"] for f in result["runs"] if f["task"] == task.name)
        found = effective_neighbours(
            load_run(folder), db, task, parse_sizes(sizes), values["device"]
        )
        is_real = is_published(db.schema.name, task.name, task.rows["train"])
        paper = EFFECTIVE_NEIGHBOURS.get((db.schema.name, task.name)) if is_real else None
        entries += [{"task": task.name, **entry, "paper": paper} for entry in found]
    about = (
        "Means over validation seeds of one trained model: rows sampled, those of the first hop, "
        "the sum of all gates, the share of seeds "
        "whose neighbourhood is full, and exp(entropy) of attention at the run's own budget. The "
        "paper gives no formula; this one is ours "
        "(`gelgt/bench/gating.py`)."
    )
    finish(
        db,
        values["dataset"],
        "budget",
        "How many neighbours count?",
        about,
        entries,
        out,
        values["as_json"],
        made,
        result,
    )


def temporal(result: dict[str, Any], out: Path, values: dict[str, Any]) -> None:
    """Centres and widths of the temporal kernels after every epoch, as durations."""
    from gelgt.bench.tables import facts
    from gelgt.bench.temporal import kernels_by_epoch, moved, temporal_markdown, temporal_plot
    from gelgt.files import write_text
    from gelgt.runs.folder import read_json, write_json

    parts = [f"# {result['title']}", "", *(f"- {fact}" for fact in facts(result)), ""]
    results = []
    for entry in result["runs"]:
        name = f"{entry['task']}, seed {entry['seed']}"
        epochs = kernels_by_epoch(read_json(out / entry["folder"] / "metrics.json"))
        results.append(
            {"task": entry["task"], "seed": entry["seed"], "epochs": epochs, "moved": moved(epochs)}
        )
        parts.append(temporal_markdown(name, epochs))
        if epochs:
            picture = out / f"temporal-{entry['task']}-seed-{entry['seed']}.svg"
            temporal_plot(f"{result['dataset']}, {name}: centres of the kernels", epochs, picture)
            parts.append(f"![{picture.stem}]({picture.name})\n")
    content = result | {"scores": result["results"], "results": results}
    write_json(out / "temporal.json", content)
    write_text(out / "temporal.md", "\n".join(parts))
    if values["as_json"]:
        print_json(content)
        return
    say("\n".join(parts))
    say(f"written to {out / 'temporal.md'}")


def finish(
    db: Any,
    dataset: str,
    name: str,
    title: str,
    about: str,
    entries: list[dict[str, Any]],
    out: Path | None,
    as_json: bool,
    tasks: dict[str, Any],
    study: dict[str, Any],
) -> None:
    """Write an analysis as JSON and Markdown, and print it."""
    from gelgt.bench.machine import machine
    from gelgt.bench.tables import portable
    from gelgt.bench.write import write_analysis
    from gelgt.cli.bench import print_bench

    folder = out or Path("runs") / "bench" / db.schema.name
    kept: dict[str, Any] = {
        key: study[key]
        for key in ("preset", "seeds", "budget_seconds", "settings", "regime")
        if key in study
    }
    command = portable(given.typed_command(dataset, given.address_of(dataset)))
    content: dict[str, Any] = {
        "machine": machine(),
        "study": name,
        "title": title,
        "about": about,
        "dataset": db.schema.name,
        **kept,
        "command": command,
    }
    content |= {"rows": sum(db.num_rows(table) for table in db.table_names)}
    content |= {
        "tasks": {task.name: {"type": task.task_type, "rows": task.rows} for task in tasks.values()}
    }
    content |= {"results": entries, "ratios": {}}
    write_analysis(content, folder)
    if as_json:
        print_json(content)
        return
    print_bench(content)
    note(f"written to {folder / name}.md")


def results_command(
    folders: Annotated[
        list[Path], typer.Argument(metavar="FOLDER…", help="Folders of studies, or files of them.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The page.")] = Path(
        "docs/results.md"
    ),
) -> None:
    """One page of everything that was measured, and of what the paper has and could not be run."""
    from gelgt.bench.results import collect, results_page
    from gelgt.files import write_text

    found = collect(folders)
    text = results_page(found)
    write_text(out, text)
    say(f"{out}: {len(found)} studies")


def add_to(bench: typer.Typer) -> None:
    """Make the analyses commands of `gelgt bench`."""
    bench.command("homophily")(homophily_command)
    bench.command("budget")(analysis_command(budget))
    bench.command("temporal")(analysis_command(temporal))
    bench.command("results")(results_command)
