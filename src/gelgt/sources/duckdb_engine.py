"""DuckDB as gelgt's engine for sorting and checking rows that may not fit in memory. Nothing is
downloaded, ever."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from gelgt.memory import available_memory

LEAST_MEMORY = 256 * 10**6
THREAD_MEMORY = 10**9


def limits(most: int) -> dict[str, Any]:
    """DuckDB's settings of memory and threads: half of the memory that is available, at most `most`
    bytes, above which it works on disk. Each thread holds blocks of its own, so that where memory
    is short several of them spill more than they gain."""
    available = available_memory()
    share = max(most if available is None else min(most, available // 2), LEAST_MEMORY)
    threads = max(1, min(os.cpu_count() or 1, share // THREAD_MEMORY))
    return {"memory_limit": f"{share // 10**6}MB", "threads": threads}


def connect(spill: Path, threads: int | None = None) -> Any:
    """An in-memory connection that spills to `spill` and neither installs nor loads extensions by
    itself; with so many threads at most, where others work beside it."""
    import duckdb

    config = {
        **limits(2 * 10**9),
        "temp_directory": str(spill),
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "preserve_insertion_order": True,
    }
    config["threads"] = min(config["threads"], threads or config["threads"])
    return duckdb.connect(config=config)


def arrow_reader(connection: Any, query: str, rows: int = 1 << 17) -> pa.RecordBatchReader:
    """The rows of a query as a stream of Arrow batches (DuckDB 1.x calls the method otherwise)."""
    relation = connection.sql(query)
    reader = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
    return reader(rows)


def exact_batches(reader: pa.RecordBatchReader, rows: int) -> Iterator[pa.RecordBatch]:
    """The batches of a reader with so many rows each, but the last. How many DuckDB gives at once
    depends on its threads, and what is written must not."""
    waiting: list[pa.RecordBatch] = []
    count = 0
    for batch in reader:
        waiting.append(batch)
        count += batch.num_rows
        while count >= rows:
            left = count - rows
            last = waiting.pop()
            taken = [*waiting, last.slice(0, last.num_rows - left)]
            yield taken[0] if len(taken) == 1 else pa.concat_batches(taken)
            waiting, count = ([last.slice(last.num_rows - left)] if left else []), left
    if count:
        yield waiting[0] if len(waiting) == 1 else pa.concat_batches(waiting)


def arrow_table(connection: Any, query: str) -> pa.Table:
    """The rows of a query that fit in memory."""
    return arrow_reader(connection, query).read_all()


def numbered(paths: Sequence[Path]) -> str:
    """The rows of some Parquet files, one after the other, with their numbers as
    `file_row_number`: DuckDB counts from 0 in each file."""
    selects, first = [], 0
    for path in paths:
        options = "file_row_number = true, hive_partitioning = false"
        rows = f"read_parquet({literal(path)}, {options})"
        number = f"file_row_number + {first} AS file_row_number"
        selects.append(f"SELECT * REPLACE ({number}) FROM {rows}")
        first += pq.read_metadata(path).num_rows
    return f"({' UNION ALL '.join(selects)})"


def quote(name: str) -> str:
    """An identifier, quoted."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: object) -> str:
    """A string literal, quoted."""
    return "'" + str(text).replace("'", "''") + "'"
