"""Values of foreign keys that name no row: counted, shown in a finding, and kept in a file."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from gelgt.errors import some
from gelgt.schema.model import ForeignKey
from gelgt.sources.table_file import SCRATCH, TableFile

_EXAMPLES = 6  # values that are kept for a message, one more than it shows


class DanglingKeys:
    """Counts the values of a foreign key that name no row, keeps the smallest ones for a message,
    and writes all to a file: a row that comes later may have such a key."""

    def __init__(self, path: Path) -> None:
        self.count = 0
        self._path, self._file = path, ExitStack()
        self._writer: TableFile | None = None
        self._smallest: pa.Table | None = None

    def add(self, batch: pa.RecordBatch, number: int) -> None:
        """Add the columns `d{number}_…` of a batch, which are null where a key is fine."""
        names = [name for name in batch.schema.names if name.startswith(f"d{number}_")]
        values = pa.Table.from_batches([batch.select(names)])
        if (lost := batch.num_rows - values.column(0).null_count) == 0:
            return
        self.count += lost
        values = values.filter(pc.is_valid(values.column(0)))
        if self._writer is None:
            self._path.parent.mkdir(exist_ok=True)
            file = TableFile(self._path, values.schema, **SCRATCH)
            self._writer = self._file.enter_context(file)
        for part in values.to_batches():
            self._writer.write(part.columns)
        if self._smallest is not None:
            values = pa.concat_tables([self._smallest, values])
        values = values.group_by(names).aggregate([])
        self._smallest = values.sort_by([(name, "ascending") for name in names])[:_EXAMPLES]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._file.__exit__(kind, error, trace)

    def message(self, fk: ForeignKey) -> str:
        assert self._smallest is not None
        rows = list(zip(*(column.to_pylist() for column in self._smallest.columns)))
        examples = [row[0] if len(fk.columns) == 1 else row for row in rows]
        return f"no such row in '{fk.table}': {some(examples)}; kept as null"


def lost_keys(folder: Path, table: str, number: int) -> Path:
    """The file of the values of a table's foreign key that name no row."""
    return folder / "gelgt" / "lost" / f"{table}.{number}.parquet"
