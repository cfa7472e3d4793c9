"""The state of a source: what tells, without its rows, whether it has changed since its import.

    files, RelBench folders   name, inode, size, times of the last change and first bytes of each
    SQLite                    the same of the file (its first bytes hold its change counter) and of
                              its write-ahead log, into which others commit
    DuckDB                    the same of the file and its write-ahead log
    object storage            name, size and time of change of each object, as the provider lists
                              them (objects.py)
    PostgreSQL                the transactions that a snapshot sees (postgres_state.py)
    MySQL, MariaDB, frames    none, so they are read each time: InnoDB's times of change are lost
                              with a restart, and its log moves before a commit becomes visible

A state may call an unchanged source changed, never the reverse. The time of a file is as coarse as
its file system's clock, so a file that was changed just before it was looked at may change again
without another time: it is in doubt, and compared by content as well.
"""

import hashlib
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from gelgt.errors import SourceError
from gelgt.sources.cache import hash_files

DOUBT = 3.0  # seconds; the coarsest clock in use, FAT's, counts in steps of two
_HEAD = 3 * 4096  # bytes that hold the counters of SQLite (the first 100) and DuckDB (three pages)


@dataclass(frozen=True)
class SourceState:
    """A state: equal keys mean equal rows, as far as `doubtful` files have equal content."""

    key: str
    doubtful: tuple[str, ...] = ()

    def content(self) -> str | None:
        """A hash of the files in doubt; None where there are none."""
        if not self.doubtful:
            return None
        return hash_files(path for path in map(Path, self.doubtful) if path.exists())


def files_state(paths: Iterable[Path], logs: Iterable[Path] = ()) -> SourceState:
    """The state of files, and of write-ahead logs, of which an empty one is as good as none."""
    digest, doubtful = hashlib.blake2b(digest_size=16), []
    looks = {path: _look(path) for path in sorted(paths)}
    looks |= {path: look for path in logs if (look := _look(path, is_log=True)) and look.size}
    for path, look in looks.items():
        digest.update(f"{path}\0{look}\n".encode())
        if look is not None and look.is_recent:
            doubtful.append(str(path))
    return SourceState(digest.hexdigest(), tuple(doubtful))


def database_state(path: Path, *log_suffixes: str) -> SourceState:
    """The state of a database in one file with write-ahead logs beside it or, for some writers,
    beside a symbolic link to it."""
    files = sorted({path.absolute(), path.resolve()})
    logs = [file.with_name(file.name + suffix) for file in files for suffix in log_suffixes]
    return files_state([path], logs)


class _Look(NamedTuple):
    inode: int
    size: int
    changed: tuple[int, ...]  # in nanoseconds
    head: str
    is_recent: bool

    def __str__(self) -> str:
        return f"{self.inode} {self.size} {self.changed} {self.head}"


def _look(path: Path, is_log: bool = False) -> _Look | None:
    """A file as it is now; None where there is none."""
    now = time.time_ns()
    try:
        # network file systems answer from their own cache unless the file is opened
        with path.open("rb") as file:
            stat = os.fstat(file.fileno())
            head = hashlib.blake2b(file.read(_HEAD), digest_size=16).hexdigest()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SourceError(
            "cannot_open",
            f"{path} cannot be read: {error.strerror or error}.",
            hint="Get permission to read it, or copy it again.",
        ) from None
    # The time of the inode shows a change even where that of the content was set back. Whoever
    # opens SQLite's log as root changes it, by giving the log the owner that it has.
    changed = (stat.st_mtime_ns,) if is_log else (stat.st_mtime_ns, stat.st_ctime_ns)
    is_recent = now - max(changed) < DOUBT * 1e9
    return _Look(stat.st_ino, stat.st_size, changed, head, is_recent)
