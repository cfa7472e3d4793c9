"""Some rows of a table that lies in Parquet files, without reading the others: rows are looked up
in the row groups that hold them."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gelgt.sources.readable import open_parquet


def read_rows(files: Sequence[Path], rows: NDArray[np.int64]) -> pa.Table:
    """The rows with some numbers, in their order; a row may be named several times.

    Args:
        files: Files of one schema, at least one; rows are numbered through them.
        rows: (n,) row numbers.
    """
    parts: list[pa.Table] = []
    places = np.full(len(rows), -1, np.int64)  # of each row in the parts, one after the other
    start = read = 0
    for path in files:
        with open_parquet(path) as file:
            for group in range(file.num_row_groups):
                count = file.metadata.row_group(group).num_rows
                is_here = (rows >= start) & (rows < start + count)
                if is_here.any():
                    places[is_here] = rows[is_here] - start + read
                    parts.append(file.read_row_group(group))
                    read += count
                start += count
            if not parts:
                parts.append(file.schema_arrow.empty_table())
    return pa.concat_tables(parts).take(pa.array(places))
