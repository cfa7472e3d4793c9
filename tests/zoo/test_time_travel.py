"""No future in the baselines: seeds at t get the same bits from a database that ends at t and from
one that goes on.

The later rows are as hostile as they can be, and they name the same customers, products and orders
as the earlier ones.
"""

import shutil
import sqlite3
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import gelgt
from gelgt import Database
from gelgt.baselines import entity_mean, lightgbm_baseline
from gelgt.config import SamplingConfig
from gelgt.demo import shop
from gelgt.features import open_features
from gelgt.history import Aggregates, TaskData, aggregates
from gelgt.presets import RunConfig
from gelgt.testing.hostile import TIMES
from gelgt.training.baselines import lightgbm_predictions
from gelgt.training.data import TrainingData
from gelgt.training.regime import in_regime

HOSTILE = (
    "UPDATE customers SET country = 'Atlantis ' || id, birth_year = 1999.5 WHERE signed_up_at > :t",
    "UPDATE orders SET channel = 'teleport', shipping_fee = 1e12, coupon = 'X' || id WHERE "
    "placed_at > :t",
    "UPDATE order_items SET quantity = 1000000, unit_price = -1e9 WHERE ordered_at > :t",
    "UPDATE page_pings SET status_code = id WHERE pinged_at > :t",
    "UPDATE visits SET device = 'fridge ' || id, seconds = NULL WHERE visited_at > :t",
)
SENTENCES = {
    "binary": "PREDICT COUNT(orders.*, 0, 10, days) > 0 FOR EACH customers.id",
    "regression": "PREDICT SUM(order_items.unit_price, 0, 10, days) FOR EACH customers.id",
    "multiclass": "PREDICT LAST(orders.channel, 0, 10, days) FOR EACH customers.id",
    "products": "PREDICT COUNT(order_items.*, 0, 10, days) > 0 FOR EACH products.sku",
}


@dataclass(frozen=True)
class Twins:
    whole: Database
    cut: Database
    at: pd.Timestamp
    val: pd.Timestamp


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> Twins:
    folder = tmp_path_factory.mktemp("travel")
    made = shop(folder / "whole.db", customers=120, days=300, seed=4)
    val, at = (
        pd.Timestamp(made.val_timestamp),
        pd.Timestamp(made.val_timestamp) + pd.Timedelta(days=11, hours=7),
    )
    shutil.copy(made.path, folder / "cut.db")
    _change(folder / "whole.db", HOSTILE, at)
    _change(
        folder / "cut.db",
        tuple(f"DELETE FROM {table} WHERE {column} > :t" for table, column in TIMES.items()),
        at,
    )
    stated = {"val_timestamp": made.val_timestamp, "test_timestamp": made.test_timestamp}
    whole, cut = (
        gelgt.open(f"sqlite:///{folder / name}.db", schema=stated, out=folder / name)
        for name in ("whole", "cut")
    )
    return Twins(whole, cut, at, val)


def _change(path: Path, statements: tuple[str, ...], at: pd.Timestamp) -> None:
    with sqlite3.connect(path) as connection:
        for statement in statements:
            connection.execute(statement, {"t": str(at)})
        assert connection.total_changes > 100  # else there is nothing to travel past
    connection.close()


@pytest.mark.parametrize("regime", ["strict", "inclusive", "frozen"])
@pytest.mark.parametrize("table", ["customers", "products", "orders"])
def test_columns_are_the_same_bit_for_bit(twins: Twins, table: str, regime: str) -> None:
    """Under `frozen` even for seeds long after the cut: nothing behind the horizon counts."""
    at = int(twins.at.timestamp())
    config = SamplingConfig(
        causality="inclusive" if regime == "inclusive" else "strict",
        visibility="frozen" if regime == "frozen" else "seed-time",
        horizon=at if regime == "frozen" else None,
    )
    entity = {"customers": "customers.id", "products": "products.sku", "orders": "orders.id"}[table]
    task = twins.whole.task(
        f"PREDICT COUNT(order_items.*, 0, 10, days) > 0 FOR EACH {entity}",
        val=twins.val - pd.Timedelta(days=40),
        test=twins.val - pd.Timedelta(days=10),
    )
    known = np.arange(twins.cut.num_rows(table))
    back = 0 if table == "orders" else 40 * 86_400  # an order has no seeds before it exists
    rows = np.concatenate([known, known])
    times = np.concatenate(
        [
            np.full(len(known), at + (regime == "frozen") * 50 * 86_400),
            np.full(len(known), at - back),
        ]
    )
    statistics = twins.whole.features().statistics
    found: dict[str, Aggregates] = {}
    for name, db in (("whole", twins.whole), ("cut", twins.cut)):
        features = open_features(db, statistics=statistics)
        found[name] = aggregates(
            TaskData(db, db.graph(), features, task, config), rows, times, hops=2
        )
    assert found["whole"].names == found["cut"].names
    assert found["whole"].values.tobytes() == found["cut"].values.tobytes()
    later = SamplingConfig(causality=config.causality)
    features = open_features(twins.whole, statistics=statistics)
    data = TaskData(twins.whole, twins.whole.graph(), features, task, later)
    moved = aggregates(data, rows, times + 50 * 86_400, hops=2)
    assert np.nanmax(np.abs(moved.values)) > 1e7, "the hostile rows are there to be seen, later"


@pytest.mark.parametrize("name", SENTENCES)
def test_predictions_are_the_same_bit_for_bit(twins: Twins, name: str) -> None:
    """Labels, aggregates, training and all: a task that ends before the cut cannot tell the two
    databases apart."""
    found = []
    for db in (twins.whole, twins.cut):
        task = db.task(
            SENTENCES[name],
            val=twins.val - pd.Timedelta(days=40),
            test=twins.val - pd.Timedelta(days=10),
            eval_timestamps=1,
        )
        data = TaskData(db, db.graph(), db.features(), task, SamplingConfig())
        result = lightgbm_baseline(data, hops=2, threads=1)
        config = in_regime(
            RunConfig.of("cpu", task.task_type, {"train.retrain": True, "train.windows": 2}), task
        )
        retrained = lightgbm_predictions(TrainingData.of(db, task, config), config)[0]
        found.append(
            (
                result.predictions["test"],
                result.predictions["val"],
                entity_mean(task)["test"],
                retrained["test"],
            )
        )
    for whole, cut in zip(*found):
        assert len(whole) > 10
        assert whole.tobytes() == cut.tobytes()
    assert found[0][0].std() > 0
