"""Freed memory goes back to the system, where the system lets it."""

import sys

import numpy as np
import pytest

from gelgt.scoring.memory import release_memory


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="reads Linux's own account of the process"
)
def test_holes_in_the_heap_are_given_back() -> None:
    def resident() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    blocks = [np.ones(8_000) for _ in range(4_000)]  # 256 MB in pieces that live in the heap
    kept = blocks[::50]
    full = resident()
    del blocks
    release_memory()
    assert full - resident() > 150 * 2**20
    assert len(kept) == 80


def test_systems_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gelgt.scoring.memory._trim", lambda: None)
    release_memory()
