"""Trains the cells of a study: one after the other in this process, or several at once in processes
of their own.

Several runs share one GPU, at the same time where that can be (`shared_gpu.py`). The cells of all
databases wait in one line. Each process takes the next cell, opens its database if it has not yet,
and works on one cell at a time. A run that fails is reported and the others continue; a process
that dies (out of memory, a fault in a driver) is replaced. Ctrl-C asks every run to stop: each
leaves a checkpoint and resumes from there next time. A second one ends the processes at once.
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
from typing import Any, NamedTuple

from gelgt.bench.cells import Cell, CellContext, make_cell
from gelgt.bench.shared_gpu import shared_gpu
from gelgt.errors import GelgtError
from gelgt.tasks import Task
from gelgt.training.progress import Progress

POLL = 0.5  # seconds between two looks at whether the user wants to stop


@dataclass(frozen=True)
class CellEvent:
    """What happened to a cell: ``begin``, ``notice``, ``done``, ``stopped`` or ``failed``."""

    what: str
    cell: Cell
    text: str = ""
    process: int = 0


OnEvent = Callable[[CellEvent], None]


class Placed(NamedTuple):
    """A cell, and the database that it is trained on."""

    cell: Cell
    context: CellContext


def make_cells(
    cells: Sequence[Placed],
    *,
    jobs: int = 1,
    progress: Progress | None = None,
    on_event: OnEvent = lambda event: None,
    stop: Callable[[], bool] = lambda: False,
) -> dict[Path, str]:
    """Train the cells.

    Args:
        cells: What to train, in this order.
        jobs: Processes at once; 1 works in this one.
        progress: Receives the events of every run where there is one job.
        on_event: Receives what happens to each cell.
        stop: Asked all the time; true stops everything, to be resumed later.

    Returns:
        What went wrong, by the folder of the cell. A cell that is neither finished nor listed was
        left for later.
    """
    if jobs > 1 and len(cells) > 1:
        processes = min(jobs, len(cells))
        with shared_gpu(cells[0].context.device, processes) as environment:
            contexts = {id(placed.context): placed.context for placed in cells}
            return _Workers(contexts, processes, environment, on_event, stop).make(cells)
    failed = {}
    for cell, context in cells:
        on_event(CellEvent("begin", cell))
        try:
            is_whole = make_cell(cell, context, progress, stop)
        except Exception as error:
            failed[cell.folder] = _write_error(cell, error)
            on_event(CellEvent("failed", cell, failed[cell.folder]))
            _free_memory()
            continue
        on_event(CellEvent("done" if is_whole else "stopped", cell))
        if not is_whole or stop():
            break
    return failed


def _write_error(cell: Cell, error: Exception) -> str:
    """Write the traceback beside the cell's folder; gives one line of it."""
    cell.error_file.parent.mkdir(parents=True, exist_ok=True)
    cell.error_file.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
    if isinstance(error, GelgtError):
        return f"{error.code}: {error.message}"
    return f"{type(error).__name__}: {error}".splitlines()[0]


def _free_memory() -> None:
    """After a run that ran out of GPU memory, so that the next one has all of it."""
    import gc

    import torch

    gc.collect()
    torch.cuda.empty_cache()  # does nothing where CUDA was not used


class _Source(NamedTuple):
    """A database that a process opens itself, and its tasks, which travel without it."""

    folder: Path
    source: str
    tasks: Mapping[str, Task]
    content_hash: str
    device: str
    peer_python: str

    @classmethod
    def of(cls, context: CellContext) -> "_Source":
        tasks = {
            name: replace(task, database=None)  # type: ignore[arg-type]
            for name, task in context.tasks.items()
        }
        further = context.content_hash, context.device, context.peer_python
        return cls(context.db.folder, context.db.source, tasks, *further)

    def opened(self) -> CellContext:
        from gelgt.sources.relbench_folder import read_folder

        db = read_folder(self.folder, self.source)
        tasks = {name: replace(task, database=db) for name, task in self.tasks.items()}
        return CellContext(db, tasks, self.content_hash, self.device, self.peer_python)


class _Job(NamedTuple):
    """What a process needs to train cells."""

    halt: Any  # an event of multiprocessing: set when all are to stop
    parent: int
    sources: Mapping[int, _Source]  # by a number that comes with a cell
    threads: int
    environment: Mapping[str, str]


class _Worker:
    """A process and the cell it works on."""

    def __init__(self, job: _Job) -> None:
        context = get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=_work, args=(other, job), daemon=True)
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
        contexts: Mapping[int, CellContext],
        jobs: int,
        environment: Mapping[str, str],
        on_event: OnEvent,
        stop: Callable[[], bool],
    ) -> None:
        self.halt = get_context("spawn").Event()
        self.job = _Job(
            self.halt,
            os.getpid(),
            {number: _Source.of(context) for number, context in contexts.items()},
            threads=max(1, (os.cpu_count() or 1) // jobs),
            environment=environment,
        )
        self.jobs, self.on_event, self.stop = jobs, on_event, stop

    def make(self, cells: Sequence[Placed]) -> dict[Path, str]:
        left, failed, workers = list(cells), dict[Path, str](), list[_Worker]()
        try:
            while left or any(worker.cell for worker in workers):
                if self.stop():
                    self.halt.set()
                    left = []
                while left and len([w for w in workers if w.cell]) < self.jobs:
                    worker = next((w for w in workers if w.cell is None), None)
                    if worker is None:
                        worker = _Worker(self.job)
                        workers.append(worker)
                    worker.cell, context = left.pop(0)
                    worker.pipe.send((worker.cell, id(context)))
                for event in self._events(workers):
                    self.on_event(event)
                    if event.what == "failed":
                        failed[event.cell.folder] = event.text
        finally:
            _end(workers)
        return failed

    def _events(self, workers: list[_Worker]) -> Iterator[CellEvent]:
        """What the processes report; one that died leaves the list."""
        ready = wait([worker.pipe for worker in workers], POLL)
        for worker in [w for w in workers if w.pipe in ready]:
            try:
                event = worker.pipe.recv()
            except (EOFError, OSError):
                worker.process.join()
                workers.remove(worker)
                if worker.cell is not None and not self.halt.is_set():
                    code = worker.process.exitcode
                    reason = f"the process ended with code {code}"
                    yield CellEvent(
                        "failed", worker.cell, reason + (" (killed)" if code == -9 else "")
                    )
                continue
            if event.what in ("done", "stopped", "failed"):
                worker.cell = None
            yield event


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
    """Passes the notices of a run on."""

    def __init__(self, send: Callable[[str, str], None]) -> None:
        self.send = send

    def notice(self, text: str) -> None:
        self.send("notice", text)


def _work(pipe: Connection, job: _Job) -> None:
    """The body of a process: trains cells as they come, until there is none."""
    os.environ.update(job.environment)
    import torch

    torch.set_num_threads(job.threads)
    contexts: dict[int, CellContext] = {}

    def is_over() -> bool:
        return bool(job.halt.is_set()) or os.getppid() != job.parent  # nobody reads the result

    while True:
        try:
            order = pipe.recv()
        except EOFError:
            return
        if order is None:
            return
        cell, number = order

        def send(what: str, text: str = "", cell: Cell = cell) -> None:
            pipe.send(CellEvent(what, cell, text, os.getpid()))

        send("begin")
        try:
            if number not in contexts:
                contexts[number] = job.sources[number].opened()
            is_whole = make_cell(cell, contexts[number], _Notices(send), is_over)
            send("done" if is_whole else "stopped")
        except Exception as error:
            send("failed", _write_error(cell, error))
            _free_memory()
