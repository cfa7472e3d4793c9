"""`gelgt train --engine ray`: what each worker does, and what the driver shows of it."""

import json
import os
import shutil
import socket
import threading
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gelgt.cli.options import SourceOptions, TaskOptions
from gelgt.cli.train import Asked, TrainingOptions
from gelgt.cli.workers import EngineOptions, follow_training
from gelgt.errors import GelgtError

if TYPE_CHECKING:
    from gelgt.cli.progress import Lines
    from gelgt.runs.folder import Run
    from gelgt.runs.progress import Curve, Phase, Point, ProgressRecord
    from gelgt.training import Options

POLL_SECONDS = 0.5
BEHIND = ("training", "retrain", "scoring")  # phases that end behind epochs


@dataclass(frozen=True)
class RemoteTraining:
    """What the workers are asked to do.

    Attributes:
        out: The run folder; all nodes see it under this path.
        folder: The driver's working folder, which relative paths start from.
        probe: A file of the driver, by which a worker sees that it has the driver's folder.
        began: When the command began, by the driver's clock of the day.
    """

    source: SourceOptions
    task: TaskOptions
    training: TrainingOptions
    out: str
    folder: str
    probe: str
    command: str
    began: float
    before: "tuple[Phase, ...]" = ()

    def __call__(self) -> dict[str, str]:
        """One worker, to its end: the error of the leader, if there was one."""
        from gelgt.training.workers import joined, led

        try:
            with joined(self.training.device) as workers:
                assert workers is not None
                if not workers.is_leader:
                    source = _Checked(**vars(self.source), question=self)
                    follow_training(source, self.task, self.training, workers)
                    return {}
                with led(workers):
                    self._lead(workers)
        except GelgtError as error:
            if error.code == "worker_lost":
                raise  # Ray starts the workers again, and they go on from the last checkpoint
            return error.to_dict()
        except OSError as error:
            message = f"On the node {socket.gethostname()}: {error.strerror or error}"
            named = f": {error.filename}" if error.filename else ""
            hint = "Check that there is room, and that the folder can be read and written there."
            return {"code": "cannot_use_file", "message": f"{message}{named}.", "hint": hint}
        except Exception as error:  # to start again would not mend it
            return {"code": "bug", "message": f"{type(error).__name__}: {error}", "hint": ""}
        return {}

    def _lead(self, workers: Any) -> None:
        from gelgt.training import train_run

        self.check()
        db = self.source.open()
        labels = self.task.make(db)
        began = time.perf_counter() - (time.time() - self.began)
        options = self.training.options(self.command, began, self.before)
        config = self.training.config(labels.task_type)
        train_run(db, labels, Path(self.out), config, options, workers=workers)

    def check(self) -> None:
        """Whether this machine sees the driver's folders; goes to its working folder."""
        if not Path(self.probe).is_file():
            raise GelgtError(
                "not_shared",
                f"The folder {Path(self.probe).parent} there is not the driver's.",
                hint="Give an --out on storage that all nodes share, such as NFS, under one path.",
            )
        if Path(self.folder).is_dir():
            os.chdir(self.folder)


@dataclass(frozen=True)
class _Checked(SourceOptions):
    """A source that is opened after the worker has seen the driver's folder."""

    question: RemoteTraining | None = None

    def open(self, out: Path | None = None) -> Any:
        if self.question is not None:
            self.question.check()
        return super().open(out)


def train_asked(asked: Asked, out: Path, options: "Options", progress: "Lines") -> "Run":
    """Train on Ray what was asked for on the command line.

    Raises:
        GelgtError: the folder is taken, and see `train_remotely`.
    """
    from gelgt.runs.claim import check_out

    out = out.absolute()
    check_out(out, asked.training.resume)
    shared = out.with_name(f".{out.name}.ray-{uuid.uuid4().hex[:8]}")
    shared.mkdir(parents=True)
    probe = shared / "probe"
    probe.touch()
    try:
        question = RemoteTraining(
            asked.source,
            asked.task,
            asked.training,
            str(out),
            str(Path.cwd()),
            str(probe),
            options.command or "",
            time.time() - (time.perf_counter() - asked.began),
            options.before,
        )
        return train_remotely(question, asked.engine, progress)
    finally:
        shutil.rmtree(shared, ignore_errors=True)


def train_remotely(question: RemoteTraining, engine: EngineOptions, progress: "Lines") -> "Run":
    """Train on a Ray cluster; the run.

    Raises:
        GelgtError: of the training, or ``missing_extra``, ``no_cluster``, ``no_room``,
            ``worker_lost``.
    """
    from gelgt.engines.cluster import connected, resources
    from gelgt.engines.train import train_on_ray
    from gelgt.runs.folder import load_run

    with connected(engine.address, engine.workers) as ray:
        room, asks, device = resources(ray, question.training.device)
        workers = engine.workers or room
        if workers > room:
            raise GelgtError(
                "no_room",
                f"The cluster has room for {room} workers, not for {workers}.",
                hint=f"Give --workers {max(1, room)}, or start more nodes.",
            )
        nodes = sum(node["Alive"] for node in ray.nodes())
        training = replace(question.training, device=device, resume=True)
        facts = f"{workers} on {nodes} node{'s' if nodes > 1 else ''} share every batch"
        with Echo(Path(question.out), progress, facts):
            answer = train_on_ray(
                replace(question, training=training), workers, asks, Path(question.probe).parent
            )
    if answer.get("code") == "bug":
        raise RuntimeError(answer["message"])
    if answer:
        raise GelgtError(answer["code"], answer["message"], hint=answer.get("hint", ""))
    return load_run(Path(question.out))


class Echo:
    """Tells what the leader of a training writes to progress.json, while it is entered.

    Args:
        facts: Of the workers, once they have begun.
    """

    def __init__(self, out: Path, progress: "Lines", facts: str) -> None:
        self.out, self.progress, self.facts = out, progress, facts
        self.is_told = False
        self.phases, self.notices, self.epochs = 0, 0, 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="gelgt-echo", daemon=True)

    def __enter__(self) -> "Echo":
        self.phases = len(self.progress.phases)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()

    def _keep(self) -> None:
        is_over = False
        while not is_over:
            is_over = self._ended.wait(POLL_SECONDS)
            record = self._record()
            if record is not None:
                self.tell(record)

    def _record(self) -> "ProgressRecord | None":
        from gelgt.runs.progress import PROGRESS, ProgressRecord

        with suppress(OSError, json.JSONDecodeError, ValueError, GelgtError):
            return ProgressRecord.model_validate_json((self.out / PROGRESS).read_text())
        return None

    def tell(self, record: "ProgressRecord") -> None:
        """What is new in a record: phases and notices that ended before the networks, their
        epochs, and what came behind them."""
        if not self.is_told:
            self.progress.phase("workers", self.facts)
            self.is_told = True
        if len(record.phases) < self.phases:
            self.progress.notice("a worker was lost: all go on from the last checkpoint")
            self.phases = len(record.phases)
        new = record.phases[self.phases :]
        first = [phase for phase in new if phase.name not in BEHIND]
        for phase in first:
            self.progress.phase(phase.name, phase.facts)
        points = [(curve, point) for curve in record.curves for point in curve.points]
        for curve, point in points[self.epochs :]:
            self._tell_epoch(record.metric, curve, point)
        for phase in new[len(first) :]:
            self.progress.phase(phase.name, phase.facts)
        for text in record.notices[self.notices :]:
            self.progress.notice(text)
        if record.step is not None:
            step, spent = record.step, record.phase_seconds
            self.progress.step(step.epoch, step.step, step.steps, step.loss or 0.0, spent)
        self.phases, self.notices = len(record.phases), max(self.notices, len(record.notices))
        self.epochs = max(self.epochs, len(points))

    def _tell_epoch(self, metric: str, curve: "Curve", point: "Point") -> None:
        from gelgt.runs.record import Epoch

        values = {metric: point.score}
        epoch = Epoch(epoch=point.epoch, seconds=point.seconds, loss=point.loss, val=values)
        self.progress.epoch(epoch, curve.best_epoch or 0)
