"""`Store`: a place in object storage that is listed, read in ranges and written whole.

Every request is bounded in time and tried a few times with growing pauses; what fails for good is
an error that names the object. A range that comes back shorter than it was asked for counts as
failed. An object appears under its name when all of it has arrived, or not at all: uploads are
completed by a last request, which a process that dies does not send.
"""

import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from copy import copy
from pathlib import Path

from gelgt.errors import SourceError
from gelgt.storage.failures import storage_error
from gelgt.storage.place import Place
from gelgt.storage.reader import BLOCK, Object, ObjectReader, changed, digest_of, tag_of
from gelgt.storage.requests import tried


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

    def at(self, name: str) -> "Store":
        """The place of an object under this prefix."""
        place = copy(self)
        place.place = Place(self.place.scheme, f"{self.place.path}/{name}")
        return place

    def listed(self) -> list[Object]:
        """All objects under this prefix, of which there may be none."""
        try:
            return self.objects()
        except SourceError as error:
            if error.code != "not_found":
                raise
        self.check_bucket()
        return []

    def read(self) -> bytes | None:
        """The object at this place; None where there is none."""
        path, where = self.place.path, str(self.place)

        def read() -> bytes:
            with self._system.open_input_file(path) as file:
                content: bytes = file.read()
                if len(content) != file.size():
                    raise OSError(f"Connection reset: {len(content)} bytes arrived")
                return content

        try:
            return tried(read, where)
        except SourceError as error:
            if error.code != "not_found":
                raise
            return None

    def size(self) -> int | None:
        """The size of the object at this place; None where there is none."""
        info = tried(lambda: self._system.get_file_info(self.place.path), str(self.place))
        size: int | None = info.size
        return size

    def version(self) -> str | None:
        """The version of the object at this place; None where it is gone."""
        return self.tag(self.place.path)

    def checksum(self) -> str | None:
        """A hash of the object at this place; None where it is gone."""
        path, where = self.place.path, str(self.place)
        try:
            file = tried(lambda: self._system.open_input_file(path), where)
            with file:
                return digest_of(ObjectReader(file, Object(path, file.size(), 0), where))
        except SourceError as error:
            if error.code != "not_found":
                raise
            return None

    def remove(self) -> None:
        """Remove the object at this place."""
        tried(lambda: self._system.delete_file(self.place.path), str(self.place))

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
            told = tag_of(file.metadata())
            return told or digest_of(ObjectReader(file, Object(path, file.size(), 0), where))

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
