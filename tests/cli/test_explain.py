"""`gelgt explain`: the shapes that scripts rely on, files, and what is refused."""

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


@pytest.fixture(scope="module")
def keys(trained: Any) -> list[int]:
    found = sqlite3.connect(trained.source).execute(
        "SELECT customer_id FROM orders GROUP BY customer_id ORDER BY MIN(placed_at) LIMIT 3"
    )
    return [key for (key,) in found]


def test_one_prediction(run: Run, trained: Any, keys: list[int], tmp_path: Path) -> None:
    out = tmp_path / "why.html"
    asked = ("explain", trained.folder, "--entity", keys[0], "--counterfactual")
    content = run(*asked, "--out", out, "--json").json
    effects = sum(effect["effect"] for effect in content["effects"])
    assert abs(content["prediction"] - content["base"] - effects) < 1e-3
    assert content["entity"] == keys[0]
    assert content["counterfactual"]["text"]
    assert out.read_text(encoding="utf-8").startswith("<!doctype html>")
    said = run("explain", trained.folder, "--entity", keys[0])
    assert said.code == 0
    assert "checked by deletion" in said.out


def test_several_are_written_line_by_line(
    run: Run, trained: Any, keys: list[int], tmp_path: Path
) -> None:
    out, listed = tmp_path / "why.jsonl", tmp_path / "keys.txt"
    listed.write_text("\n".join(map(str, keys[:2])))
    result = run("explain", trained.folder, "--entities", f"@{listed}", "--out", out, "--json").json
    assert result["rows"] == 2
    lines = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert [line["entity"] for line in lines] == keys[:2]


def test_the_whole_model(run: Run, trained: Any, tmp_path: Path) -> None:
    content = run("explain", trained.folder, "--sample", 6, "--json").json
    assert content["entities"] == 6
    assert {"orders", "page_pings"} <= {entry["name"] for entry in content["tables"]}
    for group in ("tables", "paths", "columns"):
        for entry in content[group]:
            assert 0 <= entry["low"] <= entry["high"]
            assert abs(entry["effect"]) <= entry["importance"] + 1e-12
    assert any(entry["importance"] > 0 for entry in content["columns"])
    assert all(entry["from_days"] >= 0 for entry in content["ages"]["orders"])
    # the view is SQL that the source understands
    copy = sqlite3.connect(":memory:")
    sqlite3.connect(trained.source).backup(copy)
    copy.executescript(content["sql"])
    assert copy.execute("SELECT COUNT(*) FROM used_by_model").fetchone()[0] > 0
    out = tmp_path / "report.html"
    assert run("report", trained.folder, "--out", out).code == 0
    assert "What predictions rest on" in out.read_text(encoding="utf-8")
    (Path(trained.folder) / "explanation.json").unlink()


@pytest.mark.parametrize(
    ("code", "arguments"),
    [
        ("unknown_keys", ("--entity", "987654")),
        ("bad_option", ("--at", "2025-01-01")),
        ("bad_option", ("--entity", "1", "--sample", "5")),
        ("unknown_format", ("--entity", "1", "--out", "why.pdf")),
        ("unknown_format", ("--entities", "1,2", "--out", "why.html")),
        ("not_found", ("--entity", "1", "--source", "gone.db")),
    ],
)
def test_what_is_refused(run: Run, trained: Any, code: str, arguments: tuple[str, ...]) -> None:
    result = run("explain", trained.folder, *arguments, "--json")
    assert result.code == 2
    assert result.error == code
    assert result.json["error"]["hint"]
