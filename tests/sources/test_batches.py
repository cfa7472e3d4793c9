"""`Database.batches` from any row on, whatever the row groups of the file."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gelgt.schema.model import DatabaseSchema, TableSchema
from gelgt.sources.database import Database


@pytest.mark.parametrize("group", [1, 3, 4, 100])
@pytest.mark.parametrize("size", [1, 2, 5, 100])
def test_rows_from_any_row_on(tmp_path: Path, group: int, size: int) -> None:
    (tmp_path / "db").mkdir()
    rows = pa.table({"n": np.arange(11), "parts": [["a"] * (i % 3) for i in range(11)]})
    pq.write_table(rows, tmp_path / "db" / "t.parquet", row_group_size=group)
    table = TableSchema("t", {"n": "int64", "parts": "list"})
    db = Database(tmp_path, DatabaseSchema("tiny", {"t": table}), "tiny")
    for first in range(12):
        batches = list(db.batches("t", None, size, first_row=first))
        assert all(0 < batch.num_rows <= size for batch in batches)
        read = [row for batch in batches for row in batch.to_pylist()]
        assert read == rows.to_pylist()[first:]
        assert sum(b.num_rows for b in db.batches("t", [], size, first_row=first)) == 11 - first
