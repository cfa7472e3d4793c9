"""A tiny shop and tasks of every type on it, shared by the tests of training."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import gelgt
from gelgt import Database, Task
from gelgt.demo import Shop
from gelgt.training import shares

sys.path.insert(0, str(Path(__file__).parent))  # for tiny.py


@pytest.fixture(autouse=True)
def one_thread() -> Any:
    """Tensors this small gain nothing from threads, and on a busy machine threads wait for each
    other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def usual_shares() -> Iterator[None]:
    """Networks over subgraphs have a share of the prediction, which a tiny validation set may not
    give them: without one they are not retrained."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shares, "choose_shares", lambda *_: shares.USUAL)
        yield


@pytest.fixture(scope="session")
def db(small_shop: Shop, tmp_path_factory: pytest.TempPathFactory) -> Database:
    return gelgt.open(small_shop.url, out=tmp_path_factory.mktemp("training") / "shop")


@pytest.fixture(scope="session")
def task(db: Database, small_shop: Shop) -> Task:
    return db.task(
        small_shop.sentence,
        name="orders-soon",
        val=small_shop.val_timestamp,
        test=small_shop.test_timestamp,
    )


@pytest.fixture(scope="session")
def few(db: Database, small_shop: Shop) -> Task:
    """The same with few labels, for those who grow whole forests or train many times."""
    return db.task(
        small_shop.sentence,
        name="few-orders-soon",
        val=small_shop.val_timestamp,
        test=small_shop.test_timestamp,
        eval_timestamps=1,
        max_rows=400,
    )
