"""What a page watches: a run folder, which a training in any process fills."""

from functools import cached_property
from pathlib import Path
from typing import Protocol

from gelgt.errors import GelgtError
from gelgt.report.run import Run
from gelgt.report.write import page
from gelgt.runs.progress import PROGRESS, ProgressRecord
from gelgt.runs.record import read_record


class Watched(Protocol):
    """Something whose progress a page shows."""

    @property
    def folder(self) -> Path | None:
        """The run folder; None where it is not known yet."""

    def record(self) -> ProgressRecord | None:
        """Where it stands; None where nothing is known of it any more."""


class RunFolder:
    """A run folder with the progress of a training."""

    def __init__(self, folder: Path) -> None:
        self.folder: Path | None = folder
        self._read: tuple[tuple[int, int, int], ProgressRecord] | None = None

    @cached_property
    def path(self) -> Path:
        return (self.folder or Path()) / PROGRESS

    def record(self) -> ProgressRecord | None:
        """progress.json, read again where it has changed."""
        try:
            stat = self.path.stat()
            mark = (stat.st_mtime_ns, stat.st_ino, stat.st_size)
            if self._read is None or self._read[0] != mark:
                self._read = mark, read_record(self.path, ProgressRecord)
        except (OSError, GelgtError):
            return None
        return self._read[1]

    def check(self) -> None:
        """Raises where there is nothing to watch.

        Raises:
            GelgtError: ``no_run`` or ``no_progress``.
        """
        hint = "Give the --out folder of a gelgt train command, once its task is printed."
        if self.folder is None or not self.folder.is_dir():
            raise GelgtError("no_run", f"There is no run folder {self.folder}.", hint=hint)
        if not self.path.is_file():
            raise GelgtError(
                "no_progress",
                f"{self.folder} has no {PROGRESS}: no training goes on there, or it is one of an "
                "older gelgt.",
                hint=f"{hint} gelgt report without --live shows a finished run.",
            )
        read_record(self.path, ProgressRecord)


def report_page(folder: Path | None) -> str | None:
    """The report of a finished run as HTML; None where there is none yet. It is made from the
    folder, so that it is never that of an earlier training."""
    if folder is None:
        return None
    try:
        return page(Run(folder))
    except GelgtError:
        return None
