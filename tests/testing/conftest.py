"""The twins of the RelBench databases, each made once for all tests of a process."""

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
import torch

import gelgt
from gelgt.testing.twins import make_twin


@pytest.fixture(scope="session")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a twin; nobody may change it."""
    folder = tmp_path_factory.mktemp("twins")
    return cache(lambda name: make_twin(name, folder / name))


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Tensors this small gain nothing from threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GELGT_CACHE", str(tmp_path_factory.mktemp("twins-cache")))
        yield


@pytest.fixture(scope="module")
def database(own_cache: None, twin: Callable[[str], Path]) -> Callable[[str], gelgt.Database]:
    return cache(lambda name: gelgt.open(twin(name)))
