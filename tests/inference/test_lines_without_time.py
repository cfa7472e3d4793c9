"""A shop whose order lines have no time column: whether a product sells next month is a coin flip,
and nobody may know better.

Taken as always visible, the lines of later orders would tell every prediction what will be sold.
"""

import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import gelgt
from gelgt.inference import Predictor
from gelgt.sources.row_times import RowTimes, instant
from gelgt.tasks.population import existing
from gelgt.training import Run
from gelgt.training.data import TrainingData
from gelgt.training.regime import in_regime

from .conftest import tiny_run
from .test_time_travel import same_bits

SENTENCE = "PREDICT COUNT(order_items.*, 0, 30, days) > 0 FOR EACH products.id"
PRODUCTS, MONTHS = 150, 16
AT = pd.Timestamp("2024-01-01") + pd.Timedelta(days=30 * (MONTHS - 3))
SCHEMA = {
    "val_timestamp": str(AT - pd.Timedelta(days=65)),
    "test_timestamp": str(AT - pd.Timedelta(days=30)),
    "tables": {},
}


def coin_shop(path: Path) -> Path:
    random = np.random.default_rng(3)
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE products (id INTEGER PRIMARY KEY, size REAL)")
    connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, placed_at TEXT)")
    connection.execute(
        "CREATE TABLE order_items (id INTEGER PRIMARY KEY, order_id INTEGER REFERENCES orders(id), "
        "product_id INTEGER REFERENCES products(id), price REAL)"
    )
    connection.executemany(
        "INSERT INTO products VALUES (?, ?)", enumerate(random.normal(size=PRODUCTS))
    )
    number = 0
    for month in range(MONTHS):
        for product in np.flatnonzero(random.random(PRODUCTS) < 0.5).tolist():
            placed = pd.Timestamp("2024-01-01") + pd.Timedelta(
                seconds=int((month + random.random()) * 30 * 86_400)
            )
            connection.execute("INSERT INTO orders VALUES (?, ?)", (number, str(placed)))
            # Which product a line names has nothing to do with where it lies in the table.
            line = (number * 7_919) % 1_000_003
            connection.execute(
                "INSERT INTO order_items VALUES (?, ?, ?, ?)",
                (line, number, product, float(random.normal())),
            )
            number += 1
    connection.commit()
    connection.close()
    return path


@pytest.fixture(scope="module")
def shops(own_cache: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("coins")
    whole = coin_shop(folder / "whole.db")
    paths = {"whole": whole}
    for name, statements in {
        "cut": [
            "DELETE FROM order_items WHERE order_id IN (SELECT id FROM orders WHERE placed_at > :t)"
        ],
        "dangling": [],  # orders are gone, their lines are still there
    }.items():
        paths[name] = folder / f"{name}.db"
        shutil.copy(whole, paths[name])
        with sqlite3.connect(paths[name]) as connection:
            for statement in [*statements, "DELETE FROM orders WHERE placed_at > :t"]:
                assert connection.execute(statement, {"t": str(AT)}).rowcount > 100
    return paths


@pytest.fixture(scope="module")
def run(shops: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Run:
    db = gelgt.open(shops["whole"], schema=SCHEMA)
    assert db.table("order_items").dating_keys
    changes = {
        "train.windows": "auto",
        "train.steps_per_epoch": 30,
        "train.epochs": 3,
        "model.history": 1,
    }
    return tiny_run(
        db, db.task(SENTENCE, eval_timestamps=1), tmp_path_factory.mktemp("runs") / "coin", changes
    )


@pytest.mark.parametrize("name", ["cut", "dangling"])
def test_later_orders_change_no_prediction(shops: dict[str, Path], run: Run, name: str) -> None:
    whole, other = (Predictor(run, shops[which]) for which in ("whole", name))
    found = [p.predict(list(range(PRODUCTS)), at=AT).table for p in (whole, other)]
    same_bits(*found)
    vectors = [p.embed(list(range(PRODUCTS)), at=AT) for p in (whole, other)]
    same_bits(*(v.table for v in vectors))
    later = whole.embed(list(range(PRODUCTS)), at=AT + pd.Timedelta(days=20))
    assert not np.array_equal(later.vectors, vectors[0].vectors), (
        "the later lines are there to be seen, later"
    )


def test_nothing_tells_what_a_coin_shows(run: Run, shops: dict[str, Path]) -> None:
    """Every column that a seed comes with, and the model itself, has an AUC around one half."""
    from sklearn.metrics import roc_auc_score

    db = gelgt.open(shops["whole"], schema=SCHEMA)
    task = db.task(SENTENCE, eval_timestamps=1)
    data = TrainingData.of(db, task, in_regime(run.config, task))
    history = data.history(data.seeds["train"])
    assert history is not None
    labels = data.labels("train")
    spread = 1 / np.sqrt(12 * min((labels == 0).sum(), (labels == 1).sum()) / 2)
    scores = [
        roc_auc_score(labels, np.nan_to_num(column, nan=-1.0)) for column in history.numpy().T
    ]
    assert len(labels) >= 1500
    assert np.abs(np.array(scores) - 0.5).max() < 4 * spread, scores  # the largest of a few dozen
    assert abs(run.record.to_json()["metrics"]["test"]["roc_auc"] - 0.5) < 3 / np.sqrt(
        12 * PRODUCTS / 4
    )


def test_labels_are_those_of_lines_with_a_time(shops: dict[str, Path], tmp_path: Path) -> None:
    """One rule: labels by the order's time are the labels of a shop whose lines carry it."""
    path = tmp_path / "timed.db"
    shutil.copy(shops["whole"], path)
    with sqlite3.connect(path) as connection:
        connection.execute("ALTER TABLE order_items ADD COLUMN ordered_at TEXT")
        connection.execute(
            "UPDATE order_items SET ordered_at = (SELECT placed_at FROM orders WHERE orders.id = "
            "order_id)"
        )
    tables = [
        gelgt.open(p, schema=SCHEMA).task(SENTENCE).table(split)
        for p in (shops["whole"], path)
        for split in ("train", "test")
    ]
    assert isinstance(tables[0], pa.Table)
    assert tables[0].equals(tables[2])
    assert tables[1].equals(tables[3])


def test_lines_are_not_counted_for_the_orders_that_date_them(shops: dict[str, Path]) -> None:
    db = gelgt.open(shops["whole"], schema=SCHEMA)
    with pytest.raises(gelgt.GelgtError, match="as old as their row of 'orders', which dates them"):
        db.task("PREDICT COUNT(order_items.*, 0, 30, days) > 0 FOR EACH orders.id")


def test_lines_as_entities_exist_with_their_order(shops: dict[str, Path], tmp_path: Path) -> None:
    """The population of a sentence, of a prediction and of the labels: lines whose order has been
    placed."""
    path = tmp_path / "returns.db"
    shutil.copy(shops["whole"], path)
    with sqlite3.connect(path) as connection:
        connection.execute(
            "CREATE TABLE returns (id INTEGER PRIMARY KEY, item_id INTEGER REFERENCES "
            "order_items(id), at TEXT)"
        )
        connection.execute(
            "INSERT INTO returns SELECT i.id, i.id, datetime(o.placed_at, '+9 days') FROM "
            "order_items i JOIN orders o ON o.id = i.order_id "
            "WHERE i.id % 3 = 0"
        )
    db = gelgt.open(path, schema=SCHEMA)
    orders = db.read("orders").to_pandas()
    placed = int((orders["placed_at"] <= AT).sum())
    assert len(existing(db, "order_items", np.datetime64(AT, "us"))) == placed < len(orders)
    task = db.task(
        "PREDICT COUNT(returns.*, 0, 30, days) > 0 FOR EACH order_items.id WHERE "
        "order_items.price > -100"
    )
    assert len(task.population(db, AT)) == placed
    for split in ("train", "val", "test"):
        labels = task.table(split)
        entities, times = labels.column("id").to_numpy(), labels.column("timestamp").to_numpy()
        moments = RowTimes(db).of("order_items")[entities]
        assert (moments <= times.astype("datetime64[us]").astype(np.int64)).all()
        assert (moments <= instant(task.test_timestamp)).all(), (
            "what does not exist at the test time has no labels"
        )
