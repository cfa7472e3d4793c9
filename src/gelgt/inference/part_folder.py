"""Where the parts of sharded predictions and their records go: a folder, or a prefix in object
storage.

A folder has atomic renames. Object storage has none, but an object is there whole or not at all.
Neither lets a part be seen half-written, and a part counts when its commit record is there.
"""

import os
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import time
from typing import NamedTuple, Protocol

import pyarrow as pa

from gelgt.errors import GelgtError
from gelgt.files import write_text
from gelgt.inference.write import write_predictions
from gelgt.runs.folder import checksum
from gelgt.sources.cache import cache_root, scratch_folder
from gelgt.storage import Store, is_storage

STALE = 600.0  # seconds after which a temporary file that nobody writes to is left over


class WrittenPart(NamedTuple):
    """The file of a part.

    Attributes:
        rows: Of the file.
        bytes: Its size.
        checksum: Of its bytes.
        tag: The version of the object, as its provider calls it; None for a file.
    """

    rows: int
    bytes: int
    checksum: str
    tag: str | None


class PartFolder(Protocol):
    """A place for parts and records, each of which appears whole."""

    def sizes(self) -> dict[str, int]:
        """What is there, with sizes, without hidden files."""
        ...

    def size(self, name: str) -> int | None:
        """The size of a file; None where there is none."""
        ...

    def read(self, name: str) -> str | None:
        """A record; None where there is none."""
        ...

    def write(self, name: str, text: str) -> None:
        """Write a record; what is there is replaced."""
        ...

    def write_first(self, name: str, text: str) -> None:
        """Write a record unless there is one."""
        ...

    def write_part(self, name: str, tables: Iterable[pa.Table]) -> WrittenPart:
        """Write the file of a part as its rows come."""
        ...

    def holds(self, name: str, written: WrittenPart) -> bool:
        """Whether a file has the bytes that were written."""
        ...

    def remove(self, name: str) -> None:
        """Remove a record, if it is there and may be removed."""
        ...

    def sweep(self) -> None:
        """Remove what killed processes have left."""
        ...


def part_folder(place: "str | Path | PartFolder") -> PartFolder:
    """A local folder or an address in object storage as a place for parts."""
    if not isinstance(place, (str, Path)):
        return place
    return ObjectFolder(place) if is_storage(place) else LocalFolder(Path(place).expanduser())


class LocalFolder:
    """A folder of files."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __str__(self) -> str:
        return str(self.path)

    def sizes(self) -> dict[str, int]:
        if not self.path.is_dir():
            return {}
        found: dict[str, int] = {}
        for path in self.path.iterdir():
            with suppress(OSError):  # a temporary file, or a link that leads nowhere
                if not path.name.startswith(".") and path.is_file():
                    found[path.name] = path.stat().st_size
        return found

    def size(self, name: str) -> int | None:
        path = self.path / name
        try:
            return path.stat().st_size if path.is_file() else None
        except OSError:
            return None

    def read(self, name: str) -> str | None:
        path = self.path / name
        try:
            # a pipe would be waited for
            return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else None
        except FileNotFoundError:
            return None
        except OSError as error:
            raise GelgtError(
                "cannot_open",
                f"{path} cannot be read: {error.strerror or error}.",
                hint="Get permission to read it, or give another folder.",
            ) from None

    def write(self, name: str, text: str) -> None:
        with self._written():
            write_text(self.path / name, text)

    def write_first(self, name: str, text: str) -> None:
        """Of several that try at once, one succeeds."""
        path = self.path / name
        temporary = path.with_name(f".{name}.{uuid.uuid4().hex[:8]}.tmp")
        with self._written():
            write_text(temporary, text)
            try:
                os.link(temporary, path)
            except FileExistsError:
                pass
            except OSError:  # a file system without links: who renames last wins, if so close
                if not path.exists():
                    os.replace(temporary, path)
            finally:
                with suppress(OSError):
                    temporary.unlink()

    def write_part(self, name: str, tables: Iterable[pa.Table]) -> WrittenPart:
        path = self.path / name
        rows = write_predictions(tables, path)
        with self._written():
            return WrittenPart(rows, path.stat().st_size, checksum(path), None)

    def holds(self, name: str, written: WrittenPart) -> bool:
        return checksum(self.path / name) == written.checksum

    def remove(self, name: str) -> None:
        with suppress(OSError):
            (self.path / name).unlink()

    def sweep(self) -> None:
        for path in self.path.glob(".*.tmp"):
            with suppress(OSError):
                if time() - path.stat().st_mtime > STALE:
                    path.unlink()

    @contextmanager
    def _written(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise GelgtError(
                "cannot_write",
                f"Predictions cannot be written to {self.path}: {error.strerror or error}.",
                hint="Free space or get permission to write there, then start again: what is "
                "committed stays; or give another folder.",
            ) from None


class ObjectFolder:
    """A prefix in object storage. Files are written to the cache first, and then sent."""

    def __init__(self, address: str) -> None:
        self._store = Store(address)

    def __str__(self) -> str:
        return str(self._store)

    def sizes(self) -> dict[str, int]:
        names = {self._store.relative(item.path): item.size for item in self._store.listed()}
        return {name: size for name, size in names.items() if not name.startswith(".")}

    def size(self, name: str) -> int | None:
        return self._store.at(name).size()

    def read(self, name: str) -> str | None:
        content = self._store.at(name).read()
        return None if content is None else content.decode("utf-8", errors="replace")

    def write(self, name: str, text: str) -> None:
        with scratch_folder(cache_root() / "unsent", "record") as folder:
            (folder / name).write_text(text, encoding="utf-8")
            self._store.at(name).write(folder / name)

    def write_first(self, name: str, text: str) -> None:
        """Two that look at the same moment both write, and the later one stays: who writes reads
        it back, and parts that were made for the other one are refused in the end."""
        if self.read(name) is None:
            self.write(name, text)

    def write_part(self, name: str, tables: Iterable[pa.Table]) -> WrittenPart:
        with scratch_folder(cache_root() / "unsent", "part") as folder:
            path = folder / name
            rows = write_predictions(tables, path)
            part = self._store.at(name)
            part.write(path)
            return WrittenPart(rows, path.stat().st_size, checksum(path), part.version())

    def holds(self, name: str, written: WrittenPart) -> bool:
        """The version tells it by one request; where it differs the object may have been written
        twice, and its bytes are read."""
        part = self._store.at(name)
        if written.tag is not None and part.version() == written.tag:
            return True
        return part.checksum() == written.checksum

    def remove(self, name: str) -> None:
        with suppress(GelgtError):
            self._store.at(name).remove()

    def sweep(self) -> None:
        """Uploads that were not completed are the provider's to remove."""
