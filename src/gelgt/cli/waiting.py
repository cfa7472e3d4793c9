"""What commands show while one thing goes on, on standard error: a spinner or a bar on a terminal,
a line now and then in a pipe."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gelgt.cli.output import console, note
from gelgt.meter import Work, listening

REPORT_SECONDS = 10.0  # between two lines about rows in a pipe


def duration(seconds: float) -> str:
    """Seconds as people read them.

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
    """A spinner on a terminal while the block runs, with the rows that are done; in a pipe a line
    now and then."""
    out = console(stderr=True)
    if not out.is_terminal:
        with listening(_Reports()):
            yield
        return
    with out.status(what) as status, listening(lambda work: status.update(str(work))):
        yield


class _Reports:
    """Prints how far work has come, every `REPORT_SECONDS` at most."""

    def __init__(self) -> None:
        self.last = time.perf_counter()

    def __call__(self, work: Work) -> None:
        self.last = reported(work, self.last)


def reported(work: Work, last: float) -> float:
    """When work was reported last: now, if that is long ago."""
    now = time.perf_counter()
    if now - last < REPORT_SECONDS:
        return last
    note(str(work))
    return now


@contextmanager
def counted(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Gives a function to call with the number of rows just done: it moves a bar on a terminal and
    prints a line now and then in a pipe."""
    out = console(stderr=True)
    if not out.is_terminal:
        yield _Count(what, total)
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    with Progress(
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
    """Prints how many rows are done, every `REPORT_SECONDS` at most."""

    def __init__(self, what: str, total: int) -> None:
        self.what, self.total, self.done = what, total, 0
        self.start = self.last = time.perf_counter()

    def __call__(self, rows: int) -> None:
        self.done += rows
        now = time.perf_counter()
        if now - self.last < REPORT_SECONDS or self.done >= self.total:
            return
        self.last = now
        left = (now - self.start) / self.done * (self.total - self.done)
        note(f"{self.what}: {self.done:,} of {self.total:,} rows, {duration(left)} left")
