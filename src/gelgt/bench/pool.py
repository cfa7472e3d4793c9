"""Makes the cells of a study: one after the other in this process, or several at once in processes
of their own.

Several runs share one GPU well when none of them fills it. Each process opens the database itself
and works on one cell at a time. A run that fails is reported and the others go on; a process that
dies (out of memory, a fault in a driver) is replaced. Ctrl-C asks every run to stop: each leaves a
checkpoint and goes on from there next time. A second one ends the processes at once.
"""

import os
import signal
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from gelgt.bench.cells import Cell, make_cell
from gelgt.errors import GelgtError
from gelgt.sources import Database
from gelgt.tasks import Task
from gelgt.training.progress import Progress

POLL = 0.5  # seconds between two looks at whether the user wants to stop


@dataclass(frozen=True)
class News:
    """What happened to a cell: ``begin``, ``notice``, ``done``, ``stopped`` or ``failed``."""

    what: str
    cell: Cell
    text: str = ""
    process: int = 0


Tell = Callable[[News], None]


def make_cells(
    cells: Sequence[Cell],
    db: Database,
    tasks: Mapping[str, Task],
    content_hash: str,
    *,
    device: str = "auto",
    jobs: int = 1,
    progress: Progress | None = None,
    tell: Tell = lambda news: None,
    stop: Callable[[], bool] = lambda: False,
) -> dict[Path, str]:
    """Make cells that are not there yet.

    Args:
        cells: What to make.
        db: The database.
        tasks: By name.
        content_hash: Of the database's rows.
        device: ``auto``, ``cpu``, ``cuda``, …
        jobs: Processes at once; 1 works in this one.
        progress: Is told of every run's phases where there is one job.
        tell: Is told what happens to each cell.
        stop: Asked all the time; true ends everything, to go on later.

    Returns:
        What went wrong, by the folder of the cell. Cells that are neither there nor in it were left
        for later.
    """
    if jobs > 1 and len(cells) > 1:
        return _Workers(db, tasks, content_hash, device, min(jobs, len(cells)), tell, stop).make(
            cells
        )
    failed = {}
    for cell in cells:
        tell(News("begin", cell))
        try:
            is_whole = make_cell(cell, db, tasks[cell.task], content_hash, device, progress, stop)
        except Exception as error:
            failed[cell.folder] = _complain(cell, error)
            tell(News("failed", cell, failed[cell.folder]))
            _free_memory()
            continue
        tell(News("done" if is_whole else "stopped", cell))
        if not is_whole or stop():
            break
    return failed


def _complain(cell: Cell, error: Exception) -> str:
    """Leave a traceback beside the cell's folder, and give a line for people."""
    cell.complaint.parent.mkdir(parents=True, exist_ok=True)
    cell.complaint.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
    if isinstance(error, GelgtError):
        return f"{error.code}: {error.message}"
    return f"{type(error).__name__}: {error}".splitlines()[0]


def _free_memory() -> None:
    """A run that failed for want of GPU memory must not starve the next one."""
    import gc

    import torch

    gc.collect()
    torch.cuda.empty_cache()  # nothing where CUDA was not used


class _Worker:
    """A process and the cell it works on."""

    def __init__(self, arguments: tuple[Any, ...]) -> None:
        context = get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(
            target=_work, args=(other, os.getpid(), *arguments), daemon=True
        )
        # Ctrl-C reaches every process of a terminal; only this one decides what it means.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            self.process.start()
        finally:
            signal.signal(signal.SIGINT, before)
        other.close()  # so that the end of the process is the end of the pipe
        self.cell: Cell | None = None


class _Workers:
    def __init__(
        self,
        db: Database,
        tasks: Mapping[str, Task],
        content_hash: str,
        device: str,
        jobs: int,
        tell: Tell,
        stop: Callable[[], bool],
    ) -> None:
        self.halt = get_context("spawn").Event()
        bare = {name: replace(task, database=None) for name, task in tasks.items()}  # type: ignore[arg-type]  # opened again there
        threads = max(1, (os.cpu_count() or 1) // jobs)
        self.arguments = (self.halt, db.folder, db.source, bare, content_hash, device, threads)
        self.jobs, self.tell, self.stop = jobs, tell, stop

    def make(self, cells: Sequence[Cell]) -> dict[Path, str]:
        left, failed, workers = list(cells), dict[Path, str](), list[_Worker]()
        try:
            while left or any(worker.cell for worker in workers):
                if self.stop():
                    self.halt.set()
                    left = []
                while left and len([w for w in workers if w.cell]) < self.jobs:
                    worker = next((w for w in workers if w.cell is None), None)
                    if worker is None:
                        worker = _Worker(self.arguments)
                        workers.append(worker)
                    worker.cell = left.pop(0)
                    worker.pipe.send(worker.cell)
                for news in self._heard(workers):
                    self.tell(news)
                    if news.what == "failed":
                        failed[news.cell.folder] = news.text
        finally:
            _end(workers)
        return failed

    def _heard(self, workers: list[_Worker]) -> Iterator[News]:
        """What the processes said; one that died leaves the list."""
        ready = wait([worker.pipe for worker in workers], POLL)
        for worker in [w for w in workers if w.pipe in ready]:
            try:
                news = worker.pipe.recv()
            except (EOFError, OSError):
                worker.process.join()
                workers.remove(worker)
                if worker.cell is not None and not self.halt.is_set():
                    code = worker.process.exitcode
                    yield News(
                        "failed",
                        worker.cell,
                        f"the process ended with code {code}" + (" (killed)" if code == -9 else ""),
                    )
                continue
            if news.what in ("done", "stopped", "failed"):
                worker.cell = None
            yield news


def _end(workers: Sequence[_Worker]) -> None:
    for worker in workers:
        if worker.cell is None:
            with suppress(OSError):
                worker.pipe.send(None)
        else:
            worker.process.terminate()
    for worker in workers:
        worker.process.join(10)
        if worker.process.is_alive():
            worker.process.kill()
        worker.pipe.close()


class _Notices(Progress):
    """Sends on what the user should know of a run."""

    def __init__(self, send: Callable[[str, str], None]) -> None:
        self.send = send

    def notice(self, text: str) -> None:
        self.send("notice", text)


def _work(
    pipe: Connection,
    parent: int,
    halt: Any,
    folder: Path,
    source: str,
    tasks: Mapping[str, Task],
    content_hash: str,
    device: str,
    threads: int,
) -> None:
    """What a process does: cells, as they come, until there is none."""
    import torch

    from gelgt.sources.relbench_folder import read_folder

    torch.set_num_threads(threads)
    db = read_folder(folder, source)

    def is_over() -> bool:
        return bool(halt.is_set()) or os.getppid() != parent  # nobody is left to read the result

    while True:
        try:
            cell = pipe.recv()
        except EOFError:
            return
        if cell is None:
            return

        def send(what: str, text: str = "", cell: Cell = cell) -> None:
            pipe.send(News(what, cell, text, os.getpid()))

        send("begin")
        try:
            task = replace(tasks[cell.task], database=db)
            is_whole = make_cell(cell, db, task, content_hash, device, _Notices(send), is_over)
            send("done" if is_whole else "stopped")
        except Exception as error:
            send("failed", _complain(cell, error))
            _free_memory()
