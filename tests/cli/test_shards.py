"""`gelgt predict` in parts and `gelgt status`: what they print, and which options are refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

Run = Callable[..., Any]
AT = ("--at", "2024-12-26")


def test_parts_and_their_status(run: Run, trained: Any, tmp_path: Path) -> None:
    out = tmp_path / "parts"
    first = run("predict", trained.folder, "--shard", "1/3", *AT, "--out", out, "--json").json
    assert (first["made"], first["committed"], first["is_finished"]) == ([1], 1, False)
    status = run("status", out, "--json").json
    assert (status["missing"], status["is_finished"]) == ([0, 2], False)
    assert 0 < status["entities_done"] < status["entities"]
    assert "missing: 0, 2" in run("status", out).out

    rest = run("predict", trained.folder, "--shards", 3, "--out", out, "--json").json
    assert (rest["made"], rest["is_finished"]) == ([0, 2], True)
    assert rest["at"] == "2024-12-26T00:00:00"  # that of the first part
    assert "complete, 3 of 3 parts" in run("status", out).out

    plain = run("predict", trained.folder, *AT, "--out", tmp_path / "all.parquet", "--json").json
    assert len(pd.read_parquet(out)) == plain["rows"] == rest["entities"]


def test_a_folder_of_other_predictions(run: Run, trained: Any, tmp_path: Path) -> None:
    out = tmp_path / "parts"
    run("predict", trained.folder, "--shards", 2, *AT, "--out", out)
    for options, code in (
        (("--shards", 3), "options_mismatch"),
        (("--shards", 2, "--at", "2024-12-25"), "time_mismatch"),
    ):
        found = run("predict", trained.folder, *options, "--out", out, "--json")
        assert (found.code, found.error) == (2, code)


def test_status_of_a_training(run: Run, trained: Any) -> None:
    assert run("status", trained.folder, "--json").json["status"] == "finished"
    assert "finished" in run("status", trained.folder).out


def test_status_of_nothing(run: Run, tmp_path: Path) -> None:
    assert run("status", tmp_path, "--json").error == "no_parts"


@pytest.mark.parametrize(
    "options",
    [
        ("--shards", "2"),
        ("--shards", "2", "--out", "x.parquet"),
        ("--shards", "2", "--out", "x", "--entities", "1"),
        ("--shard", "2/2", "--out", "x", *AT),
        ("--shard", "two", "--out", "x", *AT),
        ("--shard", "0/2", "--shards", "2", "--out", "x", *AT),
        ("--shard", "0/2", "--out", "x"),
        ("--engine", "dask", "--out", "x"),
        ("--workers", "2"),
        ("--address", "auto"),
    ],
)
def test_options_that_do_not_go_together(
    run: Run,
    trained: Any,
    options: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    found = run("predict", trained.folder, *options, "--json")
    assert (found.code, found.error) == (2, "bad_option")
    assert list(tmp_path.iterdir()) == []
