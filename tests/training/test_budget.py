"""The time of a run: no phase starves the others, and more time gives more."""

import time
from pathlib import Path

import pytest
from tiny import SMALL, small

from gelgt import Database, Task
from gelgt.inference.evaluate import evaluate_run
from gelgt.presets import RunConfig
from gelgt.training import Options, Progress, train_run
from gelgt.training.budget import Budget, columns_budget, networks_budget
from gelgt.training.ensemble import member_seconds


def test_baselines_take_a_fifth_at_most() -> None:
    assert Budget(100.0).baselines() == 20.0
    late = Budget(100.0, began=time.perf_counter() - 70.0).baselines()
    assert late == pytest.approx(10.0, abs=0.5)  # a third of what is left
    assert Budget(None).baselines() is None


def test_whatever_is_late_something_is_left_for_everyone() -> None:
    over = Budget(10.0, began=time.perf_counter() - 60.0)
    assert over.left == 0.0
    for seconds in (over.baselines(), over.trees(), over.networks(5.0, 30.0)):
        assert seconds is not None
        assert 0 < seconds < 1


def test_the_columns_network_leaves_what_is_needed_after_it() -> None:
    budget = Budget(300.0)
    assert budget.columns() == pytest.approx(150.0, abs=1.0)
    assert budget.columns(after=200.0) == pytest.approx(70.0, abs=1.0)
    assert budget.columns(after=500.0) == pytest.approx(0.5)
    assert Budget(None).columns(after=500.0) is None
    assert budget.spared() == pytest.approx(100.0, abs=1.0)
    assert Budget(None).spared() == 0.0


def test_networks_and_trees_and_scoring_fit() -> None:
    budget = Budget(300.0)
    assert budget.trees() == pytest.approx(100.0, abs=1.0)
    assert budget.networks(0.0) == pytest.approx(270.0, abs=1.0)
    assert budget.networks(50.0, 100.0) == pytest.approx(135.0, abs=1.0)
    assert budget.networks(1e6) == pytest.approx(189.0, abs=1.0)  # the limit is too short
    after_trees = Budget(300.0, began=time.perf_counter() - 10.0)
    assert after_trees.networks(0.0) == pytest.approx(261.0, abs=1.0)


@pytest.mark.parametrize(
    ("usual", "spent", "expected"),
    [
        (1, [], 90.0),
        (3, [], 45.0),  # half of it: one good network before three bad ones
        (3, [45.0], 22.5),
        (3, [10.0], 40.0),
        (3, [45.0, 22.5], 22.5),
        (3, [80.0], None),  # what is left is too little to come as far
        (5, [40.0], 40.0),  # enough for one more, not for four
        (5, [40.0, 40.0], None),
        (5, [30.0, 30.0], 30.0),
        (3, [20.0, 20.0, 20.0], 30.0),  # and one more
        (3, [25.0, 25.0, 25.0], None),
    ],
)
def test_networks_share_their_time(usual: int, spent: list[float], expected: float | None) -> None:
    assert member_seconds(90.0, usual, spent) == expected


def test_an_hour_gives_more_columns_and_networks() -> None:
    usual, hour = RunConfig.of("gpu"), RunConfig.of("gpu", None, {"train.time_limit": 3600.0})
    assert (columns_budget(usual), networks_budget(usual, 3)) == (300, 3)
    assert (columns_budget(hour), networks_budget(hour, 3)) == (1000, 10)
    short = RunConfig.of("gpu", None, {"train.time_limit": 60.0})
    assert (columns_budget(short), networks_budget(short, 3)) == (300, 3)
    chosen = {"train.time_limit": 3600.0, "model.history_columns": 50, "train.ensemble": 2}
    config = RunConfig.of("gpu", None, chosen)
    assert (columns_budget(config), networks_budget(config, 2)) == (50, 2)


def test_a_second_is_enough_for_a_run(db: Database, task: Task, tmp_path: Path) -> None:
    """Every phase ends with what it has, and the record says what it could not do."""
    plans: dict[str, float | None] = {}

    class Watcher(Progress):
        def plan(self, name: str, seconds: float | None) -> None:
            plans[name] = seconds

    config = small(
        task.task_type,
        train__time_limit=1.0,
        train__epochs=500,
        train__steps_per_epoch=None,
        train__patience=500,
    )
    began = time.perf_counter() - 100.0  # whatever came before took too long
    run = train_run(db, task, tmp_path / "run", config, Options(began=began), progress=Watcher())
    assert run.record.ended == "time limit"
    assert run.record.time.limit == 1.0
    assert any("network" in text for text in run.record.time.cut_off)
    assert set(plans) == {"baselines", "training", "columns network", "network", "trees"}
    scores = evaluate_run(run, db)["metrics"]["test"]
    assert scores["roc_auc"] == pytest.approx(run.record.metrics["test"]["roc_auc"], abs=1e-6)


def test_a_run_resumed_with_more_time_keeps_its_columns(
    db: Database, few: Task, tmp_path: Path
) -> None:
    changes = {"train.epochs": 15, "train.patience": 15, "model.column_members": 0}
    settings = {name: value for name, value in SMALL.items() if name != "model.history_columns"}

    def limited(seconds: float) -> RunConfig:
        limit = {"train.time_limit": seconds}
        return RunConfig.of("cpu", few.task_type, settings | changes | limit)

    first = train_run(db, few, tmp_path / "run", limited(0.5))
    assert first.record.ended == "time limit"
    assert columns_budget(limited(3000.0)) > 300
    second = train_run(db, few, tmp_path / "run", limited(3000.0), Options(resume=True))
    assert first.record.history is not None
    assert second.record.history is not None
    assert second.record.history.columns == first.record.history.columns
    assert len(second.record.epochs) == 15
