"""Rows become arrays, in order, whatever threads and batches they come in."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from gelgt.features.encode import TableEncoder
from gelgt.features.statistics import (
    CategoricalStatistics,
    MulticategoricalStatistics,
    NumericalStatistics,
    TextStatistics,
    TimestampStatistics,
)
from gelgt.features.text import HashedNgrams
from gelgt.features.values import MISSING_TIME
from gelgt.graph.arrays import load_array

STATISTICS = {
    "m": MulticategoricalStatistics(("x", "y", "z"), (3, 2, 1), 0, "|"),
    "n": NumericalStatistics(),
    "c": CategoricalStatistics(("a", "b"), (2, 1)),
    "w": TimestampStatistics(),
    "s": TextStatistics(64),
}
ROWS = pa.table(
    {
        "n": [1.0, np.inf, None, 4.0],
        "c": ["b", "a", "new", None],
        "w": pa.array([0, None, -1, 1_500_000], pa.timestamp("us")),
        "s": ["hello", None, "world", ""],
        "m": ["z|x|x", None, "new", "y|new|x"],
    }
)


def encode(folder: Path, batch_rows: int) -> TableEncoder:
    folder.mkdir()
    with TableEncoder(folder, "t", len(ROWS), STATISTICS, HashedNgrams()) as encoder:
        start, done = 0, []
        for batch in ROWS.combine_chunks().to_batches(max_chunksize=batch_rows):
            done.append((start, batch))
            start += batch.num_rows
        # The last batch first: only `take` needs the order.
        results = {begin: encoder.encode(begin, batch) for begin, batch in reversed(done)}
        for begin, _ in done:
            encoder.append(results[begin])
    return encoder


def test_every_kind(tmp_path: Path) -> None:
    encoder = encode(tmp_path / "a", 100)
    read = {path.stem: load_array(path) for path in (tmp_path / "a").glob("*.npy")}
    np.testing.assert_array_equal(
        read["numerical"], np.array([[1], [np.nan], [np.nan], [4]], np.float32)
    )
    assert read["categorical"].tolist() == [[1], [0], [-1], [-1]]
    assert read["timestamp"].tolist() == [[0], [MISSING_TIME], [-1], [1]]
    assert read["text"].dtype == np.float16
    assert [bool(row.any()) for row in read["text"]] == [True, False, True, False]
    # Each category once a row; a missing row is [-1], a row of unseen parts is empty.
    assert read["multicategorical-0-offsets"].tolist() == [0, 2, 3, 3, 5]
    assert read["multicategorical-0-places"].tolist() == [0, 2, -1, 0, 1]
    counts = {key: count for key, count in encoder.counts.items() if count}
    assert counts == {
        ("non_finite", "n"): 1,
        ("unseen_category", "c"): 1,
        ("unseen_category", "m"): 2,
    }


def test_batches_do_not_matter(tmp_path: Path) -> None:
    encode(tmp_path / "a", 100)
    encode(tmp_path / "b", 1)
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()
