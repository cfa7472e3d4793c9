"""Some rows of Parquet files, without the others."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gelgt.sources.some_rows import read_rows


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Rows 0…24 in two files of row groups of four."""
    for name, start, stop in (("a", 0, 10), ("b", 10, 25)):
        rows = pa.table({"key": [f"k{i}" for i in range(start, stop)]})
        pq.write_table(rows, tmp_path / f"{name}.parquet", row_group_size=4)
    return [tmp_path / "a.parquet", tmp_path / "b.parquet"]


@pytest.mark.parametrize("rows", [[0], [24, 3, 3, 11, 10, 9], [], list(range(25))])
def test_rows_in_the_order_asked_for(files: list[Path], rows: list[int]) -> None:
    found = read_rows(files, np.array(rows, np.int64))
    assert found.column("key").to_pylist() == [f"k{row}" for row in rows]
    assert found.schema == pa.schema([("key", pa.string())])


def test_only_the_row_groups_that_hold_them_are_read(
    files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    original = pq.ParquetFile.read_row_group

    def counting(self: Any, group: int, *args: Any, **options: Any) -> Any:
        read.append(group)
        return original(self, group, *args, **options)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", counting)
    read_rows(files, np.array([9, 22, 8], np.int64))
    assert read == [2, 3]


@pytest.mark.parametrize("row", [-1, 25])
def test_a_row_that_is_not_there(files: list[Path], row: int) -> None:
    with pytest.raises(IndexError):
        read_rows(files, np.array([0, row], np.int64))
