"""`gelgt bench suite`: tables for people, one object for programs, errors before any work."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from gelgt.demo import Shop

Run = Callable[..., Any]
SENTENCE = "PREDICT COUNT(orders.*, 0, 10, days) > 0 FOR EACH customers.id"
TINY = [
    word
    for setting in (
        "train.epochs=1",
        "train.steps_per_epoch=2",
        "train.batch_size=32",
        "train.ensemble=1",
        "train.windows=1",
        "model.history_columns=12",
        "model.column_members=1",
        "model.width=16",
        "sampling.budget=24",
    )
    for word in ("--set", setting)
]


def test_a_suite_for_people_and_programs(run: Run, project: Path, tmp_path: Path) -> None:
    run("task", project, SENTENCE, "--name", "soon", "--max-rows", 600, "--eval-timestamps", 1)
    asked = ("bench", "suite", project, "--seeds", "1", "--budget", "1m", "--out", tmp_path / "s")
    shown = run(*asked, "--origins", "1", *TINY)
    assert shown.code == 0, shown.err
    assert "scored: one origin before the test; no test label was used" in shown.out
    assert f"{project.name} / soon" in shown.out
    assert "together − lightgbm" in shown.out
    assert f"{project.name} / soon@origin-1, gelgt, seed 0" in shown.err
    assert (tmp_path / "s" / "suite-origins.md").is_file()
    again = run(*asked, "--origins", "1", *TINY, "--json")
    assert "epoch" not in again.err
    assert again.json["origins"] == 1
    assert again.json["budget_seconds"] == 60
    assert again.json["regime"] == "seed-time"
    cut = run(*asked, "--stop-after", "0.01s", *TINY)
    assert cut.code == 130, cut.err
    assert "scored: nothing yet" in cut.out
    assert "the same command continues" in cut.out


def test_errors_come_before_any_work(run: Run, project: Path, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "s", "--json")
    assert run("bench", "suite", tmp_path / "nowhere", *out).error == "not_a_folder"
    asked = ("bench", "suite", project, *out)
    assert run(*asked, "--task", "nothing").error == "unknown_task"
    assert run(*asked, "--variant", "narrow").error == "bad_variant"
    assert run(*asked, "--variant", "narrow:model.wdth=3").error == "unknown_setting"
    assert run(*asked, "--peer", "featuretool").error == "unknown_peer"
    assert run(*asked, "--peer", "getml", "--peer-python", "/nowhere").error == "no_peer"
    assert run(*asked, "--visibility", "both").error == "bad_option"
    assert run(*asked, "--budget", "soon").error == "bad_duration"
    assert not (tmp_path / "s").exists()


def test_help_names_the_log(run: Run, small_shop: Shop) -> None:
    assert "look at the test once" in " ".join(run("bench", "suite", "--help").out.split())
