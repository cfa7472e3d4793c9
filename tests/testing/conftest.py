"""The twins of the RelBench databases, each made once for all tests of a process."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from gelgt.testing.twins import make_twin


@pytest.fixture(scope="session")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a twin; nobody may change it."""
    folder = tmp_path_factory.mktemp("twins")
    return cache(lambda name: make_twin(name, folder / name))
