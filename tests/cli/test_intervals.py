"""`--interval`: lower and upper beside predicted numbers, their coverage, and what is refused."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .conftest import TINY

Run = Callable[..., Any]


@pytest.fixture(scope="module")
def keys(trained: Any) -> list[int]:
    """The first customer of the shop."""
    query = "SELECT id FROM customers ORDER BY signed_up_at LIMIT 1"
    return list(sqlite3.connect(trained.source).execute(query).fetchone())


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (("--interval", "0.9"), "no_interval"),  # the run predicts yes or no
        (("--interval", "90"), "bad_level"),
        (("--interval", "0"), "bad_level"),
        (("--interval", "0.9", "--relbench", "out"), "bad_option"),
    ],
)
def test_intervals_that_cannot_be_had(
    run: Run, trained: Any, tmp_path: Path, options: tuple[str, ...], code: str
) -> None:
    out = () if "--relbench" in options else ("--out", tmp_path / "all.csv")
    result = run("predict", trained.folder, *options, *out, "--json")
    assert (result.code, result.error) == (2, code)
    assert result.json["error"]["hint"]
    assert not (tmp_path / "all.csv").exists()


def test_a_value_with_its_interval(run: Run, trained: Any, keys: list[int], tmp_path: Path) -> None:
    folder, sentence = (
        tmp_path / "run",
        "PREDICT COUNT(orders.*, 0, 10, days) FOR EACH customers.id",
    )
    made = run(
        "train", trained.source, sentence, "--out", folder, *TINY, "--no-report", "--json"
    ).json
    assert made["intervals"]["0.9"].keys() >= {"coverage", "mean_width", "times", "by_entity"}
    assert made["probabilities"] is None
    again = run("evaluate", folder, "--json").json["intervals"]
    assert again == made["intervals"]
    assert (
        "Prediction intervals (--interval) on val" in run("evaluate", folder, "--split", "val").out
    )
    some = ("--entities", keys[0], "--at", "2024-12-26", "--interval", "0.9")
    (row,) = run("predict", folder, *some, "--json").json["predictions"]
    assert 0 <= row["lower"] <= row["prediction"] <= row["upper"]
    out = run("predict", folder, *some).out
    assert out.splitlines()[0].split()[-3:] == ["prediction", "lower", "upper"]
