"""The benchmark of recommendations runs, and both walks agree."""

from pathlib import Path

import numpy as np
import pytest

from gelgt.bench.recommend import bench_recommend


def test_it_measures_every_phase(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GELGT_CACHE", str(tmp_path / "cache"))
    said: list[str] = []
    result = bench_recommend(
        300, 4_000, users=20, k=5, steps=1, folder=tmp_path, device="cpu", progress=said.append
    )
    names = [entry["what"] for entry in result["results"]]
    assert said == names
    assert {"candidates", "candidates in pure Python", "training", "first 5"} <= set(names)
    assert all(np.isfinite(entry["seconds"]) for entry in result["results"])
    assert set(result["ratios"]) == {"candidates over pure Python"}
    assert {path.name for path in (tmp_path / "db").iterdir()} == {
        "users.parquet",
        "items.parquet",
        "links.parquet",
    }
