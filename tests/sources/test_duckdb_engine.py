"""Batches of as many rows as were asked for, however they come."""

import pyarrow as pa
import pytest

from gelgt.sources.duckdb_engine import exact_batches


@pytest.mark.parametrize("sizes", [[], [4], [1, 1, 1], [9], [4, 4, 3], [3, 0, 14, 2, 1], [10, 10]])
def test_exact_batches(sizes: list[int]) -> None:
    rows = pa.table({"x": range(sum(sizes))})
    batches, start = [], 0
    for size in sizes:
        batches += rows.slice(start, size).combine_chunks().to_batches() if size else []
        start += size
    found = list(exact_batches(pa.RecordBatchReader.from_batches(rows.schema, batches), 4))
    assert [batch.num_rows for batch in found[:-1]] == [4] * max(0, len(found) - 1)
    assert all(0 < batch.num_rows <= 4 for batch in found)
    assert [x for batch in found for x in batch.column(0).to_pylist()] == list(range(sum(sizes)))
