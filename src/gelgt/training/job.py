"""`Job`: one run in the making, as its stages pass it on; and `Options`, how it was asked for."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from gelgt.config import Visibility
from gelgt.nn.ensemble import Ensemble
from gelgt.presets import RunConfig
from gelgt.runs.progress import Phase
from gelgt.schema.model import Finding
from gelgt.scoring import Scorer
from gelgt.training.budget import Budget
from gelgt.training.data import TrainingData
from gelgt.training.progress import Progress
from gelgt.training.workers import Workers


@dataclass(frozen=True)
class Options:
    """How a run is made, beside its configuration.

    Attributes:
        visibility: The regime; None is `frozen` for a RelBench folder and `seed-time` for
            everything else.
        as_of: Seconds since 1970 from which ages are measured at the latest, under `seed-time`.
        resume: Go on where a run in this folder was cut off.
        retrain_all: After the test score is known, retrain on all labels, those of test too, for
            the epochs that validation chose.
        baselines: Whether LightGBM and the entity's past labels are scored beside the model; a
            bench makes them once for many runs.
        baseline_hops: Of LightGBM's aggregates: (1,), or (1, 2) for both.
        device: ``auto``, ``cpu``, ``cuda``, …
        command: What the user typed, for the report.
        began: When the time of the run began, by `time.perf_counter`; None: now.
        before: Phases that have ended before, such as the opening of the source.
        accept: Findings that may stay unanswered, as ``CODE:TABLE.COLUMN`` or ``CODE:TABLE``.
    """

    visibility: Visibility | None = None
    as_of: int | None = None
    resume: bool = False
    retrain_all: bool = False
    baselines: bool = True
    baseline_hops: tuple[int, ...] = (1,)
    device: str = "auto"
    command: str | None = None
    began: float | None = None
    before: tuple[Phase, ...] = ()
    accept: tuple[str, ...] = ()


@dataclass
class Clock:
    """Seconds of each phase."""

    progress: Progress
    phases: dict[str, float] = field(default_factory=dict)
    since: float = field(default_factory=time.perf_counter)

    def done(self, name: str, facts: str = "") -> None:
        """A phase has ended, with something to say about it."""
        now = time.perf_counter()
        self.phases[name] = round(now - self.since, 2)
        self.since = now
        self.progress.phase(name, facts)


@dataclass(frozen=True)
class Job:
    """What every stage of a run needs.

    Attributes:
        key: What the run depends on; a checkpoint of another key is refused.
        stop: Asked after every step; true takes the best weights so far, and leaves a checkpoint to
            resume from.
        content_hash: Of the database.
        budget: What is left of the run's time.
        workers: Who trains the networks with this process; None: nobody.
        findings: Those of the tables that the task uses, the gravest first.
    """

    data: TrainingData
    config: RunConfig
    options: Options
    out: Path
    key: str
    content_hash: str
    device: torch.device
    clock: Clock
    budget: Budget
    stop: Callable[[], bool] = lambda: False
    workers: Workers | None = None
    findings: tuple[Finding, ...] = ()

    @property
    def progress(self) -> Progress:
        return self.clock.progress

    def outputs(self, model: Ensemble, split: str) -> Tensor:
        """(E, outputs) raw outputs of networks for the seeds of a split that exist."""
        seeds = self.data.seeds[split]
        scorer = Scorer(model, self.data, self.device, precision=self.config.train.precision)
        return scorer.outputs(seeds.take(self.data.exists(seeds).nonzero()[0]))
