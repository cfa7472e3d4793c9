"""A prefix in object storage as a source: the same files as in a local folder (layout.py).

What tells that nothing has changed is the listing: one request for a thousand objects, none of
which is opened. Providers count the time of a change in seconds, so an object that was replaced
twice within one may look the same: the version (ETag) of objects that changed lately, by a clock
that may differ from the provider's, is compared too.
"""

import hashlib
import io
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa

from gelgt.errors import SourceError, did_you_mean
from gelgt.sources.csv_files import csv_table
from gelgt.sources.files import with_parts
from gelgt.sources.layout import Part, find_tables
from gelgt.sources.object_parquet import ParquetObject, in_order, read_objects, readers
from gelgt.sources.parquet_files import Wanted, parquet_table
from gelgt.sources.raw import RawTable, StaticSource
from gelgt.sources.state import SourceState
from gelgt.storage import Object, ObjectReader, Store

# Seconds. Providers refuse requests of machines whose clocks differ by a quarter of an hour.
DOUBT = 16 * 60.0
_BLOCK = 8 << 20  # bytes of a request for a CSV object


@dataclass(frozen=True)
class ObjectsState(SourceState):
    """The state of objects; of those in doubt, the versions."""

    store: Store | None = None

    def content(self) -> str | None:
        if not self.doubtful or self.store is None:
            return None
        tags = sorted(versions(self.store, self.doubtful).items())
        return hashlib.blake2b(repr(tags).encode(), digest_size=16).hexdigest()


def versions(store: Store, paths: Iterable[str]) -> dict[str, str | None]:
    """The version of each object, by a request for each; None where it is gone."""
    paths = list(paths)
    with readers() as pool:
        return dict(zip(paths, pool.map(store.tag, paths)))


class ObjectsSource(StaticSource):
    """The CSV and Parquet objects under a prefix.

    Args:
        address: Such as ``s3://bucket/prefix``.
    """

    def __init__(self, address: str) -> None:
        self._store = Store(address)
        self.address = str(self._store)
        self.name = self.address.rpartition("/")[2]
        self._looked = time.time()
        self._listed: list[Object] | None = self._list()
        objects = {self._store.relative(item.path): item for item in self._listed or ()}
        # a key with empty parts ("a//b") is no name of a file
        objects = {name: o for name, o in objects.items() if str(PurePosixPath(name)) == name}
        self._parts = find_tables(objects, self.address)
        self._objects = {
            part.name: objects[part.name] for parts in self._parts.values() for part in parts
        }

    def _list(self) -> list[Object]:
        try:
            return self._store.objects()
        except SourceError as error:
            if error.code != "not_found" or not self._store.exists():
                raise
        raise SourceError(
            "unknown_file",
            f"{self.address} is one object.",
            hint="Give the prefix (the folder) that holds the files of the tables.",
        )

    def table_names(self) -> list[str]:
        return list(self._parts)

    def tables(self, only: Sequence[str] | None = None) -> list[RawTable]:
        for name in only or ():
            if name not in self._parts:
                raise SourceError(
                    "unknown_table",
                    f"{self.address} has no table '{name}'.",
                    hint=did_you_mean(name, self._parts),
                )
        chosen = self._parts if only is None else {name: self._parts[name] for name in only}
        return [self._table(name, parts) for name, parts in chosen.items()]

    def _table(self, name: str, parts: list[Part]) -> RawTable:
        if parts[0].is_parquet:
            return parquet_table(name, parts, self._schemas, self._read)
        part = parts[0]
        return csv_table(name, part.name, lambda: io.BufferedReader(self._open(part), _BLOCK))

    def _open(self, part: Part) -> ObjectReader:
        return self._store.open(self._objects[part.name])

    def _schemas(self, parts: Sequence[Part]) -> Iterator[pa.Schema]:
        def schema(part: Part) -> pa.Schema:
            return ParquetObject(self._open(part)).parquet.schema_arrow

        with readers() as pool:
            yield from in_order(pool, schema, parts)

    def _read(self, parts: Sequence[Part], wanted: Wanted) -> Iterator[tuple[Part, pa.RecordBatch]]:
        return read_objects(parts, self._open, wanted)

    # What tells whether something has changed.
    def state(self) -> SourceState | None:
        now = self._now()
        digest = hashlib.blake2b(self._store.place.server.encode(), digest_size=16)
        for name in self._objects:
            digest.update(f"{name}\0{_look(now.get(name))}\n".encode())
        doubtful = [item.path for item in now.values() if self._is_recent(item)]
        return ObjectsState(digest.hexdigest(), tuple(doubtful), self._store)

    def _now(self) -> dict[str, Object]:
        """The objects of the source as they are listed now; the first time, as they were listed
        when it was opened."""
        listed, self._listed = self._listed, None
        if listed is None:
            self._looked = time.time()
            try:
                listed = self._store.objects()
            except SourceError as error:
                if error.code != "not_found":
                    raise
                listed = []  # all are gone
        found = {self._store.relative(item.path): item for item in listed}
        return {name: found[name] for name in self._objects if name in found}

    def _is_recent(self, item: Object) -> bool:
        return self._looked - item.changed / 1e9 < DOUBT

    def mark(self, tables: Mapping[str, RawTable]) -> Any:
        """The Parquet objects of each table; the version of those that changed lately."""
        parts = {name: self._parts[name] for name in tables if self._parts[name][0].is_parquet}
        items = {name: [self._objects[part.name] for part in parts[name]] for name in parts}
        recent = [item.path for name in items for item in items[name] if self._is_recent(item)]
        tags = versions(self._store, recent)
        return {
            name: {item.path: [*_look(item), tags.get(item.path)] for item in items[name]}
            for name in items
        }

    def appended(self, tables: Mapping[str, RawTable], mark: Any) -> dict[str, RawTable]:
        """Tables whose older objects are as they were, with the rows of the others."""
        asked = [path for known in mark.values() for path, look in known.items() if look[2]]
        tags, now = versions(self._store, asked), {o.path: o for o in self._objects.values()}
        looks = {path: [*_look(item), tags.get(path)] for path, item in now.items()}
        appended = {}
        for name, table in tables.items():
            known = mark.get(name)
            if known and all(looks.get(path) == look for path, look in known.items()):
                parts = self._parts[name]
                new = [part for part in parts if self._objects[part.name].path not in known]
                appended[name] = with_parts(table, new, self._read)
        return appended

    def content_key(self) -> str | None:
        return None  # no cheaper than reading the rows


def _look(item: Object | None) -> tuple[int, int]:
    return (-1, 0) if item is None else (item.size, item.changed)
