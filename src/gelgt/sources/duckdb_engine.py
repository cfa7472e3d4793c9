"""DuckDB as gelgt's engine for sorting and checking rows that may not fit in memory. Nothing is
downloaded, ever."""

import os
from pathlib import Path
from typing import Any

import pyarrow as pa


def connect(spill: Path, memory: str = "2GB") -> Any:
    """An in-memory connection that spills to `spill` and neither installs nor loads extensions by
    itself."""
    import duckdb

    config = {
        "memory_limit": memory,
        "temp_directory": str(spill),
        "threads": os.cpu_count() or 1,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "preserve_insertion_order": True,
    }
    return duckdb.connect(config=config)


def arrow_reader(connection: Any, query: str, rows: int = 1 << 17) -> pa.RecordBatchReader:
    """The rows of a query as a stream of Arrow batches (DuckDB 1.x calls the method otherwise)."""
    relation = connection.sql(query)
    reader = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
    return reader(rows)


def quote(name: str) -> str:
    """An identifier, quoted."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: object) -> str:
    """A string literal, quoted."""
    return "'" + str(text).replace("'", "''") + "'"
