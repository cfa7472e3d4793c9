"""Time travel through the whole way of the data: what is known at a time does not depend on what
came later.

The demo shop is imported twice, once whole and once without any row after a time t. The later rows
are made as hostile as they can be: new categories, extreme numbers, fractions among whole numbers,
text among numbers. Up to t, everything must be the same bit for bit.
"""

import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import gelgt
from gelgt import Database
from gelgt.demo import Shop, shop
from gelgt.graph import Graph
from gelgt.testing.hostile import HOSTILE, TIMES

WINDOW = pd.Timedelta(days=10)


@dataclass(frozen=True)
class Twins:
    """The whole database and the one cut at `at`, with the same split times stated."""

    whole: Database
    cut: Database
    at: pd.Timestamp
    val: pd.Timestamp

    def rows(self, table: str) -> int:
        """Rows up to `at`; they are the first ones of either table, and all of a timeless table."""
        return self.cut.num_rows(table)


@pytest.fixture(scope="module", params=[3, 37], ids="{} days after validation".format)
def twins(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Twins:
    folder = tmp_path_factory.mktemp("travel")
    made: Shop = shop(folder / "whole.db", customers=120, days=300, seed=11)
    val, at = (
        pd.Timestamp(made.val_timestamp),
        pd.Timestamp(made.val_timestamp) + pd.Timedelta(days=request.param, hours=7),
    )
    shutil.copy(made.path, folder / "cut.db")
    _change(folder / "whole.db", HOSTILE, at)
    _change(
        folder / "cut.db",
        [f"DELETE FROM {table} WHERE {column} > :t" for table, column in TIMES.items()],
        at,
    )
    stated = {"val_timestamp": made.val_timestamp, "test_timestamp": made.test_timestamp}
    whole, cut = (
        gelgt.open(f"sqlite:///{folder / name}.db", schema=stated, out=folder / name)
        for name in ("whole", "cut")
    )
    return Twins(whole, cut, at, val)


def _change(path: Path, statements: tuple[str, ...] | list[str], at: pd.Timestamp) -> None:
    with sqlite3.connect(path) as connection:
        for statement in statements:
            connection.execute(statement, {"t": str(at)})
        changed = connection.total_changes
    connection.close()
    assert changed > 100  # else there is nothing to travel past


def test_keys_and_kinds_are_the_same(twins: Twins) -> None:
    for name in twins.whole.table_names:
        whole, cut = twins.whole.table(name), twins.cut.table(name)
        assert (whole.kinds, whole.foreign_keys) == (cut.kinds, cut.foreign_keys), name
        keys, fewer = twins.whole.keys(name), twins.cut.keys(name)
        assert (keys is None) == (fewer is None), name
        if keys is not None and fewer is not None:
            assert keys.slice(0, twins.rows(name)).equals(fewer), name
    assert any(twins.rows(name) < twins.whole.num_rows(name) for name in TIMES)


def test_features_are_the_same_bit_for_bit(twins: Twins) -> None:
    whole, cut = twins.whole.features(), twins.cut.features()
    assert whole.statistics.to_json() == cut.statistics.to_json()
    for name in twins.whole.table_names:
        rows = np.arange(twins.rows(name))
        assert whole.frame(name, rows) == cut.frame(name, rows), name
        for block, array in cut.arrays(name).items():
            if len(array) == len(rows):
                assert whole.arrays(name)[block][: len(rows)].tobytes() == array.tobytes(), (
                    name,
                    block,
                )


def test_neighbourhoods_up_to_the_time_are_the_same(twins: Twins) -> None:
    whole, cut = twins.whole.graph(), twins.cut.graph()
    limit = int(twins.at.timestamp())
    compared = 0
    for name in twins.whole.table_names:
        for row in range(twins.rows(name)):
            seen = _known(whole, int(whole.nodes(name, [row])[0]), limit)
            compared += len(seen)
            assert seen == _known(cut, int(cut.nodes(name, [row])[0]), limit), (name, row)
    assert compared > 1000


def _known(graph: Graph, node: int, limit: int) -> list[tuple[int, int]]:
    """(table, row) of the neighbours up to a time, in their order."""
    near = np.asarray(graph.neighbours(node), np.int64)
    near = near[graph.node_time[near] <= limit]
    tables = graph.node_table(near)
    return list(zip(tables.tolist(), (near - graph.offsets[tables]).tolist()))


SENTENCES = [
    "PREDICT COUNT(orders.*, 0, 10, days) > 0 FOR EACH customers.id",
    "PREDICT SUM(order_items.unit_price, 0, 10, days) FOR EACH customers.id WHERE COUNT(visits.*, "
    "-20, 0, days) > 0",
    "PREDICT LAST(orders.channel, 0, 10, days) FOR EACH customers.id",
    "PREDICT COUNT(order_items.*, 0, 10, days) > 0 FOR EACH products.sku",
]


@pytest.mark.parametrize("sentence", SENTENCES)
def test_labels_of_windows_that_end_by_then_are_the_same(twins: Twins, sentence: str) -> None:
    val, test = twins.val - 4 * WINDOW, twins.val - WINDOW
    whole = twins.whole.task(sentence, val=val, test=test, eval_timestamps=1)
    cut = twins.cut.task(sentence, val=val, test=test, eval_timestamps=1)
    for split in ("train", "val", "test"):
        assert cut.table(split).num_rows > 0
        assert whole.table(split).equals(cut.table(split)), split


@pytest.mark.parametrize("sentence", SENTENCES[:2])
def test_the_population_at_a_time_is_the_same(twins: Twins, sentence: str) -> None:
    tasks = [
        db.task(sentence, val=twins.val - 4 * WINDOW, test=twins.val - WINDOW)
        for db in (twins.whole, twins.cut)
    ]
    found = [task.population(task.database, twins.at) for task in tasks]
    assert len(found[0]) > 50
    assert np.array_equal(*found)


@pytest.mark.parametrize("state", [lambda s: s, lambda s: {**s, "tables": {}}])
def test_split_times_can_be_stated_and_are_kept(
    small_shop: Shop, tmp_path: Path, state: Callable[[dict[str, str]], dict[str, object]]
) -> None:
    stated = {"val_timestamp": "2024-08-01", "test_timestamp": "2024-09-15"}
    db = gelgt.open(small_shop.url, schema=state(stated), out=tmp_path / "out")
    assert (db.schema.val_timestamp, db.schema.test_timestamp, db.schema.split_origin) == (
        "2024-08-01",
        "2024-09-15",
        "manifest",
    )
    task = db.task(SENTENCES[0])
    assert (task.val_timestamp, task.test_timestamp) == (
        pd.Timestamp("2024-08-01"),
        pd.Timestamp("2024-09-15"),
    )


@pytest.mark.parametrize("order", ["recent", "random"])
def test_samples_and_predictions_are_the_same(twins: Twins, order: str) -> None:
    """The same seeds at the same time, in a database that ends there and in one that goes on: the
    same bits out of the model."""
    import torch

    from gelgt.features import open_features
    from gelgt.nn import GelGTConfig, GelGTModel, ModelContext, ModelInput
    from gelgt.sampling import Sampler, SamplingConfig, make_seeds
    from gelgt.sampling.batch import from_sample

    statistics = twins.whole.features().statistics
    config = SamplingConfig(budget=50, order=order, seed=5)  # type: ignore[arg-type]
    rows = np.arange(twins.rows("customers"))
    torch.manual_seed(0)
    model, out = None, {}
    for name, db in (("whole", twins.whole), ("cut", twins.cut)):
        graph, features = db.graph(), open_features(db, statistics=statistics)
        seeds = make_seeds(
            db,
            graph,
            "customers",
            rows,
            np.full(len(rows), np.datetime64(twins.at.floor("s"), "s")),
        )
        sample = Sampler(graph, config).sample(seeds.node, seeds.time, seeds.key)
        assert sample.is_cut.any(), "the budget cuts some, so order matters"
        batch = from_sample(sample, graph, seeds.time, seeds.key, rows)
        model = (
            model
            or GelGTModel(
                GelGTConfig(width=32, keep=20, row_width=16, history=0),
                ModelContext(graph, features),
            ).eval()
        )
        with torch.no_grad():
            out[name] = model(ModelInput.of(batch, features))
    assert out["whole"].std() > 1e-4
    assert torch.equal(out["whole"], out["cut"])
