"""Arrays on disk: what is written is what is read, also when there is nothing."""

from pathlib import Path

import numpy as np
import pytest

from gelgt.graph.arrays import ArrayWriter, RowWriter, create_array, hash_arrays, load_array


@pytest.mark.parametrize("shape", [(0,), (3, 0), (5,), (2, 3)])
def test_round_trip(tmp_path: Path, shape: tuple[int, ...]) -> None:
    written = create_array(tmp_path / "a.npy", shape, np.int32)
    written[...] = np.arange(written.size).reshape(shape)
    read = load_array(tmp_path / "a.npy")
    assert read.dtype == np.int32
    assert np.array_equal(read, np.arange(written.size).reshape(shape))
    assert np.array_equal(np.load(tmp_path / "a.npy"), read)  # plain numpy reads it too
    if read.size:
        with pytest.raises(ValueError, match="read-only"):
            read[...] = 0


@pytest.mark.parametrize("sizes", [[], [0], [3, 0, 100_000]])
def test_array_of_unknown_length(tmp_path: Path, sizes: list[int]) -> None:
    blocks = [np.arange(size) for size in sizes]
    with ArrayWriter(tmp_path / "a.npy", np.int64) as writer:
        for block in blocks:
            writer.append(block)
    assert np.array_equal(
        load_array(tmp_path / "a.npy"), np.concatenate([np.zeros(0, np.int64), *blocks])
    )


@pytest.mark.parametrize(("rows", "width"), [(0, 2), (5, 1), (7, 3)])
def test_rows_written_in_any_order(tmp_path: Path, rows: int, width: int) -> None:
    expected = np.random.default_rng(0).normal(size=(rows, width)).astype(np.float16)
    with RowWriter(tmp_path / "a.npy", rows, width, np.float16) as writer:
        for start in reversed(range(0, rows, 2)):
            writer.write(start, expected[start : start + 2].astype(np.float32))
    assert np.array_equal(load_array(tmp_path / "a.npy"), expected)


def test_hash_sees_names_types_shapes_and_bytes() -> None:
    base = np.arange(6, dtype=np.int32)
    variants = [
        ("a", base),
        ("b", base),
        ("a", base.astype(np.int64)),
        ("a", base.reshape(2, 3)),
        ("a", base[::-1]),
    ]
    assert len({hash_arrays("x", [v]) for v in variants}) == len(variants)
    assert hash_arrays("x", [("a", base)]) != hash_arrays("y", [("a", base)])
    assert hash_arrays("x", [("a", base[::2])]) == hash_arrays("x", [("a", base[::2].copy())])
