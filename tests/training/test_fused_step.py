"""Recorded steps whose end is one pass over memory: the same training as by PyTorch's optimiser, on
whose state checkpoints agree, and copies of weights that are never stale.

On a CPU `plain_adam` stands in for the kernels, which tests/nn/test_adam.py compares with PyTorch.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from test_abreast import alone, assert_same, studio
from test_graphed import DRY, trainer, weights
from tiny import small
from torch import Tensor

from gelgt import Database, Task
from gelgt.nn.kernels.adam_launch import Moved, Rule, Tables
from gelgt.nn.static.input import StaticInput
from gelgt.nn.static.weights import LowWeights
from gelgt.training import fit
from gelgt.training.abreast import Record, SideBySide
from gelgt.training.fit import Trainer
from gelgt.training.optimiser import make_optimiser
from gelgt.training.spread import Member, MemberJob
from gelgt.training.steps import RecordedSteps


def plain_adam(moved: Sequence[Moved], rule: Rule, tables: Tables, share: Tensor) -> None:
    """What `launch_adam` does, by PyTorch; like a kernel, it changes tensors uncounted."""
    gradients = [each.gradient.float().clone() for each in moved]
    if rule.clip is not None:
        norm = torch.stack([g.square().sum() for g in gradients]).sum().sqrt()
        torch._foreach_mul_(gradients, (rule.clip / (norm + 1e-6)).clamp(max=1.0))
    for each, gradient in zip(moved, gradients, strict=True):
        each.step.add_(1)
        parameter = each.parameter.data
        if rule.is_decoupled:
            parameter.sub_(parameter * each.decay * each.rate)
        else:
            gradient.add_(parameter, alpha=each.decay)
        each.first.lerp_(gradient, 1 - rule.betas[0])
        each.second.mul_(rule.betas[1]).add_(gradient.square(), alpha=1 - rule.betas[1])
        first, second = (1 - beta ** each.step.double() for beta in rule.betas)
        root = (each.second / second).sqrt().float() + rule.eps
        parameter.sub_(each.rate / first * each.first / root)
        if each.copy is not None:
            each.copy.data.copy_(parameter)
        if each.average is not None:
            each.average.lerp_(parameter, share)


@pytest.fixture(autouse=True)
def fused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gelgt.training.fit.PARTS", 1)
    monkeypatch.setattr("gelgt.training.steps.has_triton", lambda device: True)
    monkeypatch.setattr("gelgt.training.fused_step.launch_adam", plain_adam)


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Every pass through the network compares the copies that it multiplies by with the weights;
    how many there were."""
    seen: list[int] = []
    swapped = LowWeights.swapped

    @contextmanager
    def compared(self: LowWeights) -> Iterator[None]:
        for copy, weight in zip(self.copies, self.originals, strict=True):
            assert torch.equal(copy, weight.to(copy.dtype))
        seen.append(len(self.copies))
        with swapped(self):
            yield

    monkeypatch.setattr(LowWeights, "swapped", compared)
    return seen


def by_torch(made: Trainer) -> Trainer:
    """The same trainer, with PyTorch's optimiser in packed steps."""
    assert made.recorded is not None
    made.recorded.fused = None
    return made


def losses(of: Trainer) -> list[float]:
    return [record["loss"] for record in of.state.history]


def moments(of: Trainer, only: str = "") -> dict[str, Tensor]:
    state = of.optimiser.moments()
    found = {f"{number}/{name}": t for number in state for name, t in state[number].items()}
    return {name: t for name, t in found.items() if name.endswith(f"/{only}" if only else "")}


def same(one: dict[str, Tensor], other: dict[str, Tensor], name: str) -> bool:
    return torch.equal(one[name], other[name])


def apart(found: dict[str, Tensor], expected: dict[str, Tensor]) -> float:
    """How far tensors are from others, in the length of these."""
    assert found.keys() == expected.keys()
    one, other = (
        torch.cat([of[name].flatten().double() for name in expected]) for of in (found, expected)
    )
    return float((one - other).norm() / other.norm())


def averages(of: Trainer) -> dict[str, Tensor]:
    return of.average.values


AVERAGED: dict[str, Any] = {"train__weight_average": 0.9, "train__weight_decay": 0.1}


@pytest.mark.parametrize(
    "changes",
    [
        AVERAGED | {"train__clip": 0.1},
        AVERAGED | {"train__optimizer": "adam", "train__clip": None},
    ],
    ids=str,
)
def test_the_same_training(db: Database, task: Task, changes: dict[str, Any]) -> None:
    config = small(**changes, **DRY)
    found, expected = trainer(db, task, config), by_torch(trainer(db, task, config))
    for made in (found, expected):
        made.run()
    assert losses(found) == pytest.approx(losses(expected), rel=1e-5)
    for of in (weights, averages):
        assert apart(of(found), of(expected)) < 1e-4
    for name in ("exp_avg", "exp_avg_sq", "step"):
        assert apart(moments(found, name), moments(expected, name)) < 1e-2


def test_in_low_precision(db: Database, task: Task, fresh: list[int]) -> None:
    """Across epochs, whose end evaluates the average, the copies are those of the weights."""
    config = small(train__precision="bfloat16", **AVERAGED, **DRY)
    found, expected = trainer(db, task, config), by_torch(trainer(db, task, config))
    found.run()
    assert len(fresh) == 8
    assert all(fresh)
    expected.run()
    assert losses(found) == pytest.approx(losses(expected), rel=1e-3)


def test_ordinary_steps_between_them(
    db: Database, task: Task, fresh: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches without room change the weights and not the copies."""
    config = small(train__precision="bfloat16", **AVERAGED, **DRY)
    mixed, expected = trainer(db, task, config), trainer(db, task, config, is_packed=False)
    assert mixed.recorded is not None
    packer = mixed.recorded.packer
    monkeypatch.setattr(
        mixed.recorded, "packer", lambda batch: packer(batch) if batch.index[0] % 2 else None
    )
    for made in (mixed, expected):
        made.run()
    assert 0 < len(fresh) < 8
    assert losses(mixed) == pytest.approx(losses(expected), rel=2e-2)
    assert all(float(t) == 8 for t in moments(mixed, "step").values())


def test_steps_in_parts(db: Database, task: Task, fresh: list[int]) -> None:
    config = small(train__precision="bfloat16", **AVERAGED, **DRY)
    split, expected = (trainer(db, task, config, parts=2) for _ in range(2))
    split.run()
    assert len(fresh) == 16
    by_torch(expected).run()
    assert losses(split) == pytest.approx(losses(expected), rel=1e-3)
    assert apart(averages(split), averages(expected)) < 1e-3


def interrupted(db: Database, task: Task, config: Any, folder: Path, **options: Any) -> None:
    """Three of eight steps."""
    folder.mkdir()
    made = trainer(db, task, config, folder=folder, stop=lambda: made.state.total >= 3, **options)
    made.run()
    assert made.state.ended == "interrupted"


def test_a_resumed_run_is_an_unbroken_one(
    db: Database, task: Task, tmp_path: Path, fresh: list[int]
) -> None:
    config = small(train__precision="bfloat16", **AVERAGED)
    whole = trainer(db, task, config)
    whole.run()
    interrupted(db, task, config, tmp_path / "run")
    second = trainer(db, task, config, folder=tmp_path / "run")
    second.run()
    assert losses(second) == losses(whole)
    for of in (weights, moments, averages):
        expected, found = of(whole), of(second)
        assert found.keys() == expected.keys()
        assert all(same(found, expected, name) for name in expected)
    assert len(fresh) == 16


@pytest.mark.parametrize("is_packed", [True, False])
def test_resumed_by_the_other_kind_of_steps(
    db: Database, task: Task, tmp_path: Path, is_packed: bool
) -> None:
    config = small(**AVERAGED, **DRY)
    whole = trainer(db, task, config)
    whole.run()
    interrupted(db, task, config, tmp_path / "run", is_packed=is_packed)
    second = trainer(db, task, config, not is_packed, folder=tmp_path / "run")
    second.run()
    assert losses(second) == pytest.approx(losses(whole), rel=1e-4)
    assert moments(second).keys() == moments(whole).keys()
    assert apart(averages(second), averages(whole)) < 1e-4


def test_a_trial_run_changes_nothing(
    db: Database, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither before the first step nor between two: parameters, averages, moments, copies."""
    made = trainer(db, task, small(train__precision="bfloat16", **AVERAGED))
    steps = made.recorded
    assert steps is not None
    work, tried = RecordedSteps.work, list[set[str]]()

    def everything() -> dict[str, Tensor]:
        copies = {f"copy {number}": copy for number, copy in enumerate(steps.weights.copies)}
        averaged = {f"average {name}": t for name, t in averages(made).items()}
        tensors = weights(made) | averaged | moments(made) | copies
        return {name: t.detach().clone() for name, t in tensors.items()}

    def tried_first(inputs: Any) -> Tensor:
        before = everything()
        with steps.unchanged():
            work(steps, inputs)
            during = everything()
        tried.append({name.split()[0] for name in before if not same(before, during, name)})
        after = everything()
        assert all(same(before, after, name) for name in before)
        assert all(not after[name].any() for name in after.keys() - before.keys())
        return work(steps, inputs)

    monkeypatch.setattr(steps.replay, "work", tried_first)
    whole = trainer(db, task, small(train__precision="bfloat16", **AVERAGED))
    for each in (made, whole):
        each.run()
    assert len(tried) == 8
    assert all({"copy", "average", "biases.0.mix.weight"} <= names for names in tried)
    assert losses(made) == losses(whole)
    assert all(same(weights(made), weights(whole), name) for name in weights(whole))


@pytest.fixture
def recordable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit, "why_not_recorded", lambda *_: None)
    monkeypatch.setattr(
        fit, "make_optimiser", lambda model, config, **_: make_optimiser(model, config)
    )


@pytest.mark.usefixtures("recordable")
def test_one_trial_run_for_all(db: Database, task: Task) -> None:
    """It changes no network, and leaves all of them with the state that a recorded step writes:
    what is allocated while recording is written anew by every replay."""
    of = studio(db, task, small(train__precision="bfloat16", **AVERAGED))
    first = of.trainer(MemberJob(0))
    trainers = [first, *(of.trainer(MemberJob(number), beside=first) for number in (1, 2))]
    expected = [weights(made) for made in trainers]
    record = Record(trainers)
    with closing(first.batches()) as batches:
        ((batch,),) = islice(batches, 1)
    replay = record.replay
    for made in trainers:
        made.prepare_step()
    history = record.steps[0].history
    assert history is not None
    with replay.unchanged():
        losses = replay.trial(StaticInput(batch.shape, batch.words, history[: batch.shape.seeds]))
    assert losses.shape == (3,)
    for made, before in zip(trainers, expected, strict=True):
        assert all(same(weights(made), before, name) for name in before)
        assert moments(made).keys() == moments(first).keys() != set()
        assert not any(moment.any() for moment in moments(made).values())
        steps = made.recorded
        assert steps is not None
        for copy, weight in zip(steps.weights.copies, steps.weights.originals, strict=True):
            assert torch.equal(copy, weight.to(copy.dtype))


@pytest.mark.usefixtures("recordable")
def test_networks_side_by_side(db: Database, task: Task, fresh: list[int]) -> None:
    """Each has its own copies, moments and average."""
    of = studio(db, task, small(train__precision="bfloat16", model__dropout=0.2, **AVERAGED))
    first = of.trainer(MemberJob(0))
    trainers = [first, of.trainer(MemberJob(1), beside=first)]
    states = SideBySide(trainers).run()
    assert len(fresh) == 16
    for made, state, number in zip(trainers, states, (0, 1), strict=True):
        assert made.recorded is not None
        assert made.recorded.fused is not None
        assert_same(Member(made.model, state), alone(of, MemberJob(number)))
