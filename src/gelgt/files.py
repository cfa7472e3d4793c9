"""The one atomic writer: a file or folder is in place whole, or not at all.

    with whole_file(path) as temporary:         # write to `temporary`; it is flushed to the disk
                                                and renamed
        pq.write_table(table, temporary)
    with whole_folder(target) as temporary:     # likewise, an empty folder to fill
        …

A process that is killed in between leaves a hidden file or folder that ends in `.tmp` beside the
name, and under the name itself what stood there before. Whoever writes the same name a day later
removes it. Errors of the system (`OSError`) pass through: who writes knows what to tell the user.
"""

import ctypes
import errno
import os
import re
import shutil
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_DAY = 86_400.0  # seconds after which a temporary file that nobody writes to is left over
_HERE, _EXCHANGE = -100, 2  # of renameat2: paths as they are, and both names stay taken


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A temporary name beside `path` that is flushed and renamed to it when the block ends well,
    and removed when it does not."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _sweep(path)
    temporary = _beside(path)
    try:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        with suppress(OSError):
            temporary.unlink()


def write_text(path: Path, text: str) -> None:
    """Write a text file in UTF-8."""
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextmanager
def whole_folder(target: Path) -> Iterator[Path]:
    """An empty folder beside `target` that is renamed to it when the block ends well; what stood
    there before is replaced.

    Where the system can exchange two names at once (Linux), there is no moment without either.
    Elsewhere there is one between two renames; where the second fails, what stood there comes back.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    _sweep(target)
    temporary = _beside(target)
    temporary.mkdir()
    try:
        yield temporary
        if not target.exists():
            os.replace(temporary, target)
        elif not _exchange(temporary, target):
            _replace(temporary, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _replace(temporary: Path, target: Path) -> None:
    aside = temporary.with_suffix(".old")
    os.replace(target, aside)
    try:
        os.replace(temporary, target)
    except OSError:
        if not target.exists():
            os.replace(aside, target)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _exchange(one: Path, other: Path) -> bool:
    """Give each of two folders the other's name, at once; false where the system cannot."""
    if sys.platform != "linux":
        return False
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):  # an older C library
        return False
    if call(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.EINVAL, errno.ENOSYS, errno.EPERM):  # a file system that cannot
        return False
    raise OSError(number, os.strerror(number), str(other))


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")


def _sweep(path: Path) -> None:
    """Remove what writers of this name left half-written more than a day ago."""
    left = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{8}}\.(tmp|old)")
    with suppress(OSError), os.scandir(path.parent) as entries:
        for entry in entries:
            if left.fullmatch(entry.name) and time.time() - _touched(entry) > _DAY:
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry, ignore_errors=True)
                else:
                    os.unlink(entry)


def _touched(entry: "os.DirEntry[str]") -> float:
    """When a file or anything in a folder was last written."""
    times = [entry.stat(follow_symlinks=False).st_mtime]
    if entry.is_dir(follow_symlinks=False):
        times += [path.lstat().st_mtime for path in Path(entry).rglob("*")]
    return max(times)
