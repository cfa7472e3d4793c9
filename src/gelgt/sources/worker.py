"""What a process does that reads and sorts tables for another one (processes.py).

    python -m gelgt.sources.worker

Questions come on standard input, answers go to standard output, both as pickled tuples. The process
ends with the one that asks, even where that is killed: nobody else would remove what it writes.
"""

import os
import pickle
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from gelgt.errors import GelgtError
from gelgt.memory import too_little_memory
from gelgt.meter import Work, listening
from gelgt.sources.duckdb_engine import connect
from gelgt.sources.order import TableWriter, Writing
from gelgt.sources.probe import StagedProbe
from gelgt.sources.raw import RawTable, Source, elsewhere
from gelgt.sources.stage import StagedTable, stage_table

Answer = tuple[str, Any]  # what it is, and its content


class Worker:
    """Answers questions, each of which is a method and its arguments."""

    def __init__(self, folder: Path, threads: int) -> None:
        pa.set_cpu_count(threads)
        self._folder, self._threads = folder, threads
        self._source: Any = None
        self._connection: Any = None
        self._writer: TableWriter | None = None

    def open(self, source: Source) -> None:
        """Enter a source."""
        self._source = source.__enter__()

    def describe(self, name: str) -> RawTable:
        """A table of the source, without a way to its rows."""
        table: RawTable = self._source.tables([name])[0]
        return replace(table, batches=elsewhere)

    def stage(
        self, raw: RawTable, folder: Path, number: int, forced: Mapping[str, str]
    ) -> StagedTable:
        """Read a table; see `stage_table`."""
        source = self._source
        return stage_table(
            replace(raw, batches=lambda: source.batches(raw)), folder, number, forced
        )

    def prepare(self, writing: Writing, staged: Mapping[str, StagedTable]) -> None:
        """Be ready to write tables; the source is no longer needed."""
        if self._source is not None:
            self._source.__exit__(None, None, None)
            self._source = None
        self._connection = connect(self._folder, self._threads)
        self._writer = TableWriter(writing, StagedProbe(self._connection, staged))

    def write_keys(self, name: str) -> None:
        """See `TableWriter`."""
        assert self._writer is not None
        self._writer.write_keys(name)

    def write_rows(self, name: str) -> Any:
        """See `TableWriter`."""
        assert self._writer is not None
        return self._writer.write_rows(name)

    def answer(self, question: tuple[Any, ...]) -> Answer:
        """The result of a method, or its error in a form that another process can raise."""
        import duckdb

        name, *arguments = question
        try:
            return "result", getattr(self, name)(*arguments)
        except GelgtError as error:
            return "refused", (type(error), error.code, error.message, error.hint)
        except (MemoryError, duckdb.OutOfMemoryException) as error:
            lacking = too_little_memory("Importing these tables", str(error) or "no memory")
            return "refused", (GelgtError, lacking.code, lacking.message, lacking.hint)
        except duckdb.IOException as error:
            return "system", (None, str(error), None)
        except OSError as error:
            return "system", (error.errno, error.strerror or str(error), error.filename)
        except Exception:
            return "bug", traceback.format_exc()


def _listen(pipe: BinaryIO, questions: "queue.SimpleQueue[Any]") -> None:
    """Read questions until there is nobody to ask any, and end the process then."""
    try:
        while True:
            questions.put(pickle.load(pipe))
    except (EOFError, OSError, pickle.UnpicklingError):
        os._exit(1)


def main() -> None:
    """Answer one question after the other."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the other process decides what Ctrl-C ends
    pipe = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever a library may print
    questions: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(sys.stdin.buffer, questions), daemon=True).start()

    def send(answer: Answer) -> None:
        try:
            pickle.dump(answer, pipe)
            pipe.flush()
        except OSError:
            os._exit(1)

    def tell(work: Work) -> None:
        send(("work", (work.what, work.total, work.done)))

    folder, threads, module, is_heard = questions.get()
    if module:
        import_module(module)
    worker = Worker(folder, threads)
    send(("result", None))
    while True:
        question = questions.get()
        if is_heard:
            with listening(tell):
                answer = worker.answer(question)
        else:
            answer = worker.answer(question)
        send(answer)


if __name__ == "__main__":
    main()
