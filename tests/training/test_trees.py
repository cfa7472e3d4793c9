"""LightGBM beside the network: its share comes from validation, and it travels with the weights."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from tiny import opened, small

from gelgt import Database, Task
from gelgt.inference.evaluate import evaluate_run
from gelgt.nn.ensemble import Ensemble
from gelgt.presets import RunConfig
from gelgt.scoring import Scorer
from gelgt.scoring.scorer import tree_outputs
from gelgt.training import Options, train_run, trees
from gelgt.training.data import TrainingData
from gelgt.training.ensemble import Trained
from gelgt.training.examples import learnable
from gelgt.training.model import make_model
from gelgt.training.regime import in_regime
from gelgt.training.shares import Outputs, choose_shares
from gelgt.training.trees import (
    GrownTrees,
    Watched,
    grow,
    grow_trees,
    regrow_trees,
    wants_trees,
)

pytestmark = pytest.mark.usefixtures("whole_forests")

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def data(db: Database, task: Task) -> TrainingData:
    return opened(db, task, in_regime(small(task.task_type), task))


def trees_beside(model: Any, data: TrainingData, config: RunConfig) -> GrownTrees:
    outputs = Scorer(model, data).outputs(data.seeds["val"])
    trees = grow_trees(data, config)
    assert trees is not None
    seeds = data.seeds["val"]
    parts = Outputs(None, outputs, tree_outputs(trees.trees, data, seeds))
    shares = choose_shares(parts, data.target, data.labels("val"), seeds)
    return replace(trees, share=shares.trees)


def together(model: Any, trees: GrownTrees) -> Ensemble:
    made = Trained((model,), (), trees).model
    assert isinstance(made, Ensemble)
    return made


def test_validation_chooses_the_share(data: TrainingData, task: Task) -> None:
    """A network that knows nothing leaves most to the trees, and one that knows the labels leaves
    nothing."""
    config = small(task.task_type)
    model = make_model(data, config)
    beside = trees_beside(model, data, config)
    assert beside.share >= 0.7
    whole = together(model, beside)
    seeds = data.seeds["val"]
    columns = data.history(seeds)
    assert columns is not None
    network, trees = Scorer(model, data).outputs(seeds), beside.trees(columns).float()
    expected = data.target.decode((1 - beside.share) * network + beside.share * trees)
    np.testing.assert_allclose(Scorer(whole, data).predict(seeds).together, expected)

    class Oracle(torch.nn.Module):
        def forward(self, inputs: object) -> torch.Tensor:
            truth = torch.from_numpy(data.labels("val")).float()[inputs.batch.index]  # type: ignore[attr-defined]
            return (20 * truth - 10)[:, None]

    refused = trees_beside(Oracle(), data, config)
    assert refused.share == 0.0
    alone = Trained((model,), (), refused).model
    assert alone.networks == [model]
    assert alone.trees is None


def test_the_same_trees_from_the_same_seed(data: TrainingData, task: Task) -> None:
    columns = data.history(data.seeds["test"])
    assert columns is not None
    found = [
        grow(data, small(train__seed=seed).train, ("train",), (20, 20, 20)) for seed in (0, 0, 1)
    ]
    first, again, other = (grown.trees(columns) for grown in found if grown is not None)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_the_same_trees_with_more_threads(
    data: TrainingData, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine with more cores grows the same trees."""
    config, made = small(task.task_type), []
    for threads in (1, 3):
        monkeypatch.setattr(trees, "forest_threads", lambda threads=threads: threads)
        grown = grow_trees(data, config)
        assert grown is not None
        made.append(grown)
    assert made[0].rounds == made[1].rounds
    for name, tensor in made[0].trees.state_dict().items():
        assert torch.equal(tensor, made[1].trees.state_dict()[name]), name


def test_nobody_waits_for_forests_that_are_stopped(data: TrainingData, task: Task) -> None:
    grown = grow_trees(data, small(task.task_type), is_stopped=lambda: True)
    assert grown is not None
    assert grown.is_cut_off
    assert set(grown.rounds) == {1}


def test_forests_end_in_time(data: TrainingData) -> None:
    columns = data.history(data.seeds["val"])
    assert columns is not None
    watched = Watched(columns, data.target.encode(data.labels("val")), seconds=1e-6)
    grown = grow(data, small().train, ("train",), watched)
    assert grown is not None
    assert grown.is_cut_off
    assert set(grown.rounds) == {1}
    again = regrow_trees(grown, data, small(), ("train", "val"))
    assert again.rounds == grown.rounds


def test_test_labels_are_never_seen(db: Database, task: Task) -> None:
    config = small(task.task_type)
    data = opened(db, task, in_regime(config, task))
    beside = trees_beside(make_model(data, config), data, config)
    known = regrow_trees(beside, data, config, ("known",))
    labels = dict(task.labels)
    table = labels["test"]
    place = table.column_names.index(task.label_col)
    turned = 1 - table.column(place).to_numpy().astype(np.int64)
    labels["test"] = table.set_column(
        place, task.label_col, pa.array(turned, table.column(place).type)
    )
    other = TrainingData.of(db, replace(task, labels=labels), in_regime(config, task))
    again = regrow_trees(beside, other, config, ("known",))
    assert all(
        torch.equal(known.trees.state_dict()[name], value)
        for name, value in again.trees.state_dict().items()
    )


@pytest.mark.parametrize("kind", ["binary", "regression", "multiclass"])
def test_a_run_brings_its_trees(kind: str, db: Database, few: Task, tmp_path: Path) -> None:
    sentences = {
        "regression": "PREDICT SUM(order_items.unit_price, 0, 14, days) FOR EACH customers.id",
        "multiclass": "PREDICT LAST(orders.channel, 0, 20, days) FOR EACH customers.id",
    }
    task = few
    if kind != "binary":
        times = {"val": few.val_timestamp, "test": few.test_timestamp}
        task = db.task(sentences[kind], **times, eval_timestamps=1, max_rows=few.max_rows)
    run = train_run(
        db,
        task,
        tmp_path / "run",
        small(task.task_type, train__retrain=True),
        Options(baselines=False),
    )
    assert 0 < run.record.to_json()["trees"]["share"] < 1
    assert len(run.record.to_json()["trees"]["rounds"]) == 3
    assert any(name.startswith("trees.") for name in run.weights())
    assert evaluate_run(run, db)["metrics"]["test"] == run.record.to_json()["metrics"]["test"]
    without = train_run(
        db,
        task,
        tmp_path / "without",
        small(task.task_type, train__retrain=True, model__trees=False),
        Options(baselines=False),
    )
    assert without.record.to_json()["trees"] is None
    assert without.record.to_json()["metrics"]["test"] != run.record.to_json()["metrics"]["test"]


def test_trees_that_learn_nothing_are_known(db: Database, task: Task, tmp_path: Path) -> None:
    """Of labels that are nearly all zero the median is best, and trees stop at it; the network's
    ranks are worth more."""
    rng = np.random.default_rng(0)
    labels = {}
    for split, table in task.labels.items():
        place = table.column_names.index(task.label_col)
        rare = (rng.random(len(table)) < 0.03).astype(np.float64)
        labels[split] = table.set_column(place, task.label_col, pa.array(rare))
    rare_task = replace(task, task_type="regression", labels=labels)
    config = small("regression", train__windows=1)
    data = TrainingData.of(db, rare_task, in_regime(config, rare_task))
    columns = data.history(data.seeds["val"])
    assert columns is not None
    watched = Watched(columns, data.target.encode(data.labels("val")))
    grown = grow(data, config.train, ("train",), watched)
    assert grown is not None
    assert (grown.rounds, grown.is_cut_off) == ((1, 1, 1), False)
    assert not grown.has_learned


def test_where_there_are_none(data: TrainingData, db: Database, task: Task) -> None:
    assert wants_trees(data, small(task.task_type))
    assert not wants_trees(data, small(task.task_type, model__trees=False))
    bare = small(task.task_type, model__history=0)
    assert not wants_trees(TrainingData.of(db, task, in_regime(bare, task)), bare)


def test_predictions_stay_those_of_seeds_that_exist(data: TrainingData, task: Task) -> None:
    config = small(task.task_type)
    model = make_model(data, config)
    whole = together(model, trees_beside(model, data, config))
    found = Scorer(whole, data).predict(data.seeds["test"]).together
    assert len(found) == len(data.seeds["test"])
    assert ((found > 0) & (found < 1)).all()


def test_many_labels_take_larger_steps_also_when_retrained(
    data: TrainingData, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What validation chose the rounds for is what is grown again, whatever labels there are."""
    config = small(task.task_type)
    used: list[dict[str, Any]] = []
    train = trees.timed_train

    def watched(parameters: dict[str, Any], *args: Any, **options: Any) -> Any:
        used.append(parameters | {"rounds": args[1]})
        return train(parameters, *args, **options)

    monkeypatch.setattr(trees, "timed_train", watched)
    rows = len(learnable(data, ("train",), config.train)[0])
    assert rows < len(learnable(data, ("train", "val"), config.train)[0])
    for many, rate in ((rows, 0.06), (rows + 1, 0.05)):
        monkeypatch.setattr(trees, "MANY", many)
        used.clear()
        grown = grow_trees(data, config)
        assert grown is not None
        assert {each["rounds"] for each in used} == {trees.ROUNDS // (2 if many == rows else 1)}
        regrow_trees(grown, data, config, ("train", "val"))
        assert len(used) == 2 * trees.SEEDS
        assert {each["learning_rate"] for each in used} == {rate}
