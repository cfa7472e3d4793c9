"""A small shop, and tiny runs on it whose samples hold every row within reach."""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest

import gelgt
from gelgt import Database
from gelgt.demo import Shop
from gelgt.explain import Explainer
from gelgt.inference import Predictor
from gelgt.presets import RunConfig
from gelgt.training import Options, Run, train_run

TINY: dict[str, Any] = {
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
    "model.keep": 60,
    "model.row_width": 8,
    "model.history_columns": 40,
}
WIDE = {"sampling.budget": 2000, "sampling.fanout": 1000}
SENTENCES = {
    "binary": "PREDICT COUNT(orders.*, 0, 10, days) > 0 FOR EACH customers.id",
    "value": "PREDICT SUM(order_items.unit_price, 0, 10, days) FOR EACH customers.id",
    "count": "PREDICT COUNT(order_items.*, 0, 20, days) FOR EACH customers.id",
    "classes": "PREDICT LAST(orders.channel, 0, 20, days) FOR EACH customers.id",
}


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GELGT_CACHE", str(tmp_path_factory.mktemp("explain-cache")))
        yield


@pytest.fixture(scope="session")
def db(small_shop: Shop, own_cache: None) -> Database:
    return gelgt.open(small_shop.url)


@pytest.fixture(scope="session")
def run_of(
    db: Database, small_shop: Shop, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Run]:
    """The run of a sentence, trained once; "wide" is the binary one with large samples."""

    @cache
    def make(name: str) -> Run:
        sentence = SENTENCES["binary" if name == "wide" else name]
        task = db.task(sentence, val=small_shop.val_timestamp, test=small_shop.test_timestamp)
        small = {"sampling.budget": 24, "model.keep": 12}
        changes = TINY | (WIDE if name == "wide" else small)
        config = RunConfig.of("cpu", task.task_type, changes)
        out = tmp_path_factory.mktemp("explained") / name
        return train_run(db, task, out, config, Options(baseline_hops=(), device="cpu"))

    return make


@pytest.fixture(scope="session")
def explainer_of(run_of: Callable[[str], Run], db: Database) -> Callable[[str], Explainer]:
    return cache(lambda name: Explainer(Predictor(run_of(name), db, device="cpu")))


@pytest.fixture(scope="session")
def explainer(explainer_of: Callable[[str], Explainer]) -> Explainer:
    return explainer_of("binary")
