"""The imports of sources in the cache, by the state that each source was in.

    records/KEY.json    the source's state, the import's folder with the sizes and times of its
                        files, and the tables that were not read; KEY is of address and options,
                        or of the address alone for the last import, whatever its options

An import whose files have changed since is not used: it was damaged.
"""

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

from gelgt.errors import GelgtError, SourceError
from gelgt.files import write_text
from gelgt.schema.manifest import MANIFEST, load_yaml
from gelgt.sources.cache import cache_root, hash_files, text_key
from gelgt.sources.raw import Source
from gelgt.sources.state import SourceState


@dataclass(frozen=True)
class Import:
    """An imported source.

    Attributes:
        folder: The RelBench v3 folder.
        unread: Tables of the source that were not asked for.
    """

    folder: Path
    unread: tuple[str, ...] = ()


class Watch:
    """Tells whether a source changes while it is read."""

    def __init__(self, source: Source, state: SourceState | None) -> None:
        self._source, self.state = source, state
        self.content = state.content() if state else None  # before the first row is read

    def confirm(self) -> bool:
        """Whether the source is in the same state as before.

        Raises:
            SourceError: it is not, and the tables may have been read in different ones.
        """
        if self.state is None:
            return False
        now = self._source.state()
        is_same = now is not None and now.key == self.state.key
        if is_same and (self.content is None or self.state.content() == self.content):
            return True
        if self._source.has_snapshot:
            return False
        raise SourceError(
            "source_changed",
            f"{self._source.address} changed while it was read.",
            hint="Try again when the files are complete.",
        )


@runtime_checkable
class Counted(Protocol):
    """A source whose server can tell by counting rows that nothing has changed, where much else
    has."""

    def census(self, tables: Iterable[str]) -> dict[str, Any] | None:
        """What to count, and how much it is in the open transaction."""
        ...

    def matches(self, census: dict[str, Any]) -> bool:
        """Whether the tables hold the same rows as when they were counted."""
        ...


class Kept(NamedTuple):
    """The last import of a source, whatever has changed since.

    Attributes:
        folder: The import.
        mark: What the source remembered of its rows (`Appended`).
    """

    folder: Path
    mark: Any


class Records:
    """What the cache holds of one source, read with certain options."""

    def __init__(self, source: Source, options: str | None) -> None:
        """`options` are None for the last import of a source, whatever its options."""
        self._source = source
        place, folder = f"{source.address} {source.namespace}", cache_root() / "records"
        self._last = folder / f"{text_key(place)}.json"
        self._path = self._last
        if options is not None:
            self._path = folder / f"{text_key(f'{place} {options}')}.json"
        self._damaged: Path | None = None

    def find(self, state: SourceState | None) -> Import | None:
        """The import of a source in this state; None where there is none, or it is damaged."""
        try:
            record: Any = json.loads(self._path.read_text(encoding="utf-8"))
            folder = cache_root() / "imports" / record["import"]
            self._damaged = folder
            if record["files"] != _sizes(folder):
                return None
            self._damaged = None
            if state is None:
                return None
            imported = Import(folder, tuple(record["unread"]))
            census, mark = record["census"], record.get("mark")
            if record["state"] != state.key and not self._matches(census):
                return None
        except (OSError, ValueError, KeyError, TypeError):
            return None
        if record["state"] != state.key:
            self.add(imported, state, None, census, mark)
            return imported
        if record["content"] is None:
            return imported
        if replace(state, doubtful=tuple(record["doubtful"])).content() != record["content"]:
            return None
        if not state.doubtful:  # from now on a change shows in the state
            self.add(imported, state, None, census, mark)
        return imported

    def last(self) -> Kept | None:
        """The last import that was recorded; None where there is none, or it is damaged."""
        try:
            record: Any = json.loads(self._path.read_text(encoding="utf-8"))
            folder = cache_root() / "imports" / record["import"]
            is_whole = record["files"] == _sizes(folder)
            return Kept(folder, record.get("mark")) if is_whole else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _matches(self, census: dict[str, Any] | None) -> bool:
        if census is None or not isinstance(self._source, Counted):
            return False
        return self._source.matches(census)

    def is_whole(self, folder: Path) -> bool:
        """Whether an import holds the bytes that were written."""
        try:
            written = load_yaml(folder / MANIFEST)["gelgt"]["content_hash"]
            return folder != self._damaged and bool(written == content_hash(folder))
        except (GelgtError, OSError, KeyError, TypeError):
            return False

    def add(
        self,
        imported: Import,
        state: SourceState | None,
        content: str | None,
        census: dict[str, Any] | None = None,
        mark: Any = None,
    ) -> None:
        """Record the import of a state, or of one that cannot be told (it may still grow); a cache
        that cannot be written stays as it is."""
        record = {
            "state": state.key if state else None,
            "content": content,
            "census": census,
            "mark": mark,
            "doubtful": list(state.doubtful) if state else [],
            "import": imported.folder.name,
            "files": _sizes(imported.folder),
            "unread": list(imported.unread),
        }
        with suppress(OSError):
            for path in {self._path, self._last}:
                write_text(path, json.dumps(record, indent=1))


def content_hash(folder: Path) -> str:
    """The hash of the rows and keys of an import."""
    return hash_files(_files(folder))


def _files(folder: Path) -> list[Path]:
    folders = (folder / "db", folder / "gelgt" / "keys")
    return [path for inside in folders for path in inside.rglob("*") if path.is_file()]


def _sizes(folder: Path) -> dict[str, list[int]]:
    files = [folder / MANIFEST, *_files(folder)]
    stats = {path.relative_to(folder).as_posix(): path.stat() for path in files}
    return {name: [stat.st_size, stat.st_mtime_ns] for name, stat in sorted(stats.items())}
