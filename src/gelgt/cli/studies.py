"""`gelgt bench quality`, `ablation`, `bias`, `generality`, `sweep`, `temporal`: studies that train
models, with the same options all.

gelgt bench ablation --dataset rel-f1 --task driver-dnf --seeds 3 --budget 5m --preset gpu --jobs 4
"""

import inspect
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gelgt.cli import options as given
from gelgt.cli.output import note, print_json, print_table, say
from gelgt.errors import GelgtError

if TYPE_CHECKING:
    from gelgt import Database, Task
    from gelgt.bench.pool import News
    from gelgt.bench.study import Study

INTERRUPTED = 130
FAILED = 1  # the exit code where a run failed and the others went on


def study_options(
    dataset: Annotated[
        str,
        typer.Option(
            "--dataset", metavar="SOURCE", help="A RelBench folder or name, or another source."
        ),
    ],
    tasks: Annotated[
        list[str] | None,
        typer.Option(
            "--task",
            metavar="TASK",
            help="A task's name, or what `gelgt train` takes; repeatable. By default all of a "
            "folder.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FOLDER",
            help="Where runs and tables go; runs/bench/DATASET by default. Finished runs are kept.",
        ),
    ] = None,
    preset: Annotated[
        str, typer.Option("--preset", metavar="NAME", help="cpu, gpu or paper.")
    ] = "cpu",
    seeds: Annotated[
        int,
        typer.Option("--seeds", min=1, metavar="N", help="Runs of each cell, with seeds 0, 1, …"),
    ] = 3,
    budget: Annotated[
        str | None,
        typer.Option("--budget", metavar="D", help="Train each run at most so long, such as 5m."),
    ] = None,
    visibility: Annotated[
        str | None,
        typer.Option(
            "--visibility",
            metavar="REGIME",
            help="frozen, seed-time or both; frozen by default for RelBench data.",
        ),
    ] = None,
    settings: given.SetOption = None,
    device: given.DeviceOption = "auto",
    jobs: Annotated[
        int,
        typer.Option(
            "--jobs", min=1, metavar="N", help="Runs at once, each in a process of its own."
        ),
    ] = 1,
    stop_after: Annotated[
        str | None,
        typer.Option(
            "--stop-after",
            metavar="D",
            help="Leave the rest for the next time after so long, such as 8m.",
        ),
    ] = None,
    baselines: Annotated[
        bool,
        typer.Option(
            "--baselines/--no-baselines",
            help="LightGBM and the entity's past labels beside it, made once a task.",
        ),
    ] = True,
    as_json: given.JsonFlag = False,
) -> None:
    """What every study takes."""


def study_command(choose: "Callable[..., Study]") -> Callable[..., None]:
    """A command from a function that gives a study: the function's own options, and those of every
    study."""
    own = inspect.signature(choose).parameters

    def command(**values: Any) -> None:
        of_study = {name: values.pop(name) for name in own}
        _run(lambda: choose(**of_study), values)

    shared = inspect.signature(study_options).parameters
    ordered = sorted(
        [*own.values(), *shared.values()], key=lambda p: p.default is not inspect.Parameter.empty
    )
    command.__signature__ = inspect.Signature(ordered)  # type: ignore[attr-defined]  # what typer reads
    command.__annotations__ = {name: p.annotation for name, p in {**own, **shared}.items()}
    command.__doc__ = choose.__doc__
    return command


def _run(choose: "Callable[[], Study]", values: dict[str, Any]) -> None:
    results, out = run(choose, **values)
    if values["as_json"]:
        print_json(results[0] if len(results) == 1 else {"studies": results})
    else:
        for result in results:
            print_study(result)
            say("", f"written to {out / file_of(result, len(results))}.md", "")
    if any(result["left"] for result in results):
        raise typer.Exit(INTERRUPTED)
    if any(result["failed"] for result in results):
        raise typer.Exit(FAILED)


def run(
    choose: "Callable[[], Study]",
    *,
    dataset: str,
    tasks: list[str] | None,
    out: Path | None,
    preset: str,
    seeds: int,
    budget: str | None,
    visibility: str | None,
    settings: list[str] | None,
    device: str,
    jobs: int,
    stop_after: str | None,
    baselines: bool,
    as_json: bool,
    write: bool = True,
) -> tuple[list[dict[str, Any]], Path]:
    """Run a study in one regime or in both, and write its tables if wanted; errors of the command
    line come before any work."""
    from gelgt.cli.train import settings_of
    from gelgt.presets import RunConfig

    changes = settings_of(settings, None, None)
    limit = None if budget is None else given.seconds(budget)
    RunConfig.of(preset)
    if visibility is not None:
        given.one_of("--visibility", visibility, ("frozen", "seed-time", "both"))
    until = math.inf if stop_after is None else time.monotonic() + given.seconds(stop_after)
    if device != "auto":
        from gelgt.scoring.scorer import choose_device

        choose_device(device)
    from gelgt.baselines.lightgbm import has_lightgbm
    from gelgt.bench.studies import with_baselines
    from gelgt.bench.study import Wish, check_settings, run_study
    from gelgt.bench.write import write_study
    from gelgt.cli.interrupt import Interrupt
    from gelgt.cli.progress import training_progress

    study = choose()
    if baselines:
        study = with_baselines(study)
        if not has_lightgbm():
            note("LightGBM is not installed: the table goes without it")
    regimes: tuple[Any, ...] = ("frozen", "seed-time") if visibility == "both" else (visibility,)
    command = given.typed_command(dataset, given.address_of(dataset))
    wish = Wish(Path(), preset, range(seeds), changes, limit, regimes[0], device, jobs, command)
    check_settings(study, wish)
    with training_progress() as progress:
        db = given.open_source(dataset, None, None, None)
        made = chosen_tasks(db, tasks)
        folder = out or Path("runs") / "bench" / db.schema.name
        teller = _Teller(progress, made)
        results = []
        with Interrupt(lambda: progress.has_begun or jobs > 1, progress.print) as stop:

            def is_over() -> bool:
                return stop() or time.monotonic() > until

            for regime in regimes:
                own = replace(wish, out=folder, visibility=regime)
                results.append(
                    run_study(study, db, made, own, progress=progress, tell=teller, stop=is_over)
                )
    for result in results if write else ():
        write_study(result, folder, file_of(result, len(results)))
    return results, folder


def file_of(result: Mapping[str, Any], regimes: int) -> str:
    """The name of a study's files: with its regime where there are two."""
    return f"{result['study']}-{result['regime']}" if regimes > 1 else str(result["study"])


def chosen_tasks(db: "Database", names: "list[str] | None") -> "list[Task]":
    """The tasks that were named, or all those of the database's folder that can be trained.

    Raises:
        GelgtError: none was named, and the folder has none.
    """
    from gelgt.cli.task import read_definition
    from gelgt.tasks.folder import task_names

    if names:
        return [db.task(read_definition(name)) for name in names]
    made = [db.task(name) for name in task_names(db)]
    made = [
        task for task in made if task.task_type != "recommendation" and task.time_col is not None
    ]
    if not made:
        raise GelgtError(
            "no_tasks",
            f"{db.source} comes with no task that can be trained.",
            hint="Name one with --task.",
        )
    return made


class _Teller:
    """Prints a line for what happens to each cell."""

    def __init__(self, progress: Any, tasks: list[Any]) -> None:
        self.progress = progress
        self.types = {task.name: task.task_type for task in tasks}
        self.said: set[str] = set()

    def __call__(self, news: "News") -> None:
        from gelgt.metrics import MAIN

        if news.what == "begin":
            self.progress.print(f"{news.cell.name}")
            self.progress.prepare(news.cell.config.train, MAIN[self.types[news.cell.task]])
        elif news.what == "failed":
            self.progress.print(f"failed: {news.cell.name}: {news.text}", "red")
        elif news.what == "notice":
            if news.text not in self.said:
                self.said.add(news.text)
                self.progress.print(f"note: {news.cell.name}: {news.text}", "yellow")
        elif news.process:  # with one job the run's own lines have said it
            self.progress.print(f"{'✓' if news.what == 'done' else news.what} {news.cell.name}")


def print_study(result: dict[str, Any]) -> None:
    """The table, what it shows, and what failed."""
    from gelgt.bench.tables import facts, sentences, wide

    say(*(line.replace("`", "") for line in facts(result)), "")
    headers, lines = wide(result)
    print_table(headers, [[cell.replace("**", "") for cell in line] for line in lines])
    told = sentences(result)
    if told:
        say("", *told)
    if result["failed"]:
        say(
            "",
            "failed:",
            *(
                f"  {f['task']}, {f['model']}, seed {f['seed']}: {f['error']}"
                for f in result["failed"]
            ),
        )
    if result["left"]:
        say(
            "", f"stopped before {len(result['left'])} runs were finished; the same command goes on"
        )


ModelsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        metavar="NAME",
        help="gelgt (default), another model, lightgbm, lightgbm-2hop or entity-mean; repeatable, "
        "the first is compared with.",
    ),
]


def quality(models: ModelsOption = None) -> "Study":
    """Scores of models over several seeds, beside baselines and what was published, with bootstrap
    intervals over entities.

    gelgt is told apart: its network alone, its trees alone, both together. LightGBM learns the same
    labels, over one hop and over two.

    Runs can be stopped and go on where they were. Studies of one --out share their runs.
    """
    from gelgt.bench import studies

    return studies.quality(models or ())


def ablation(
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--variant", metavar="NAME", help="Such as without-bias; repeatable. By default all."
        ),
    ] = None,
) -> "Study":
    """GelGT without each of its parts: sampling, refinement, bias, GNN branch, attention, and what
    this project added."""
    from gelgt.bench import studies

    return studies.ablation(only or ())


def bias() -> "Study":
    """Kinds of temporal bias: Gaussian, linear decay, time bins, none."""
    from gelgt.bench import studies

    return studies.bias()


def generality(
    models: Annotated[
        list[str] | None,
        typer.Option("--model", metavar="NAME", help="relgt and relgnn by default; repeatable."),
    ] = None,
) -> "Study":
    """GelGT's sampling, and its bias, in RelGT and RelGNN."""
    from gelgt.bench import studies

    return studies.generality(models or ("relgt", "relgnn"))


def sweep(
    over: Annotated[
        str, typer.Argument(metavar="size|hops", help="Rows of a neighbourhood, or its depth.")
    ],
    values: Annotated[
        str | None,
        typer.Option(
            "--values", metavar="A,B", help="100,200,300,400,500, or 2,3,4,5, by default."
        ),
    ] = None,
) -> "Study":
    """Neighbourhoods of other sizes or depths."""
    from gelgt.bench import studies
    from gelgt.cli.bench import parse_sizes

    given.one_of("sweep", over, ("size", "hops"))
    points = None if values is None else parse_sizes(values)
    return (
        studies.sweep_size(points or studies.SIZES)
        if over == "size"
        else studies.sweep_hops(points or studies.HOPS)
    )


def add_to(bench: typer.Typer) -> None:
    """Make the studies commands of `gelgt bench`."""
    for choose in (quality, ablation, bias, generality, sweep):
        bench.command(choose.__name__)(study_command(choose))
