"""Stages beside each other: what they give, and that nobody waits for them in vain."""

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import small

from gelgt import Database, Task
from gelgt.meter import Work, leaving
from gelgt.tasks.times import seconds
from gelgt.training import Options, data, train_run
from gelgt.training.aside import Aside
from gelgt.training.baselines import Baselines, Pace
from gelgt.training.progress import Progress


class Phases(Progress):
    """Which phases have ended."""

    def __init__(self) -> None:
        self.ended: list[str] = []

    def phase(self, name: str, facts: str = "") -> None:
        self.ended.append(name)


@pytest.mark.parametrize("is_beside", [True, False])
def test_a_stage_runs_once(is_beside: bool) -> None:
    begun: list[bool] = []

    def stage(is_left: Callable[[], bool]) -> str:
        begun.append(is_left())
        return "done"

    with Aside(stage, is_beside) as aside:
        assert aside.result() == "done"
    assert begun == [False]


def test_a_stage_waits_where_there_is_no_room() -> None:
    begun: list[bool] = []
    with Aside(lambda is_left: begun.append(is_left()), is_beside=False):
        pass
    assert begun == []


def test_turns_are_short_for_as_long_as_a_run_takes(
    db: Database, few: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual, turns = sys.getswitchinterval(), []

    def stop() -> bool:
        turns.append(sys.getswitchinterval())
        return True

    for cores in (2, 16):
        monkeypatch.setattr("gelgt.training.aside.core_count", lambda cores=cores: cores)
        train_run(db, few, tmp_path / str(cores), small(few.task_type), stop=stop)
        assert sys.getswitchinterval() == usual
    few_cores, many = turns[0], turns[-1]
    assert many < few_cores == usual


def test_whoever_fails_ends_the_stage_beside_it() -> None:
    def stage(is_left: Callable[[], bool]) -> None:
        while not is_left():
            time.sleep(0.001)

    with pytest.raises(KeyboardInterrupt), Aside(stage, is_beside=True):
        raise KeyboardInterrupt


def test_whoever_fails_ends_what_the_stage_waits_for() -> None:
    """Nobody waits for a long piece of work, and what needs its result never begins."""
    begun: list[str] = []

    def long(is_left: Callable[[], bool]) -> str:
        with leaving(is_left):
            work = Work("columns")
            while True:
                work(1)
                time.sleep(0.001)

    with (
        pytest.raises(KeyboardInterrupt),
        Aside(long, is_beside=True) as first,
        Aside(lambda is_left: begun.append(first.result()), is_beside=True, after=first),
    ):
        raise KeyboardInterrupt
    assert first.has_failed
    assert begun == []


@pytest.mark.parametrize("is_beside", [True, False])
def test_the_error_of_a_stage_is_raised(is_beside: bool) -> None:
    def stage(is_left: Callable[[], bool]) -> None:
        raise ValueError("no")

    with Aside(stage, is_beside) as aside:
        for _ in range(2):  # also to whoever asks again
            with pytest.raises(ValueError, match="no"):
                aside.result()


@pytest.mark.usefixtures("whole_forests")
def test_a_run_is_the_same_with_many_cores(
    db: Database, few: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trees grow beside the baseline, and columns are computed in several threads; beside a GPU,
    trees and baseline go on while networks are trained."""
    config = small(few.task_type, train__retrain=True)
    runs, phases = [], []
    for cores, is_late in ((2, False), (16, False), (16, True)):
        monkeypatch.setattr("gelgt.training.aside.core_count", lambda cores=cores: cores)
        monkeypatch.setattr("gelgt.history.pieces.core_count", lambda cores=cores: cores)
        for module in ("stages", "ensemble"):
            target = f"gelgt.training.{module}.is_idle"
            monkeypatch.setattr(target, lambda device, is_late=is_late: is_late)
        watch, out = Phases(), tmp_path / f"{cores}-{is_late}"
        runs.append(train_run(db, few, out, config, Options(), progress=watch))
        phases.append(watch.ended)
    assert phases[0] == phases[1]
    order = [phases[2].index(name) for name in ("training", "columns", "trees", "baselines")]
    assert order == sorted(order)  # networks do not wait for columns
    one, *others = (run.record.to_json() for run in runs)
    weights = runs[0].weights()
    for run, many in zip(runs[1:], others, strict=True):
        for name in ("metrics", "baselines", "trees", "parts", "history"):
            assert one[name] == many[name], name
        assert all(torch.equal(weights[name], value) for name, value in run.weights().items())


def test_windows_are_looked_at_before_networks_ask(
    db: Database, few: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the windows of labels hold is computed once for all that learn it: first while the
    device starts, and for retraining while networks are trained."""
    monkeypatch.setattr("gelgt.training.aside.core_count", lambda: 16)
    for module in ("stages", "ensemble"):
        monkeypatch.setattr(f"gelgt.training.{module}.is_idle", lambda device: True)
    watch, before = Phases(), data.future_targets
    found: list[tuple[int | None, tuple[str, ...]]] = []

    def targets(visible: Any, seeds: Any, until: int | None) -> Any:
        found.append((until, tuple(watch.ended)))
        return before(visible, seeds, until)

    monkeypatch.setattr(data, "future_targets", targets)
    config = small(few.task_type, train__retrain=True, model__futures=3.0)
    options = Options(baselines=False)
    run = train_run(db, few, tmp_path / "run", config, options, progress=watch)
    assert run.record.retrain is not None
    assert few.val_timestamp is not None
    assert few.test_timestamp is not None
    assert [until for until, _ in found] == [
        seconds(few.val_timestamp),
        seconds(few.test_timestamp),
    ]
    assert all("columns" not in ended for _, ended in found)


def test_networks_end_where_columns_cannot_be_computed(
    db: Database, few: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are trained while columns are computed, and would be trained for nothing."""
    monkeypatch.setattr("gelgt.training.stages.is_idle", lambda device: True)
    has_begun, watch = threading.Event(), Phases()
    steps: list[int] = []

    def failing(*args: Any) -> None:
        has_begun.wait(60)
        raise MemoryError("columns")

    def stop() -> bool:  # asked after every step
        steps.append(1)
        has_begun.set()
        time.sleep(0.01)
        return False

    monkeypatch.setattr("gelgt.training.data.TrainingData.with_columns", failing)
    config = small(few.task_type, train__epochs=1_000, train__patience=1_000)
    with pytest.raises(MemoryError, match="columns"):
        train_run(db, few, tmp_path / "run", config, progress=watch, stop=stop)
    assert len(steps) < 1_000


def test_columns_that_take_too_long_leave_nothing_to_retrain(
    db: Database, few: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Networks have used what was theirs, and the columns more: the limit is kept."""
    monkeypatch.setattr("gelgt.training.stages.is_idle", lambda device: True)
    monkeypatch.setattr("gelgt.training.stages.known_share", lambda *_: 1e6)
    config = small(few.task_type, train__retrain=True, train__time_limit=60.0)
    run = train_run(db, few, tmp_path / "run", config, Options(baselines=False))
    assert run.record.retrain is None
    assert any("nothing was retrained" in line for line in run.record.time.cut_off)


def test_an_interrupted_run_waits_for_nobody(
    db: Database, few: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gelgt.training.stages.is_idle", lambda device: True)
    left: list[bool] = []

    def endless(*args: Any) -> Baselines:
        pace: Pace = args[-1]
        while not pace.is_stopped():
            time.sleep(0.001)
        left.append(True)
        return Baselines()

    def growing(*args: Any) -> None:
        while not args[-1]():
            time.sleep(0.001)
        left.append(True)

    monkeypatch.setattr("gelgt.training.stages.make_baselines", endless)
    monkeypatch.setattr("gelgt.training.stages.grow_trees", growing)
    monkeypatch.setattr("gelgt.training.stages.has_room", lambda: True)
    asked = iter([False] * 3)
    config = small(few.task_type)
    run = train_run(db, few, tmp_path / "run", config, stop=lambda: next(asked, True))
    assert run.record.ended == "interrupted"
    assert left == [True, True]
