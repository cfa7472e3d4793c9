"""progress.json: it tells of every phase, epoch and end, and changes nothing of what is trained."""

import json
import threading
import time
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import torch
from tiny import small

from gelgt import Database, GelgtError, Task
from gelgt.live import LiveServer, RunFolder
from gelgt.runs import progress as progress_file
from gelgt.runs.folder import CHECKPOINT, SUCCESS, load_run
from gelgt.runs.progress import PROGRESS, Phase, ProgressRecord
from gelgt.runs.record import read_record
from gelgt.training import Options, Progress, fit, train_run

pytestmark = pytest.mark.usefixtures("usual_shares")


def recorded(folder: Path) -> ProgressRecord:
    return read_record(folder / PROGRESS, ProgressRecord)


def is_at(record: ProgressRecord, epoch: int, step: int) -> bool:
    return record.step is not None and (record.step.epoch, record.step.step) == (epoch, step)


def same_weights(one: Path, other: Path) -> bool:
    first, second = load_run(one).weights(), load_run(other).weights()
    return first.keys() == second.keys() and all(torch.equal(first[k], second[k]) for k in first)


@pytest.fixture(scope="module")
def watched(
    db: Database, few: Task, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, list[ProgressRecord]]:
    """A run, and what its file said whenever a step or phase was done."""
    out = tmp_path_factory.mktemp("watched") / "run"
    seen: list[ProgressRecord] = []

    class Reader(Progress):
        def step(self, epoch: int, step: int, *numbers: Any) -> None:
            """Waits until the file has come so far: a thread of its own writes it."""
            until = time.monotonic() + 60
            record = recorded(out)
            while time.monotonic() < until and not is_at(record, epoch, step):
                time.sleep(0.002)
                record = recorded(out)
            seen.append(record)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(progress_file, "EVERY", 0.005)
        options = Options(before=(Phase(name="source", seconds=1.5, facts="8 tables"),))
        config = small(few.task_type, train__ensemble=2, train__retrain=True)
        train_run(db, few, out, config, options, progress=Reader())
    return out, seen


def test_what_it_tells_while_training(watched: tuple[Path, list[ProgressRecord]]) -> None:
    _, seen = watched
    assert {record.status for record in seen} == {"running"}
    assert {record.phase for record in seen} == {"training", "retrain"}
    assert {record.metric for record in seen} == {"roc_auc"}
    with_steps = [record.step for record in seen if record.step is not None]
    assert {step.epoch for step in with_steps} == {1, 2}
    assert all(0 < step.step <= step.steps == 4 for step in with_steps)
    assert all(step.left is not None and step.left >= 0 for step in with_steps)
    assert any(len(record.curves) == 2 and record.networks == 2 for record in seen)
    names = [phase.name for phase in seen[0].phases]
    assert names == ["source", "data", "columns", "baselines", "trees", "columns network"]
    assert seen[0].phases[0].seconds == 1.5
    baselines = next(phase for phase in seen[0].phases if phase.name == "baselines")
    assert f"lightgbm {seen[0].baselines['lightgbm']:.4f}" in baselines.facts
    assert seen[0].limit == 300


def test_how_it_ends(watched: tuple[Path, list[ProgressRecord]]) -> None:
    folder, _ = watched
    end, run = recorded(folder), load_run(folder).record
    assert (end.status, end.ended, end.step) == ("finished", run.ended, None)
    assert end.scores["gelgt"]["test"] == run.metrics["test"]["roc_auc"]
    assert end.scores["lightgbm"]["val"] == run.baselines["lightgbm"]["val"]["roc_auc"]
    curves = [(c.network, c.is_retraining) for c in end.curves]
    assert curves == [(1, False), (2, False), (1, True), (2, True)]
    first = end.curves[0]
    assert [(p.epoch, p.loss, p.score) for p in first.points] == [
        (epoch.epoch, epoch.loss, epoch.val["roc_auc"]) for epoch in run.epochs
    ]
    assert first.best_epoch == run.best_epoch
    assert all(p.score is None for curve in end.curves[2:] for p in curve.points)


def test_the_file_is_no_part_of_the_run(watched: tuple[Path, list[ProgressRecord]]) -> None:
    """It may change, and be left out of a copy: the checksums are of other files."""
    folder, _ = watched
    assert PROGRESS not in json.loads((folder / SUCCESS).read_text())["files"]
    text = (folder / PROGRESS).read_text()
    (folder / PROGRESS).write_text("{}")
    load_run(folder)
    (folder / PROGRESS).write_text(text)


def test_watching_changes_nothing_of_what_is_trained(
    db: Database, few: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same weights, bit for bit, without a file and with one that several pages read."""
    config = small(few.task_type)
    with monkeypatch.context() as patch:
        patch.setattr(progress_file.ProgressFile, "_write", lambda self: None)
        train_run(db, few, tmp_path / "alone", config)
    assert not (tmp_path / "alone" / PROGRESS).exists()
    monkeypatch.setattr(progress_file, "EVERY", 0.005)
    ended, answers = threading.Event(), [0, 0, 0]
    with LiveServer(RunFolder(tmp_path / "read")) as server:

        def read(reader: int) -> None:
            while not ended.is_set():
                with urlopen(f"{server.address}live.json?page={reader}") as answer:
                    answers[reader] += json.loads(answer.read())["state"] == "running"

        readers = [threading.Thread(target=read, args=(number,)) for number in range(3)]
        for reader in readers:
            reader.start()
        train_run(db, few, tmp_path / "read", config)
        ended.set()
        for reader in readers:
            reader.join()
    assert min(answers) > 5
    assert same_weights(tmp_path / "alone", tmp_path / "read")


def test_an_interrupt_and_what_is_resumed(db: Database, few: Task, tmp_path: Path) -> None:
    """The curve of a resumed run has every epoch once, and says what came before."""
    out, config = tmp_path / "run", small(few.task_type, train__epochs=4)
    told: list[int] = []

    class Count(Progress):
        def epoch(self, record: Any, best_epoch: int, network: int = 1) -> None:
            told.append(record.epoch)

    train_run(db, few, out, config, progress=Count(), stop=lambda: len(told) >= 2)
    cut = recorded(out)
    assert (cut.status, cut.ended, cut.is_stopping) == ("interrupted", "interrupted", True)
    assert cut.scores["gelgt"]["test"] is not None
    train_run(db, few, out, config, Options(resume=True))
    whole = recorded(out)
    assert (whole.status, whole.ended) == ("finished", "all epochs")
    assert [point.epoch for point in whole.curves[0].points] == [1, 2, 3, 4]
    assert whole.curves[0].points[:2] == cut.curves[0].points[:2]
    assert [(each.status, each.began) for each in whole.earlier] == [("interrupted", cut.began)]


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (GelgtError("no_disk", "The disk is full.", "Make room."), "failed", "no_disk"),
        (KeyboardInterrupt(), "interrupted", None),
        (ValueError("password=s3cret"), "failed", "bug"),
    ],
)
def test_an_error_while_training(
    error: BaseException,
    status: str,
    code: str | None,
    db: Database,
    few: Task,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fit, "CHECKPOINT_SECONDS", 0.0)
    out = tmp_path / "run"

    def stop() -> bool:
        if (out / CHECKPOINT).exists():
            raise error
        return False

    with pytest.raises(type(error)):
        train_run(db, few, out, small(few.task_type), stop=stop)
    record = recorded(out)
    assert (record.status, record.error.get("code")) == (status, code)
    assert "s3cret" not in (out / PROGRESS).read_text()


def test_an_error_before_anything_is_trained_leaves_no_folder(
    db: Database, few: Task, tmp_path: Path
) -> None:
    class Refuses(Progress):
        def phase(self, name: str, facts: str = "") -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_run(db, few, tmp_path / "run", small(few.task_type), progress=Refuses())
    assert not (tmp_path / "run").exists()


def test_a_disk_that_refuses_the_file_ends_no_training(
    db: Database, few: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, text: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(progress_file, "write_text", refuse)
    run = train_run(db, few, tmp_path / "run", small(few.task_type))
    assert run.record.ended == "all epochs"
    assert not (tmp_path / "run" / PROGRESS).exists()


def test_it_is_written_while_nothing_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long phase without events shows signs of life all the same."""
    monkeypatch.setattr(progress_file, "EVERY", 0.01)
    monkeypatch.setattr(progress_file, "BEAT", 0.02)
    beats = threading.Semaphore(0)

    def content() -> ProgressRecord:
        beats.release()
        return ProgressRecord(updated=time.time())

    with progress_file.ProgressFile(tmp_path, content):
        first = recorded(tmp_path).updated
        for _ in range(4):
            assert beats.acquire(timeout=60)
        assert recorded(tmp_path).updated > first
