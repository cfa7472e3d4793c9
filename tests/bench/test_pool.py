"""Several runs at once: the same results as one after the other; a run that fails or dies leaves
the others alone."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from gelgt import Database, Task
from gelgt.bench.plan import study_cells
from gelgt.bench.pool import CellEvent
from gelgt.bench.run import run_study
from gelgt.bench.study import Study, StudyConfig, Variant
from gelgt.bench.tables import study_markdown
from gelgt.runs.folder import CHECKPOINT, MARK

ONE = Study("quality", "", (Variant("gelgt"),), "gelgt")


@pytest.mark.usefixtures("whole_forests")  # other processes grow whole ones
@pytest.mark.slow
def test_two_at_once(db: Database, task: Task, out: Path, tiny: dict[str, Any]) -> None:
    """Four runs: one finds a damaged checkpoint, one is killed, the other two come out as they do
    alone."""
    # the fixtures that make columns networks quick do not reach other processes
    settings = tiny | {"train.epochs": 3, "model.column_members": 0}
    config = StudyConfig(out, seeds=(0, 1, 2, 3), settings=settings, jobs=2)
    cells = study_cells(ONE, [task], config)
    cells[1].folder.mkdir(parents=True)
    (cells[1].folder / MARK).touch()
    (cells[1].folder / CHECKPOINT).write_bytes(b"no checkpoint")
    events: list[CellEvent] = []

    def note(event: CellEvent) -> None:
        events.append(event)
        if event.what == "begin" and event.cell.seed == 2:
            os.kill(event.process, signal.SIGKILL)

    result = run_study(ONE, db, [task], config, on_event=note, draws=5)
    failed = {entry["seed"]: entry["error"] for entry in result["failed"]}
    assert failed.keys() == {1, 2}
    assert failed[1].startswith("damaged_file: ")
    assert failed[2] == "the process ended with code -9 (killed)"
    assert len({event.process for event in events if event.what == "begin"}) >= 2
    assert "[2 of 4 seeds]" in study_markdown(result)
    alone = run_study(
        ONE,
        db,
        [task],
        StudyConfig(out.with_name("alone"), seeds=(0, 3), settings=config.settings),
        draws=5,
    )
    assert result["results"][0]["scores"] == alone["results"][0]["scores"]


@pytest.mark.slow
def test_stopping_leaves_runs_that_go_on(
    db: Database, task: Task, out: Path, tiny: dict[str, Any]
) -> None:
    # as above; before the first step of a network nobody asks whether to stop
    settings = tiny | {
        "train.epochs": 400,
        "train.patience": 400,
        "model.column_members": 0,
        "model.trees": False,
    }
    config = StudyConfig(out, seeds=(0, 1), settings=settings, jobs=2)
    begun: list[CellEvent] = []
    result = run_study(
        ONE, db, [task], config, on_event=begun.append, stop=lambda: len(begun) > 0, draws=5
    )
    assert [left["seed"] for left in result["left"]] == [0, 1]
    assert result["failed"] == []
    said = [event.what for event in begun]
    assert set(said) - {"notice"} == {"begin", "stopped"}  # a run may tell something first
    assert said.count("begin") == said.count("stopped")
    assert all((event.cell.folder / CHECKPOINT).is_file() for event in begun)
