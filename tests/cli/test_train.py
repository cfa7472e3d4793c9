"""`gelgt train`: the run it leaves, the object it prints, what it shows in a pipe, what it refuses,
and Ctrl-C."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from forked import Forked
from gelgt.demo import Shop
from gelgt.training import load_run

Run = Callable[..., Any]
SENTENCE = "PREDICT COUNT(orders.*, 0, 10, days) > 0 FOR EACH customers.id"
TINY = (
    "--set",
    "train.epochs=1",
    "--set",
    "train.steps_per_epoch=3",
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
GELGT = (sys.executable, "-c", "from gelgt.cli import main; main()")


def test_the_object_and_the_folder(trained: Any) -> None:
    assert trained.result.code == 0
    found = trained.result.json
    assert (found["regime"], found["seed"], found["preset"], found["ended"]) == (
        "seed-time",
        0,
        "cpu",
        "all epochs",
    )
    assert found["run"] == str(trained.folder)
    assert 0 <= found["metrics"]["val"]["roc_auc"] <= 1
    assert 0 <= found["metrics"]["test"]["roc_auc"] <= 1
    assert {"lightgbm", "entity-mean"} == set(found["baselines"])
    assert all("roc_auc" in scores["test"] for scores in found["baselines"].values())
    assert found["seconds"] > 0
    assert found["temporal_profile"][0]["text"].startswith("centre ")
    assert Path(found["report"]).read_text(encoding="utf-8").startswith("<!doctype html>")
    assert load_run(trained.folder).record.to_json()["metrics"] == found["metrics"]


def test_progress_is_plain_and_beside_the_result(trained: Any) -> None:
    lines = trained.result.err.splitlines()
    assert "\x1b" not in trained.result.err
    assert [line[1:].split("  ")[0].strip() for line in lines if line.startswith("✓")] == [
        "source",
        "task",
        "data",
        "columns",
        "baselines",
        "trees",
        "columns network",
        "model",
        "training",
        "scoring",
    ]
    assert sum(line.strip().startswith("epoch") for line in lines) == 1
    assert "validation roc_auc" in trained.result.err


def test_the_command_is_kept(trained: Any) -> None:
    command = json.loads((trained.folder / "metrics.json").read_text())["command"]
    assert command.startswith(f"gelgt train {trained.source} ")
    assert f"'{SENTENCE}'" in command


def test_for_people(
    run: Run, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scores beside baselines, the regime, the times it looks for, where things lie and what to
    type next."""
    monkeypatch.chdir(tmp_path)
    assert run("task", project, SENTENCE, "--name", "soon").code == 0
    options = (
        "--seed",
        3,
        "--visibility",
        "frozen",
        "--baseline-hops",
        2,
        "--retrain-all",
        "--no-report",
    )
    result = run("train", project, "soon", *TINY, *options)
    assert result.code == 0, result.err
    folder = Path("runs/soon")
    assert load_run(folder).record.to_json()["seed"] == 3
    assert not (folder / "report.html").exists()
    for text in (
        "validation roc_auc",
        "test roc_auc",
        "lightgbm-2hop",
        "entity-mean",
        "regime frozen",
        "centre ",
        "run     runs/soon",
    ):
        assert text in result.out
    assert "gelgt predict  runs/soon" in result.out
    assert "✓ retrain" in result.err
    again = run("train", project, "soon", *TINY, "--json")
    assert (again.code, again.error) == (2, "run_exists")
    nothing = run("train", project, "soon", *TINY, *options, "--resume", "--json")
    assert nothing.code == 0
    assert "nothing is left to do" in nothing.json["notices"][0]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (("--preset", "gpuu"), "unknown_preset"),
        (("--time-limit", "90"), "bad_duration"),
        (("--time-limit", "soon"), "bad_duration"),
        (("--time-limit", "0s"), "bad_duration"),
        (("--set", "model.widht=3"), "unknown_setting"),
        (("--set", "model.width"), "bad_setting"),
        (("--set", "model.width=wide"), "bad_config"),
        (("--set", "sampling.horizon=3"), "bad_setting"),
        (("--seed", "-1"), "bad_config"),
        (("--visibility", "frosen"), "bad_option"),
        (("--baseline-hops", "3"), "bad_option"),
        (("--device", "tpu"), "no_device"),
        (("--as-of", "someday"), "bad_time"),
        (("--as-of", "2025-01-01", "--visibility", "frozen"), "bad_option"),
        (("--val", "2050-01-01"), "bad_split"),
    ],
)
def test_errors(
    options: tuple[str, ...], code: str, run: Run, shop_source: Path, tmp_path: Path
) -> None:
    result = run("train", shop_source, SENTENCE, "--out", tmp_path / "run", *options, "--json")
    assert (result.code, result.error) == (2, code)
    assert not (tmp_path / "run").exists()


def test_a_folder_that_holds_something_else_is_kept(
    run: Run, shop_source: Path, tmp_path: Path
) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    result = run("train", shop_source, SENTENCE, "--out", tmp_path, "--json")
    assert (result.code, result.error) == (2, "not_empty")
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_time_limit_and_going_on(run: Run, shop_source: Path, tmp_path: Path) -> None:
    settings = (
        "--set",
        "train.ensemble=1",
        "--set",
        "train.steps_per_epoch=3",
        "--set",
        "train.batch_size=32",
        "--set",
        "train.epochs=5",
        "--set",
        "train.patience=1000",
        "--set",
        "train.windows=1",
        "--set",
        "model.column_members=1",
        "--set",
        "model.history_columns=20",
        "--max-rows",
        "300",
        "--eval-timestamps",
        "1",
        "--no-report",
        "--json",
    )
    command = ("train", shop_source, SENTENCE, "--out", tmp_path / "run", *settings)
    first = run(*command, "--time-limit", "0.001s").json
    assert first["ended"] == "time limit"
    assert load_run(tmp_path / "run").record.to_json()["ended"] == "time limit"
    whole = run(*command, "--resume").json
    assert whole["ended"] == "all epochs"
    assert whole["epochs"] == 5


def heed_control_c() -> None:
    """A test run in the background of a shell ignores Ctrl-C, and would hand that down."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.mark.usefixtures("whole_forests")  # as in the process that is interrupted
def test_control_c_keeps_the_best_weights_and_resume_goes_on(
    run: Run, small_shop: Shop, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    settings = (
        "--set",
        "train.ensemble=1",
        "--set",
        "train.steps_per_epoch=2",
        "--set",
        "train.batch_size=32",
        "--set",
        "train.patience=1000",
        "--set",
        "model.trees=false",
        "--set",
        "model.column_members=0",
        "--set",
        "model.history_columns=20",
        "--max-rows",
        "300",
        "--eval-timestamps",
        "1",
        "--no-report",
        "--json",
    )
    command = ("train", str(small_shop.path), SENTENCE, "--out", str(folder), *settings)
    with Forked(*command, "--set", "train.epochs=100000", OMP_NUM_THREADS="1") as process:
        assert any(line.strip().startswith("epoch  2/") for line in process.stderr)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "interrupted: the best weights so far" in err
    assert "Traceback" not in err
    result = json.loads(out)
    assert result["ended"] == "interrupted"
    assert load_run(folder).record.to_json()["ended"] == "interrupted"
    epochs = result["epochs"]
    assert epochs >= 2
    done = run(*command, "--set", f"train.epochs={epochs + 1}", "--resume")
    assert done.code == 0, done.err
    assert "resumes after" in done.err
    whole = done.json
    assert (whole["ended"], whole["epochs"]) == ("all epochs", epochs + 1)


def test_control_c_before_training_ends_at_once(small_shop: Shop, tmp_path: Path) -> None:
    command = [
        *GELGT,
        "train",
        str(small_shop.path),
        SENTENCE,
        "--out",
        str(tmp_path / "run"),
        "--json",
    ]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_control_c,
    )
    assert process.stderr is not None
    assert any(line.startswith("✓ task") for line in process.stderr)
    process.send_signal(signal.SIGINT)
    begun = time.monotonic()
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert "Traceback" not in err
    assert time.monotonic() - begun < 30
    assert not (tmp_path / "run" / "_SUCCESS").exists()


def test_a_report_of_its_own(run: Run, trained: Any, tmp_path: Path) -> None:
    result = run("report", trained.folder, "--out", tmp_path / "page.html", "--json")
    assert result.json == {"run": str(trained.folder), "out": str(tmp_path / "page.html")}
    assert (tmp_path / "page.html").read_bytes() == (trained.folder / "report.html").read_bytes()
    assert run("report", tmp_path, "--json").error == "no_run"


def test_a_damaged_run_is_refused(run: Run, trained: Any, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(trained.folder, tmp_path / "copy"))
    (copy / "target.json").write_text("{}")
    assert run("config", "show", copy, "--json").error == "damaged_file"


def test_an_interrupt_that_was_swallowed_is_raised_again() -> None:
    """Compiled code that calls Python drops exceptions; Ctrl-C must not be lost with them."""
    from gelgt.cli.interrupt import Interrupt

    with Interrupt(lambda: False, print) as stop:
        assert not stop()
        with contextlib.suppress(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)
        with pytest.raises(KeyboardInterrupt):
            stop()
