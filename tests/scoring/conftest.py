"""A tiny shop with a task on it."""

import sys
from pathlib import Path

import pytest

import gelgt
from gelgt import Database, Task
from gelgt.demo import Shop

sys.path.insert(0, str(Path(__file__).parent.parent / "training"))  # for tiny.py


@pytest.fixture(scope="session")
def db(small_shop: Shop, tmp_path_factory: pytest.TempPathFactory) -> Database:
    return gelgt.open(small_shop.url, out=tmp_path_factory.mktemp("scoring") / "shop")


@pytest.fixture(scope="session")
def task(db: Database, small_shop: Shop) -> Task:
    times = {"val": small_shop.val_timestamp, "test": small_shop.test_timestamp}
    return db.task(small_shop.sentence, name="orders-soon", **times)
