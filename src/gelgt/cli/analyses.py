"""`gelgt bench homophily`, `budget`, `temporal`, `explain` and `results`: what needs no training of
its own, or looks into trained runs."""

from pathlib import Path
from typing import Annotated, Any

import typer

from gelgt.cli.bench import show
from gelgt.cli.bundle import bundled
from gelgt.cli.options import (
    DatasetOption,
    DeviceOption,
    FolderOption,
    JsonFlag,
    RunArg,
    VisibilityOption,
)
from gelgt.cli.output import note, print_json, say
from gelgt.cli.parse import address_of, check_visibility, one_of, sizes, typed_command
from gelgt.cli.study import INTERRUPTED, StudyOptions, run_study_command
from gelgt.errors import GelgtError


def homophily_command(
    dataset: DatasetOption,
    tasks: Annotated[
        list[str],
        typer.Option(
            "--task",
            metavar="TASK",
            help="Task name, or a definition as for gelgt train; repeatable.",
        ),
    ],
    out: FolderOption = None,
    seeds: Annotated[
        int,
        typer.Option(
            "--rows", min=1, metavar="N", help="Training seeds whose neighbourhoods are sampled."
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
    visibility: VisibilityOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Measure whether linked rows have the same label.

    Prints the edge homophily of a task beside what chance would give. Nothing is trained."""
    check_visibility(visibility)
    from gelgt.bench.analyses import homophily_analysis
    from gelgt.bench.run import study_tasks
    from gelgt.sources import open

    db = open(dataset)
    regime: Any = visibility
    changes = {"sampling.hops": hops, "sampling.budget": budget, "sampling.fanout": None}
    analysis = homophily_analysis(db, study_tasks(db, tasks), changes, regime, seeds)
    _finish(analysis, dataset, out or Path("runs") / "bench" / db.schema.name, as_json)


@bundled
def budget_command(
    options: StudyOptions,
    rows: Annotated[
        str, typer.Option("--sizes", metavar="A,B", help="Rows of a neighbourhood.")
    ] = "100,200,300,500,1000",
    as_json: JsonFlag = False,
) -> None:
    """Count effective neighbours by soft gating, as neighbourhoods grow.

    Models are trained first where the folder has none; they are not changed."""
    from gelgt.bench.analyses import budget_analysis
    from gelgt.bench.run import study_tasks
    from gelgt.sources import open

    result, out = _trained(options)
    db = open(options.dataset)
    tasks = study_tasks(db, options.tasks)
    analysis = budget_analysis(db, tasks, result, out, sizes(rows), options.device)
    _finish(analysis, options.dataset, out, as_json)


@bundled
def temporal_command(options: StudyOptions, as_json: JsonFlag = False) -> None:
    """Show centres and widths of the temporal kernels after every epoch.

    Models are trained first where the folder has none."""
    from gelgt.bench.temporal import write_temporal

    result, out = _trained(options)
    content, text = write_temporal(result, out)
    if as_json:
        print_json(content)
        return
    say(text)
    say(f"written to {out / 'temporal.md'}")


def explain_command(
    run: RunArg,
    rows: Annotated[
        int, typer.Option("--rows", min=2, metavar="N", help="Rows of labels that are explained.")
    ] = 60,
    split: Annotated[
        str,
        typer.Option("--split", metavar="test|val|train", help="Split whose rows are explained."),
    ] = "test",
    device: DeviceOption = "auto",
    as_json: JsonFlag = False,
) -> None:
    """Check explanations of test rows: do the rows that they name change the prediction?

    Prints the area between adding and removing rows, beside the orders by attention and at random,
    with bootstrap intervals, and the seconds of an explanation."""
    one_of("--split", split, ("test", "val", "train"))
    from gelgt.bench.explain import bench_explain

    show(bench_explain(run, rows, device, split, progress=note), as_json)


def results_command(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="FOLDER…", help="Folders of studies, or their JSON files."),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Page to write.")] = Path(
        "docs/results.md"
    ),
) -> None:
    """Write one page of all measured studies, and of what the paper has and was not run."""
    from gelgt.bench.results import collect, results_page
    from gelgt.files import write_text

    studies = collect(folders)
    write_text(out, results_page(studies))
    say(f"{out}: {len(studies)} studies")


def add_to(bench: typer.Typer) -> None:
    """Add the commands to `gelgt bench`."""
    bench.command("homophily")(homophily_command)
    bench.command("budget")(budget_command)
    bench.command("temporal")(temporal_command)
    bench.command("explain")(explain_command)
    bench.command("results")(results_command)


def _trained(options: StudyOptions) -> tuple[dict[str, Any], Path]:
    """The runs of gelgt alone that an analysis looks into, trained where they are missing."""
    from gelgt.bench import studies

    if options.visibility == "both":
        raise GelgtError(
            "bad_option",
            "--visibility must be frozen or seed-time for an analysis, got 'both'.",
            hint="Run it once for each regime.",
        )
    (result,), out = run_study_command(studies.temporal, options, baselines=False)
    if result["left"]:
        raise typer.Exit(INTERRUPTED)
    return result, out


def _finish(analysis: Any, dataset: str, out: Path, as_json: bool) -> None:
    """Write an analysis as JSON and Markdown, and print it."""
    from gelgt.bench.write import write_analysis

    content = analysis.content(typed_command(dataset, address_of(dataset)))
    write_analysis(content, out)
    show(content, as_json)
    if not as_json:
        note(f"written to {out / content['study']}.md")
