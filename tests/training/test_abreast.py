"""Networks that are trained side by side: each as if it were trained alone, also where one ends
before the others, where a run was killed, and where a batch has no room.

On a CPU nothing is recorded, but everything else is as on CUDA.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import opened, small

import gelgt
from gelgt import Database, Task
from gelgt.presets import RunConfig
from gelgt.runs.progress import PROGRESS, ProgressRecord
from gelgt.runs.record import read_record
from gelgt.training import Options, fit, train_run
from gelgt.training.abreast import SideBySide
from gelgt.training.checkpoint import State
from gelgt.training.data import TrainingData
from gelgt.training.optimiser import make_optimiser
from gelgt.training.progress import Progress
from gelgt.training.regime import in_regime
from gelgt.training.spread import Member, MemberJob, Studio


@pytest.fixture(autouse=True)
def packed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps are what is recorded on CUDA."""
    if request.node.get_closest_marker("gpu"):
        return
    monkeypatch.setattr(fit, "PARTS", 1)
    monkeypatch.setattr(fit, "why_not_recorded", lambda *_: None)
    monkeypatch.setattr("gelgt.training.ensemble.why_not_recorded", lambda *_: None)
    monkeypatch.setattr(
        fit, "make_optimiser", lambda model, config, **_: make_optimiser(model, config)
    )


def studio(db: Database, task: Task, config: RunConfig, **options: Any) -> Studio:
    config = in_regime(config, task)
    return Studio(opened(db, task, config), config, torch.device("cpu"), True, **options)


def alone(of: Studio, job: MemberJob) -> Member:
    trainer = of.trainer(job)
    return Member(trainer.model, trainer.run())


def after(count: int) -> Callable[[], bool]:
    """Asks to stop once it was asked so often."""
    asked = iter(range(count))
    return lambda: next(asked, None) is None


def told(state: State) -> list[dict[str, Any]]:
    """What a state says of its epochs, but for how long they took."""
    return [
        {name: value for name, value in record.items() if name != "seconds"}
        for record in state.history
    ]


def assert_same(found: Member, expected: Member) -> None:
    assert told(found.state) == told(expected.state)
    assert found.state.ended == expected.state.ended
    weights = found.network.state_dict()
    for name, tensor in expected.network.state_dict().items():
        assert torch.equal(weights[name], tensor), name


@pytest.fixture
def config() -> RunConfig:
    return small(
        train__epochs=6,
        train__patience=1,
        train__rate=0.03,
        train__best_epochs=2,
        train__weight_average=0.9,
        model__dropout=0.2,
    )


def test_each_as_if_alone(db: Database, task: Task, config: RunConfig) -> None:
    of = studio(db, task, config)
    jobs = [MemberJob(number) for number in range(3)]
    members = list(of.train(jobs, 3))
    # whoever ends first stays in the record, and half of them are recorded anew
    assert len({len(member.state.history) for member in members}) > 1
    for member, job in zip(members, jobs):
        assert_same(member, alone(of, job))
    first, second, _ = (told(member.state) for member in members)
    assert first != second


def test_one_that_has_ended_does_not_disturb_the_others(
    db: Database, task: Task, config: RunConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stays in the record while most go on, also where shapes are recorded after it was scored:
    on CUDA those of the second epoch and of the eleventh are."""
    of, end_epoch = studio(db, task, config), fit.Trainer.end_epoch
    first = of.trainer(MemberJob(0))
    trainers = [first, *(of.trainer(MemberJob(n), beside=first) for n in (1, 2))]
    assert first.model.futures is not None

    def ended(trainer: fit.Trainer) -> None:
        end_epoch(trainer)
        if trainer is first:
            trainer.state.ended = "early stopping"

    monkeypatch.setattr(fit.Trainer, "end_epoch", ended)
    states = SideBySide(trainers).run()
    assert len(states[0].history) == 1 < len(states[1].history)
    for number in (1, 2):
        assert told(states[number]) == told(alone(of, MemberJob(number)).state)


def test_fewer_at_once_where_memory_ends(
    db: Database, task: Task, config: RunConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A GPU that has room for two networks trains four all the same, two at a time."""
    run, sizes, told_of = SideBySide.run, list[int](), list[str]()

    def small_gpu(self: SideBySide) -> list[State]:
        sizes.append(len(self.trainers))
        if len(self.trainers) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return run(self)

    class Heard(Progress):
        def notice(self, text: str) -> None:
            told_of.append(text)

    monkeypatch.setattr(SideBySide, "run", small_gpu)
    of = studio(db, task, config, progress=Heard())
    jobs = [MemberJob(number) for number in range(4)]
    members = list(of.train(jobs, 4))
    assert sizes == [4, 2, 2]
    assert told_of == ["the GPU has no room for 4 networks at once: 2 at a time"]
    assert len(members) == 4
    assert_same(members[3], alone(of, jobs[3]))


def test_retrained_for_different_epochs(db: Database, task: Task, config: RunConfig) -> None:
    of = studio(db, task, config)
    splits = ("train", "val")
    jobs = [MemberJob(0, None, splits, (1,), steps=2), MemberJob(1, None, splits, (2, 3))]
    for member, job in zip(of.train(jobs, 2), jobs):
        assert_same(member, alone(of, job))


def test_resumed_from_checkpoints_of_different_steps(
    db: Database, task: Task, config: RunConfig, tmp_path: Path
) -> None:
    """Killed between the checkpoints of two networks."""
    jobs = [MemberJob(number) for number in range(3)]
    expected = list(studio(db, task, config).train(jobs, 3))
    folders = [tmp_path / "early", tmp_path / "late"]
    for folder, count in zip(folders, (9, 21)):  # each network asks after each step
        folder.mkdir()
        broken = studio(db, task, config, folder=folder, stop=after(count)).train(jobs, 3)
        assert {member.state.ended for member in broken} == {"interrupted"}
    names = sorted(path.name for path in folders[1].glob("*.safetensors"))
    assert len(names) == 3
    shutil.copy(folders[1] / names[1], folders[0] / names[1])
    found = list(studio(db, task, config, folder=folders[0]).train(jobs, 3))
    for member, other in zip(found, expected):
        assert_same(member, other)


def test_batches_without_room(
    db: Database, task: Task, config: RunConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They take ordinary steps, of all networks."""
    of = studio(db, task, small(train__epochs=1, model__dropout=0.0, model__gnn_dropout=0.0))
    first = of.trainer(MemberJob(0))
    trainers = [first, of.trainer(MemberJob(1), beside=first)]
    assert first.recorded is not None
    packer = first.recorded.packer
    monkeypatch.setattr(
        first.recorded, "packer", lambda batch: packer(batch) if batch.index[0] % 2 else None
    )
    states = SideBySide(trainers).run()
    for state, number in zip(states, (0, 1)):
        expected = alone(of, MemberJob(number)).state.history
        assert state.history[0]["loss"] == pytest.approx(expected[0]["loss"], rel=1e-5)


class Told(Progress):
    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []

    def side_by_side(self, networks: Any, count: int, limit: Any, epochs: Any = None) -> None:
        self.events.append((list(networks), count, epochs))

    def member(self, number: int, count: int) -> None:
        raise AssertionError("none is trained alone")


def test_a_whole_run(db: Database, task: Task, tmp_path: Path) -> None:
    """Networks of a run are trained and retrained side by side, each with a curve of its own."""
    config = small(
        task.task_type, train__ensemble=3, train__retrain=True, train__epochs=2, model__trees=False
    )
    progress = Told()
    train_run(db, task, tmp_path / "run", config, Options(baselines=False), progress=progress)
    assert progress.events[0] == ([1, 2, 3], 3, None)
    assert progress.events[1][:2] == ([1, 2, 3], 3)
    curves = read_record(tmp_path / "run" / PROGRESS, ProgressRecord).curves
    assert [curve.network for curve in curves] == [1, 2, 3, 1, 2, 3]
    assert [curve.is_retraining for curve in curves] == [False] * 3 + [True] * 3
    for curve in curves[:3]:
        assert [point.epoch for point in curve.points] == [1, 2]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu(relbench_data: Callable[[str], Path]) -> None:
    """Three networks of the preset `gpu`, with dropout, over 300 steps: the losses that each has
    alone, and the same bits twice."""
    db = gelgt.open(relbench_data("rel-f1"))
    task = db.task("driver-dnf")
    settings = {"train.epochs": 15, "train.steps_per_epoch": 20, "train.patience": 15}
    config = in_regime(RunConfig.of("gpu", task.task_type, settings), task)
    of = Studio(TrainingData.of(db, task, config), config, torch.device("cuda"), True)
    jobs = [MemberJob(number) for number in range(3)]
    members, again = (list(of.train(jobs, 3)) for _ in range(2))
    for member, other, job in zip(members, again, jobs):
        assert_same(member, other)
        expected = [record["loss"] for record in alone(of, job).state.history]
        assert len(expected) == 15
        found = [record["loss"] for record in member.state.history]
        assert found == pytest.approx(expected, abs=1e-4)
