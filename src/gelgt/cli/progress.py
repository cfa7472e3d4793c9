"""What `gelgt train` shows while it works, on standard error: a live bar on a terminal, a plain
line for each phase and epoch in a pipe.

    ✓ data              1.9 s  112,340 rows in 8 tables; labels: train 98,310, val 13,020, …
    ✓ baselines        11.2 s  validation roc_auc: lightgbm 0.7012, entity-mean 0.6123
      epoch  1/30       4.1 s  loss 0.6120, validation roc_auc 0.7312, the best so far
"""

import sys
import time
from collections.abc import Mapping, Sequence
from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    SpinnerColumn,
    TextColumn,
)
from rich.progress import Progress as Bar

from gelgt.cli.output import console
from gelgt.cli.waiting import duration, reported
from gelgt.config import TrainConfig
from gelgt.meter import Work, listening
from gelgt.runs.progress import Phase
from gelgt.runs.record import Epoch
from gelgt.training.progress import Progress, score_facts, seconds_left

PHASES = ("source", "task", "data", "columns", "baselines", "trees", "training", "scoring")


def training_progress(first: str = PHASES[0]) -> "Lines":
    """A live bar if standard error is a terminal, plain lines otherwise.

    Args:
        first: The phase that begins now.
    """
    return Live(first) if sys.stderr.isatty() else Lines()


class Lines(Progress):
    """One line for each phase and each epoch."""

    def __init__(self) -> None:
        self.metric, self.epochs = "", 1
        self.time_limit: float | None = None  # of a network
        self.phases: list[Phase] = []  # those that have ended
        self.has_begun = False  # whether a step is done, so that there are weights to keep
        self.is_in_step = False  # steps are shown, not the work within them
        self.notices: list[str] = []
        self._reported = time.perf_counter()  # when a line about unfinished work was printed last
        self.best: float | None = None  # validation score
        self._bests: dict[int, float] = {}  # of each network
        self._has_several = False  # networks side by side
        self.baseline_scores: dict[str, float] = {}  # on validation, of the deciding metric
        self._since = time.perf_counter()
        self._listens = listening(self.work)

    def __enter__(self) -> "Lines":
        self._since = time.perf_counter()
        self._listens.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listens.__exit__(kind, error, trace)

    def work(self, work: Work) -> None:
        """How far a phase has come."""
        if not self.is_in_step:
            self._reported = reported(work, self._reported)

    def phase(self, name: str, facts: str = "") -> None:
        now, self.is_in_step = time.perf_counter(), False
        if name == "baselines" and not facts:
            facts = score_facts(self.metric, self.baseline_scores)
        self.print(f"✓ {name:<15} {duration(now - self._since):>7}  {facts}".rstrip(), "green")
        self.phases.append(Phase(name=name, seconds=now - self._since, facts=facts))
        self._since = now

    def baselines(self, metric: str, scores: Mapping[str, float]) -> None:
        self.metric, self.baseline_scores = metric, dict(scores)

    def prepare(self, config: TrainConfig, metric: str) -> None:
        """Sets what is shown of a run that begins: its limits and the metric that decides."""
        self.metric, self.epochs = metric, config.epochs

    def plan(self, name: str, seconds: float | None) -> None:
        if name == "network":
            self.time_limit = seconds
        elif seconds is not None:
            self.print(f"  {name}: {duration(seconds)} at most")

    def step(self, epoch: int, step: int, steps: int, loss: float, seconds: float) -> None:
        self.has_begun = self.is_in_step = True

    def epoch(self, record: Epoch, best_epoch: int, network: int = 1) -> None:
        value = record.val.get(self.metric)
        line = f"loss {record.loss:.4f}"
        if value is not None:
            if best_epoch == record.epoch:
                self.best = self._bests[network] = value
                mark = ", the best so far"
            else:  # the best score is unknown after --resume, until it is beaten
                best = f"{self._bests[network]:.4f}, " if network in self._bests else ""
                mark = f" (best so far {best}epoch {best_epoch})"
            line += f", validation {self.metric} {value:.4f}{mark}"
        which = f"network {network}, " if self._has_several else ""
        self.print(
            f"  {which}epoch {record.epoch:>2}/{self.epochs:<6} "
            f"{duration(record.seconds or 0.0):>7}  {line}"
        )

    def member(self, number: int, count: int) -> None:
        self.best, self._bests, self._has_several = None, {}, False
        self.print(f"  network {number} of {count}")

    def side_by_side(
        self, networks: Sequence[int], count: int, limit: float | None, epochs: int | None = None
    ) -> None:
        self.best, self._bests, self._has_several = None, {}, True
        self.time_limit = limit
        self.epochs = epochs or self.epochs
        work = "" if epochs is None else "retraining "
        labels = "" if epochs is None else " with the labels that were held out"
        which = f"networks {networks[0]} to {networks[-1]} of {count}"
        self.print(f"  {work}{which} side by side{labels}")

    def retrain(self, number: int, count: int, epochs: int) -> None:
        self.epochs, self._has_several = epochs, False
        network = f" network {number} of {count}" if count > 1 else ""
        self.print(f"  retraining{network} with the labels that were held out")

    def resumed(self, epoch: int, step: int, network: int = 1) -> None:
        steps = f" and {step} steps" if step else ""
        which = f"network {network} " if self._has_several else ""
        self.print(f"  {which}resumes after {epoch} epochs{steps}")

    def notice(self, text: str) -> None:
        self.notices.append(text)
        self.print(f"note: {text}", "yellow")

    def print(self, line: str, style: str | None = None) -> None:
        out = self.console
        out.print(line, markup=False, style=style if out.is_terminal else None)

    @property
    def console(self) -> Console:
        return console(stderr=True)

    def left(self, epoch: int, step: int, steps: int, seconds: float) -> float:
        """Seconds until training ends at the latest, at the pace of the steps so far."""
        return seconds_left(self.epochs, epoch, step, steps, seconds, self.time_limit)


class Live(Lines):
    """The same lines, and below them the current phase: a spinner, and a bar with the loss, the
    best score and the time left at most."""

    def __init__(self, first: str) -> None:
        super().__init__()
        out = console(stderr=True)
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(16 if out.width >= 100 else 6),
            TextColumn("{task.fields[facts]}", markup=False),
        )
        self.bar = Bar(*columns, console=out, transient=True, refresh_per_second=4)
        self.task = self.bar.add_task(first, total=None, facts="")

    def __enter__(self) -> "Live":
        super().__enter__()
        self.bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, trace)
        self.bar.stop()

    def work(self, work: Work) -> None:
        if not self.is_in_step:
            self.bar.update(self.task, total=work.total, completed=work.done, facts=str(work))

    @property
    def console(self) -> Console:
        return self.bar.console

    def phase(self, name: str, facts: str = "") -> None:
        super().phase(name, facts)
        after = PHASES[PHASES.index(name) + 1 :] if name in PHASES else ()
        if name != "model":
            self.bar.reset(
                self.task, total=None, description=after[0] if after else "finishing", facts=""
            )

    def step(self, epoch: int, step: int, steps: int, loss: float, seconds: float) -> None:
        super().step(epoch, step, steps, loss, seconds)
        facts = f"≤ {duration(self.left(epoch, step, steps, seconds))} left, loss {loss:.4f}"
        if self.best is not None:
            facts += f", {self.metric} {self.best:.4f}"
            for name, score in list(self.baseline_scores.items())[:1]:
                facts += f" ({name} {score:.4f})"
        done = (epoch - 1) * steps + step
        self.bar.update(
            self.task,
            description=f"epoch {epoch}/{self.epochs}",
            total=self.epochs * steps,
            completed=done,
            facts=facts,
        )
