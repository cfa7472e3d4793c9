"""Whose a run folder is: one training at a time, and no folder that gelgt did not write.

`.gelgt-run` is the first file of a run folder. It says that the folder is gelgt's to fill, and it
is locked for as long as a training goes on, and names its process meanwhile. The lock is the
system's (flock): it ends with its process, so that a killed training never blocks the one that
resumes it.
"""

import errno
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gelgt.errors import GelgtError
from gelgt.runs.folder import CHECKPOINT, MARK, SUCCESS, read_json
from gelgt.runs.progress import PROGRESS
from gelgt.runs.tensors import load_tensors
from gelgt.storage.place import check_local


@contextmanager
def claimed(out: Path, is_resumed: bool = False) -> Iterator[None]:
    """A run folder that nobody else trains into, for as long as the block runs; it is made where
    there is none.

    Raises:
        GelgtError: ``run_busy``, ``run_exists``, ``not_empty`` or ``cannot_write``; nothing in the
            folder was changed.
    """
    check_out(out, is_resumed)
    try:
        out.mkdir(parents=True, exist_ok=True)
        handle = _lock(out, os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise GelgtError(
            "cannot_write",
            f"{out} cannot be written: {error.strerror or error}.",
            hint="Choose another --out.",
        ) from None
    try:
        _check_content(out, is_resumed)  # another training may have ended here in the meantime
        _sign(handle, f"process {os.getpid()} on {socket.gethostname()}")
        for left in out.rglob(".*.tmp"):  # half-written files of a training that was killed
            left.unlink(missing_ok=True)
        yield
    finally:
        if {p.name for p in out.iterdir()} <= {MARK, PROGRESS}:
            # an error came before anything was trained
            (out / PROGRESS).unlink(missing_ok=True)
            (out / MARK).unlink()
            out.rmdir()
        _sign(handle, "")
        os.close(handle)


def check_out(out: Path, is_resumed: bool = False) -> None:
    """Whether a training may begin in a folder, before any work is done for it.

    Args:
        out: The folder, which need not exist.
        is_resumed: Whether a run that was cut off in it is to go on.

    Raises:
        GelgtError: ``run_busy`` while another training writes to it, ``run_exists``, ``not_empty``
            where it is not gelgt's, ``not_local``.
    """
    check_local(out, "A run folder")
    _check_busy(out)
    _check_content(out, is_resumed)


def remove_run(out: Path) -> None:
    """Remove a run folder; one that is not gelgt's stays.

    Raises:
        GelgtError: ``run_busy`` while a training writes to it.
    """
    if is_run_folder(out):
        _check_busy(out)
        shutil.rmtree(out)


def is_run_folder(out: Path) -> bool:
    """Whether gelgt wrote a folder. Runs of versions without the mark are known by their checksums
    or their checkpoint."""
    if (out / MARK).is_file():
        return True
    try:
        if (out / SUCCESS).is_file() and {"format", "files"} <= read_json(out / SUCCESS).keys():
            return True
        return (out / CHECKPOINT).is_file() and "key" in load_tensors(out / CHECKPOINT)[1]
    except GelgtError:
        return False


def _check_busy(out: Path) -> None:
    try:
        os.close(_lock(out))
    except OSError:
        # nobody has begun here, or the folder is another user's: to write to it will fail
        return


def _check_content(out: Path, is_resumed: bool) -> None:
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    if not out.is_dir() or not is_run_folder(out):
        what = "holds something that gelgt did not write" if out.is_dir() else "is a file"
        raise GelgtError("not_empty", f"{out} {what}.", hint="Choose another --out.")
    is_done, is_begun = (out / SUCCESS).exists(), (out / CHECKPOINT).exists()
    if (is_done or is_begun) and not is_resumed:
        what = "a finished run" if is_done else "a run that was cut off"
        hint = (
            "Choose another --out." if is_done else "Go on with --resume, or choose another --out."
        )
        raise GelgtError("run_exists", f"{out} holds {what}.", hint=hint)


def _sign(handle: int, who: str) -> None:
    """Say in the mark who trains; that is told to others and decides nothing."""
    with suppress(OSError):  # a full disk
        os.ftruncate(handle, 0)
        os.pwrite(handle, who.encode(), 0)


def _lock(out: Path, flags: int = os.O_RDONLY) -> int:
    """The handle of the locked mark; closing it ends the lock."""
    handle = os.open(out / MARK, flags, 0o666)
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except ImportError:  # Windows
        return handle
    except OSError as error:
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            return handle  # a disk without locks, such as some network disks
        who = os.read(handle, 300).decode(errors="replace")
        os.close(handle)
        raise GelgtError(
            "run_busy",
            f"Another training is writing to {out}{f' ({who})' if who else ''}.",
            hint="Wait until it has ended, or choose another --out.",
        ) from None
    return handle
