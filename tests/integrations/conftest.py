"""Tiny trained runs on a tiny demo shop, and a planted database, made once."""

import os
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import gelgt
from gelgt.demo import Shop, shop
from gelgt.presets import RunConfig
from gelgt.training import Options, Run, train_run

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # tests reach no network

TINY: Mapping[str, Any] = {
    "train.epochs": 2,
    "train.steps_per_epoch": 3,
    "train.ensemble": 1,
    "train.windows": 1,
    "train.best_epochs": 1,
    "train.batch_size": 32,
    "train.warmup": 2,
    "model.width": 16,
    "model.heads": 2,
    "model.keep": 12,
    "model.row_width": 8,
    "model.history_columns": 10,
    "model.column_members": 1,
    "sampling.budget": 16,
}
SENTENCES = {
    "churn": "PREDICT COUNT(orders.*, 0, 30, days) = 0 FOR EACH customers.id",
    "spend": "PREDICT SUM(order_items.unit_price, 0, 30, days) FOR EACH customers.id",
    "next": "PREDICT LIST_DISTINCT(order_items.product_sku, 0, 30, days) FOR EACH customers.id",
}


@pytest.fixture(scope="session")
def cache_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One cache for all, so that servers of their own find what was imported here."""
    folder = tmp_path_factory.mktemp("integrations-cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GELGT_CACHE", str(folder))
        yield folder


@pytest.fixture(autouse=True)
def _one_cache(cache_folder: Path, _own_cache: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GELGT_CACHE", str(cache_folder))


@pytest.fixture(scope="session")
def tiny_shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    return shop(tmp_path_factory.mktemp("shop") / "shop.db", customers=80, days=260, seed=5)


@pytest.fixture(scope="session")
def ids(tiny_shop: Shop, cache_folder: Path) -> list[int]:
    """Keys of customers, the oldest first."""
    keys = gelgt.open(tiny_shop.url).keys("customers")
    assert keys is not None
    found: list[int] = keys.column("id").to_pylist()
    return found


@pytest.fixture(scope="session")
def run_of(
    tiny_shop: Shop, cache_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Run]:
    """The run of a sentence, trained once."""

    @cache
    def make(name: str) -> Run:
        db = gelgt.open(tiny_shop.url)
        task = db.task(SENTENCES[name])
        config = RunConfig.of("cpu", task.task_type, TINY)
        options = Options(baseline_hops=(), device="cpu")
        return train_run(db, task, tmp_path_factory.mktemp("runs") / name, config, options)

    return make
