"""`gelgt bench suite FOLDER…`: every task of several databases, one table.

gelgt bench suite rel-f1 tennis --origins 3 --seeds 3 --out runs/bench/suite
"""

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gelgt.cli.bundle import bundled
from gelgt.cli.options import JsonFlag
from gelgt.cli.output import note, print_json, print_table, say
from gelgt.cli.parse import check_visibility, seconds, typed_command
from gelgt.cli.study import FAILED, INTERRUPTED, CellLines, RunOptions

if TYPE_CHECKING:
    from gelgt.bench.suite.run import SuiteConfig


@dataclass(frozen=True, kw_only=True)
class SuiteOptions(RunOptions):
    """The databases and columns of a suite."""

    folders: Annotated[
        list[Path],
        typer.Argument(metavar="FOLDER…", help="RelBench folders with tasks."),
    ]
    tasks: Annotated[
        list[str] | None,
        typer.Option(
            "--task",
            metavar="NAME",
            help="Only this task, TASK or FOLDER/TASK; repeatable. By default all tasks.",
        ),
    ] = None
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            metavar="FOLDER",
            help="Folder for runs and tables. Finished runs in it are not trained again.",
        ),
    ] = Path("runs/bench/suite")
    budget: Annotated[
        str,
        typer.Option(
            "--budget", metavar="D", help="Time of each run, baseline and peer, such as 90s or 10m."
        ),
    ] = "5m"
    visibility: Annotated[
        str,
        typer.Option("--visibility", metavar="REGIME", help="seed-time or frozen."),
    ] = "seed-time"
    origins: Annotated[
        int,
        typer.Option(
            "--origins",
            min=0,
            metavar="K",
            help="Replay each task at K earlier split times, without its test labels. 0 scores the "
            "test, which is logged.",
        ),
    ] = 0
    variants: Annotated[
        list[str] | None,
        typer.Option(
            "--variant",
            metavar="NAME:a.b=c,…",
            help="Train the same model with other settings, as further columns; repeatable.",
        ),
    ] = None
    peers: Annotated[
        list[str] | None,
        typer.Option(
            "--peer",
            metavar="NAME",
            help="Add another library with LightGBM: featuretools or getml; repeatable.",
        ),
    ] = None
    peer_python: Annotated[
        Path | None,
        typer.Option(
            "--peer-python",
            metavar="PATH",
            help="Python in which peers are installed, where it is not this one.",
        ),
    ] = None

    def config(self) -> "SuiteConfig":
        """The options as the library takes them.

        Raises:
            GelgtError: every mistake that shows before data is read."""
        from gelgt.bench.peers import check_peer
        from gelgt.bench.study import StudyConfig
        from gelgt.bench.suite.columns import check_peers, parse_variants
        from gelgt.bench.suite.run import SuiteConfig
        from gelgt.cli.train import settings_of

        self.check_run()
        check_visibility(self.visibility)
        python = str(self.peer_python or sys.executable)
        config = SuiteConfig(
            StudyConfig(
                out=self.out,
                preset=self.preset,
                seeds=range(self.seeds),
                settings=settings_of(self.settings),
                budget=seconds(self.budget),
                visibility=self.visibility,  # type: ignore[arg-type]
                device=self.device,
                jobs=self.jobs,
                command=typed_command("", ""),
                peer_python=python,
            ),
            variants=parse_variants(self.variants or ()),
            peers=tuple(dict.fromkeys(self.peers or ())),
            origins=self.origins,
        )
        check_peers(config.peers)
        for name in config.peers:
            check_peer(name, python)
        config.check()
        return config


@bundled
def suite(options: SuiteOptions, as_json: JsonFlag = False) -> None:
    """Compare the model, its parts, baselines and peers on every task of several databases.

    Each task is trained with every seed, and everyone gets the same labels and the same time. The
    tables have mean ranks, mean points, and differences with intervals over entities and over
    databases. Choose with --origins, which uses no test label; look at the test once, at the end.
    Ctrl-C stops a suite; the same command continues it. Example:

    gelgt bench suite rel-f1 tennis --origins 3 --variant shallow:sampling.hops=1
    """
    from gelgt.baselines.lightgbm import has_lightgbm
    from gelgt.bench.suite.folders import check_folders
    from gelgt.bench.suite.tables import write_suite

    config = options.config()
    check_folders(options.folders)
    if not has_lightgbm():
        note("LightGBM is not installed: the table has no column for it and for trees")
    result = _run(options, config)
    path = write_suite(result, options.out)
    if as_json:
        print_json(result)
    else:
        print_suite(result)
        say("", f"written to {path}", "")
    if result["left"]:
        raise typer.Exit(INTERRUPTED)
    if result["failed"]:
        raise typer.Exit(FAILED)


def _run(options: SuiteOptions, config: "SuiteConfig") -> dict[str, Any]:
    from gelgt.bench.suite.folders import Folder, open_folders
    from gelgt.bench.suite.run import run_suite
    from gelgt.cli.interrupt import Interrupt
    from gelgt.cli.progress import training_progress

    until = options.until
    with training_progress() as progress:
        folders, left_out = open_folders(options.folders, options.tasks or (), options.origins)
        for line in left_out:
            progress.print(f"left out: {line}", "yellow")

        def lines(folder: Folder) -> CellLines:
            return CellLines(progress, [u.task for u in folder.units], f"{folder.name} / ")

        with Interrupt(lambda: progress.has_begun or options.jobs > 1, progress.print) as stop:
            return run_suite(
                folders,
                config,
                left_out=left_out,
                progress=progress,
                on_event=lines,
                stop=lambda: stop() or time.monotonic() > until,
            )


def print_suite(result: dict[str, Any]) -> None:
    """The tables, and what failed."""
    from gelgt.bench.suite.tables import (
        ABOUT,
        ABOUT_DIFFERENCES,
        difference_table,
        failures,
        suite_facts,
        task_table,
    )

    say(*(line.replace("`", "") for line in suite_facts(result)), "")
    headers, lines = task_table(result)
    rows = [headers, *([cell.replace("**", "") for cell in line] for line in lines)]
    if len(headers) > len(rows):  # the narrower way round
        rows = [list(row) for row in zip(*rows)]
    print_table(rows[0], rows[1:])
    say("", ABOUT.replace("best mean in bold; ", ""))
    if result["comparisons"]:
        say("")
        print_table(*difference_table(result))
        say("", ABOUT_DIFFERENCES)
    if result["left_out"]:
        say("", "left out:", *(f"  {line}" for line in result["left_out"]))
    if result["failed"]:
        say("", "failed:", *(f"  {line}" for line in failures(result)))
    if result["left"]:
        count = len(result["left"])
        say("", f"stopped before {count} runs were finished; the same command continues")
