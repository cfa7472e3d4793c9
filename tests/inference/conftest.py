"""Tiny trained runs, made once: the demo shop whole and cut at a time, with hostile rows behind the
cut."""

import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import gelgt
from gelgt import Database, GelgtError
from gelgt.demo import Shop, shop
from gelgt.inference import Predictor
from gelgt.presets import RunConfig
from gelgt.testing.hostile import HOSTILE, TIMES
from gelgt.training import Options, Run, train_run

TINY: Mapping[str, Any] = {
    "train.retrain": False,
    "train.epochs": 2,
    "train.steps_per_epoch": 4,
    "train.ensemble": 1,
    "train.windows": 1,
    "train.best_epochs": 1,
    "train.batch_size": 32,
    "train.warmup": 2,
    "train.rate": 0.01,
    "model.width": 16,
    "model.heads": 2,
    "model.keep": 12,
    "model.row_width": 8,
    "model.history_columns": 20,
    "model.column_members": 2,
    "sampling.budget": 24,
}
SENTENCES = {
    "binary": "PREDICT COUNT(orders.*, 0, 10, days) > 0 FOR EACH customers.id",
    "regression": "PREDICT SUM(order_items.unit_price, 0, 10, days) FOR EACH customers.id WHERE "
    "COUNT(visits.*, -40, 0, days) > 0",
    "multiclass": "PREDICT LAST(orders.channel, 0, 20, days) FOR EACH customers.id",
    "products": "PREDICT COUNT(order_items.*, 0, 10, days) > 0 FOR EACH products.sku",
    "autocomplete": "PREDICT orders.is_gift FOR EACH orders.id",
    "recommendation": "PREDICT LIST_DISTINCT(order_items.product_sku, 0, 20, days) "
    "FOR EACH customers.id",
}


def tiny_run(
    db: Database, task: Any, out: Path, changes: Mapping[str, Any] | None = None, **options: Any
) -> Run:
    """A run of a few steps, without the dear baseline."""
    config = RunConfig.of("cpu", task.task_type, {**TINY, **(changes or {})})
    return train_run(db, task, out, config, Options(baseline_hops=(), device="cpu", **options))


@dataclass(frozen=True)
class Twins:
    """The shop whole and cut at `at`: as files, and opened with the same split times stated."""

    folder: Path
    whole: Database
    cut: Database
    at: pd.Timestamp
    val: pd.Timestamp
    test: pd.Timestamp

    def url(self, name: str) -> str:
        return f"sqlite:///{self.folder / name}.db"

    def task(self, name: str, db: Database | None = None) -> gelgt.Task:
        """A task whose labels all lie before the cut."""
        return (db or self.whole).task(
            SENTENCES[name], val=self.val, test=self.test, eval_timestamps=1
        )


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GELGT_CACHE", str(tmp_path_factory.mktemp("inference-cache")))
        yield


@pytest.fixture(scope="session")
def twins(own_cache: None, tmp_path_factory: pytest.TempPathFactory) -> Twins:
    folder = tmp_path_factory.mktemp("twins")
    made: Shop = shop(folder / "whole.db", customers=120, days=300, seed=11)
    at = pd.Timestamp(made.val_timestamp) + pd.Timedelta(days=20, hours=7)
    shutil.copy(made.path, folder / "cut.db")
    change(folder / "whole.db", HOSTILE, at)
    change(
        folder / "cut.db",
        [f"DELETE FROM {table} WHERE {column} > :t" for table, column in TIMES.items()],
        at,
    )
    val, test = at - pd.Timedelta(days=70), at - pd.Timedelta(days=30)
    stated = {"val_timestamp": str(val), "test_timestamp": str(test)}
    whole, cut = (
        gelgt.open(f"sqlite:///{folder / name}.db", schema=stated, out=folder / name)
        for name in ("whole", "cut")
    )
    return Twins(folder, whole, cut, at, val, test)


def change(path: Path, statements: Any, at: pd.Timestamp | None = None, least: int = 100) -> None:
    """Run statements on a SQLite file; with fewer changes than `least` there would be nothing to
    test."""
    connection = sqlite3.connect(path)
    with connection:
        for statement in statements:
            connection.execute(statement, {"t": str(at)} if ":t" in statement else {})
    changed = connection.total_changes
    connection.close()
    assert changed >= least


@pytest.fixture(scope="session")
def run_of(twins: Twins, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Run]:
    """The run of a sentence, trained on the whole shop, once."""

    @cache
    def make(name: str) -> Run:
        return tiny_run(twins.whole, twins.task(name), tmp_path_factory.mktemp("runs") / name)

    return make


@pytest.fixture(scope="session")
def binary_run(run_of: Callable[[str], Run]) -> Run:
    return run_of("binary")


@pytest.fixture(scope="module")
def predictor(twins: Twins, binary_run: Run) -> Predictor:
    return Predictor(binary_run, twins.whole)


@pytest.fixture(scope="module")
def ids(twins: Twins) -> list[int]:
    keys = twins.cut.keys("customers")
    assert keys is not None
    found: list[int] = keys.column("id").to_pylist()
    return found


def failure(call: Callable[[], Any]) -> GelgtError:
    with pytest.raises(GelgtError) as caught:
        call()
    return caught.value
