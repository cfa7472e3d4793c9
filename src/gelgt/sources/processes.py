"""Processes that read and sort the tables of an import side by side.

Each is a fresh Python that imports nothing but what it needs (worker.py): a fork of this process
would share connections and locks of threads with it, and `multiprocessing` would run the user's
script again. A table is read and sorted by one process, in the way that one process alone does it,
so the files have the same bytes.

A process that is killed, by the system or by a person, ends the import with an error; what it wrote
is in the scratch folder of the import, which goes with it.
"""

import math
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from gelgt.errors import GelgtError, SourceError
from gelgt.memory import VARIABLE, available_memory
from gelgt.meter import Work, is_heard
from gelgt.sources.raw import Shared, Sized, Source

MOST = 8  # processes; the connections to a server are twice as many
LEAST_BYTES = 128 << 20  # of a source, below which the start of processes takes what they save
EACH_MEMORY = 2 << 30  # bytes that a process may need
_QUOTA = Path("/sys/fs/cgroup/cpu.max")
# By its name: DuckDB shows progress bars where the main module has no file.
COMMAND = ["-P", "-m", "gelgt.sources.worker"]
Question = tuple[Any, ...]  # a method of `Worker` and its arguments


class LostError(Exception):
    """A process that has ended."""


class _Process:
    """A process that answers one question at a time."""

    def __init__(self, settings: tuple[Path, int, str], memory: int | None) -> None:
        paths = [path or os.getcwd() for path in sys.path]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        if memory is not None:
            environment[VARIABLE] = f"{memory >> 20}MiB"
        self._process = subprocess.Popen(
            [sys.executable, *COMMAND],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )
        self.send((*settings, is_heard()))

    def send(self, message: Any) -> None:
        pipe = self._process.stdin
        assert pipe is not None
        try:
            pickle.dump(message, pipe)
            pipe.flush()
        except OSError:
            raise LostError from None

    def answer(self) -> Any:
        """What it answers to the last question; its error is raised here."""
        shown: Work | None = None
        while True:
            try:
                assert self._process.stdout is not None
                kind, content = pickle.load(self._process.stdout)
            except (EOFError, OSError, pickle.UnpicklingError):
                raise LostError from None
            if kind == "result":
                return content
            if kind == "refused":
                error, *words = content
                raise error(*words)
            if kind == "system":
                raise OSError(*content) if content[0] else OSError(content[1])
            if kind == "bug":
                raise RuntimeError(f"In a process of the import:\n{content}")
            what, total, done = content
            shown = shown or Work(what, total)
            shown(done - shown.done)

    def kill(self) -> None:
        """End it, whatever it does; nothing is written any more afterwards."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                if pipe is not None:
                    pipe.close()


class Processes:
    """As many processes as cores and memory allow, or none where they are not worth their start.

    Args:
        folder: A scratch folder of the import.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._processes: list[_Process] = []
        self._is_waited_for = False  # whether they have still to say that they are ready
        self.has_source = False  # whether they read the source

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._end()

    def _end(self) -> None:
        for process in self._processes:
            process.kill()
        self._processes, self.has_source = [], False

    def start_for(self, source: Source) -> None:
        """Start them for a source, if it is large."""
        if isinstance(source, Sized) and process_count() > 1:
            with suppress(OSError):  # which reading it will raise too
                self.start(source.size(), getattr(source, "module", ""))

    def start(self, size: int, module: str = "") -> None:
        """Start them, unless they run, for so many bytes of rows; they are ready later, when they
        have imported a module."""
        count = process_count()
        if self._processes or count < 2 or size < LEAST_BYTES or not _is_python(sys.executable):
            return
        memory = available_memory()
        each = None if memory is None else memory // count
        threads = max(1, core_count() // count)
        self._is_waited_for = True
        try:
            for number in range(count):
                spill = self.folder / f"spill{number}"
                self._processes.append(_Process((spill, threads, module), each))
        except (OSError, LostError):
            self._end()

    def are_ready(self) -> bool:
        """Whether there are some, after waiting for their start. Without them one process does
        all."""
        if self._is_waited_for:
            self._is_waited_for = False
            try:
                for process in self._processes:
                    process.answer()
            except (OSError, LostError):
                self._end()
        return bool(self._processes)

    def open(self, source: Source) -> None:
        """Let them read a source that is entered here, if all can see the state that it has here;
        otherwise this process reads it alone."""
        if not isinstance(source, Shared) or (shared := source.share()) is None:
            return
        if self.are_ready():
            with suppress(GelgtError, OSError, LostError):
                self._ask_all("open", shared)
                self.has_source = source.is_shared()
            if not self.has_source:
                self._end()

    def prepare(self, *arguments: Any) -> None:
        """Be ready to write tables; see `Worker`."""
        try:
            self._ask_all("prepare", *arguments)
        except LostError:
            raise _lost("it began to write tables") from None

    def _ask_all(self, *question: Any) -> None:
        for process in self._processes:
            process.send(question)
        for process in self._processes:
            process.answer()

    def run(
        self, questions: Mapping[str, Question], after: Mapping[str, Collection[str]] | None = None
    ) -> dict[str, Any]:
        """The answers to questions about tables, each asked when those before it are answered.

        Raises:
            GelgtError: of a process, or ``worker_lost``: one was killed.
            OSError: of a process, such as a full disk.
        """
        board = _Board(questions, after or {})
        with ThreadPoolExecutor(len(self._processes)) as threads:
            try:
                running = [threads.submit(board.serve, process) for process in self._processes]
                for thread in as_completed(running):
                    thread.result()
            except BaseException:  # others that still work would do so for nothing
                board.stop()
                self._end()
                raise
        return {name: board.answers[name] for name in questions}


class _Board:
    """Which questions are open, and what was answered."""

    def __init__(
        self, questions: Mapping[str, Question], after: Mapping[str, Collection[str]]
    ) -> None:
        self._open, self._after = dict(questions), after
        self._changed = threading.Condition()
        self.answers: dict[str, Any] = {}

    def stop(self) -> None:
        """Ask nothing more."""
        with self._changed:
            self._open.clear()
            self._changed.notify_all()

    def serve(self, process: _Process) -> None:
        """Ask a process one question after the other, as long as there are some."""
        while (taken := self._take()) is not None:
            name, question = taken
            try:
                process.send(question)
                answer = process.answer()
            except LostError:
                raise _lost(f"it worked on the table '{name}'") from None
            with self._changed:
                self.answers[name] = answer
                self._changed.notify_all()

    def _take(self) -> tuple[str, Question] | None:
        with self._changed:
            while self._open:
                for name, question in self._open.items():
                    if all(other in self.answers for other in self._after.get(name, ())):
                        del self._open[name]
                        return name, question
                self._changed.wait()
        return None


def _is_python(command: str | None) -> bool:
    """Whether a command is an interpreter: inside another program it may be that program."""
    name = Path(command or "").name.lower()
    return name.startswith(("python", "pypy")) and not getattr(sys, "frozen", False)


def core_count() -> int:
    """Cores that this process may use."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        cores = os.cpu_count() or 1
    try:  # "200000 100000": two cores' worth of time, in a container
        quota, period = _QUOTA.read_text().split()
        return max(1, min(cores, math.ceil(int(quota) / int(period))))
    except (OSError, ValueError):  # none, or "max"
        return cores


def free_share() -> float:
    """The share of the machine that nobody used in the last minute: where all cores are busy,
    further processes take time from each other."""
    try:
        return max(0.0, 1.0 - os.getloadavg()[0] / (os.cpu_count() or 1))
    except (AttributeError, OSError):  # not on every system
        return 1.0


def process_count() -> int:
    """How many processes free cores and memory allow."""
    memory = available_memory()
    room = MOST if memory is None else memory // EACH_MEMORY
    return max(1, min(math.ceil(core_count() * free_share()), room, MOST))


def _lost(when: str) -> SourceError:
    return SourceError(
        "worker_lost",
        f"A process of the import was killed while {when}.",
        hint="Most often the system had too little memory: free some, or set GELGT_MEMORY to what "
        "may be used. Nothing is left behind; start again.",
    )
