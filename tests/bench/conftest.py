"""A tiny shop with a task of each kind, shared by the tests of studies."""

from pathlib import Path
from typing import Any

import pytest
import torch

import gelgt
from gelgt import Database, Task
from gelgt.demo import Shop

TINY: dict[str, Any] = {
    "train.retrain": False,
    "model.width": 16,
    "model.heads": 2,
    "model.row_width": 8,
    "sampling.budget": 16,
    "train.batch_size": 32,
    "train.epochs": 1,
    "train.steps_per_epoch": 2,
    "train.ensemble": 1,
    "train.windows": 1,
    "model.history_columns": 20,
    "model.column_members": 1,
}


@pytest.fixture
def tiny() -> dict[str, Any]:
    """Settings of a model that is trained in a second."""
    return dict(TINY)


@pytest.fixture(autouse=True)
def one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def db(small_shop: Shop, tmp_path_factory: pytest.TempPathFactory) -> Database:
    return gelgt.open(small_shop.url, out=tmp_path_factory.mktemp("bench") / "shop")


def few(shop: Shop) -> dict[str, Any]:
    """Options of a task with few labels."""
    times = {"val": shop.val_timestamp, "test": shop.test_timestamp}
    return {**times, "eval_timestamps": 2, "max_rows": 300}


@pytest.fixture(scope="session")
def task(db: Database, small_shop: Shop) -> Task:
    return db.task(small_shop.sentence, name="soon", **few(small_shop))


@pytest.fixture(scope="session")
def amount(db: Database, small_shop: Shop) -> Task:
    sentence = "PREDICT COUNT(orders.*, 0, 30, days) FOR EACH customers.id"
    return db.task(sentence, name="amount", **few(small_shop))


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"
