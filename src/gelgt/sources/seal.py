"""Seals of cache entries: what is read is what was written.

A sealed folder holds `_seal.json`: size and checksum of each file, the same bytes for the same
files. Entries up to `SMALL` bytes are compared whole whenever they are opened. A larger one may be
larger than memory: those of its files are compared whole that somebody has touched since they were
sealed, so that damage without a trace in the file system is noticed in small entries only.
"""

import hashlib
import json
import os
import stat
from pathlib import Path

SEAL = "_seal.json"
SMALL = 64 << 20  # bytes: a twentieth of a second to compare


def seal(folder: Path) -> None:
    """Say what a folder holds; the last step of building it."""
    files = {
        name: [found.st_size, _checksum(folder / name)]
        for name, found in sorted(_files(folder).items())
    }
    (folder / SEAL).write_text(json.dumps({"files": files}), encoding="utf-8")


def is_whole(folder: Path) -> bool:
    """Whether a folder is sealed and holds what it held then."""
    try:
        when = (folder / SEAL).lstat()
        if not stat.S_ISREG(when.st_mode):
            return False
        sealed = json.loads((folder / SEAL).read_text(encoding="utf-8"))["files"]
        files = _files(folder)
        if {name: size for name, (size, _) in sealed.items()} != {
            name: found.st_size for name, found in files.items()
        }:
            return False
        is_small = sum(found.st_size for found in files.values()) <= SMALL
        return all(
            _checksum(folder / name) == expected
            for name, (_, expected) in sealed.items()
            # the time of the inode cannot be set back
            if is_small or files[name].st_ctime_ns > when.st_ctime_ns
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False


def _files(folder: Path) -> dict[str, os.stat_result]:
    """Everything in a folder but folders and the seal; a link counts as what it is, not as what it
    leads to, and neither it nor a pipe has the size of a file that was written."""
    found = {}
    for place, _, names in os.walk(folder, onerror=_fail):
        for name in names:
            path = Path(place) / name
            status = path.lstat()
            if not stat.S_ISREG(status.st_mode):
                raise ValueError(f"{path} is no file")
            found[path.relative_to(folder).as_posix()] = status
    found.pop(SEAL, None)
    return found


def _fail(error: OSError) -> None:
    raise error


def _checksum(path: Path) -> str:
    digest = hashlib.blake2b(digest_size=16)
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
