"""`Journal`: the events of a run, kept in the run folder for whoever watches it, and passed on.

    with Journal(out, about, progress) as journal:
        …                                    # every event of `Progress`
        journal.finish(run.record)

It sits between the stages of a run and the `Progress` of the caller, and changes neither. A run
that is resumed keeps the curves of the epochs that it does not take again.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from gelgt.errors import GelgtError
from gelgt.meter import Work, listening
from gelgt.metrics import MAIN
from gelgt.presets import RunConfig
from gelgt.runs.progress import (
    PROGRESS,
    Curve,
    Earlier,
    Phase,
    Point,
    ProgressFile,
    ProgressRecord,
    Step,
    Worker,
)
from gelgt.runs.record import Epoch, RunRecord, read_record
from gelgt.tasks import Task
from gelgt.training.budget import Budget
from gelgt.training.job import Options
from gelgt.training.progress import Progress, score_facts, seconds_left

# What follows a phase that has ended, where no plan announces it; else scoring does.
NEXT = {
    "data": "columns",
    "columns": "baselines",
    "baselines": "trees",
    "trees": "training",
    "columns network": "training",
    "scoring": "writing",
}
NEXT_RANKING = NEXT | {
    "data": "candidates",
    "candidates": "trees",
    "trees": "baselines",
    "baselines": "training",
}
BUG = "An error that gelgt did not foresee; the terminal shows it."


@dataclass(frozen=True)
class About:
    """What a journal says of its run from the start.

    Attributes:
        task: The sentence, or the name.
        began: By `time.perf_counter`.
        epochs: Of a network at most.
        before: Phases that had ended before.
        is_ranking: Whether it recommends.
        is_resumed: Whether an earlier journal in the folder is carried on.
    """

    task: str
    model: str
    metric: str
    limit: float | None
    began: float
    epochs: int
    before: tuple[Phase, ...] = ()
    is_ranking: bool = False
    is_resumed: bool = False

    @classmethod
    def of(cls, task: Task, config: RunConfig, options: Options, budget: Budget) -> "About":
        """What is known before any data is read."""
        return cls(
            task=task.sentence or task.name,
            model=config.kind,
            metric=MAIN.get(str(task.task_type), ""),
            limit=budget.limit,
            began=budget.began,
            epochs=config.train.epochs,
            before=options.before,
            is_ranking=task.task_type == "recommendation",
            is_resumed=options.resume,
        )


class Journal(Progress):
    """Keeps the events of a run in progress.json while it is entered."""

    def __init__(self, out: Path, about: About, shown: Progress) -> None:
        self.about, self.shown, self.epochs = about, shown, about.epochs
        now = time.perf_counter()
        self._lock = threading.Lock()  # the file is written by another thread
        self._since = now
        self._limit: float | None = None  # of the present network
        self._curves: list[Curve] = []
        self._before = _earlier(out) if about.is_resumed else None
        before = self._before
        earlier = () if before is None else (*before.earlier, _as_earlier(before))
        self._facts: dict[str, Any] = {
            "run": out.resolve().name,
            "task": about.task,
            "model": about.model,
            "metric": about.metric,
            "limit": about.limit,
            "began": time.time() - (now - about.began),
            "phase": "data",
            "phases": about.before,
            "earlier": earlier,
            "notices": (),
        }
        self._file = ProgressFile(out, self.record)
        self._listens = listening(self.work)

    def record(self) -> ProgressRecord:
        """Where the run stands."""
        now = time.perf_counter()
        with self._lock:
            return ProgressRecord(
                **self._facts,
                curves=tuple(self._curves),
                updated=time.time(),
                seconds=now - self.about.began,
                phase_seconds=now - self._since,
            )

    def __enter__(self) -> "Journal":
        self._file.__enter__()
        self._listens.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listens.__exit__(kind, error, trace)
        if isinstance(error, GelgtError):
            self._set(status="failed", error=error.to_dict())
        elif isinstance(error, KeyboardInterrupt):
            self._set(status="interrupted", ended="interrupted")
        elif error is not None:
            self._set(status="failed", error={"code": "bug", "message": BUG, "hint": ""})
        self._file.__exit__(kind, error, trace)

    def finish(self, record: RunRecord) -> None:
        """The run folder is whole."""
        of_models = {record.model: record.metrics, **record.baselines}
        scores = {
            model: {split: of_split.get(record.metric) for split, of_split in splits.items()}
            for model, splits in of_models.items()
        }
        status = "interrupted" if record.ended == "interrupted" else "finished"
        self._set(status=status, ended=record.ended, scores=scores, work="", step=None)

    def works_with(self, workers: Sequence[Worker]) -> None:
        """Who trains together."""
        self._set(workers=tuple(workers))

    def hears(self, stop: Callable[[], bool]) -> Callable[[], bool]:
        """The same question, whose answer is kept too."""

        def asked() -> bool:
            if is_stopping := stop():
                self._set(is_stopping=True)
            return is_stopping

        return asked

    # Events.
    def phase(self, name: str, facts: str = "") -> None:
        now = time.perf_counter()
        if name != "model":  # a line of facts within the phase that goes on
            scores = self._facts.get("baselines")
            known = score_facts(self.about.metric, scores) if name == "baselines" and scores else ""
            ended = Phase(name=name, seconds=now - self._since, facts=facts or known)
            after = (NEXT_RANKING if self.about.is_ranking else NEXT).get(name, "scoring")
            phases = (*self._facts["phases"], ended)
            self._set(phases=phases, phase=after, plan=None, work="", step=None)
            self._since = now
        self.shown.phase(name, facts)

    def plan(self, name: str, seconds: float | None) -> None:
        if name == "network":
            self._limit = seconds
            self._begin(len(self._curves) + 1)
        else:
            self._set(phase=name, plan=seconds)
        self.shown.plan(name, seconds)

    def baselines(self, metric: str, scores: Mapping[str, float]) -> None:
        self._set(baselines=dict(scores))
        self.shown.baselines(metric, scores)

    def step(self, epoch: int, step: int, steps: int, loss: float, seconds: float) -> None:
        left = seconds_left(self.epochs, epoch, step, steps, seconds, self._limit)
        self._set(step=Step(epoch=epoch, step=step, steps=steps, loss=loss, left=left), work="")
        self.shown.step(epoch, step, steps, loss, seconds)

    def epoch(self, record: Epoch, best_epoch: int, network: int = 1) -> None:
        value = record.val.get(self.about.metric)
        point = Point(epoch=record.epoch, loss=record.loss, score=value, seconds=record.seconds)
        with self._lock:
            place = self._place(network)
            # scored once more where a time limit had ended it before its end
            points = [p for p in self._curves[place].points if p.epoch < point.epoch]
            changes = {"points": (*points, point), "best_epoch": best_epoch or None}
            self._curves[place] = self._curves[place].model_copy(update=changes)
        self._file.is_changed = True
        self.shown.epoch(record, best_epoch, network)

    def member(self, number: int, count: int) -> None:
        with self._lock:  # of several workers this one may not train them all
            self._curves[-1] = self._curves[-1].model_copy(update={"network": number})
        self._set(networks=count)
        self.shown.member(number, count)

    def retrain(self, number: int, count: int, epochs: int) -> None:
        self._limit, self.epochs = None, epochs
        self._set(phase="retrain", plan=None, step=None, networks=count)
        self._begin(number, is_retraining=True)
        self.shown.retrain(number, count, epochs)

    def side_by_side(
        self, networks: Sequence[int], count: int, limit: float | None, epochs: int | None = None
    ) -> None:
        self._limit, self.epochs = limit, epochs or self.epochs
        self._set(networks=count)
        if epochs is not None:
            self._set(phase="retrain", plan=None, step=None)
        for number in networks:
            self._begin(number, is_retraining=epochs is not None)
        self.shown.side_by_side(networks, count, limit, epochs)

    def resumed(self, epoch: int, step: int, network: int = 1) -> None:
        before = self._before.curves if self._before is not None else ()
        with self._lock:
            place = self._place(network)
            curve = self._curves[place]
            for old in before:
                if old.network == curve.network and not old.is_retraining:
                    points = tuple(point for point in old.points if point.epoch <= epoch)
                    changes = {"points": points, "best_epoch": old.best_epoch}
                    self._curves[place] = curve.model_copy(update=changes)
        self._file.is_changed = True
        self.shown.resumed(epoch, step, network)

    def notice(self, text: str) -> None:
        self._set(notices=(*self._facts["notices"], text))
        self.shown.notice(text)

    def work(self, work: Work) -> None:
        """How far long work of a phase has come; steps are told, not the work within them."""
        if self._facts.get("step") is None:
            self._set(work=str(work))

    def _place(self, network: int) -> int:
        """Where the newest curve of a network is."""
        places = [n for n, curve in enumerate(self._curves) if curve.network == network]
        return places[-1] if places else -1

    def _begin(self, number: int, is_retraining: bool = False) -> None:
        with self._lock:
            self._curves.append(
                Curve(network=number, epochs=self.epochs, is_retraining=is_retraining)
            )
        self._file.is_changed = True

    def _set(self, **facts: Any) -> None:
        with self._lock:
            self._facts |= facts
        self._file.is_changed = True


def _earlier(out: Path) -> ProgressRecord | None:
    """What an earlier journal of the folder says; nothing where it cannot be read."""
    try:
        return read_record(out / PROGRESS, ProgressRecord)
    except GelgtError:
        return None


def _as_earlier(record: ProgressRecord) -> Earlier:
    return Earlier(began=record.began, seconds=record.seconds, status=record.status)
