"""Steps and predictions over packed batches: the same training, the same predictions, and a resumed
run is an unbroken one.

On a CPU nothing is recorded, but everything else is as on CUDA: the packed batches, the rates on
the device, the losses that come late.
"""

from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny import opened, small

import gelgt
from gelgt import Database, Task
from gelgt.nn.static.pack import StaticBatch
from gelgt.nn.static.shape import Shape
from gelgt.presets import RunConfig
from gelgt.scoring import Scorer
from gelgt.scoring import scorer as scorer_module
from gelgt.scoring.replay import why_not_recorded
from gelgt.training.data import TrainingData
from gelgt.training.fit import Trainer
from gelgt.training.model import make_model
from gelgt.training.regime import in_regime
from gelgt.training.session import Session
from gelgt.training.steps import LONG


@pytest.fixture(autouse=True)
def whole_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """A packed batch is not split."""
    monkeypatch.setattr("gelgt.training.fit.PARTS", 1)


DRY: dict[str, Any] = {"model__dropout": 0.0, "model__gnn_dropout": 0.0}


def trainer(
    db: Database,
    task: Task,
    config: RunConfig,
    is_packed: bool = True,
    parts: int | None = None,
    **options: Any,
) -> Trainer:
    config = in_regime(config, task)
    data = opened(db, task, config)
    session = Session(**options)
    made = Trainer(make_model(data, config), data, config.train, session=session, parts=parts)
    if is_packed:
        made.recorded = made.record()
    return made


def weights(of: Trainer) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in of.model.state_dict().items()}


@pytest.mark.parametrize("norm", ["layer", "batch"])
def test_packed_training_is_training(db: Database, task: Task, norm: str) -> None:
    config = small(model__norm=norm, **DRY)
    runs = [trainer(db, task, config, is_packed) for is_packed in (False, True)]
    states = [run.run() for run in runs]
    eager, packed = ([record["loss"] for record in state.history] for state in states)
    assert packed == pytest.approx(eager, rel=1e-4)
    assert states[1].best == pytest.approx(states[0].best, abs=1e-3)
    assert runs[1].recorded is not None
    assert not runs[1].recorded.waiting
    assert len(runs[1].recorded.replay.programs) >= 1


def test_packed_steps_in_parts(db: Database, task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where gradients are added up between two records, as several workers do, steps are the
    same; also where one of the parts has no room."""
    config = small(**DRY)
    whole = trainer(db, task, config)
    split = trainer(db, task, config, parts=2)
    mixed = trainer(db, task, config, parts=2)
    assert split.recorded is not None
    assert split.recorded.is_split
    assert mixed.recorded is not None
    packer = mixed.recorded.packer
    monkeypatch.setattr(
        mixed.recorded, "packer", lambda batch: packer(batch) if batch.index[0] % 2 else None
    )
    states = [made.run() for made in (whole, split, mixed)]
    expected, *found = ([record["loss"] for record in state.history] for state in states)
    assert found[0] == pytest.approx(expected, rel=1e-5)
    assert found[1] == pytest.approx(expected, rel=1e-5)
    torch.testing.assert_close(weights(split), weights(whole), atol=3e-4, rtol=1e-3)


def test_a_resumed_run_is_an_unbroken_one(db: Database, task: Task, tmp_path: Path) -> None:
    config = small(train__weight_average=0.9)
    whole = trainer(db, task, config, folder=tmp_path / "whole")
    first = trainer(
        db, task, config, folder=tmp_path / "broken", stop=lambda: first.state.total >= 3
    )
    for made in (whole, first):
        made.session.folder.mkdir()  # type: ignore[union-attr]
        made.run()
    assert first.state.ended == "interrupted"
    second = trainer(db, task, config, folder=tmp_path / "broken")
    second.run()
    assert second.state.history[-1]["loss"] == whole.state.history[-1]["loss"]
    expected, found = weights(whole), weights(second)
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_the_shapes_of_an_epoch(db: Database, task: Task) -> None:
    """One in the first, so that there is one recording, and all of them in a long run; which ones
    depends on nothing but the epoch."""
    found: dict[int, list[Shape]] = {}
    for epochs in ((0, 1, LONG), (LONG, 1, 0)):
        made = trainer(db, task, small(train__batch_size=24, train__steps_per_epoch=40))
        assert made.recorded is not None
        for epoch in epochs:
            made.state.epoch = epoch
            shapes = [batch.shape for (batch,) in made.batches()]
            assert found.setdefault(epoch, shapes) == shapes
    assert set(found[0]) == {made.recorded.packer.shapes[-2]}
    rows = {epoch: sum(shape.rows for shape in shapes) for epoch, shapes in found.items()}
    assert rows[0] > rows[1] > rows[LONG]


def test_a_batch_without_room_takes_an_ordinary_step(db: Database, task: Task) -> None:
    config = small(train__epochs=1, **DRY)
    whole, cramped = trainer(db, task, config, is_packed=False), trainer(db, task, config)
    assert cramped.recorded is not None
    cramped.recorded.packer.shapes = cramped.recorded.packer.shapes[:1]
    cramped.recorded.packer.shapes[0] = type(cramped.recorded.packer.shapes[0])(
        32, 8, 8, 8, (1,) * len(cramped.data.graph.tables)
    )
    states = [made.run() for made in (whole, cramped)]
    assert states[1].history[0]["loss"] == pytest.approx(states[0].history[0]["loss"], rel=1e-6)


def test_packed_predictions_are_the_predictions(
    db: Database, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = trainer(db, task, small(), is_packed=False)
    made.model.eval()
    seeds = made.data.seeds["val"]
    expected = Scorer(made.model, made.data, batch_size=32).predict(seeds).together
    monkeypatch.setattr(scorer_module, "why_not_recorded", lambda *_: None)
    monkeypatch.setattr(scorer_module, "FEW", 1)
    for size in (32, 48):
        scorer = Scorer(made.model, made.data, batch_size=size)
        for _ in range(2):
            np.testing.assert_allclose(scorer.predict(seeds).together, expected, atol=1e-5)
        assert scorer._recorded["outputs"].replay.programs


def test_without_a_gpu_steps_are_not_recorded(db: Database, task: Task) -> None:
    made = trainer(db, task, small(), is_packed=False)
    assert made.recorded is None
    assert (
        why_not_recorded(made.model, made.data, torch.device("cpu"))
        == "CUDA graphs need a CUDA device"
    )


on_gpu = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def on_f1(
    relbench_data: Callable[[str], Path],
    preset: str = "paper",
    is_recorded: bool = True,
    **changes: Any,
) -> Trainer:
    """A trainer of driver-dnf on the GPU."""
    db = gelgt.open(relbench_data("rel-f1"))
    task = db.task("driver-dnf")
    settings = {name.replace("__", "."): value for name, value in changes.items()}
    config = in_regime(RunConfig.of(preset, task.task_type, settings), task)
    data = TrainingData.of(db, task, config)
    return Trainer(make_model(data, config), data, config.train, "cuda", is_recorded=is_recorded)


def rows_of(batch: Any) -> int:
    return batch.seeds if isinstance(batch, StaticBatch) else batch.batch.num_seeds


def losses(made: Trainer, steps: int) -> list[float]:
    """The loss of each step."""
    found: list[float] = []
    while len(found) < steps:
        for batch in islice(made.loader.epoch(made.state.epoch), steps - len(found)):
            before = made.state.loss
            made._step([batch], rows_of(batch))
            made.collect()
            made.state.total += 1
            found.append(made.state.loss - before)
        made.state.epoch += 1
    return found


class TestOnGpu:
    """Recorded steps and predictions; the same figures come from `gelgt bench efficiency`."""

    pytestmark = on_gpu

    def test_recorded_steps_are_steps(
        self, relbench_data: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        dry = {"model__dropout": 0.0, "model__gnn_dropout": 0.0, "train__precision": "float32"}
        eager, recorded = (
            on_f1(relbench_data, is_recorded=is_recorded, **dry) for is_recorded in (False, True)
        )
        assert recorded.recorded is not None
        assert losses(recorded, 4) == pytest.approx(losses(eager, 4), rel=1e-5)
        recorded.model.load_state_dict(eager.model.state_dict())
        seeds = eager.data.seeds["val"]
        monkeypatch.setattr(scorer_module, "FEW", 1)
        expected, found = (
            Scorer(
                of.model,
                of.data,
                "cuda",
                precision="float32",
                batch_size=32,
                is_recorded=of is recorded,
            ).predict(seeds)
            for of in (eager, recorded)
        )
        np.testing.assert_allclose(found.together, expected.together, atol=1e-5)

    @pytest.mark.parametrize(("optimizer", "clip"), [("adam", None), ("adamw", 1.0)])
    def test_the_end_of_a_step_is_that_of_pytorch(
        self,
        relbench_data: Callable[[str], Path],
        monkeypatch: pytest.MonkeyPatch,
        optimizer: str,
        clip: float | None,
    ) -> None:
        """Ten recorded steps of a small network by the fused kernels and by PyTorch's. Later the
        roundings have grown, as they do between two runs by PyTorch whose weights differ by 1e-7 at
        the start."""
        changes = {
            "model__width": 64,
            "model__heads": 2,
            "model__row_width": 32,
            "train__optimizer": optimizer,
            "train__clip": clip,
            "train__weight_average": 0.9,
            "train__precision": "float32",
        }
        fused = on_f1(relbench_data, **changes)
        with monkeypatch.context() as patched:
            patched.setattr("gelgt.training.steps.has_triton", lambda device: False)
            plain = on_f1(relbench_data, **changes)
        assert fused.recorded is not None
        assert fused.recorded.fused is not None
        assert plain.recorded is not None
        assert plain.recorded.fused is None
        assert losses(fused, 10) == pytest.approx(losses(plain, 10), abs=3e-6)
        found, expected = (
            torch.cat([value.flatten() for value in run.average.values.values()])
            for run in (fused, plain)
        )
        assert (found - expected).norm() < 1e-3 * expected.norm()

    def test_copies_of_weights_are_those_of_the_weights(
        self, relbench_data: Callable[[str], Path]
    ) -> None:
        """After recorded steps in bf16, and after weights were changed otherwise."""
        made = on_f1(relbench_data, train__precision="bfloat16")
        assert made.recorded is not None
        weights = made.recorded.weights
        for _ in range(2):
            losses(made, 5)
            assert weights.copies
            for copy, weight in zip(weights.copies, weights.originals):
                assert torch.equal(copy, weight.to(torch.bfloat16))
            made.model.load_state_dict(
                {name: value * 1.01 for name, value in made.model.state_dict().items()}
            )
            made.recorded.begin()
            for copy, weight in zip(weights.copies, weights.originals):
                assert torch.equal(copy, weight.to(torch.bfloat16))

    def test_two_recorded_runs_have_the_same_bits(
        self, relbench_data: Callable[[str], Path]
    ) -> None:
        runs = [on_f1(relbench_data) for _ in range(2)]
        assert losses(runs[0], 6) == losses(runs[1], 6)
        expected, found = (weights(run) for run in runs)
        assert all(torch.equal(found[name], expected[name]) for name in expected)

    def test_bf16_learns_as_float32_does(self, relbench_data: Callable[[str], Path]) -> None:
        """Fused kernels in bf16 against the reference backend in float32: the mean loss of steps
        75 to 150 of three seeds."""
        plain = {"model__backend": "reference", "train__precision": "float32"}
        expected = [
            np.mean(losses(on_f1(relbench_data, train__seed=seed, **plain), 150)[75:])
            for seed in (0, 1, 2)
        ]
        found = np.mean(losses(on_f1(relbench_data, train__precision="bfloat16"), 150)[75:])
        assert abs(found - np.mean(expected)) < 2 * np.std(expected, ddof=1)
