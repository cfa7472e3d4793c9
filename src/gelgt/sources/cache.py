"""The cache: imported sources, graphs, features and label tables, all of which can be rebuilt.

`$GELGT_CACHE`, else `$XDG_CACHE_HOME/gelgt`, else `~/.cache/gelgt`. Every entry is a folder that is
built under a temporary name and renamed when it is complete, so an interrupted build leaves nothing
that could be mistaken for data. The leftovers of a killed process are removed by the next build in
the same place.
"""

import hashlib
import os
import re
import shutil
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gelgt.errors import SourceError
from gelgt.sources.seal import is_whole, seal

_YOUNG = 60.0  # seconds in which a new scratch folder may not be locked yet


def cache_root() -> Path:
    """The cache folder (not created here)."""
    if os.environ.get("GELGT_CACHE"):
        return Path(os.environ["GELGT_CACHE"]).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "gelgt"


def build_folder(target: Path, build: Callable[[Path], None], is_sealed: bool = False) -> Path:
    """Fill a folder by `build` and put it in place whole; if another process was faster, its result
    stays. Nobody removes the folder around it (`remove_unused`) while this process uses it.

    Args:
        target: The folder.
        build: Fills an empty folder.
        is_sealed: Nobody edits the folder. It is sealed (`seal.py`), and one that holds anything
            else than was written is built again.

    Raises:
        SourceError: the folder cannot be written, or is damaged and cannot be replaced.
    """
    for _ in range(3):  # a folder that was just about to be removed is built again
        if is_sealed and target.exists() and not is_whole(target):
            _discard(target)
        if not target.exists():
            _build(target, _sealing(build) if is_sealed else build)
        _use(target.parent)
        if target.exists():
            break
        release(target.parent)
    return target


def _sealing(build: Callable[[Path], None]) -> Callable[[Path], None]:
    def build_and_seal(folder: Path) -> None:
        build(folder)
        seal(folder)

    return build_and_seal


def _discard(target: Path) -> None:
    """Remove a damaged entry; who has mapped its files keeps them."""
    hidden = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        os.replace(target, hidden)
    except FileNotFoundError:
        return  # another process has noticed it too
    except OSError as error:
        raise SourceError(
            "damaged_cache",
            f"{target} in the cache is damaged and cannot be replaced: {error.strerror or error}.",
            hint="Remove it, or choose another cache (GELGT_CACHE).",
        ) from None
    if hidden.is_dir() and not hidden.is_symlink():
        shutil.rmtree(hidden, ignore_errors=True)
    else:
        hidden.unlink(missing_ok=True)


def build_new(target: Path, build: Callable[[Path], None]) -> None:
    """Fill a folder of the user's by `build` and put it in place whole.

    Raises:
        SourceError: ``exists`` where something has come there in the meantime, which stays;
            ``cannot_write``.
    """
    with scratch_folder(target.parent, target.name) as temporary:
        build(temporary)
        check_new(target)
        try:
            os.replace(temporary, target)  # onto an empty folder, but onto no other
        except OSError:
            check_new(target)
            raise


def check_new(target: Path) -> None:
    """Refuse a folder that holds something."""
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise SourceError(
            "exists",
            f"{target} already exists and is not empty.",
            hint="Choose another folder or remove it first.",
        )


def _build(target: Path, build: Callable[[Path], None]) -> None:
    with scratch_folder(target.parent, target.name) as temporary:
        build(temporary)
        try:
            os.replace(temporary, target)
        except OSError:
            if not target.exists():
                raise


_used: dict[Path, int] = {}  # folders that this process uses, with the handles of their locks
_MOST_USED = 32  # of them, the newest: a process that opens thousands has not as many handles


def _use(folder: Path) -> None:
    if folder in _used:
        return
    while len(_used) >= _MOST_USED:
        release(next(iter(_used)))
    if (handle := _lock(folder, is_shared=True)) >= 0:
        _used[folder] = handle


def release(folder: Path) -> None:
    """Use a folder of the cache no more; what is mapped from it stays mapped."""
    if (handle := _used.pop(folder, -1)) >= 0:
        os.close(handle)


def remove_unused(folder: Path) -> bool:
    """Remove a folder of the cache, unless some process uses it; whether it is gone."""
    release(folder)
    handle = _lock(folder)
    if handle < 0:
        return not folder.exists()
    try:
        # renamed first, so that nobody finds half of it
        hidden = folder.with_name(f".{folder.name}.{uuid.uuid4().hex[:8]}.tmp")
        os.replace(folder, hidden)
        shutil.rmtree(hidden, ignore_errors=True)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True


@contextmanager
def scratch_folder(parent: Path, name: str) -> Iterator[Path]:
    """A hidden folder in `parent` that is removed afterwards, unless it was renamed. It stays
    locked as long as its process lives.

    Raises:
        SourceError: the folder cannot be written (no permission, no space, no such disk).
    """
    lock = -1
    temporary = parent / f".{name}.{uuid.uuid4().hex[:8]}.tmp"
    try:
        parent.mkdir(parents=True, exist_ok=True)
        sweep(parent, None if parent.is_relative_to(cache_root()) else name)
        temporary.mkdir()
        lock = _lock(temporary)
        yield temporary
    except OSError as error:
        raise SourceError(
            "cannot_write",
            f"Cannot write to {parent}: {error.strerror or error}.",
            hint="Free space or get permission to write there, or choose another folder "
            "(GELGT_CACHE sets the cache).",
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        if lock >= 0:
            os.close(lock)


def _lock(folder: Path, is_shared: bool = False) -> int:
    """A lock that ends with the process; -1 where another one holds it, or on a system without such
    locks. Several may share one, and then nobody has it alone."""
    try:
        import fcntl

        handle = os.open(folder, os.O_RDONLY)
    except (ImportError, OSError):
        return -1
    try:
        fcntl.flock(handle, (fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return -1
    return handle


def sweep(parent: Path, name: str | None = None) -> None:
    """Remove scratch folders whose process was killed: all of them in the cache, and elsewhere, in
    a folder of the user's, those of one name."""
    left = re.compile(rf"\.{'.+' if name is None else re.escape(name)}\.[0-9a-f]{{8}}\.tmp")
    for folder in parent.glob(".*.tmp"):
        try:
            is_old = folder.is_dir() and time.time() - folder.stat().st_mtime > _YOUNG
        except OSError:  # its process has just finished
            continue
        if is_old and left.fullmatch(folder.name) and (lock := _lock(folder)) >= 0:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)


def hash_files(paths: Iterable[Path], extra: str = "") -> str:
    """Content hash over the names and bytes of files."""
    digest = hashlib.blake2b(extra.encode(), digest_size=16)
    for path in sorted(paths):
        digest.update(path.name.encode() + b"\0")
        with path.open("rb") as file:
            while block := file.read(1 << 22):
                digest.update(block)
    return digest.hexdigest()


def stat_key(paths: Iterable[Path], extra: str = "") -> str:
    """A cheap key of files in place: path, size and modification time."""
    digest = hashlib.blake2b(extra.encode(), digest_size=16)
    for path in sorted(paths):
        stat = path.stat()
        digest.update(f"{path.resolve()}\0{stat.st_size}\0{stat.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def text_key(text: str) -> str:
    """A short key of a description."""
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
