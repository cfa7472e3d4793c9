"""Category lists are ordered, bounded, and the same for whole numbers of either type."""

import time
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from gelgt.features import categories
from gelgt.features.categories import CategoryCounter, CategoryIndex
from gelgt.features.values import Column
from gelgt.schema.kinds import MAX_CATEGORIES

COLUMN = Column("t", "c")


def count(*batches: pa.Array) -> tuple[tuple[str, ...], tuple[int, ...], int]:
    counter = CategoryCounter(COLUMN)
    for batch in batches:
        counter.add(batch)
    return counter.result()


def test_by_falling_count_then_by_name() -> None:
    assert count(pa.array(["b", "a", "c", None]), pa.array(["c", "é", "Z"])) == (
        ("c", "Z", "a", "b", "é"),
        (2, 1, 1, 1, 1),
        0,
    )


def test_int_and_float_agree() -> None:
    assert (
        count(pa.array([3, 3, 1]))
        == count(pa.array([3.0, 1.0]), pa.array([np.nan, 3.0]))
        == (("3", "1"), (2, 1), 0)
    )
    assert count(pa.array([0.0, -0.0])) == (("0",), (2,), 0)


@pytest.mark.parametrize("nothing", [[], [pa.nulls(3, pa.string())], [pa.array([], pa.int64())]])
def test_nothing_gives_an_empty_list(nothing: list[pa.Array]) -> None:
    assert count(*nothing) == ((), (), 0)


def test_adding_up_in_between_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(categories, "_COMPACT_AT", 16)
    values = np.random.default_rng(0).integers(0, 100, 3000)
    names, counts, dropped = count(*(pa.array(part) for part in np.split(values, 100)))
    assert dict(zip(names, counts)) == {str(k): v for k, v in Counter(values.tolist()).items()}
    assert dropped == 0


def test_a_million_categories_are_cut_in_bounded_time() -> None:
    values = np.random.default_rng(0).permutation(
        np.concatenate([np.arange(1_000_000), np.arange(500)])
    )
    start = time.perf_counter()
    names, counts, dropped = count(*(pa.array(part) for part in np.array_split(values, 8)))
    assert time.perf_counter() - start < 20
    assert len(names) == MAX_CATEGORIES
    assert dropped == 1_000_000 - MAX_CATEGORIES
    assert set(names[:500]) == {str(i) for i in range(500)}
    assert counts[:501] == (2,) * 500 + (1,)
    assert list(names[500:]) == sorted(names[500:])


def test_lookup() -> None:
    index = CategoryIndex(("3", "true", "x"), COLUMN)
    for values, expected, unseen in [
        (pa.array([3, 4, None]), [0, -1, -1], 1),
        (pa.array([3.0, np.nan, 3.5]), [0, -1, -1], 1),
        (pa.array(["x", "3", "X", None]), [2, 0, -1, -1], 1),
        (pa.array([True, False]), [1, -1], 1),
        (pa.array([], pa.string()), [], 0),
    ]:
        codes, missed = index.lookup(values)
        assert (codes.tolist(), missed, codes.dtype) == (expected, unseen, np.int32)
