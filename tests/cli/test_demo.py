"""`gelgt demo`: one run from a SQLite file to scores, predictions and a report, with nothing but
JSON on standard output."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import gelgt
from gelgt.demo.run import QUICK
from gelgt.training import load_run

Run = Callable[..., Any]


def test_the_demo(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = {"train.windows": 1, "model.history_columns": 20, "model.column_members": 1}
    for name, value in quick.items():
        monkeypatch.setitem(QUICK, name, value)
    result = run("demo", "--out", tmp_path / "demo", "--quick", "--json")
    assert result.code == 0, result.err
    found = result.json
    assert found["inspect"]["tables"]["orders"]["primary_key"]["origin"] == "declared"
    assert found["inspect"]["findings"] == []
    assert found["task"]["task_type"] == "binary_classification"
    assert all(found["task"]["rows"].values())
    assert found["graph"]["nodes"] == sum(t["rows"] for t in found["inspect"]["tables"].values())
    assert 0.7 < found["oracle_roc_auc"] < 1
    truths = {"repurchase_lag", "two_hop_quality", "favourite_category", "noise"}
    assert set(found["truths"]) == truths
    assert set(found["train"]["baselines"]) == {"lightgbm", "lightgbm-2hop", "entity-mean"}
    folder = tmp_path / "demo"
    assert sorted(p.name for p in folder.iterdir()) == [
        "predictions.parquet",
        "project",
        "run",
        "shop.db",
        "why.html",
    ]
    assert gelgt.open(folder / "project").task("orders-soon").rows == found["task"]["rows"]
    assert load_run(folder / "run").record.to_json()["metrics"] == found["train"]["metrics"]
    assert pd.read_parquet(found["predict"]["out"])["id"].tolist() == found["predict"]["entities"]
    assert Path(found["report"]).read_text(encoding="utf-8").startswith("<!doctype html>")

    # Again, for people: it replaces the first, and each step names the command that repeats it.
    result = run("demo", "--out", folder, "--quick", "--seed", 1)
    assert result.code == 0, result.err
    for step in (
        "gelgt import",
        "gelgt inspect",
        "gelgt task",
        "gelgt train",
        "gelgt predict",
        "gelgt explain",
        "gelgt report",
    ):
        assert f"({step} " in result.out or f"; {step} " in result.out
    assert "oracle" in result.out
    assert "planted repurchase_lag" in result.out
    assert "where nothing is known" in result.out
    assert "What predictions rest on" in Path(found["report"]).read_text(encoding="utf-8")
    assert load_run(folder / "run").record.to_json()["seed"] == 1


def test_files_of_the_users_own_are_kept(run: Run, tmp_path: Path) -> None:
    (tmp_path / "shop.db").write_text("a shop of my own")
    result = run("demo", "--out", tmp_path, "--quick", "--json")
    assert (result.code, result.error) == (2, "not_empty")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "shop.db": "a shop of my own"
    }
