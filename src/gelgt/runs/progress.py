"""`ProgressRecord`: where a training stands, for whoever watches it from outside its process.
`progress.json` in the run folder holds it.

`ProgressFile` keeps the file up to date from a thread of its own, once a second at most, so that no
step waits for the disk. While nothing happens it is written all the same now and then: a file that
nobody has written for longer than that means that the process is gone, however it went. No torch is
imported here.
"""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Literal

from pydantic import Field

from gelgt.files import write_text
from gelgt.runs.record import Part, Scores

PROGRESS = "progress.json"
EVERY = 1.0  # seconds between two writes at least
BEAT = 3.0  # seconds between two writes at most
SILENT = 15.0  # seconds without a write after which a training shows no sign of life

Status = Literal["preparing", "running", "finished", "interrupted", "failed"]


class Phase(Part):
    """A phase of a run that has ended."""

    name: str
    seconds: float
    facts: str = ""


class Point(Part):
    """An epoch: the mean loss of its steps and its validation score."""

    epoch: int
    loss: float | None = None
    score: float | None = None
    seconds: float | None = None


class Curve(Part):
    """The epochs of one network; `epochs` is how many there are at most."""

    network: int
    epochs: int
    is_retraining: bool = False
    best_epoch: int | None = None
    points: tuple[Point, ...] = ()


class Step(Part):
    """The step that is done last, and the seconds until its network is trained, at most."""

    epoch: int
    step: int
    steps: int
    loss: float | None = None
    left: float | None = None


class Earlier(Part):
    """An earlier process that trained into the same folder, and how it ended; ``running`` where it
    was killed and could not say."""

    began: float
    seconds: float
    status: Status


class Worker(Part):
    """One of several processes that train together."""

    host: str
    process: int


class ProgressRecord(Part):
    """progress.json. Times are seconds since 1970 by the clock of the machine that trains.

    Attributes:
        run: Name of the folder.
        task: What is predicted: the sentence, or the name.
        began: When the command began.
        updated: When this was written.
        seconds: From `began` to `updated`.
        limit: The run's time limit.
        phase: What goes on; `phase_seconds` for how long, and `plan` how long it may take.
        phases: Those that have ended.
        work: How far long work within the phase has come.
        networks: How many are trained.
        is_stopping: The user has asked it to end early.
        baselines: Validation scores of the deciding metric.
        scores: At the end, by model and split.
        ended: Why training ended, as in metrics.json.
        error: Why the run failed: code, message, hint.
        workers: The processes that train together, by rank; empty where there is one.
    """

    format: int = 1
    run: str = ""
    task: str = ""
    model: str = "gelgt"
    metric: str = ""
    status: Status = "running"
    began: float = 0.0
    updated: float = 0.0
    seconds: float = 0.0
    limit: float | None = None
    phase: str = ""
    phase_seconds: float = 0.0
    plan: float | None = None
    phases: tuple[Phase, ...] = ()
    work: str = ""
    networks: int = 1
    is_stopping: bool = False
    step: Step | None = None
    curves: tuple[Curve, ...] = ()
    baselines: Scores = Field(default={})
    scores: dict[str, Scores] = Field(default={})
    ended: str = ""
    error: dict[str, str] = Field(default={})
    notices: tuple[str, ...] = ()
    earlier: tuple[Earlier, ...] = ()
    workers: tuple[Worker, ...] = ()

    @property
    def is_over(self) -> bool:
        return self.status in ("finished", "interrupted", "failed")

    def is_silent(self, now: float) -> bool:
        """Whether it should go on, and shows no sign of life."""
        return not self.is_over and now - self.updated > SILENT


class ProgressFile:
    """Writes what `content` gives to a run folder for as long as it is entered.

    A disk that refuses it ends no training: then the file stays behind.
    """

    def __init__(self, folder: Path, content: Callable[[], ProgressRecord]) -> None:
        self.path, self.content = folder / PROGRESS, content
        self.is_changed = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="gelgt-progress", daemon=True)

    def __enter__(self) -> "ProgressFile":
        self._write()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()
        self._write()

    def _keep(self) -> None:
        written = time.monotonic()
        while not self._ended.wait(EVERY):
            now = time.monotonic()
            if self.is_changed or now - written >= BEAT:
                self._write()
                written = now

    def _write(self) -> None:
        self.is_changed = False
        with suppress(OSError):
            write_text(self.path, self.content().model_dump_json())
