"""What `gelgt train` shows while it works, on standard error: a live bar on a terminal, a plain
line a phase and an epoch in a pipe.

✓ data           1.9 s 112,340 rows in 8 tables; labels: train 98,310, val 13,020, test 13,790;
                 seed-time
✓ baselines     11.2 s  validation roc_auc: lightgbm 0.7012, entity-mean 0.6123
  epoch  1/30    4.1 s  loss 0.6120, validation roc_auc 0.7312, the best so far
"""

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    SpinnerColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bar

from gelgt.cli.output import console, note
from gelgt.config import TrainConfig
from gelgt.training.progress import Progress

PHASES = ("source", "task", "data", "baselines", "training", "scoring")
SECONDS = 10.0  # between two lines about rows in a pipe


def training_progress(first: str = PHASES[0]) -> "Lines":
    """What fits standard error: a live bar on a terminal, lines elsewhere.

    Args:
        first: The phase that begins now.
    """
    return Live(first) if sys.stderr.isatty() else Lines()


class Lines(Progress):
    """One line for each phase and each epoch."""

    def __init__(self) -> None:
        self.metric, self.epochs, self.time_limit = "", 1, math.inf
        self.has_begun = False  # a step is done, so that there are weights to keep
        self.notices: list[str] = []
        self.best: float | None = None
        self.best_epoch = 0
        self.rivals = ""  # the baselines' validation scores
        self._since = time.perf_counter()

    def __enter__(self) -> "Lines":
        self._since = time.perf_counter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass

    def phase(self, name: str, facts: str = "") -> None:
        now = time.perf_counter()
        self.print(f"✓ {name:<11} {duration(now - self._since):>7}  {facts}".rstrip(), "green")
        self._since = now
        if name == "baselines":
            self.rivals = facts.partition(": ")[2]

    def prepare(self, config: TrainConfig, metric: str) -> None:
        """What is known before training begins: how long it may take, and the metric that
        decides."""
        self.metric, self.epochs, self.time_limit = (
            metric,
            config.epochs,
            config.time_limit or math.inf,
        )

    def step(self, epoch: int, step: int, steps: int, loss: float, seconds: float) -> None:
        self.has_begun = True

    def epoch(self, record: dict[str, Any], best_epoch: int) -> None:
        value = record["val"].get(self.metric)
        told = f"loss {record['loss']:.4f}"
        if value is not None:
            is_best = best_epoch == record["epoch"]
            # unknown after --resume, until it is beaten
            self.best = value if is_best else self.best
            before = (
                f" (best so far {f'{self.best:.4f}, ' if self.best is not None else ''}epoch "
                f"{best_epoch})"
            )
            told += f", validation {self.metric} {value:.4f}" + (
                ", the best so far" if is_best else before
            )
            self.best_epoch = best_epoch
        self.print(
            f"  epoch {record['epoch']:>2}/{self.epochs:<3} {duration(record['seconds']):>7}  "
            f"{told}"
        )

    def member(self, number: int, count: int) -> None:
        self.best, self.best_epoch = None, 0
        self.print(f"  model {number} of {count}, with a seed of its own")

    def retrain(self, number: int, count: int, epochs: int) -> None:
        self.epochs = epochs
        which = f"model {number} of {count} is" if count > 1 else "it is"
        self.print(f"  {which} trained anew, with the labels that were held back")

    def resumed(self, epoch: int, step: int) -> None:
        self.print(
            f"  goes on after {epoch} epochs and {step} steps"
            if step
            else f"  goes on after {epoch} epochs"
        )

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
        """Seconds that training takes at most from here, by the steps so far."""
        done = (epoch - 1) * steps + step
        return max(
            0.0, min(seconds / done * (self.epochs * steps - done), self.time_limit - seconds)
        )


class Live(Lines):
    """The same lines, and below them what is under way: a spinner, and a bar with the loss, the
    scores and the time left at most."""

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
        self.bar.stop()

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
            rival = f" ({self.rivals.partition(',')[0]})" if self.rivals else ""
            facts += f", {self.metric} {self.best:.4f}{rival}"
        done = (epoch - 1) * steps + step
        self.bar.update(
            self.task,
            description=f"epoch {epoch}/{self.epochs}",
            total=self.epochs * steps,
            completed=done,
            facts=facts,
        )


def duration(seconds: float) -> str:
    """Seconds for people.

    >>> duration(4.13), duration(250), duration(7300)
    ('4.1 s', '4:10 min', '2:01 h')
    """
    if seconds < 100:
        return f"{seconds:.1f} s"
    if seconds < 5400:
        return f"{int(seconds) // 60}:{int(seconds) % 60:02d} min"
    return f"{int(seconds) // 3600}:{int(seconds) % 3600 // 60:02d} h"


@contextmanager
def working(what: str) -> Iterator[None]:
    """A spinner on a terminal for as long as something takes; nothing in a pipe."""
    out = console(stderr=True)
    if not out.is_terminal:
        yield
        return
    with out.status(what):
        yield


@contextmanager
def counted(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Gives a function that is told how many more rows are done: a bar on a terminal, now and then
    a line in a pipe."""
    out = console(stderr=True)
    if not out.is_terminal:
        yield _Count(what, total)
        return
    with Bar(
        TextColumn(what),
        BarColumn(24),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=out,
        transient=True,
    ) as bar:
        task = bar.add_task(what, total=total)
        yield lambda rows: bar.update(task, advance=rows)


class _Count:
    """Tells of rows that are done, every `SECONDS` at most."""

    def __init__(self, what: str, total: int) -> None:
        self.what, self.total, self.done = what, total, 0
        self.begun = self.told = time.perf_counter()

    def __call__(self, rows: int) -> None:
        self.done += rows
        now = time.perf_counter()
        if now - self.told < SECONDS or self.done >= self.total:
            return
        self.told = now
        left = (now - self.begun) / self.done * (self.total - self.done)
        note(f"{self.what}: {self.done:,} of {self.total:,} rows, {duration(left)} left")
