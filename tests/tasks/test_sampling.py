from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from gelgt.sources.database import Database
from gelgt.tasks.sampling import key_codes, sample, seed_hash

Make = Callable[..., Database]
SENTENCE = "PREDICT COUNT(orders.*, 0, 10, days) FOR EACH customers.id"


def rows(count: int) -> pa.Table:
    time = np.datetime64("2024-01-01", "us") + (np.arange(count) % 50).astype("timedelta64[D]")
    return pa.table({"time": time, "entity": np.arange(count) // 50, "target": np.arange(count)})


def drawn(table: pa.Table, keep: int) -> set[int]:
    return set(
        sample(
            table.to_batches(max_chunksize=700),
            table.schema,
            np.arange(1000, dtype=np.uint64),
            table.num_rows,
            keep,
        )
        .column(2)
        .to_pylist()
    )


def test_exactly_as_many_as_asked_and_independent_of_the_order() -> None:
    table = rows(20_000)
    shuffled = table.take(pa.array(np.random.default_rng(0).permutation(table.num_rows)))
    chosen = drawn(table, 3000)
    assert len(chosen) == 3000
    assert drawn(shuffled, 3000) == chosen
    assert drawn(table, 1000) < chosen


def test_spread_evenly_over_entities_and_times() -> None:
    chosen = np.array(sorted(drawn(rows(20_000), 5000)))
    for part in (chosen // 50, chosen % 50):
        counts = np.bincount(part)
        assert counts.std() < 2 * np.sqrt(counts.mean())


def test_the_hash_never_changes() -> None:
    hashes = seed_hash(
        np.array([0, 42], dtype=np.uint64),
        np.array([0, 1]),
        np.array(["1970-01-01", "2024-01-01"], dtype="datetime64[us]"),
    )
    assert hashes.tolist() == [12035550249420947055, 2739135254177850148]


def test_codes_come_from_the_users_keys(make_db: Make, random_shop: Callable[..., Any]) -> None:
    plain = make_db(random_shop())
    np.testing.assert_array_equal(key_codes(plain, "customers"), np.arange(30, dtype=np.uint64))
    numbers = make_db(random_shop(), keys={"customers": {"id": [-5 + i for i in range(30)]}})
    assert key_codes(numbers, "customers").view(np.int64).tolist() == list(range(-5, 25))
    texts = make_db(
        random_shop(), keys={"customers": {"a": [f"c{i}" for i in range(30)], "b": list(range(30))}}
    )
    codes = key_codes(texts, "customers")
    assert len(np.unique(codes)) == 30
    np.testing.assert_array_equal(codes, key_codes(texts, "customers"))


def test_training_rows_are_sampled_and_it_is_said(shop_db: Database) -> None:
    full = shop_db.task(SENTENCE)
    some = shop_db.task(SENTENCE, max_rows=100)
    assert some.rows == full.rows | {"train": 100}
    assert f"training rows sampled: 100 of {full.rows['train']:,}" in some.notices
    sampled = set(zip(*(c.to_pylist() for c in some.table("train").columns)))
    assert sampled < set(zip(*(c.to_pylist() for c in full.table("train").columns)))
    assert some.table("train").equals(shop_db.task(SENTENCE, max_rows=100).table("train"))
    assert (
        some.table("train")
        .sort_by([("timestamp", "ascending"), ("id", "ascending")])
        .equals(some.table("train"))
    )
