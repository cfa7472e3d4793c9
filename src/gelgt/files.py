"""The one atomic writer: a file or folder is in place whole, or not at all.

    with whole_file(path) as temporary:         # write to `temporary`; it is flushed to the disk
                                                and renamed
        pq.write_table(table, temporary)
    with whole_folder(target) as temporary:     # likewise, an empty folder to fill
        …

A process that is killed in between leaves a hidden file or folder that ends in `.tmp` and nothing
under the name itself. Errors of the system (`OSError`) pass through: who writes knows what to tell
the user.
"""

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A temporary name beside `path` that is flushed and renamed to it when the block ends well,
    and removed when it does not."""
    path.parent.mkdir(parents=True, exist_ok=True)
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

    Where the rename fails, what stood there comes back.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = _beside(target)
    aside = temporary.with_suffix(".old")
    temporary.mkdir()
    try:
        yield temporary
        if target.exists():
            os.replace(target, aside)
        try:
            os.replace(temporary, target)
        except OSError:
            if aside.exists() and not target.exists():
                os.replace(aside, target)
            raise
        shutil.rmtree(aside, ignore_errors=True)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
