"""What pytest collects, doctests of the package included, has a cache of its own and leaves the
user's alone."""

import pytest


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GELGT_CACHE", str(tmp_path_factory.mktemp("cache")))
