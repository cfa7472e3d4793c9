"""`gelgt train` and `gelgt report`: from a source and a task to a run folder, with progress, Ctrl-C
and a report."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from gelgt.cli import options as given
from gelgt.cli.output import print_json, say
from gelgt.errors import GelgtError

if TYPE_CHECKING:
    from gelgt.cli.progress import Lines
    from gelgt.config import Visibility

FOLLOWS = {
    "sampling.visibility": "Use --visibility.",
    "sampling.horizon": "Use --as-of.",
    "sampling.causality": "Leave it out.",
}
RESUMABLE = ("interrupted", "time limit")


def train_command(
    source: given.SourceArg,
    definition: given.DefinitionArg,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="RUN", help="Folder for the run; runs/NAME of the task by default."
        ),
    ] = None,
    preset: given.PresetOption = "cpu",
    model: given.ModelOption = "gelgt",
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed", metavar="N", help="Of initial weights, order and dropout; 0 by default."
        ),
    ] = None,
    visibility: Annotated[
        str | None,
        typer.Option(
            "--visibility",
            metavar="REGIME",
            help="What a seed may see: frozen (rows up to the test time; default for RelBench "
            "data) "
            "or seed-time (all rows before its own time).",
        ),
    ] = None,
    as_of: Annotated[
        str | None,
        typer.Option(
            "--as-of",
            metavar="T",
            help="Under seed-time: measure ages from this time at the latest.",
        ),
    ] = None,
    settings: given.SetOption = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Go on where a run in this folder was cut off; same settings."
        ),
    ] = False,
    retrain_all: Annotated[
        bool,
        typer.Option(
            "--retrain-all",
            "--refit",
            help="Afterwards retrain on all labels, those of test too, for the epochs that "
            "validation chose.",
        ),
    ] = False,
    time_limit: Annotated[
        str | None,
        typer.Option(
            "--time-limit",
            metavar="D",
            help="Train at most so long (90s, 10m, 2h), then keep the best weights.",
        ),
    ] = None,
    device: given.DeviceOption = "auto",
    baseline_hops: Annotated[
        int,
        typer.Option(
            "--baseline-hops", metavar="1|2", help="2: LightGBM also with aggregates over two hops."
        ),
    ] = 1,
    report: Annotated[
        bool, typer.Option("--report/--no-report", help="Write report.html into the run folder.")
    ] = True,
    name: given.NameOption = None,
    val: given.ValOption = None,
    test: given.TestOption = None,
    eval_timestamps: given.EvalTimestampsOption = None,
    max_rows: given.MaxRowsOption = 2_000_000,
    timedelta: given.TimedeltaOption = None,
    entity: given.EntityOption = None,
    task_type: given.TaskTypeOption = None,
    schema: given.SchemaOption = None,
    tables: given.TablesOption = None,
    namespace: given.NamespaceOption = None,
    as_json: given.JsonFlag = False,
) -> None:
    """Train a model on a task; leaves a run folder.

    It is scored beside baselines (LightGBM, the entity's own past labels) and described in
    report.html. An example:

    gelgt train shop.db "PREDICT COUNT(orders.*, 0, 30, days) = 0 FOR EACH customers.id"

    Ctrl-C ends training early and keeps the best weights so far; --resume goes on from there.
    """
    # before anything slow: a typing error should cost no time
    changes = settings_of(settings, seed, time_limit)
    from gelgt.presets import RunConfig

    RunConfig.of(preset, None, changes, model)
    given.one_of("--baseline-hops", str(baseline_hops), ("1", "2"))
    if visibility is not None:
        given.one_of("--visibility", visibility, ("frozen", "seed-time"))
    ages_from = None if as_of is None else given.epoch_seconds(as_of, "time --as-of")
    if device != "auto":
        from gelgt.scoring.scorer import choose_device

        choose_device(device)
    if out is not None:
        from gelgt.runs.claim import check_out

        check_out(out, resume)
    from gelgt.cli.progress import training_progress
    from gelgt.cli.task import read_definition

    with training_progress() as progress:
        db = given.open_source(source, schema, tables, namespace)
        progress.phase(
            "source",
            f"{db.source}: {len(db.table_names)} tables, "
            f"{sum(map(db.num_rows, db.table_names)):,} rows",
        )
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
        progress.phase(
            "task",
            f"{task.name}: {str(task.task_type).replace('_', ' ')} for each row of "
            f"{task.entity_table}",
        )
        from gelgt.training import Options, in_regime

        regime = cast("Visibility | None", visibility)
        # refuses what does not go together before a folder is made
        in_regime(RunConfig(), task, regime, ages_from)
        wanted = Options(
            visibility=regime,
            as_of=ages_from,
            resume=resume,
            retrain_all=retrain_all,
            baseline_hops=(1,) if baseline_hops == 1 else (1, 2),
            device=device,
            command=given.typed_command(source, db.source),
        )
        folder = out or Path("runs") / task.name
        trained = train(
            db, task, folder, RunConfig.of(preset, task.task_type, changes, model), wanted, progress
        )
    result = finish(trained, folder, progress.notices, with_report=report, is_quiet=as_json)
    if as_json:
        print_json(result)
    if result["ended"] == "interrupted":
        raise typer.Exit(130)


def train(db: Any, task: Any, out: Path, config: Any, options: Any, progress: "Lines") -> Any:
    """Train with progress on standard error; the first Ctrl-C ends training early."""
    from gelgt.cli.interrupt import Interrupt
    from gelgt.metrics import MAIN
    from gelgt.training import train_run

    for text in task.notices:
        progress.notice(text)
    progress.prepare(config.train, MAIN.get(task.task_type, ""))
    try:
        with Interrupt(lambda: progress.has_begun, progress.print) as stop:
            return train_run(db, task, out, config, options, progress=progress, stop=stop)
    except KeyboardInterrupt:
        has_checkpoint = (out / "checkpoint.safetensors").exists()
        progress.print(
            "ended at once; --resume goes on from the last checkpoint"
            if has_checkpoint
            else "ended before anything was trained"
        )
        raise


def finish(
    trained: Any,
    out: Path,
    notices: list[str],
    *,
    with_report: bool,
    is_quiet: bool,
    extra: Any = None,
) -> dict[str, Any]:
    """Write the report, print the scores unless quiet, and give what --json prints."""
    from gelgt.cli.scores import print_run, run_json
    from gelgt.runs.folder import read_json

    shown = read_json(out / "profile.json") if (out / "profile.json").is_file() else {}
    result = run_json(trained.record, out, shown) | {"report": None, "notices": notices}
    if with_report:
        from gelgt.report import write_report

        result["report"] = str(write_report(out))
    if not is_quiet:
        print_run(trained.record, shown, extra)
        _print_next(result, out)
    return result


def report_command(
    run: given.RunArg,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="The file to write; report.html in the run folder by default.",
        ),
    ] = None,
    as_json: given.JsonFlag = False,
) -> None:
    """Write a run's report: one HTML file.

    It holds the scores beside the baselines, learning curve, ROC or residuals, calibration, scores
    over time, and what the model looks for in time.
    """
    from gelgt.report import write_report

    path = write_report(run, out)
    if as_json:
        print_json({"run": str(run), "out": str(path)})
    else:
        say(f"written to {path}")


def _print_next(result: dict[str, Any], out: Path) -> None:
    say("", f"run     {out}")
    if result["report"]:
        say(f"report  {result['report']}")
    if result["ended"] in RESUMABLE:
        say(
            f"Training ended early ({result['ended']}); the same command with --resume goes on "
            "from the checkpoint."
        )
    say("", "next", style="bold")
    say(
        f"  gelgt predict  {_word(out)} --all --out predictions.parquet   # for every entity, "
        "from all rows there are"
    )
    if (result["retrain"] or {}).get("labels") != "all":
        say(
            f"  gelgt evaluate {_word(out)}                                   # the test scores "
            "again, from the weights"
        )


def _word(path: Path) -> str:
    import shlex

    return shlex.quote(str(path))


def settings_of(
    settings: list[str] | None, seed: int | None, time_limit: str | None
) -> dict[str, Any]:
    """Single settings, whichever option they were given by."""
    from gelgt.presets import parse_settings

    changes = parse_settings(settings or ())
    for path, instead in FOLLOWS.items():
        if path in changes:
            raise GelgtError(
                "bad_setting", f"{path} follows from the task and the regime.", hint=instead
            )
    if seed is not None:
        changes["train.seed"] = seed
    if time_limit is not None:
        changes["train.time_limit"] = given.seconds(time_limit)
    return changes
