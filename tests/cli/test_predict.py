"""`gelgt predict` and `gelgt evaluate`: whom, when, where to, the shapes that scripts rely on, and
what is refused."""

import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from gelgt import GelgtError

Run = Callable[..., Any]


@pytest.fixture(scope="module")
def keys(trained: Any) -> list[int]:
    """The first customers of the shop."""
    found = (
        sqlite3.connect(trained.source)
        .execute("SELECT id FROM customers ORDER BY signed_up_at LIMIT 3")
        .fetchall()
    )
    return [key for (key,) in found]


def test_evaluate_repeats_the_scores_of_training(run: Run, trained: Any) -> None:
    before = trained.result.json
    for split in ("test", "val"):
        found = run("evaluate", trained.folder, "--split", split, "--json").json
        assert (found["regime"], found["seed"], found["run"]) == (
            "seed-time",
            0,
            str(trained.folder),
        )
        assert found["metrics"] == {split: before["metrics"][split]}
        assert found["baselines"] == {
            name: {split: scores[split]} for name, scores in before["baselines"].items()
        }
        assert found["seconds"] > 0


def test_evaluate_for_people(run: Run, trained: Any) -> None:
    result = run("evaluate", trained.folder)
    assert (result.code, result.err) == (0, "")
    rows = [line.strip() for line in result.out.splitlines()[1:] if line.strip()]
    names = (
        "model",
        "gelgt",
        "network alone",
        "its columns alone",
        "trees alone",
        "lightgbm",
        "entity-mean",
    )
    assert [
        next((name for name in names if row.startswith(name)), row) for row in rows[:-1]
    ] == list(names)
    assert rows[-1].startswith("LightGBM learned"), rows[-1]
    assert "regime seed-time" in result.out


def test_a_file_of_everyone(run: Run, trained: Any, tmp_path: Path) -> None:
    parquet, csv = tmp_path / "all.parquet", tmp_path / "all.csv"
    found = run(
        "predict", trained.folder, "--all", "--at", "2024-12-26", "--out", parquet, "--json"
    ).json
    frame = pd.read_parquet(parquet)
    assert (found["rows"], found["out"]) == (len(frame), str(parquet))
    assert list(frame.columns) == ["id", "time", "prediction", "probability"]
    assert frame["id"].is_unique
    assert frame["time"].unique() == [pd.Timestamp("2024-12-26")]
    plain = run("predict", trained.folder, "--at", "2024-12-26", "--out", csv)
    assert f"{len(frame):,} predictions written to {csv}" in plain.out
    again = pd.read_csv(csv, parse_dates=["time"])
    pd.testing.assert_frame_equal(
        again.astype({"time": "datetime64[us]"}), frame.astype({"time": "datetime64[us]"})
    )
    assert sorted(p.name for p in tmp_path.iterdir()) == ["all.csv", "all.parquet"]


def test_some_entities(run: Run, trained: Any, keys: list[int], tmp_path: Path) -> None:
    typed = run(
        "predict",
        trained.folder,
        "--entities",
        ",".join(map(str, keys)),
        "--at",
        "2024-12-26",
        "--json",
    ).json
    assert [row["id"] for row in typed["predictions"]] == keys
    assert (typed["rows"], typed["out"]) == (3, None)
    (tmp_path / "keys.txt").write_text("\n".join(map(str, keys)) + "\n\n")
    listed = run(
        "predict",
        trained.folder,
        "--entities",
        f"@{tmp_path / 'keys.txt'}",
        "--at",
        "2024-12-26",
        "--json",
    ).json
    assert listed["predictions"] == typed["predictions"]
    times = ["2024-12-26", "2024-11-01", "2024-12-26"]
    pd.DataFrame({"id": keys, "time": times}).to_csv(tmp_path / "frame.csv", index=False)
    framed = run("predict", trained.folder, "--frame", tmp_path / "frame.csv", "--json").json[
        "predictions"
    ]
    assert [row["time"][:10] for row in framed] == times
    assert (framed[0], framed[2]) == (typed["predictions"][0], typed["predictions"][2])


def test_for_people(run: Run, trained: Any) -> None:
    result = run("predict", trained.folder)
    lines = result.out.splitlines()
    assert lines[0].split() == ["id", "time", "prediction", "probability"]
    assert len(lines) == 23
    # one customer signs up after the last order, when the default time is
    assert lines[-1].startswith("the first 20 of 150 predictions")
    assert result.err.startswith("note: The newest row is from ")  # the shop has ended long ago


def test_relbench_table(run: Run, trained: Any, tmp_path: Path) -> None:
    found = run("predict", trained.folder, "--relbench", tmp_path / "submission", "--json").json
    frame = pd.read_csv(found["out"])
    assert Path(found["out"]).parent == tmp_path / "submission"
    assert found["rows"] == len(frame) == trained.result.json["task"]["rows"]["test"]


def test_another_source(run: Run, trained: Any, tmp_path: Path, keys: list[int]) -> None:
    """A copy that has grown: the same predictions at a time before the new rows."""
    grown = tmp_path / "grown.db"
    shutil.copy(trained.source, grown)
    connection = sqlite3.connect(grown)
    connection.execute(
        "INSERT INTO orders SELECT id + 1000000, customer_id, '2025-03-01 00:00:00', channel, "
        "shipping_fee, coupon, is_gift FROM orders"
    )
    connection.commit()
    connection.close()
    options = ("--entities", keys[0], "--at", "2024-12-26", "--json")
    here, there = (
        run("predict", trained.folder, *options).json,
        run("predict", trained.folder, "--source", grown, *options).json,
    )
    assert here["predictions"] == there["predictions"]
    assert there["source"] == str(grown)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--entities", "1,2"), "unknown_keys"),
        (("--entities", "ann"), "unknown_keys"),
        (("--entities", ""), "no_entities"),
        (("--entities", "@nowhere.txt"), "not_found"),
        (("--entities", "1", "--all"), "bad_option"),
        (("--frame", "nowhere.csv"), "not_found"),
        (("--frame", "frame.xlsx"), "unknown_format"),
        (("--frame", "frame.csv", "--at", "2025-01-01"), "bad_option"),
        (("--relbench", "out", "--out", "a.csv"), "bad_option"),
        (("--at", "someday"), "bad_time"),
        (("--at", "1990-01-01"), "no_entities"),
        (("--out", "predictions.xlsx"), "unknown_format"),
        (("--source", "nowhere.db"), "not_found"),
        (("--device", "tpu"), "no_device"),
    ],
)
def test_errors(
    arguments: tuple[str, ...],
    code: str,
    run: Run,
    trained: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("predict", trained.folder, *arguments, "--json")
    assert (result.code, result.error) == (2, code)
    assert list(tmp_path.iterdir()) == []


def test_runs_that_are_none(run: Run, trained: Any, tmp_path: Path) -> None:
    assert run("predict", tmp_path / "nowhere", "--json").error == "no_run"
    assert run("evaluate", tmp_path, "--json").error == "incomplete_run"
    assert run("evaluate", trained.folder, "--split", "tset", "--json").error == "bad_option"


def test_a_source_that_has_moved(run: Run, trained: Any, tmp_path: Path) -> None:
    """The run names where it was trained; that place is gone."""
    moved = Path(shutil.copytree(trained.folder, tmp_path / "moved"))
    text = (
        (moved / "metrics.json")
        .read_text(encoding="utf-8")
        .replace(str(trained.source), str(tmp_path / "gone.db"))
    )
    (moved / "metrics.json").write_text(text, encoding="utf-8")
    from gelgt.runs.folder import finish_run

    finish_run(moved)
    error = run("predict", moved, "--json")
    assert (error.code, error.error) == (2, "not_found")
    assert "--source" in error.json["error"]["hint"]
    assert (
        run("predict", moved, "--source", trained.source, "--entities", "10000", "--json").code == 0
    )


def test_the_second_prediction_reads_no_rows(
    run: Run, trained: Any, keys: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("predict", trained.folder, "--entities", keys[0], "--at", "2024-12-26", "--json")
    first = run(*command).json

    def refuse(*arguments: Any) -> None:
        raise GelgtError("was_read", "The source was read.", hint="None.")

    monkeypatch.setattr("gelgt.sources.reading.stage_table", refuse)
    assert run(*command).json["predictions"] == first["predictions"]
    assert run(*command, "--fresh").error == "was_read"


def test_fresh_needs_the_source(run: Run, trained: Any, tmp_path: Path) -> None:
    result = run("predict", trained.folder, "--source", tmp_path / "gone.db", "--fresh", "--json")
    assert (result.code, result.error) == (2, "not_found")


UNUSED = (
    "torch_geometric",
    "transformers",
    "sqlalchemy",
    "duckdb",
    "lightgbm",
    "relbench",
    "scipy.linalg",
    "rich.progress",
    "gelgt.training",
    "gelgt.baselines",
)
LOADED = """
import sys
from gelgt.cli import lean, main
lean.prepare()
try:
    main()
finally:
    print([name for name in {names!r} if name in sys.modules], file=sys.stderr)
"""


def test_a_prediction_on_an_unchanged_source_loads_what_it_uses(
    run: Run, trained: Any, keys: list[int]
) -> None:
    command = ("predict", trained.folder, "--entities", keys[0], "--at", "2024-12-26")
    assert run(*command).code == 0  # the first one may import the source
    done = subprocess.run(
        [sys.executable, "-c", LOADED.format(names=("torch", *UNUSED)), *map(str, command)],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert done.stderr.splitlines()[-1] == "['torch']"
