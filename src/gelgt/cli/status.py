"""`gelgt status`: what is done of sharded predictions, or of a training, and how fast it goes."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gelgt.cli.options import JsonFlag
from gelgt.cli.output import print_json, say
from gelgt.cli.waiting import duration
from gelgt.errors import GelgtError

if TYPE_CHECKING:
    from gelgt.inference.plan import Commit, Plan

SHOWN = 12  # missing parts that are named
RECENT = 300.0  # seconds that the rate of the cluster is taken over


def status_command(
    folder: Annotated[
        str,
        typer.Argument(
            metavar="FOLDER",
            help="Folder of gelgt predict --shards, here or in object storage, or a run folder.",
        ),
    ],
    as_json: JsonFlag = False,
) -> None:
    """Show what is done and what is missing. Examples:

    gelgt status churn/

    gelgt status runs/churn
    """
    from gelgt.inference.plan import read_plan
    from gelgt.runs.progress import PROGRESS
    from gelgt.storage import is_storage

    run = None if is_storage(folder) else Path(folder).expanduser()
    if read_plan(folder) is not None:
        result = parts_status(folder)
        lines = _parts_lines(folder, result)
    elif run is not None and (run / PROGRESS).is_file():
        result = _training_status(run)
        lines = _training_lines(run, result)
    else:
        raise GelgtError(
            "no_parts",
            f"{folder} holds neither sharded predictions nor a training.",
            hint="Give the folder of gelgt predict --shards, or of gelgt train.",
        )
    if as_json:
        print_json(result)
    else:
        say(*lines)


def parts_status(folder: str) -> dict[str, Any]:
    """What is committed in a folder of sharded predictions."""
    from gelgt.inference.shards import committed, is_finished

    plan, commits = committed(folder)
    done = {commit.part for commit in commits}
    hosts = sorted({commit.host for commit in commits})
    return {
        "is_finished": is_finished(folder),
        "shards": plan.shards,
        "committed": len(commits),
        "missing": [number for number in range(plan.shards) if number not in done],
        "entities": plan.entities,
        "entities_done": sum(commit.entities for commit in commits),
        "at": plan.at,
        "hosts": hosts,
        **_rates(plan, commits),
    }


def _rates(plan: "Plan", commits: "list[Commit]") -> dict[str, Any]:
    """Entities a second of one worker, and of all together in the last minutes of work."""
    if not commits:
        return {"worker_rate": None, "rate": None, "seconds_left": None}
    entities = sum(commit.entities for commit in commits)
    busy = max(sum(commit.seconds for commit in commits), 1e-9)
    last = max(commit.finished for commit in commits)
    recent = [c for c in commits if last - c.finished < RECENT]
    span = max(last - min(c.finished - c.seconds for c in recent), 1e-9)
    rate = sum(c.entities for c in recent) / span
    left = (plan.entities - entities) / max(rate, 1e-9)
    return {
        "worker_rate": round(entities / busy),
        "rate": round(rate),
        "seconds_left": round(left, 1),
        "idle_seconds": round(max(0.0, time.time() - last), 1),
    }


def _parts_lines(folder: str, result: dict[str, Any]) -> list[str]:
    done, entities = result["entities_done"], result["entities"]
    state = "complete" if result["is_finished"] else "not complete"
    lines = [
        f"{folder}: {state}, {result['committed']:,} of {result['shards']:,} parts, "
        f"{done:,} of {entities:,} entities"
        + (f" at {result['at']}" if result["at"] is not None else "")
    ]
    if result["rate"] is not None:
        machines = "1 machine" if len(result["hosts"]) == 1 else f"{len(result['hosts'])} machines"
        lines.append(
            f"{result['rate']:,} entities a second on {machines}, "
            f"{result['worker_rate']:,} a worker; the last part was committed "
            f"{duration(result['idle_seconds'])} ago"
        )
    missing = result["missing"]
    if missing:
        shown = ", ".join(map(str, missing[:SHOWN])) + (", …" if len(missing) > SHOWN else "")
        left = result["seconds_left"]
        rest = "" if left is None else f"; {duration(left)} at this rate"
        lines.append(f"missing: {shown}{rest}")
    elif not result["is_finished"]:
        lines.append("all parts are there: start the command again to check and finish them")
    return lines


def _training_status(folder: Path) -> dict[str, Any]:
    from gelgt.runs.progress import PROGRESS, SILENT, ProgressRecord
    from gelgt.runs.record import read_record

    record = read_record(folder / PROGRESS, ProgressRecord)
    is_alive = time.time() - record.updated < SILENT
    is_running = record.status in ("preparing", "running")
    return {
        "status": record.status if is_alive or not is_running else "gone",
        "phase": record.phase,
        "seconds": record.seconds,
        "phases": [phase.name for phase in record.phases],
        "work": record.work,
        "step": None if record.step is None else record.step.model_dump(),
        "workers": [worker.model_dump() for worker in record.workers],
    }


def _training_lines(folder: Path, result: dict[str, Any]) -> list[str]:
    if result["status"] == "gone":
        return [f"{folder}: the training shows no sign of life; go on with gelgt train … --resume"]
    phase = f", {result['phase']}" if result["phase"] else ""
    lines = [f"{folder}: {result['status']}{phase}, {duration(result['seconds'])}"]
    if (step := result["step"]) is not None:
        loss = "" if step["loss"] is None else f", loss {step['loss']:.4f}"
        lines.append(f"epoch {step['epoch']}, step {step['step']} of {step['steps']}{loss}")
    for rank, worker in enumerate(result["workers"]):
        lines.append(f"worker {rank}: {worker['host']}, process {worker['process']}")
    return lines
