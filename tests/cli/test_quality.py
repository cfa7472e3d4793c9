"""`gelgt bench quality` and its kin: a table for people, one object for programs, and nothing
trained twice."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gelgt

Run = Callable[..., Any]
SENTENCE = "PREDICT COUNT(orders.*, 0, 10, days) > 0 FOR EACH customers.id"
TINY = (
    "--set",
    "train.epochs=1",
    "--set",
    "train.retrain=false",
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
    "--set",
    "model.width=16",
    "--set",
    "sampling.budget=24",
)
FEW = ("--max-rows", 300, "--eval-timestamps", 1)


@pytest.fixture(scope="module")
def few(shop_source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shop with a task of few labels, `soon`, for those who train."""
    folder = Path(shutil.copytree(shop_source, tmp_path_factory.mktemp("few") / "project"))
    task = gelgt.open(folder).task(SENTENCE, name="soon", max_rows=300, eval_timestamps=1)
    task.save()
    return folder


def test_the_table_and_the_object(run: Run, few: Path, tmp_path: Path) -> None:
    asked = (
        "bench",
        "quality",
        "--dataset",
        few,
        "--task",
        "soon",
        "--seeds",
        "2",
        "--out",
        tmp_path / "q",
        *TINY,
    )
    shown = run(*asked)
    assert shown.code == 0, shown.err
    assert "regime seed-time" in shown.out
    assert "lightgbm" in shown.out
    assert shown.err.count("epoch  1/1") == 2
    assert "seed 1" in shown.err
    text = (tmp_path / "q" / "quality.md").read_text(encoding="utf-8")
    assert "| gelgt beats it |" in text

    again = run(*asked, "--json")
    assert "epoch" not in again.err
    assert [entry["model"] for entry in again.json["results"]] == [
        "gelgt",
        "lightgbm",
        "lightgbm-2hop",
        "entity-mean",
    ]
    assert set(again.json["results"][0]["parts"]) == {"network", "columns", "trees"}
    assert "gelgt network alone  gelgt trees alone  gelgt share of trees  gelgt together" in re.sub(
        r"  +", "  ", shown.out
    )
    assert again.json["seeds"] == [0, 1]
    assert again.json["failed"] == again.json["left"] == []


def test_models_that_are_named(run: Run, shop_source: Path, tmp_path: Path) -> None:
    named = ("--model", "entity-mean", "--model", "lightgbm", "--no-baselines")
    found = run(
        "bench",
        "quality",
        "--dataset",
        shop_source,
        "--task",
        SENTENCE,
        "--seeds",
        "1",
        "--out",
        tmp_path / "q",
        *named,
        "--json",
    )
    assert found.json["models"] == ["entity-mean", "lightgbm"]
    assert "entity-mean beats it" in found.json["results"][1]


def test_a_sweep(run: Run, few: Path, tmp_path: Path) -> None:
    asked = (
        "bench",
        "sweep",
        "size",
        "--values",
        "8,16",
        "--dataset",
        few,
        "--task",
        "soon",
        "--seeds",
        "1",
        "--no-baselines",
    )
    found = run(*asked, "--out", tmp_path / "s", *TINY, "--json")
    assert found.json["models"] == ["K=8", "K=16"]
    assert found.json["points"] == [8, 16]
    assert (tmp_path / "s" / "sweep-size.json").is_file()


def test_without_lightgbm_and_duckdb(
    run: Run, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that only trains has neither; labels are there already."""
    run("task", project, SENTENCE, "--name", "soon", *FEW)
    for missing in ("lightgbm", "duckdb", "sqlalchemy"):
        monkeypatch.setitem(sys.modules, missing, None)
    asked = (
        "bench",
        "quality",
        "--dataset",
        project,
        "--task",
        "soon",
        "--seeds",
        "1",
        "--out",
        tmp_path / "q",
        *TINY,
        "--set",
        "train.windows=auto",
    )
    shown = run(*asked)
    assert shown.code == 0, shown.err
    assert "LightGBM is not installed" in shown.err
    assert "overlapping label windows need the package duckdb" in shown.err
    assert "entity-mean" in shown.out
    assert json.loads((tmp_path / "q" / "quality.json").read_text())["models"] == [
        "gelgt",
        "entity-mean",
    ]


def test_errors_come_before_any_work(run: Run, shop_source: Path, tmp_path: Path) -> None:
    asked = (
        "bench",
        "quality",
        "--dataset",
        shop_source,
        "--task",
        SENTENCE,
        "--out",
        tmp_path / "q",
        "--json",
    )
    assert run(*asked, "--preset", "large").error == "unknown_preset"
    assert run(*asked, "--set", "model.wdth=3").error == "unknown_setting"
    assert run(*asked, "--visibility", "all").error == "bad_option"
    assert run(*asked, "--model", "gelgd").error == "unknown_model"
    assert run(*asked, "--device", "cuda:99").error == "no_device"
    assert (
        run("bench", "sweep", "depth", "--dataset", shop_source, "--task", SENTENCE, "--json").error
        == "bad_option"
    )
    assert not (tmp_path / "q").exists()


@pytest.mark.slow
def test_ctrl_c_stops_every_process(few: Path, tmp_path: Path) -> None:
    """A terminal sends it to all of them; the table is written with what is there."""
    long = ("--set", "train.epochs=500", "--set", "train.patience=500", *TINY[2:])
    long += ("--set", "model.trees=false", "--set", "model.column_members=0")
    asked = (
        "bench",
        "quality",
        "--dataset",
        few,
        "--task",
        "soon",
        "--seeds",
        "2",
        "--jobs",
        "2",
        "--no-baselines",
        *long,
    )
    # A process of the background may ignore Ctrl-C, and its children inherit that.
    command = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from "
        "gelgt.cli import main; main()"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-c", command, *map(str, (*asked, "--out", tmp_path / "q"))],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=environment,
    )
    deadline = time.monotonic() + 240
    while (
        len(list(tmp_path.glob("q/*/*/seed-*/checkpoint.safetensors"))) < 2
        and time.monotonic() < deadline
    ):
        assert process.poll() is None
        time.sleep(0.2)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=240)
    assert process.returncode == 130, err
    assert "stopped before 2 runs were finished" in out
    assert "Traceback" not in err
    assert "Stopped before 2 runs" in (tmp_path / "q" / "quality.md").read_text(encoding="utf-8")


def test_both_regimes_in_pieces_of_every_task(run: Run, project: Path, tmp_path: Path) -> None:
    """Two tasks that nobody names, two regimes, and a time after which the rest is left for the
    next time."""
    for name, days in (("soon", 10), ("later", 20)):
        run("task", project, SENTENCE.replace("10", str(days)), "--name", name, *FEW)
    asked = (
        "bench",
        "quality",
        "--dataset",
        project,
        "--visibility",
        "both",
        "--seeds",
        "1",
        "--out",
        tmp_path / "q",
        "--no-baselines",
    )
    cut = run(*asked, "--stop-after", "0.01s", *TINY)
    assert cut.code == 130, cut.err
    assert "the same command continues" in cut.out
    whole = run(*asked, *TINY, "--json")
    assert whole.code == 0, whole.err
    regimes = {study["regime"]: study for study in whole.json["studies"]}
    assert list(regimes) == ["frozen", "seed-time"]
    for regime, study in regimes.items():
        assert set(study["tasks"]) == {"soon", "later"}
        assert {entry["regime"] for entry in study["results"]} == {regime}
        assert study["left"] == study["failed"] == []
        assert (tmp_path / "q" / f"quality-{regime}.json").is_file()
        assert len(list((tmp_path / "q").glob(f"quality-{regime}-*.svg"))) == 2
    again = run(*asked, *TINY)
    assert "epoch" not in again.err
    assert again.out.count("written to") == 2


def test_no_task_to_be_found(run: Run, shop_source: Path, tmp_path: Path) -> None:
    shown = run("bench", "quality", "--dataset", shop_source, "--out", tmp_path / "q")
    assert shown.code == 2
    assert "--task" in shown.err


def test_some_variants_of_an_ablation(run: Run, few: Path, tmp_path: Path) -> None:
    asked = (
        "bench",
        "ablation",
        "--dataset",
        few,
        "--task",
        "soon",
        "--seeds",
        "1",
        "--no-baselines",
        "--out",
        tmp_path / "a",
    )
    found = run(*asked, "--variant", "without-trees", "--set", "model.trees=true", *TINY, "--json")
    assert found.json["models"] == ["gelgt", "without-trees"]
    wrong = run(*asked, "--variant", "without-tree")
    assert wrong.code == 2
    assert "without-trees" in wrong.err
