"""Lets the tests of networks share their configurations, and kernels have small tiles in the
interpreter."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for configs.py and interpreter.py


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of the interpreter, so that a subgraph of 40 rows has several."""
    from interpreter import IS_INTERPRETED

    if IS_INTERPRETED:
        from gelgt.nn.kernels import problem

        monkeypatch.setattr(problem, "choose_tiling", lambda *a: problem.Tiling(32, 16, 4, 1))
        sorted_tilings = {"keys": problem.Tiling(16, 32, 4, 1, 8)}
        monkeypatch.setattr(
            problem,
            "choose_sorted_tiling",
            lambda kernel, *a: sorted_tilings.get(kernel, problem.Tiling(32, 16, 4, 1, 8)),
        )
