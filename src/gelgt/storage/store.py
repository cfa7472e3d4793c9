"""`Store`: a place in object storage that is listed, read in ranges and written whole.

Every request is bounded in time and tried a few times with growing pauses; what fails for good is
an error that names the object. A range that comes back shorter than it was asked for counts as
failed. An object appears under its name when all of it has arrived, or not at all: uploads are
completed by a last request, which a process that dies does not send.
"""

import hashlib
import io
import random
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from gelgt.errors import SourceError
from gelgt.storage.failures import is_lasting, storage_error
from gelgt.storage.place import Place

ATTEMPTS = 3
FIRST_PAUSE = 0.5  # seconds, doubled after each attempt
BLOCK = 8 << 20  # bytes of a copied piece
# Names under which providers give the version of an object's content.
_TAGS = ("ETag", "etag", "generation", "Generation", "crc32c", "md5Hash", "Content-MD5")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Object:
    """An object as a listing shows it.

    Attributes:
        path: Bucket and key.
        size: Bytes.
        changed: When it was written, in nanoseconds since 1970, by the provider's clock.
    """

    path: str
    size: int
    changed: int

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


class Store:
    """A place in object storage.

    Args:
        address: Such as ``s3://bucket/prefix``; credentials come from the environment.
    """

    def __init__(self, address: str) -> None:
        self.place = Place.of(address)
        self._system = tried(self.place.file_system, str(self.place))

    def __str__(self) -> str:
        return str(self.place)

    def address(self, path: str) -> str:
        """The address of an object of this provider."""
        return f"{self.place.scheme}://{path}"

    def objects(self) -> list[Object]:
        """All objects under this prefix, by name, each once.

        Raises:
            SourceError: ``not_found`` where there is no such bucket or prefix, and others.
        """
        from pyarrow.fs import FileSelector, FileType

        selector = FileSelector(self.place.path, recursive=True)
        listed = tried(lambda: self._system.get_file_info(selector), str(self.place))
        files = {
            info.path: Object(info.path, info.size, info.mtime_ns or 0)
            for info in listed
            if info.type == FileType.File
        }
        return [files[path] for path in sorted(files)]

    def exists(self, name: str = "") -> bool:
        """Whether there is an object of this name under the prefix, or at the place itself."""
        from pyarrow.fs import FileType

        path = f"{self.place.path}/{name}" if name else self.place.path
        info = tried(lambda: self._system.get_file_info(path), self.address(path))
        return bool(info.type == FileType.File)

    def check_bucket(self) -> None:
        """Raises where there is no such bucket, or nobody answers."""
        from pyarrow.fs import FileType

        where = self.address(self.place.bucket)
        info = tried(lambda: self._system.get_file_info(self.place.bucket), where)
        if info.type == FileType.NotFound:
            raise storage_error(FileNotFoundError(), where)

    def relative(self, path: str) -> str:
        """The name of an object below the prefix."""
        return path.removeprefix(f"{self.place.path}/")

    def open(self, item: Object) -> "ObjectReader":
        """An object to be read in ranges."""
        where = self.address(item.path)
        file = tried(lambda: self._system.open_input_file(item.path), where)
        if file.size() != item.size:
            raise changed(where)
        return ObjectReader(file, item, where)

    def tag(self, path: str) -> str | None:
        """The version of an object's content, as its provider calls it; None where the object is
        gone."""
        try:
            where = self.address(path)
            file = tried(lambda: self._system.open_input_file(path), where)
        except SourceError as error:
            if error.code != "not_found":
                raise
            return None
        with file:
            told = _tag(file.metadata())
            return told or _digest(ObjectReader(file, Object(path, file.size(), 0), where))

    def download(self, item: Object, target: Path) -> None:
        """Copy an object to a file."""
        with self.open(item) as source, target.open("wb") as file:
            for start in range(0, item.size, BLOCK):
                file.write(source.range(start, min(BLOCK, item.size - start)))

    def write(self, file: Path) -> None:
        """Write a file to this place; what is there is replaced when all has arrived.

        Raises:
            SourceError: the place cannot be written, or the object is not there as it was sent.
        """
        # In a thread, because Ctrl-C would close the stream, and closing completes the object.
        with ThreadPoolExecutor(1) as thread:
            thread.submit(tried, lambda: self._upload(file), str(self.place)).result()

    def _upload(self, file: Path) -> None:
        path = self.place.path
        if self.place.scheme != "az":
            self._send(file, path)
            return
        # Azure's objects are there, empty, from the first request on: another name is copied.
        folder, _, name = path.rpartition("/")
        temporary = f"{folder}/.{name}.{uuid.uuid4().hex[:8]}.tmp"
        try:
            self._send(file, temporary)
            self._system.copy_file(temporary, path)
        finally:
            with suppress(OSError):
                self._system.delete_file(temporary)

    def _send(self, file: Path, path: str) -> None:
        with file.open("rb") as source, self._system.open_output_stream(path) as target:
            while block := source.read(BLOCK):
                target.write(block)
        arrived, size = self._system.get_file_info(path).size, file.stat().st_size
        if arrived != size:
            raise OSError(f"Connection reset: {arrived} of {size} bytes arrived")


def changed(address: str) -> SourceError:
    """The error of an object that is another one than was listed."""
    return SourceError(
        "source_changed",
        f"{address} changed while it was read.",
        hint="Try again when the files are complete.",
    )


def tried(work: Callable[[], Result], place: str) -> Result:
    """The result of a request, made again with growing pauses where that may help.

    Raises:
        SourceError: it failed for good.
    """
    from pyarrow import ArrowException

    for attempt in range(1, ATTEMPTS + 1):
        try:
            return work()
        except (OSError, ArrowException) as error:
            if attempt == ATTEMPTS or is_lasting(error):
                raise storage_error(error, place, attempt) from None
        # machines that failed together should not come back together
        time.sleep(FIRST_PAUSE * 2 ** (attempt - 1) * random.uniform(0.5, 1.0))
    raise AssertionError  # the last attempt returns or raises


class ObjectReader(io.RawIOBase):
    """An object as a file that is read by ranges; several threads may ask for some.

    Args:
        file: pyarrow's file.
        item: The object as it was listed.
        address: How it is called in errors.
    """

    def __init__(self, file: Any, item: Object, address: str) -> None:
        super().__init__()
        self._file, self.item, self.address = file, item, address
        self._place = 0

    def range(self, start: int, length: int) -> bytes:
        """So many bytes from a place on, all of which must be there."""

        def read() -> bytes:
            block: bytes = self._file.read_at(length, start)
            if len(block) != length:
                raise OSError(
                    f"Connection reset: {len(block)} of {length} bytes from {start} on arrived"
                )
            return block

        return tried(read, self.address) if length else b""

    # The protocol of a file, for those who read from its beginning to its end.
    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self.item.size}[whence]
        self._place = max(0, base + offset)
        return self._place

    def readinto(self, buffer: Any) -> int:
        length = max(0, min(len(buffer), self.item.size - self._place))
        buffer[:length] = self.range(self._place, length)
        self._place += length
        return length

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


def _tag(metadata: Any) -> str | None:
    """The version of a content among the headers of an object."""
    values = {
        (k.decode() if isinstance(k, bytes) else k): v for k, v in dict(metadata or {}).items()
    }
    found = next((values[name] for name in _TAGS if values.get(name)), None)
    return found.decode() if isinstance(found, bytes) else found


def _digest(reader: ObjectReader) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for start in range(0, reader.item.size, BLOCK):
        digest.update(reader.range(start, min(BLOCK, reader.item.size - start)))
    return digest.hexdigest()
