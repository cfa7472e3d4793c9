"""`gelgt train`: from a source and a task to a run folder, with progress, Ctrl-C and a report."""

import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from gelgt.cli.bundle import bundled
from gelgt.cli.options import (
    DeviceOption,
    JsonFlag,
    ModelOption,
    PresetOption,
    SetOption,
    SourceOptions,
    TaskOptions,
    VisibilityOption,
)
from gelgt.cli.output import print_json
from gelgt.cli.parse import check_visibility, epoch_seconds, one_of, seconds, typed_command
from gelgt.cli.watch import TrainingPage, WatchOptions
from gelgt.cli.workers import EngineOptions, follow_training, launched, restarted
from gelgt.errors import GelgtError

if TYPE_CHECKING:
    from gelgt.cli.progress import Lines
    from gelgt.config import Visibility
    from gelgt.presets import RunConfig
    from gelgt.runs.folder import Run
    from gelgt.runs.progress import Phase
    from gelgt.training import Options
    from gelgt.training.workers import Workers

# settings that follow from other options, and what to use instead
DERIVED = {
    "sampling.visibility": "Use --visibility.",
    "sampling.horizon": "Use --as-of.",
    "sampling.causality": "Leave it out: it follows from the kind of task.",
}


@dataclass(frozen=True)
class TrainingOptions:
    """How a model is trained."""

    preset: PresetOption = "cpu"
    model: ModelOption = "gelgt"
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed",
            metavar="N",
            help="Random seed of initial weights, batch order and dropout; 0 by default.",
        ),
    ] = None
    visibility: VisibilityOption = None
    as_of: Annotated[
        str | None,
        typer.Option(
            "--as-of",
            metavar="T",
            help="Horizon under seed-time: ages are measured from this time at the latest.",
        ),
    ] = None
    settings: SetOption = None
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Resume an unfinished run in this folder, with the same settings."
        ),
    ] = False
    retrain_all: Annotated[
        bool,
        typer.Option(
            "--retrain-all",
            "--refit",
            help="After scoring, retrain on all labels, test labels included, for the selected "
            "number of epochs.",
        ),
    ] = False
    time_limit: Annotated[
        str | None,
        typer.Option(
            "--time-limit",
            metavar="D",
            help="Time for the whole command (90s, 10m, 2h), 5m by default, split over baselines, "
            "networks and trees, each of which keeps the best that it reached. More than 5m gives "
            "more columns and more networks.",
        ),
    ] = None
    device: DeviceOption = "auto"
    accept: Annotated[
        list[str] | None,
        typer.Option(
            "--accept",
            metavar="CODE:TABLE.COLUMN",
            help="Train though this finding of severity error is not answered; repeatable.",
        ),
    ] = None
    baseline_hops: Annotated[
        int,
        typer.Option(
            "--baseline-hops",
            metavar="1|2",
            help="2 adds a LightGBM with aggregates over two hops to the baselines.",
        ),
    ] = 1

    def check(self) -> None:
        """Raises for every mistake that shows before data is read."""
        self.config(None)
        one_of("--baseline-hops", str(self.baseline_hops), ("1", "2"))
        check_visibility(self.visibility)
        _ = self.horizon
        if self.device != "auto":
            from gelgt.scoring.scorer import choose_device

            choose_device(self.device)

    def config(self, task_type: str | None) -> "RunConfig":
        """The configuration for a type of task."""
        from gelgt.presets import RunConfig

        changes = settings_of(self.settings, self.seed, self.time_limit)
        return RunConfig.of(self.preset, task_type, changes, self.model)

    @property
    def horizon(self) -> int | None:
        return None if self.as_of is None else epoch_seconds(self.as_of, "time --as-of")

    def options(self, command: str, began: float, before: tuple["Phase", ...]) -> "Options":
        """The same as the library takes it."""
        from gelgt.training import Options

        return Options(
            visibility=cast("Visibility | None", self.visibility),
            as_of=self.horizon,
            resume=self.resume,
            retrain_all=self.retrain_all,
            baseline_hops=(1,) if self.baseline_hops == 1 else (1, 2),
            device=self.device,
            command=command,
            began=began,
            before=before,
            accept=tuple(self.accept or ()),
        )


@bundled
def train_command(
    *,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="RUN", help="Run folder; runs/NAME of the task by default."),
    ] = None,
    training: TrainingOptions,
    report: Annotated[
        bool, typer.Option("--report/--no-report", help="Write report.html into the run folder.")
    ] = True,
    source: SourceOptions,
    task: TaskOptions,
    engine: EngineOptions,
    watch: WatchOptions,
    as_json: JsonFlag = False,
) -> None:
    """Train a model on a task and write a run folder.

    The model is scored beside baselines (LightGBM, the entity's past labels; what is popular, where
    rows are recommended); report.html describes the run. Examples:

    gelgt train shop.db "PREDICT COUNT(orders.*, 0, 30, days) = 0 FOR EACH customers.id"

    gelgt train shop.db
    "PREDICT LIST_DISTINCT(order_items.product_sku, 0, 30, days) FOR EACH customers.id"

    Ctrl-C ends training early and keeps the best weights so far; --resume continues from there.
    --watch shows it in the browser; gelgt report RUN --live does so for one that is going on.
    """
    began = time.perf_counter()
    with launched(training.device) as workers:
        if workers is not None and not workers.is_leader:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # whether Ctrl-C ends it, the leader says
            follow_training(source, task, training, workers)
            return
        training = restarted(training)
        training.check()  # before anything slow: a typing error should cost no time
        engine.check()
        if out is not None:
            from gelgt.runs.claim import check_out

            check_out(out, training.resume)
        asked = Asked(source, task, training, out, engine, began)
        from gelgt.cli.report import finish

        with TrainingPage(watch) as page:
            run, notices = asked.train(page, workers)
            assert page.folder is not None
            result = finish(run, page.folder, notices, with_report=report, is_quiet=as_json)
            if as_json:
                print_json(result)
            page.stay()
    if result["ended"] == "interrupted":
        raise typer.Exit(130)


@dataclass(frozen=True)
class Asked:
    """A training as it was asked for."""

    source: SourceOptions
    task: TaskOptions
    training: TrainingOptions
    out: Path | None
    engine: EngineOptions
    began: float

    def train(self, page: TrainingPage, workers: "Workers | None") -> tuple["Run", list[str]]:
        """Open the source, make the task, and train, here or on Ray; the run, and what was said."""
        from gelgt.cli.progress import training_progress
        from gelgt.cli.task import task_words
        from gelgt.training import in_regime

        with training_progress() as progress:
            page.shows(progress)
            db = self.source.open()
            rows = sum(map(db.num_rows, db.table_names))
            progress.phase("source", f"{db.source}: {len(db.table_names)} tables, {rows:,} rows")
            labels = self.task.make(db)
            progress.phase("task", task_words(labels))
            command = typed_command(self.source.source, db.source)
            options = self.training.options(command, self.began, tuple(progress.phases))
            config = self.training.config(labels.task_type)
            # refuses options that do not go together before a folder is made
            in_regime(config, labels, options.visibility, options.as_of)
            page.folder = folder = self.out or Path("runs") / labels.name
            if self.engine.engine is None:
                run = train(db, labels, folder, config, options, progress, workers)
            else:
                from gelgt.cli.train_ray import train_asked
                from gelgt.metrics import MAIN

                progress.prepare(config.train, MAIN.get(str(labels.task_type), ""))
                run = train_asked(self, folder, options, progress)
            return run, progress.notices


def train(
    db: Any,
    task: Any,
    out: Path,
    config: Any,
    options: Any,
    progress: "Lines",
    workers: "Workers | None" = None,
) -> Any:
    """Train with progress on standard error; the first Ctrl-C ends training early."""
    from gelgt.cli.interrupt import Interrupt
    from gelgt.metrics import MAIN
    from gelgt.training import train_run

    for text in task.notices:
        progress.notice(text)
    progress.prepare(config.train, MAIN.get(task.task_type, ""))
    try:
        with Interrupt(lambda: progress.has_begun, progress.print) as stop:
            return train_run(
                db, task, out, config, options, progress=progress, stop=stop, workers=workers
            )
    except KeyboardInterrupt:
        has_checkpoint = (out / "checkpoint.safetensors").exists()
        progress.print(
            "stopped at once; --resume continues from the last checkpoint"
            if has_checkpoint
            else "stopped before anything was trained"
        )
        raise


def settings_of(
    settings: list[str] | None, seed: int | None = None, time_limit: str | None = None
) -> dict[str, Any]:
    """The settings that the user changed, whichever option changed them."""
    from gelgt.presets import parse_settings

    changes = parse_settings(settings or ())
    for path, instead in DERIVED.items():
        if path in changes:
            raise GelgtError(
                "bad_setting",
                f"{path} cannot be set: it follows from the task and the regime.",
                hint=instead,
            )
    if seed is not None:
        changes["train.seed"] = seed
    if time_limit is not None:
        changes["train.time_limit"] = seconds(time_limit)
    return changes
