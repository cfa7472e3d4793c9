"""The fit loop: it learns, it is reproducible, it stops, and a resumed run is an unbroken one."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from tiny import opened, small

from gelgt import Database, GelgtError, Task
from gelgt.presets import RunConfig
from gelgt.runs.folder import CHECKPOINT
from gelgt.runs.record import Epoch
from gelgt.runs.tensors import load_tensors
from gelgt.scoring import Scorer
from gelgt.training.checkpoint import State, load_checkpoint
from gelgt.training.fit import Trainer
from gelgt.training.model import make_model
from gelgt.training.progress import Progress
from gelgt.training.regime import in_regime
from gelgt.training.session import Session


def trainer(db: Database, task: Task, config: RunConfig, **options: Any) -> Trainer:
    config = in_regime(config, task)
    data = opened(db, task, config)
    return Trainer(make_model(data, config), data, config.train, session=Session(**options))


def weights(of: Trainer) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in of.model.state_dict().items()}


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("average", [0.0, 0.9])
def test_a_seed_gives_the_same_weights_and_another_seed_others(
    db: Database, task: Task, average: float
) -> None:
    runs = [
        trainer(db, task, small(train__seed=seed, train__weight_average=average))
        for seed in (0, 0, 1)
    ]
    states = [run.run() for run in runs]
    assert same(weights(runs[0]), weights(runs[1]))
    assert not same(weights(runs[0]), weights(runs[2]))
    assert [r | {"seconds": 0} for r in states[0].history] == [
        r | {"seconds": 0} for r in states[1].history
    ]


def test_the_world_is_not_seeded(db: Database, task: Task) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    trainer(db, task, small(train__epochs=1)).run()
    assert torch.equal(torch.rand(3), expected)


class Stopper(Progress):
    """Ends training after some steps, and remembers the epochs."""

    def __init__(self, after: int | None = None) -> None:
        self.steps, self.after, self.records, self.was_resumed = 0, after, [], False

    def step(self, *facts: Any) -> None:
        self.steps += 1

    def epoch(self, record: Epoch, best_epoch: int, network: int = 1) -> None:
        self.records.append(record)

    def resumed(self, epoch: int, step: int, network: int = 1) -> None:
        self.was_resumed = True

    def __call__(self) -> bool:
        return self.after is not None and self.steps >= self.after


@pytest.fixture(scope="module")
def unbroken(db: Database, task: Task) -> Callable[[float], tuple[State, dict[str, torch.Tensor]]]:
    """The end and the weights of a run that nothing cuts, made once for an average."""

    @cache
    def run(average: float) -> tuple[State, dict[str, torch.Tensor]]:
        whole = trainer(db, task, small(train__weight_average=average))
        return whole.run(), weights(whole)

    return run


@pytest.mark.parametrize("after", [1, 3, 4, 5, 7, 8])
@pytest.mark.parametrize("average", [0.0, 0.9])
def test_a_resumed_run_is_an_unbroken_one(
    db: Database,
    task: Task,
    unbroken: Callable[[float], tuple[State, dict[str, torch.Tensor]]],
    tmp_path: Path,
    after: int,
    average: float,
) -> None:
    """Cut within an epoch, at its end, within the next, and in the very last step."""
    config = small(train__weight_average=average)
    state, expected = unbroken(average)
    first = Stopper(after)
    cut = trainer(db, task, config, folder=tmp_path, progress=first, stop=first)
    assert cut.run().ended == "interrupted"
    second = Stopper()
    rest = trainer(db, task, config, folder=tmp_path, progress=second)
    ended = rest.run()
    assert second.was_resumed
    assert first.steps + second.steps == 8
    assert ended.ended == state.ended == "all epochs"
    assert same(weights(rest), expected)
    assert [r["loss"] for r in ended.history][-1] == state.history[-1]["loss"]


def test_a_checkpoint_of_another_run_is_refused(db: Database, task: Task, tmp_path: Path) -> None:
    stopper = Stopper(1)
    trainer(db, task, small(), folder=tmp_path, key="one", stop=stopper, progress=stopper).run()
    with pytest.raises(GelgtError) as caught:
        trainer(db, task, small(), folder=tmp_path, key="two").run()
    assert caught.value.code == "other_run"


@pytest.mark.parametrize("damage", ["truncated", "changed", "empty"])
def test_a_damaged_checkpoint_is_refused(
    db: Database, task: Task, tmp_path: Path, damage: str
) -> None:
    stopper = Stopper(1)
    trainer(db, task, small(), folder=tmp_path, stop=stopper, progress=stopper).run()
    path = tmp_path / CHECKPOINT
    content = bytearray(path.read_bytes())
    content[-5] ^= 255
    path.write_bytes(
        {"truncated": bytes(content[: len(content) // 2]), "changed": bytes(content), "empty": b""}[
            damage
        ]
    )
    with pytest.raises(GelgtError) as caught:
        load_checkpoint(tmp_path, "")
    assert caught.value.code == "damaged_file"
    assert not list(tmp_path.glob(".*")), "nothing temporary is left"


@pytest.mark.usefixtures("whole_forests")  # which choose the columns that this rate bears
def test_patience_ends_training_with_the_best_weights(db: Database, task: Task) -> None:
    """A rate that destroys the weights: later epochs cannot be better than the first forever."""
    watch = Stopper()
    run = trainer(
        db,
        task,
        small(train__epochs=40, train__patience=2, train__rate=0.1, train__weight_average=0.0),
        progress=watch,
    )
    state = run.run()
    assert state.ended == "no better validation score"
    scores = [record.val["roc_auc"] for record in watch.records]
    assert state.best == max(scores)
    assert scores.index(max(scores)) + 1 == state.best_epoch == len(scores) - 2
    predicted = Scorer(run.model, run.data).predict(run.data.seeds["val"]).together
    from gelgt.metrics import roc_auc

    assert roc_auc(run.data.labels("val"), predicted) == pytest.approx(state.best, abs=1e-12)


def test_training_that_diverges_says_so(db: Database, task: Task) -> None:
    run = trainer(db, task, small(train__rate=1e30, train__clip=None))
    with pytest.raises(GelgtError, match="diverged in epoch 1") as raised:
        run.run()
    assert "train.rate, which is 1e+30" in raised.value.hint


def test_a_time_limit_ends_training(db: Database, task: Task) -> None:
    run = trainer(
        db,
        task,
        small(
            train__epochs=1000,
            train__steps_per_epoch=None,
            train__time_limit=1.0,
            train__patience=1000,
        ),
    )
    state = run.run()
    assert state.ended == "time limit"
    assert state.history  # what there is was scored


def test_the_rate_rises_and_stays(db: Database, task: Task) -> None:
    run = trainer(db, task, small(train__warmup=4, train__epochs=3))
    rates = [run._rate(step) for step in range(12)]
    assert rates == [0.25, 0.5, 0.75] + 9 * [1.0]


def test_it_learns(db: Database) -> None:
    """Labels that a column of the entity gives away are learned, for entities that training has
    never seen too."""
    table = db.read("customers", ["signed_up_at", "wants_newsletter"]).to_pandas()
    keys = db.keys("customers").column(0).to_pylist()
    first = table["signed_up_at"].max() + pd.Timedelta(days=1)
    # each customer once
    times = [first + pd.Timedelta(days=10 * (i % 10)) for i in range(len(keys))]
    frame = pd.DataFrame(
        {"id": keys, "time": times, "y": table["wants_newsletter"].fillna(False).astype(int)}
    )
    task = db.task(
        frame,
        entity="customers.id",
        time_col="time",
        target_col="y",
        val=times[7],
        test=times[9],
        timedelta="5 days",
    )
    run = trainer(
        db,
        task,
        small(train__epochs=10, train__patience=10, train__rate=1e-2, train__steps_per_epoch=None),
    )
    state = run.run()
    assert state.best is not None
    assert state.best > 0.95


def test_tensors_and_texts_come_back(tmp_path: Path) -> None:
    from gelgt.runs.tensors import save_tensors

    tensors = {
        "a": torch.arange(3),
        "b": torch.zeros(0),
        "c": torch.tensor(2.5),
        "d": torch.ones(2, 2, dtype=torch.bfloat16),
    }
    save_tensors(tmp_path / "x.safetensors", tensors, {"note": "ü"})
    found, meta = load_tensors(tmp_path / "x.safetensors")
    assert same(found, tensors)
    assert meta == {"note": "ü"}


def test_parts_side_by_side_are_the_same_as_one_after_the_other(db: Database, task: Task) -> None:
    """Two parts give the same bits in two threads as in one."""
    threads = trainer(db, task, small(model__dropout=0.2, train__epochs=2))
    threads.run()
    alone = trainer(db, task, small(model__dropout=0.2, train__epochs=2))
    alone.lanes.count = 1
    alone.run()
    assert same(weights(threads), weights(alone))


def test_the_gradient_of_parts_is_that_of_the_batch(
    db: Database, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for parts in (1, 2, 3):
        monkeypatch.setattr("gelgt.training.fit.PARTS", parts)
        made = trainer(
            db,
            task,
            small(model__dropout=0.0, model__gnn_dropout=0.0, train__batch_size=30),
        )
        batches = made.loader.epoch(0)
        first = [next(batches) for _ in range(parts)]
        batches.close()
        made._step(first, made.rows(0))
        found.append((made.state.loss, [p.grad for p in made.setup.parameters]))
    for loss, gradients in found[1:]:
        assert loss == pytest.approx(found[0][0], rel=1e-5)
        for one, other in zip(found[0][1], gradients):
            assert (one is None) == (other is None)
            if one is not None:
                torch.testing.assert_close(other, one, atol=1e-5, rtol=1e-3)


def test_the_mean_of_the_best_epochs(
    db: Database, task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of six epochs the best three are mixed; a run that was broken off mixes the same; a mean that
    is worse is not taken."""
    monkeypatch.setattr("gelgt.training.choice.TOLERANCE", 1e3)
    config = small(train__best_epochs=3, train__epochs=6, train__patience=6)
    whole = trainer(db, task, config)
    state = whole.run()
    ranked = sorted(state.history, key=lambda record: -record["val"]["roc_auc"])[:3]
    assert [epoch for epoch, _ in state.best_epochs] == [record["epoch"] for record in ranked]
    for name, tensor in whole.model.state_dict().items():
        if tensor.is_floating_point():
            torch.testing.assert_close(
                tensor, torch.stack([each[name] for each in whole.best.weights]).mean(0)
            )
    assert state.averaged == sorted(record["epoch"] for record in ranked)

    progress = Stopper(after=14)
    trainer(db, task, config, folder=tmp_path, progress=progress, stop=progress).run()
    resumed = trainer(db, task, config, folder=tmp_path)
    assert resumed.run().averaged == state.averaged
    assert same(weights(resumed), weights(whole))

    monkeypatch.setattr("gelgt.training.choice.TOLERANCE", -1e3)
    strict = trainer(db, task, config)
    assert strict.run().averaged == []
    kept = strict.best.weights[0]
    # the layer of futures is gone
    assert same(weights(strict), {name: kept[name] for name in weights(strict)})
