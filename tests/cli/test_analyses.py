"""`gelgt bench homophily`, `budget`, `temporal` and `results` as commands."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

Run = Callable[..., Any]
SENTENCE = "PREDICT COUNT(orders.*, 0, 10, days) > 0 FOR EACH customers.id"
TINY = (
    "--set",
    "train.epochs=2",
    "--set",
    "train.steps_per_epoch=2",
    "--set",
    "train.batch_size=32",
    "--set",
    "train.ensemble=1",
    "--set",
    "train.windows=1",
    "--set",
    "model.history_columns=20",
    "--set",
    "model.column_members=1",
)


def test_homophily(run: Run, shop_source: Path, tmp_path: Path) -> None:
    asked = (
        "bench",
        "homophily",
        "--dataset",
        shop_source,
        "--task",
        SENTENCE,
        "--rows",
        "50",
        "--out",
        tmp_path / "h",
    )
    shown = run(*asked)
    assert shown.code == 0, shown.err
    assert "linked ratio" in shown.out
    found = run(*asked, "--json").json
    assert found["results"][0]["seeds"] == 50
    assert found["results"][0]["linked pairs"] > 0
    assert "| task | seeds | edges |" in (tmp_path / "h" / "homophily.md").read_text(
        encoding="utf-8"
    )
    assert run(*asked, "--visibility", "all", "--json").error == "bad_option"


def test_runs_are_trained_once_and_looked_into(run: Run, shop_source: Path, tmp_path: Path) -> None:
    shared = (
        "--dataset",
        shop_source,
        "--task",
        SENTENCE,
        "--seeds",
        "1",
        "--out",
        tmp_path / "b",
        *TINY,
    )
    kernels = run("bench", "temporal", *shared)
    assert kernels.code == 0, kernels.err
    assert "epoch  2/2" in kernels.err
    assert "a centre moved by" in kernels.out
    found = run("bench", "temporal", *shared, "--json")
    assert "epoch" not in found.err
    assert [entry["epoch"] for entry in found.json["results"][0]["epochs"]] == [1, 2]

    looked = run("bench", "budget", *shared, "--sizes", "16,32", "--json")
    assert "epoch" not in looked.err
    assert [entry["budget"] for entry in looked.json["results"]] == [16, 32, 80]

    assert run("bench", "results", tmp_path / "b", "--out", tmp_path / "results.md").code == 0
    page = (tmp_path / "results.md").read_text(encoding="utf-8")
    assert "### The temporal kernels, epoch by epoch" in page
    assert "### Effective neighbours" in page
    assert str(tmp_path) not in page
    assert run("bench", "results", tmp_path / "nothing", "--out", tmp_path / "r.md").code == 2
