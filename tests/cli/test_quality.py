"""`gelgt bench quality`: a table for people, one object for programs, and nothing trained twice."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

Run = Callable[..., Any]
SENTENCE = "PREDICT COUNT(orders.*, 0, 10, days) > 0 FOR EACH customers.id"
TINY = ("--set", "train.epochs=1", "--set", "train.steps_per_epoch=2", "--set", "train.batch_size=32", "--set", "train.members=1")


def test_the_table_and_the_object(run: Run, shop_source: Path, tmp_path: Path) -> None:
    asked = ("bench", "quality", "--dataset", shop_source, "--task", SENTENCE, "--seeds", "2", "--out", tmp_path / "q", *TINY)
    shown = run(*asked)
    assert shown.code == 0, shown.err
    assert "gelgt beats it" in shown.out
    assert shown.err.count("epoch  1/1") == 2
    assert "validation roc_auc" in shown.err
    assert (tmp_path / "q" / "quality.md").read_text(encoding="utf-8").startswith("| task | regime |")

    again = run(*asked, "--json")
    assert "epoch" not in again.err
    assert [entry["model"] for entry in again.json["results"]] == ["gelgt", "lightgbm", "entity-mean"]
    assert again.json["seeds"] == [0, 1]


def test_errors_come_before_any_work(run: Run, shop_source: Path, tmp_path: Path) -> None:
    asked = ("bench", "quality", "--dataset", shop_source, "--task", SENTENCE, "--out", tmp_path / "q", "--json")
    assert run(*asked, "--preset", "large").error == "unknown_preset"
    assert run(*asked, "--set", "model.wdth=3").error == "unknown_setting"
    assert run(*asked, "--visibility", "all").error == "bad_option"
    assert not (tmp_path / "q").exists()
