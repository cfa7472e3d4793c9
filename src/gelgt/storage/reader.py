"""An object in object storage that is read by ranges."""

import hashlib
import io
from dataclasses import dataclass
from typing import Any

from gelgt.errors import SourceError
from gelgt.storage.requests import tried

BLOCK = 8 << 20  # bytes of a copied piece
# Names under which providers give the version of an object's content.
_TAGS = ("ETag", "etag", "generation", "Generation", "crc32c", "md5Hash", "Content-MD5")


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


def changed(address: str) -> SourceError:
    """The error of an object that is another one than was listed."""
    return SourceError(
        "source_changed",
        f"{address} changed while it was read.",
        hint="Try again when the files are complete.",
    )


def tag_of(metadata: Any) -> str | None:
    """The version of a content among the headers of an object."""
    values = {
        (k.decode() if isinstance(k, bytes) else k): v for k, v in dict(metadata or {}).items()
    }
    found = next((values[name] for name in _TAGS if values.get(name)), None)
    return found.decode() if isinstance(found, bytes) else found


def digest_of(reader: ObjectReader) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for start in range(0, reader.item.size, BLOCK):
        digest.update(reader.range(start, min(BLOCK, reader.item.size - start)))
    return digest.hexdigest()
