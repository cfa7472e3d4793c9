"""Stages beside each other: what they give, and that nobody waits for them in vain."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tiny import small

from gelgt import Database, Task
from gelgt.training import Options, train_run
from gelgt.training.aside import Aside
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


def test_whoever_fails_ends_the_stage_beside_it() -> None:
    def stage(is_left: Callable[[], bool]) -> None:
        while not is_left():
            time.sleep(0.001)

    with pytest.raises(KeyboardInterrupt), Aside(stage, is_beside=True):
        raise KeyboardInterrupt


def test_the_error_of_a_stage_is_raised() -> None:
    def stage(is_left: Callable[[], bool]) -> None:
        raise ValueError("no")

    with Aside(stage, is_beside=True) as aside, pytest.raises(ValueError, match="no"):
        aside.result()


@pytest.mark.usefixtures("whole_forests")
def test_a_run_is_the_same_with_many_cores(
    db: Database, few: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trees grow beside the baseline, and columns are computed in several threads."""
    config = small(few.task_type, train__retrain=True)
    runs, phases = [], []
    for cores in (2, 16):
        monkeypatch.setattr("gelgt.training.aside.core_count", lambda cores=cores: cores)
        monkeypatch.setattr("gelgt.history.pieces.core_count", lambda cores=cores: cores)
        watch = Phases()
        runs.append(train_run(db, few, tmp_path / str(cores), config, Options(), progress=watch))
        phases.append(watch.ended)
    assert phases[0] == phases[1]
    one, many = (run.record.to_json() for run in runs)
    for name in ("metrics", "baselines", "trees", "parts", "history"):
        assert one[name] == many[name], name
    weights = [run.weights() for run in runs]
    assert all(torch.equal(weights[0][name], value) for name, value in weights[1].items())
