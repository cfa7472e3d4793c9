"""A whole suite: what is trained, resumed, logged and written."""

from pathlib import Path
from typing import Any

import pytest

from gelgt.bench.pool import CellEvent
from gelgt.bench.study import StudyConfig
from gelgt.bench.suite.folders import open_folders
from gelgt.bench.suite.run import SuiteConfig, run_suite
from gelgt.bench.suite.tables import suite_markdown
from gelgt.errors import GelgtError

VARIANTS = {"flat": {"model.layers": 0}}


def suite(
    shops: dict[str, Path], out: Path, tiny: dict[str, Any], **changes: Any
) -> tuple[dict[str, Any], list[CellEvent]]:
    """A suite over both shops, and what happened to its cells."""
    options: dict[str, Any] = {"names": (), "origins": 0, "variants": {}, "seeds": (0,), "jobs": 1}
    options |= changes
    folders, left_out = open_folders(list(shops.values()), options["names"], options["origins"])
    few = {"model.history_columns": 12, "train.time_limit": None}
    runs = StudyConfig(
        out,
        seeds=options["seeds"],
        settings=tiny | few,
        visibility="seed-time",
        command="gelgt x",
        jobs=options["jobs"],
    )
    config = SuiteConfig(runs, variants=options["variants"], origins=options["origins"])
    config.check()
    events: list[CellEvent] = []
    stop = changes.get("stop", lambda seen: False)
    result = run_suite(
        folders,
        config,
        left_out=left_out,
        on_event=lambda folder: events.append,
        stop=lambda: stop(events),
        draws=50,
    )
    return result, events


def test_the_test_is_scored_and_logged(
    shops: dict[str, Path], out: Path, tiny: dict[str, Any]
) -> None:
    """Both databases, a binary task and one of values, a variant; stopped once, then resumed."""
    asked: dict[str, Any] = {"variants": VARIANTS, "names": ["corner/amount", "market/soon"]}
    stopped, events = suite(shops, out, tiny, stop=lambda seen: len(seen) >= 4, **asked)
    assert [event.what for event in events if event.what != "notice"] == ["begin", "done"] * 2
    assert len(stopped["left"]) == 8
    assert stopped["look"] == 1
    result, events = suite(shops, out, tiny, **asked)
    assert sum(event.what == "done" for event in events) == 8  # two were finished
    assert result["left"] == result["failed"] == []
    again, events = suite(shops, out, tiny, **asked)
    assert events == []
    changing = ("machine", "look")
    assert all(again[key] == value for key, value in result.items() if key not in changing)
    looks = (out / "looks.md").read_text(encoding="utf-8")
    assert looks.count("\n- ") == again["look"] == 3
    assert "corner/amount, market/soon; 8 new runs; `gelgt x`" in looks
    _check_tables(result)
    assert (out / "corner" / "amount").is_dir()


def _check_tables(result: dict[str, Any]) -> None:
    tasks = {task["task"]: task for task in result["results"]}
    assert [task["metric"] for task in tasks.values()] == ["MAE / constant", "AUC"]
    everyone = set(result["columns"])
    assert everyone >= {"network", "trees", "together", "lightgbm", "flat network"}
    assert "network without graph" in everyone
    compared = {(c["one"], c["other"]) for c in result["comparisons"]}
    assert ("network", "network without graph") in compared
    assert all(set(task["columns"]) == everyone for task in tasks.values())
    assert set(result["mean_rank"]) == set(result["mean_points"]) == everyone
    gain = next(c for c in result["comparisons"] if c["other"] == "flat network")
    assert gain["one"] == "network"
    assert [task["task"] for task in gain["tasks"]] == ["corner / amount", "market / soon"]
    assert gain["databases"] is not None
    text = suite_markdown(result)
    assert "scored: the test, look 2 in this folder (looks.md lists all)" in text
    assert "| network − flat network | market / soon |" in text
    assert "variant flat: model.layers=0" in text


def test_two_at_once_over_both_databases(
    shops: dict[str, Path], out: Path, tiny: dict[str, Any]
) -> None:
    """In one line: no process waits until a database is finished."""
    asked: dict[str, Any] = {"names": ["corner/amount", "market/soon"], "seeds": (0, 1)}
    result, events = suite(shops, out, tiny, jobs=2, **asked)
    begun = [event.cell for event in events if event.what == "begin"]
    assert len(begun) == len({cell.folder for cell in begun})
    assert [cell.seed for cell in begun] == sorted(cell.seed for cell in begun)
    databases = [cell.folder.relative_to(out).parts[0] for cell in begun]
    assert databases != sorted(databases)  # seeds come before databases
    assert len({event.process for event in events if event.what == "done"}) == 2
    assert result["left"] == result["failed"] == []
    # each on its own database: a folder with a run on other rows would be refused
    again, events = suite(shops, out, tiny, **asked)
    assert events == []
    assert again["results"] == result["results"]


def test_origins_leave_the_test_alone(
    shops: dict[str, Path], out: Path, tiny: dict[str, Any]
) -> None:
    result, _ = suite(shops, out, tiny, names=["market/soon"], origins=2)
    assert result["look"] is None
    assert not (out / "looks.md").exists()
    (task,) = result["results"]
    assert list(task["rows"]) == ["1", "2"]
    assert set(task["columns"]["together"]["origins"]) == {"1", "2"}
    assert (out / "market" / "soon@origin-2").is_dir()
    assert not (out / "market" / "soon").exists()
    text = suite_markdown(result)
    assert "no test label was used" in text
    assert "## By origin" in text


def test_a_task_that_fails_and_a_variant_that_changes_nothing(
    shops: dict[str, Path], out: Path, tiny: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from gelgt.bench import cells

    train = cells.train_run

    def failing(db: Any, task: Any, *rest: Any, **options: Any) -> Any:
        if task.database.folder.name == "corner":
            raise RuntimeError("out of ideas")
        return train(db, task, *rest, **options)

    monkeypatch.setattr(cells, "train_run", failing)
    result, _ = suite(shops, out, tiny, names=["soon"], variants={"same": {"model.width": 16}})
    assert [(f["dataset"], f["error"]) for f in result["failed"]] == [
        ("corner", "RuntimeError: out of ideas")
    ]
    assert [task["task"] for c in result["comparisons"][:1] for task in c["tasks"]] == [
        "market / soon"
    ]
    assert result["mean_rank"]["together"] > 1
    assert "together" not in result["mean_points"]
    assert "corner: the variant same changes nothing for soon" in result["left_out"]
    text = suite_markdown(result)
    assert "- corner / soon, gelgt, seed 0: RuntimeError: out of ideas" in text


def test_a_setting_that_no_model_has(shops: dict[str, Path], out: Path) -> None:
    config = SuiteConfig(StudyConfig(out), variants={"x": {"model.wdth": 3}})
    with pytest.raises(GelgtError) as error:
        config.check()
    assert error.value.code == "unknown_setting"
