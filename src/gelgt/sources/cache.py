"""Where gelgt keeps what it can make again: imported sources, graphs, features, label tables.

`$GELGT_CACHE`, else `$XDG_CACHE_HOME/gelgt`, else `~/.cache/gelgt`. Every entry is a folder that is built under a
temporary name and renamed when it is whole, so an interrupted build leaves nothing that could be mistaken for data.
"""

import hashlib
import os
import shutil
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path


def cache_root() -> Path:
    """The cache folder (not created here)."""
    if os.environ.get("GELGT_CACHE"):
        return Path(os.environ["GELGT_CACHE"]).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "gelgt"


def build_folder(target: Path, build: Callable[[Path], None]) -> Path:
    """Fill a folder by `build` and put it in place whole; if another process was faster, its result is kept."""
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.parent / f".{target.name}.{uuid.uuid4().hex[:8]}.tmp"
    temporary.mkdir()
    try:
        build(temporary)
        try:
            os.replace(temporary, target)
        except OSError:
            if not target.exists():
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return target


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
