"""The page of a training on the command line: `gelgt train --watch` and `gelgt report --live`."""

import os
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated

import typer

from gelgt.cli.output import note, print_json
from gelgt.errors import GelgtError
from gelgt.meter import Work, listening

if TYPE_CHECKING:
    from collections.abc import Callable

    from gelgt.cli.progress import Lines
    from gelgt.live import LiveServer
    from gelgt.runs.progress import ProgressRecord, Status

PortOption = Annotated[
    int | None,
    typer.Option(
        "--port", metavar="N", min=1, max=65535, help="Port of the page; a free one by default."
    ),
]


@dataclass(frozen=True)
class WatchOptions:
    """Whether a training has a page."""

    watch: Annotated[
        bool,
        typer.Option(
            "--watch",
            help="Show phases, curves and the time left in the browser while training goes on: a "
            "page on this machine, whose address is printed.",
        ),
    ] = False
    watch_port: Annotated[
        int | None,
        typer.Option(
            "--watch-port",
            metavar="N",
            min=1,
            max=65535,
            help="Port of the page of --watch; a free one by default.",
        ),
    ] = None


class TrainingPage:
    """The page of a training in this process, for as long as it is entered; nothing where nobody
    watches.

    Before there is a run folder it shows what the terminal shows, and after an error that left
    none it shows the error.

    Attributes:
        folder: The run folder, once it is known.
    """

    def __init__(self, options: WatchOptions) -> None:
        self.options = options
        self.progress: Lines | None = None
        self.folder: Path | None = None
        self.server: LiveServer | None = None
        self.began, self._is_over = time.time(), False
        self._work = ""
        self._failure: ProgressRecord | None = None
        self._listens = listening(self._hear)

    def __enter__(self) -> "TrainingPage":
        if self.options.watch or self.options.watch_port:
            from gelgt.live import LiveServer

            self.server = LiveServer(self, self.options.watch_port or 0).__enter__()
            self._listens.__enter__()
        return self

    def shows(self, progress: "Lines") -> None:
        """What this process tells of the training, which the page shows too."""
        self.progress = progress
        if self.server is not None:
            show_address(self.server.address, progress.print)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.server is None:
            return
        self._listens.__exit__(kind, error, trace)
        if error is not None:
            self._fail(error)
        self._is_over = True
        with suppress(KeyboardInterrupt):
            self.server.linger()
        self.server.__exit__(kind, error, trace)

    def record(self) -> "ProgressRecord | None":
        """How the training stands: by the run folder, once that tells of this training."""
        if self._failure is not None:
            return self._failure
        record = None
        if self.folder is not None:
            from gelgt.live import RunFolder

            record = RunFolder(self.folder).record()
        if record is not None and (self._is_over or record.updated >= self.began):
            return record
        return self._in_process("preparing")

    def stay(self) -> None:
        """On a terminal, serve on until Ctrl-C, so that the page and its report can be read."""
        if self.server is None or not (sys.stdin.isatty() and sys.stderr.isatty()):
            return
        self._is_over = True
        note(f"\nThe page stays at {self.server.address} until you press Ctrl-C.")
        with suppress(KeyboardInterrupt):
            threading.Event().wait()

    def _fail(self, error: BaseException) -> None:
        """What the page says of an error, unless the run folder says it."""
        record = self.record()
        if record is not None and record.is_over:
            return
        if isinstance(error, KeyboardInterrupt):
            self._failure = self._in_process("interrupted")
            return
        facts = {"code": "bug", "message": "The terminal shows the error.", "hint": ""}
        if isinstance(error, GelgtError):
            facts = error.to_dict()
        self._failure = self._in_process("failed").model_copy(update={"error": facts})

    def _in_process(self, status: "Status") -> "ProgressRecord":
        from gelgt.runs.progress import ProgressRecord

        now = time.time()
        phases = () if self.progress is None else tuple(self.progress.phases)
        notices = () if self.progress is None else tuple(self.progress.notices)
        return ProgressRecord(
            run="" if self.folder is None else self.folder.resolve().name,
            status=status,
            began=self.began,
            updated=now,
            seconds=now - self.began,
            phase=("source", "task", "data")[min(len(phases), 2)],
            phase_seconds=now - self.began - sum(phase.seconds for phase in phases),
            phases=phases,
            work=self._work,
            notices=notices,
        )

    def _hear(self, work: Work) -> None:
        self._work = str(work)


def serve_run(run: Path, port: int | None, as_json: bool) -> None:
    """Serve the page of a run folder until Ctrl-C.

    Raises:
        GelgtError: there is nothing to watch, or the port is taken.
    """
    from gelgt.live import LiveServer, RunFolder

    watched = RunFolder(run)
    watched.check()
    with LiveServer(watched, port or 0) as server, suppress(KeyboardInterrupt):
        if as_json:
            print_json({"run": str(run), "address": server.address})
        else:
            show_address(server.address, note)
            note("Ctrl-C ends the page, not the training.")
        threading.Event().wait()


def show_address(address: str, tell: "Callable[[str], None]") -> None:
    """Print the address, and open a browser where a person sits in front of one."""
    tell(f"watch at {address}")
    has_display = sys.platform in ("darwin", "win32") or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")
    )
    if has_display and sys.stderr.isatty():
        import webbrowser

        webbrowser.open(address)
