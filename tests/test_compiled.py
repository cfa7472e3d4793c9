"""Kernels where numba finds no place for machine code."""

import pytest
from numba.core import caching

from gelgt.compiled import allocation_free, compiled


def test_kernels_are_compiled_where_nothing_can_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    # a package and a home that cannot be written have no locator
    monkeypatch.setattr(caching.CompileResultCacheImpl, "_locator_classes", [])

    @compiled
    def double(value: int) -> int:
        return 2 * value

    @allocation_free
    def triple(value: int) -> int:
        return 3 * value

    assert (double(2), triple(2)) == (4, 6)
