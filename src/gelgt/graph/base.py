"""What a database that grew out of an older import can take over: the cache of that import, and
which rows are new. The graph and the features of the older import are extended by these rows."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gelgt.sources.database import Database
from gelgt.sources.seal import is_whole

_NO_ROWS = np.zeros(0, np.int64)


def base_entry(db: Database, name: str) -> Path | None:
    """A folder in the cache of the older import; None where there is no older one, or it lacks the
    folder or has it damaged."""
    if db.growth is None:
        return None
    try:
        entry = Database(db.growth.base, db.schema, db.source).cache_dir / name
    except OSError:  # a file of the older import is gone
        return None
    is_usable = entry.is_dir() and (name == "." or is_whole(entry))
    return entry if is_usable else None


def new_rows(db: Database, table: str) -> NDArray[np.int64]:
    """The numbers of a table's new rows, rising."""
    return _NO_ROWS if db.growth is None else db.growth.new_rows.get(table, _NO_ROWS)


def has_grown(db: Database, old_rows: Mapping[str, int]) -> bool:
    """Whether old and new rows of these tables make up the rows of the database."""
    return all(
        table in db.schema.tables and _adds_up(new_rows(db, table), count, db.num_rows(table))
        for table, count in old_rows.items()
    )


def _adds_up(rows: NDArray[np.int64], old: int, total: int) -> bool:
    is_rising = bool(np.all(rows[1:] > rows[:-1]))
    is_inside = not len(rows) or (rows[0] >= 0 and rows[-1] < total)
    return is_rising and bool(is_inside) and len(rows) + old == total


def new_batches(
    db: Database, table: str, columns: Sequence[str], batch_size: int = 1 << 17
) -> Iterator[tuple[NDArray[np.int64], pa.RecordBatch]]:
    """The numbers of new rows and these rows, in order; rows before the first new one are not
    read."""
    rows = new_rows(db, table)
    if not len(rows):
        return
    start = int(rows[0])
    for batch in db.batches(table, columns, batch_size, first_row=start):
        first, last = np.searchsorted(rows, [start, start + batch.num_rows])
        inside = rows[first:last]
        if len(inside) == batch.num_rows:
            yield inside, batch
        elif len(inside):
            yield inside, batch.take(pa.array(inside - start))
        if last == len(rows):
            return
        start += batch.num_rows
