"""Tables of Parquet files, wherever these lie: one schema for all files of a table, columns that
the names of folders give, and only the bytes of columns that an import keeps."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from gelgt.errors import SourceError
from gelgt.sources.canonical import canonical_type
from gelgt.sources.csv_files import unreadable
from gelgt.sources.layout import Part, partition_types
from gelgt.sources.raw import RawTable
from gelgt.sources.table_file import batch_rows, read_ahead

# The batches of some parts, each with the part that it comes from.
Read = Callable[["Sequence[Part]", "Wanted"], Iterator[tuple[Part, pa.RecordBatch]]]


@dataclass(frozen=True)
class Wanted:
    """The columns to read; a part may lack some."""

    fields: tuple[pa.Field, ...]

    def columns(self, schema: pa.Schema) -> list[str]:
        return [f.name for f in self.fields if f.name in schema.names]

    @property
    def rows(self) -> int:
        """Rows of a batch."""
        return batch_rows(len(self.fields))


def parquet_table(
    name: str,
    parts: Sequence[Part],
    schemas: Callable[[Sequence[Part]], Iterable[pa.Schema]],
    read: Read,
) -> RawTable:
    """A table of Parquet files.

    Args:
        schemas: Gives the schemas of parts, in their order.
        read: Gives their batches.
    """
    schema = _one_schema(name, parts, schemas)
    types = {f.name: f.type for f in schema if not f.name.startswith("__index_level_")}
    given = {c: arrow for c, arrow in partition_types(parts).items() if c not in types}
    columns = types | given
    return RawTable(
        name,
        columns,
        lambda: part_batches(name, columns, parts, read),
        partitions=frozenset(given),
    )


def _one_schema(
    name: str, parts: Sequence[Part], schemas: Callable[[Sequence[Part]], Iterable[pa.Schema]]
) -> pa.Schema:
    """The columns of all parts, in types that hold the values of each."""
    found: list[pa.Schema] = []
    try:
        for schema in schemas(parts):
            found.append(schema.remove_metadata())
        return pa.unify_schemas(found, promote_options="permissive")
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        part = parts[min(len(found), len(parts) - 1)]  # that failed, or the last one
        raise SourceError(
            "unreadable_file",
            f"Table '{name}': {part.name} is not readable as Parquet: {error}",
            hint="Write the file again.",
        ) from None


def part_batches(
    name: str, types: Mapping[str, pa.DataType], parts: Sequence[Part], read: Read
) -> Iterator[pa.RecordBatch]:
    """The rows of some parts of a table, in its columns without those that no import keeps."""
    kept = tuple(pa.field(c, t) for c, t in types.items() if canonical_type(t) is not None)

    def batches() -> Iterator[pa.RecordBatch]:
        part = parts[0] if parts else None
        try:
            for part, batch in read(parts, Wanted(kept)):
                arrays = [_column(batch, field, part) for field in kept]
                yield pa.RecordBatch.from_arrays(arrays, names=[f.name for f in kept])
        except (pa.ArrowException, OSError) as error:  # damaged, or changed since it was opened
            raise unreadable(name, part.name if part else name, error) from None

    return read_ahead(batches())


def _column(batch: pa.RecordBatch, field: pa.Field, part: Part) -> pa.Array:
    if field.name in batch.schema.names:
        return batch.column(field.name).cast(field.type)
    value = part.values.get(field.name)
    if value is None:
        return pa.nulls(batch.num_rows, field.type)
    scalar = pa.scalar(int(value) if field.type == pa.int64() else value, field.type)
    return pa.repeat(scalar, batch.num_rows)


def read_batches_of(file: pq.ParquetFile, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    """The batches of an open file."""
    columns = wanted.columns(file.schema_arrow)
    return iter(file.iter_batches(batch_size=wanted.rows, columns=columns))
