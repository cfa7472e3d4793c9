"""A command of gelgt in a process of its own that something happens to.

`zygote.py` forks these processes. What happens to one happens at its n-th change of a file
(creating, renaming, removing, linking, flushing), which `Operations` counts, or from outside at a
moment of time.
"""

import atexit
import ctypes
import errno
import faulthandler
import os
import resource
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.truncate"}
PR_SET_PDEATHSIG = 1
HANGS = 25.0  # seconds after which a command tells where it is


@dataclass(frozen=True)
class Start:
    """A command and what happens to it.

    Attributes:
        arguments: Of `gelgt`.
        folder: The only one in which it changes files.
        fault: What happens, a key of `FAULTS`; "" for nothing.
        at: At which of its changes of files; 0 for the beginning.
        amount: How much of it, where it has a measure.
        place: The folder that it happens to, where it is one.
        environment: Variables beside the usual ones.
        said: Beginning of the names of the pipes that take what it prints (`out`, `err`) and of the
            file that takes its number of changes (`count`): a full disk does not hold them.
    """

    arguments: tuple[str, ...]
    folder: Path
    fault: str = ""
    at: int = 0
    amount: int = 0
    place: Path | None = None
    environment: dict[str, str] = field(default_factory=dict)
    said: str = ""


class Operations:
    """Counts changes of files in a folder, and acts at one of them, before it is made."""

    def __init__(self, folder: Path, at: int, act: Callable[[], None]) -> None:
        self.count, self._folder, self._at, self._act = 0, str(folder), at, act
        sys.addaudithook(self._hear)
        flush = os.fsync

        def counted(handle: Any) -> None:
            self._add()
            flush(handle)

        os.fsync = counted

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in CHANGES or (event == "open" and self._is_written(*arguments)):
            self._add()

    def _is_written(self, path: Any, mode: Any, flags: Any) -> bool:
        is_ours = isinstance(path, str | os.PathLike) and os.fspath(path).startswith(self._folder)
        return is_ours and isinstance(flags, int) and bool(flags & WRITES)

    def _add(self) -> None:
        self.count += 1
        if self.count == self._at:
            self._act()


def run(start: Start) -> None:
    """The command, in this process."""
    _settle(start)
    faulthandler.dump_traceback_later(HANGS)
    act = FAULTS[start.fault]
    operations = Operations(start.folder, start.at, lambda: act(start))
    if start.at == 0:
        act(start)
    from gelgt.cli import main

    code = 1
    try:
        main()
        code = 0
    except SystemExit as ending:
        code = ending.code if isinstance(ending.code, int) else int(ending.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        if not start.fault:
            Path(f"{start.said}count").write_text(str(operations.count))
        _end(code)


def _end(code: int) -> None:
    """End as Python does: other threads first, then what was registered, then what was printed.
    To take the modules of the server apart, which Python does at last, takes seconds."""
    try:
        threading._shutdown()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _settle(start: Start) -> None:
    """Own output, environment and arguments; an ordinary user, who can be forbidden to write. It
    ends with the server that forked it."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, name in ((1, "out"), (2, "err")):
        handle = os.open(f"{start.said}{name}", os.O_WRONLY)
        os.dup2(handle, number)
        os.close(handle)
    if start.fault == "read-only" and os.geteuid() == 0:
        _obey_permissions()
    os.chdir(start.folder)
    (start.folder / "tmp").mkdir(exist_ok=True)
    os.environ |= {
        "GELGT_CACHE": str(start.folder / "cache"),
        "TMPDIR": str(start.folder / "tmp"),
        "HOME": str(start.folder / "tmp"),
        **start.environment,
    }
    import tempfile

    tempfile.tempdir = None  # asked anew
    sys.argv = ["gelgt", *start.arguments]


def _obey_permissions() -> None:
    """Root writes where it is forbidden, by a capability that this process gives away."""
    overrides, libc = 1, ctypes.CDLL(None, use_errno=True)  # CAP_DAC_OVERRIDE
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted and inheritable, twice 32 bits
    assert libc.capget(header, sets) == 0
    sets[0], sets[1] = sets[0] & ~(1 << overrides), sets[1] & ~(1 << overrides)
    assert libc.capset(header, sets) == 0


def _nothing(start: Start) -> None:
    """An unbroken run."""


def _kill(start: Start) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _fill(start: Start) -> None:
    """A disk with so many bytes left: a ballast takes the others."""
    disk = os.statvfs(start.folder)
    size = disk.f_bavail * disk.f_frsize - start.amount
    ballast = os.open(start.folder / "ballast", os.O_WRONLY | os.O_CREAT, 0o666)
    if size > 0:
        os.posix_fallocate(ballast, 0, size)
    os.close(ballast)


def _limit_files(start: Start) -> None:
    """No file may be longer than so many bytes, as a quota has it."""
    _limit(resource.RLIMIT_FSIZE, start.amount)


def _limit_handles(start: Start) -> None:
    used = len(os.listdir("/proc/self/fd"))
    _limit(resource.RLIMIT_NOFILE, used + start.amount)


def _limit(kind: int, amount: int) -> None:
    """Until somebody outside takes it back."""
    resource.setrlimit(kind, (amount, resource.getrlimit(kind)[1]))


def _limit_memory(start: Start) -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    size = pages * resource.getpagesize() + start.amount
    resource.setrlimit(resource.RLIMIT_AS, (size, size))


def _forbid(start: Start) -> None:
    """The folder `place` becomes read-only, with all that is in it."""
    assert start.place is not None
    for place, _, names in os.walk(start.place, topdown=False):
        for name in names:
            os.chmod(os.path.join(place, name), 0o444)
        os.chmod(place, 0o555)


def _fail(start: Start) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


FAULTS: dict[str, Callable[[Start], None]] = {
    "": _nothing,
    "moment": _nothing,  # killed from outside
    "kill": _kill,
    "full disk": _fill,
    "quota": _limit_files,
    "handles": _limit_handles,
    "memory": _limit_memory,
    "read-only": _forbid,
    "failing disk": _fail,
}
