"""`gelgt demo`: one run from a SQLite file to schema, task and graph, with nothing but JSON on standard output."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gelgt

Run = Callable[..., Any]


def test_the_demo(script: Run, tmp_path: Path) -> None:
    result = script("demo", "--out", tmp_path / "demo", "--json")
    assert (result.code, result.err) == (0, "")
    found = result.json
    assert found["inspect"]["tables"]["orders"]["primary_key"]["origin"] == "declared"
    assert found["inspect"]["findings"] == []
    assert found["task"]["task_type"] == "binary_classification"
    assert all(found["task"]["rows"].values())
    assert found["graph"]["nodes"] == sum(t["rows"] for t in found["inspect"]["tables"].values())
    assert 0.7 < found["oracle_roc_auc"] < 1
    assert sorted(p.name for p in (tmp_path / "demo").iterdir()) == ["project", "shop.db"]
    saved = gelgt.open(tmp_path / "demo" / "project").task("orders-soon")
    assert saved.rows == found["task"]["rows"]
