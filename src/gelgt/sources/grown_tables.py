"""Writes the files of an import that grows.

Mostly all new rows come after the older ones (grown_places.py); then the older files stay as they
are (linked, not copied), and the new rows go into a file beside them. A table whose rows move, or
that names rows that move, is written anew: read, renumbered, merged.
"""

import os
import shutil
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gelgt.schema.model import Finding, ForeignKey, TableSchema
from gelgt.sources.canonical import STRINGS
from gelgt.sources.dangling import lost_keys
from gelgt.sources.database import MORE, parts
from gelgt.sources.grown_places import NewRows, Rows
from gelgt.sources.growth import Growth
from gelgt.sources.table_file import BATCH_ROWS, SCRATCH, TableFile, lasting

MOST_PARTS = 16  # files of a table, above which they are written as one
_TEXTS = (pa.string(), STRINGS)


class GrownTables:
    """The tables of a growing import.

    Args:
        new: Its new rows.
        folder: The folder to write, existing and empty.
    """

    def __init__(self, new: NewRows, folder: Path) -> None:
        self.new, self.base, self.staged, self.folder = new, new.base, new.staged, folder
        self.findings: list[Finding] = []

    def write(self) -> Growth:
        """Write all tables."""
        (self.folder / "db").mkdir()
        (self.folder / "gelgt" / "keys").mkdir(parents=True)
        for table in self.base.schema.tables.values():
            self._write_rows(table, self._new_rows(table))
            self._write_keys(table)
        places = self.new.places
        return Growth(self.base.folder, {name: rows for name, rows in places.items() if len(rows)})

    def _new_rows(self, table: TableSchema) -> pa.Table:
        """The new rows of a table in final form, in order; keys that name no row are noted."""
        staged, schema = self.staged[table.name], pq.read_schema(self.base.paths(table.name)[0])
        new = self.new.rows(table)
        parents = {
            fk.column: self._parents(table, fk, j, new) for j, fk in enumerate(table.foreign_keys)
        }
        columns = []
        for field in schema:
            if field.name == table.pkey:
                columns.append(new.column("row").cast(field.type))
            elif field.name in parents:
                columns.append(pa.chunked_array([parents[field.name]]).cast(field.type))
            else:
                columns.append(new.column(staged.columns[field.name].stored).cast(field.type))
        return pa.table(columns, schema=schema)

    def _parents(self, table: TableSchema, fk: ForeignKey, j: int, new: pa.Table) -> pa.Array:
        """Row numbers of the parents of new rows; values that name none are counted and kept."""
        old = new.column(f"o{j}").combine_chunks()
        if fk.table in self.new.moved:
            old = pa.array(self.new.moved[fk.table]).take(old)
        parents = pc.coalesce(old, new.column(f"n{j}").combine_chunks())
        values = [new.column(self.staged[table.name].columns[c].stored) for c in fk.columns]
        is_lost = parents.is_null()
        for value in values:
            is_lost = pc.and_(is_lost, value.combine_chunks().is_valid())
        count = pc.sum(is_lost).as_py() or 0
        known = lost_keys(self.base.folder, table.name, j)
        if known.exists():
            self._extend(known, None if not count else _lost(values, is_lost, j))
        elif count:
            path = lost_keys(self.folder, table.name, j)
            path.parent.mkdir(exist_ok=True)
            pq.write_table(_lost(values, is_lost, j), path, **SCRATCH)
        if count:
            message = f"no such row in '{fk.table}'; kept as null"
            self.findings.append(Finding("dangling_key", table.name, fk.column, count, message))
        return parents

    def _extend(self, path: Path, rows: pa.Table | None) -> None:
        """A file of the older import, and further rows beside it."""
        target = self.folder / path.relative_to(self.base.folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        files = parts(path)
        for file in files:
            other = target if file == path else target.with_suffix(MORE) / file.name
            other.parent.mkdir(exist_ok=True)
            _link(file, other)
        if rows is not None and rows.num_rows:
            target.with_suffix(MORE).mkdir(exist_ok=True)
            texts = [f.name for f in rows.schema if f.type in _TEXTS]
            more = target.with_suffix(MORE) / f"{len(files)}.parquet"
            pq.write_table(rows, more, **lasting(rows.schema, texts))

    def _write_rows(self, table: TableSchema, new: pa.Table) -> None:
        path, moved = self.base.paths(table.name)[0], self.new.moved
        references = {fk.column: moved[fk.table] for fk in table.foreign_keys if fk.table in moved}
        if not references and table.name not in moved and len(parts(path)) < MOST_PARTS:
            self._extend(path, new)
            return

        def old() -> Iterator[list[pa.Array]]:
            start = 0
            for batch in self.base.batches(table.name, new.column_names):
                rows = self._numbers(table.name)[start : start + batch.num_rows]
                yield _renumbered(batch, table.pkey, rows, references, new.schema)
                start += batch.num_rows

        features = [c for c in new.column_names if c not in table.key_columns]
        texts = [c for c in features if new.schema.field(c).type in _TEXTS]
        self._merge(table.name, self.folder / "db" / path.name, old(), new, texts)

    def _write_keys(self, table: TableSchema) -> None:
        if table.primary_key is None:
            return
        columns, rows = table.primary_key.columns, self.base.num_rows(table.name)
        path = self.base.folder / "gelgt" / "keys" / f"{table.name}.parquet"
        new, has_moved = self.new.keys(table.name, columns), table.name in self.new.moved
        if path.exists():
            if not has_moved and len(parts(path)) < MOST_PARTS:
                self._extend(path, new)
                return
            files = (pq.ParquetFile(part, memory_map=True) for part in parts(path))
            old = chain.from_iterable(file.iter_batches() for file in files)
        else:
            values = new.column(0).combine_chunks().to_numpy(zero_copy_only=False)
            if not has_moved and np.array_equal(values, self.new.places[table.name]):
                return  # the keys still are the row numbers
            old = iter(pa.table({columns[0]: np.arange(rows)}).to_batches(BATCH_ROWS))
        target = self.folder / "gelgt" / "keys" / path.name
        self._merge(table.name, target, (batch.columns for batch in old), new, [])

    def _numbers(self, table: str) -> Rows:
        """The numbers of the older rows of a table among the new ones."""
        moved = self.new.moved.get(table)
        return np.arange(self.base.num_rows(table)) if moved is None else moved

    def _merge(
        self,
        table: str,
        path: Path,
        old: Iterator[list[pa.Array]],
        new: pa.Table,
        texts: list[str],
    ) -> None:
        """Write older and new rows to one file, in the order of their numbers."""
        numbers, start = self._numbers(table), 0
        with TableFile(path, new.schema, **lasting(new.schema, texts)) as file:
            merge = _Merge(file, new, self.new.places[table])
            for arrays in old:
                stop = start + len(arrays[0])
                merge.add(arrays, numbers[start:stop])
                start = stop
            merge.finish()


class _Merge:
    """Merges new rows into older ones, batch by batch.

    Args:
        file: Where they go.
        new: The new rows in order.
        places: (new rows,) their numbers.
    """

    def __init__(self, file: TableFile, new: pa.Table, places: Rows) -> None:
        self._file, self._new, self._places = file, new.combine_chunks(), places
        self._done = 0

    def add(self, arrays: list[pa.Array], numbers: Rows) -> None:
        """Write older rows with their numbers (rising), and the new rows before the last of
        them."""
        if not len(numbers):
            return
        until = int(np.searchsorted(self._places, numbers[-1]))
        part, places = self._new[self._done : until], self._places[self._done : until]
        self._done = until
        if len(places):
            order = pa.array(np.argsort(np.concatenate([numbers, places]), kind="stable"))
            arrays = [
                pa.concat_arrays([old, *new.chunks]).take(order)
                for old, new in zip(arrays, part.columns)
            ]
        self._file.write(arrays)

    def finish(self) -> None:
        """Write the new rows that come after all others."""
        for batch in self._new[self._done :].to_batches(BATCH_ROWS):
            self._file.write(batch.columns)


def _renumbered(
    batch: pa.RecordBatch,
    pkey: str | None,
    numbers: Rows,
    references: Mapping[str, Rows | None],
    schema: pa.Schema,
) -> list[pa.Array]:
    """Older rows with the numbers that they and their parents have now."""
    arrays = []
    for field in schema:
        values = batch.column(field.name)
        if field.name == pkey:
            values = pa.array(numbers)
        elif (rows := references.get(field.name)) is not None:
            values = pa.array(rows).take(values)
        arrays.append(values.cast(field.type))
    return arrays


def _lost(values: list[pa.ChunkedArray], is_lost: pa.Array, j: int) -> pa.Table:
    names = [f"d{j}_{i}" for i in range(len(values))]
    return pa.table(dict(zip(names, values))).filter(is_lost)


def _link(path: Path, target: Path) -> None:
    """The same file under another name; a copy where the file system has no links."""
    try:
        os.link(path, target)
    except OSError:
        shutil.copy2(path, target)
