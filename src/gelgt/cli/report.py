"""`gelgt report`, and what is printed when a training has ended: scores, report, next commands."""

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from gelgt.cli.options import JsonFlag, RunArg
from gelgt.cli.output import print_json, say
from gelgt.cli.watch import PortOption, serve_run

RESUMABLE = ("interrupted", "time limit")  # how a run can end that --resume continues


def report_command(
    run: RunArg,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="File to write; report.html in the run folder by default.",
        ),
    ] = None,
    live: Annotated[
        bool,
        typer.Option(
            "--live",
            help="Serve a page that shows a training while it goes on in another process, and its "
            "report at the end; writes nothing. Ctrl-C ends the page, not the training.",
        ),
    ] = False,
    port: PortOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Write the report of a run as one HTML file, or show a training that goes on.

    The report shows scores beside baselines, the learning curve, ROC curve or residuals,
    calibration, scores over time, and the temporal kernels and attention that the model learned;
    for recommendations also hits by rank, coverage and popularity bias.
    """
    if live:
        serve_run(run, port, as_json)
        return
    from gelgt.report import write_report

    path = write_report(run, out)
    if as_json:
        print_json({"run": str(run), "out": str(path)})
    else:
        say(f"written to {path}")


def finish(
    run: Any, out: Path, notices: list[str], *, with_report: bool, is_quiet: bool
) -> dict[str, Any]:
    """Write the report, print the scores unless quiet, and give what --json prints."""
    from gelgt.cli.scores import print_run, run_json
    from gelgt.runs.record import Profile, read_record

    path = out / "profile.json"
    profile = read_record(path, Profile) if path.is_file() else None
    result = run_json(run.record, out, profile) | {"report": None, "notices": notices}
    if with_report:
        from gelgt.report import write_report

        result["report"] = str(write_report(out))
    if not is_quiet:
        print_run(run.record, profile)
        _print_next(result, out)
    return result


def _print_next(result: dict[str, Any], out: Path) -> None:
    say("", f"run     {out}")
    if result["report"]:
        say(f"report  {result['report']}")
    if result["ended"] in RESUMABLE:
        say(
            f"Training ended early ({result['ended']}); the same command with --resume continues "
            "from the checkpoint."
        )
    folder = shlex.quote(str(out))
    if result["ranking"] is None:
        predict, meaning = "--all --out predictions.parquet", "all eligible entities, now"
    else:
        predict = "--all --k 5 --new-only --out recommendations.parquet"
        meaning = "five rows that are new to each eligible entity, now"
    commands = {f"gelgt predict  {folder} {predict}": meaning}
    if (result["retrain"] or {}).get("labels") != "all":
        commands[f"gelgt evaluate {folder}"] = "the test scores again, from the weights"
    width = max(map(len, commands))
    say("", "next", style="bold")
    say(*(f"  {command:<{width}}   # {meaning}" for command, meaning in commands.items()))
