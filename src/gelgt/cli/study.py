"""Runs a study for the command line: its options, its progress, its tables."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gelgt.cli.options import DatasetOption, DeviceOption, SetOption
from gelgt.cli.output import note, print_json, print_table, say
from gelgt.cli.parse import address_of, check_visibility, seconds, typed_command

if TYPE_CHECKING:
    from gelgt.bench.pool import CellEvent
    from gelgt.bench.study import Study, StudyConfig
    from gelgt.cli.progress import Lines
    from gelgt.tasks import Task

INTERRUPTED = 130
FAILED = 1  # the exit code where a run failed and the others finished


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How often something is trained, for how long and on what."""

    preset: Annotated[str, typer.Option("--preset", metavar="NAME", help="cpu, gpu or paper.")] = (
        "cpu"
    )
    seeds: Annotated[
        int,
        typer.Option(
            "--seeds", min=1, metavar="N", help="Runs of each variant, with the seeds 0, 1, …"
        ),
    ] = 3
    settings: SetOption = None
    device: DeviceOption = "auto"
    jobs: Annotated[
        int,
        typer.Option("--jobs", min=1, metavar="N", help="Runs at once, each in its own process."),
    ] = 1
    stop_after: Annotated[
        str | None,
        typer.Option(
            "--stop-after",
            metavar="D",
            help="Stop after this long, such as 8m; the same command continues later.",
        ),
    ] = None

    @property
    def until(self) -> float:
        """When to stop, by `time.monotonic`."""
        return math.inf if self.stop_after is None else time.monotonic() + seconds(self.stop_after)

    def check_run(self) -> None:
        """Raises for a preset or a device that does not exist."""
        from gelgt.presets import RunConfig

        RunConfig.of(self.preset)
        if self.device != "auto":
            from gelgt.scoring.scorer import choose_device

            choose_device(self.device)


@dataclass(frozen=True, kw_only=True)
class StudyOptions(RunOptions):
    """What a study is about."""

    dataset: DatasetOption
    tasks: Annotated[
        list[str] | None,
        typer.Option(
            "--task",
            metavar="TASK",
            help="Task name, or a definition as for gelgt train; repeatable. By default all tasks "
            "of a RelBench folder.",
        ),
    ] = None
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FOLDER",
            help="Folder for runs and tables; runs/bench/DATASET by default. Finished runs in it "
            "are not trained again.",
        ),
    ] = None
    budget: Annotated[
        str | None,
        typer.Option("--budget", metavar="D", help="Train each run at most this long, such as 5m."),
    ] = None
    visibility: Annotated[
        str | None,
        typer.Option(
            "--visibility",
            metavar="REGIME",
            help="frozen, seed-time or both; frozen by default for RelBench data.",
        ),
    ] = None

    @property
    def regimes(self) -> tuple[Any, ...]:
        return ("frozen", "seed-time") if self.visibility == "both" else (self.visibility,)

    def config(self) -> "StudyConfig":
        """The options as the library takes them; the folder follows from the data."""
        from gelgt.bench.study import StudyConfig
        from gelgt.cli.train import settings_of

        return StudyConfig(
            out=Path(),
            preset=self.preset,
            seeds=range(self.seeds),
            settings=settings_of(self.settings),
            budget=None if self.budget is None else seconds(self.budget),
            visibility=self.regimes[0],
            device=self.device,
            jobs=self.jobs,
            command=typed_command(self.dataset, address_of(self.dataset)),
        )

    def check(self) -> None:
        """Raises for every mistake that shows before data is read."""
        self.check_run()
        check_visibility(self.visibility, "both")


def run_command(
    choose: "Callable[[], Study]", options: StudyOptions, baselines: bool, as_json: bool
) -> None:
    """Run a study, write its files and print its tables."""
    from gelgt.bench.write import write_study

    results, out = run_study_command(choose, options, baselines)
    names = [write_study(result, out, with_regime=len(results) > 1) for result in results]
    if as_json:
        print_json(results[0] if len(results) == 1 else {"studies": results})
    else:
        for result, name in zip(results, names):
            print_study(result)
            say("", f"written to {out / name}.md", "")
    if any(result["left"] for result in results):
        raise typer.Exit(INTERRUPTED)
    if any(result["failed"] for result in results):
        raise typer.Exit(FAILED)


def run_study_command(
    choose: "Callable[[], Study]", options: StudyOptions, baselines: bool
) -> tuple[list[dict[str, Any]], Path]:
    """The results of a study, one for each regime, and the folder of its runs.

    Errors of the command line come before any work."""
    config = options.config()
    options.check()
    until = options.until
    from gelgt.baselines.lightgbm import has_lightgbm
    from gelgt.bench.plan import check_settings
    from gelgt.bench.run import run_study, study_tasks
    from gelgt.bench.studies import with_baselines
    from gelgt.cli.interrupt import Interrupt
    from gelgt.cli.progress import training_progress
    from gelgt.sources import open

    study = choose()
    if baselines:
        study = with_baselines(study)
        if not has_lightgbm():
            note("LightGBM is not installed: the table has no column for it")
    check_settings(study, config)
    results = []
    with training_progress() as progress:
        db = open(options.dataset)
        tasks = study_tasks(db, options.tasks)
        folder = options.out or Path("runs") / "bench" / db.schema.name
        lines = CellLines(progress, tasks)
        with Interrupt(lambda: progress.has_begun or options.jobs > 1, progress.print) as stop:

            def is_over() -> bool:
                return stop() or time.monotonic() > until

            for regime in options.regimes:
                here = replace(config, out=folder, visibility=regime)
                results.append(
                    run_study(
                        study, db, tasks, here, progress=progress, on_event=lines, stop=is_over
                    )
                )
    return results, folder


class CellLines:
    """Prints a line for each event of a study's runs; a notice that several runs have, once.

    Args:
        progress: Where lines go.
        tasks: Of the study.
        prefix: Stands before the names of runs.
    """

    def __init__(self, progress: "Lines", tasks: "Sequence[Task]", prefix: str = "") -> None:
        self.progress, self.prefix = progress, prefix
        self.task_types = {task.name: task.task_type for task in tasks}
        self.notices: set[str] = set()

    def __call__(self, event: "CellEvent") -> None:
        from gelgt.metrics import MAIN

        name = f"{self.prefix}{event.cell.name}"
        if event.what == "begin":
            self.progress.print(name)
            metric = MAIN[str(self.task_types[event.cell.task])]
            self.progress.prepare(event.cell.config.train, metric)
        elif event.what == "failed":
            self.progress.print(f"failed: {name}: {event.text}", "red")
        elif event.what == "notice":
            if event.text not in self.notices:
                self.notices.add(event.text)
                self.progress.print(f"note: {name}: {event.text}", "yellow")
        elif event.process:  # with one job, the run's own lines have said it
            mark = "✓" if event.what == "done" else event.what
            self.progress.print(f"{mark} {name}")


def print_study(result: dict[str, Any]) -> None:
    """The table, what each comparison shows, and what failed."""
    from gelgt.bench.tables import facts, sentences, wide

    say(*(line.replace("`", "") for line in facts(result)), "")
    headers, lines = wide(result)
    print_table(headers, [[cell.replace("**", "") for cell in line] for line in lines])
    comparisons = sentences(result)
    if comparisons:
        say("", *comparisons)
    if result["failed"]:
        say("", "failed:")
        for run in result["failed"]:
            say(f"  {run['task']}, {run['model']}, seed {run['seed']}: {run['error']}")
    if result["left"]:
        count = len(result["left"])
        say("", f"stopped before {count} runs were finished; the same command continues")
