"""The columns network of a run: learned first, judged by folds, the graph on top of it."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

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
from gelgt.training import Options, train_run
from gelgt.training.columns import (
    Columns,
    begun_columns,
    fit_columns,
    refit_columns,
    save_columns,
)
from gelgt.training.data import TrainingData
from gelgt.training.ensemble import make_model
from gelgt.training.examples import learnable
from gelgt.training.fit import Trainer
from gelgt.training.regime import in_regime

CPU = torch.device("cpu")
EPOCHS = 2


def config_of(task: Task) -> RunConfig:
    return in_regime(small(task.task_type), task).with_values("set", train__epochs=EPOCHS)


def fitted(data: TrainingData, config: RunConfig) -> Columns:
    columns = fit_columns(data, config.train, CPU, members=2)
    assert columns is not None
    return columns


@pytest.fixture(scope="module", autouse=True)
def every_fold() -> Iterator[None]:
    """As many folds as users get."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gelgt.training.columns.FOLDS", 4)
        yield


@pytest.fixture(scope="module")
def data(db: Database, task: Task) -> TrainingData:
    return opened(db, task, config_of(task))


@pytest.fixture(scope="module")
def columns(data: TrainingData, task: Task) -> Columns:
    return fitted(data, config_of(task))


def test_no_entity_is_judged_by_a_network_that_saw_its_labels(
    data: TrainingData, columns: Columns, task: Task
) -> None:
    """Other labels of one entity change the network and the offsets of others, not its own."""
    config = config_of(task)
    seeds, _ = learnable(data, ("train",), config.train)
    table = task.table("train")
    entities = table.column(task.entity_col).to_numpy()
    chosen = int(np.bincount(entities).argmax())
    labels = table.column(task.target_col).to_numpy().copy()
    labels[entities == chosen] = 1 - labels[entities == chosen]
    place = table.schema.get_field_index(str(task.target_col))
    changed = table.set_column(place, task.target_col, pa.array(labels))
    other_task = replace(task, labels=dict(task.labels) | {"train": changed})
    other_data = replace(data, task=other_task)
    same, other = (
        refit_columns(columns, each, config.train, CPU, ("train",)) for each in (data, other_data)
    )
    first = data.graph.offsets[data.graph.table_number(task.entity_table)]
    is_chosen = torch.from_numpy(seeds.node - first == chosen)
    before, after = same.offsets(data, seeds), other.offsets(other_data, seeds)
    assert len(same.folds) == len(other.folds) == 4
    assert torch.equal(before[is_chosen], after[is_chosen])
    assert not torch.equal(before[~is_chosen], after[~is_chosen])
    values = data.columns_of(seeds)
    assert not torch.equal(
        same.network.outputs(values)[is_chosen], other.network.outputs(values)[is_chosen]
    )


def test_the_graph_starts_from_nothing(data: TrainingData, columns: Columns, task: Task) -> None:
    """Before its first step, a model says what the columns say."""
    model = make_model(data, config_of(task), columns)
    seeds = data.seeds["val"]
    whole = Scorer(Ensemble([model], columns=columns.network), data).outputs(seeds)
    alone = columns.network.outputs(data.columns_of(seeds))
    torch.testing.assert_close(whole, alone, rtol=0, atol=1e-6)
    assert (
        Scorer(Ensemble([model], columns=columns.network, graph=0.0), data)
        .outputs(seeds)
        .equal(alone)
    )


def test_the_loss_is_that_of_the_sum(data: TrainingData, columns: Columns, task: Task) -> None:
    config = config_of(task)
    trainer = Trainer(make_model(data, config, columns), data, config.train, columns=columns)
    seeds, labels = learnable(data, ("train",), config.train)
    offsets = columns.offsets(data, seeds)
    index = torch.arange(8)
    out = torch.linspace(-1, 1, 8)[:, None]
    expected = data.target.loss(out + offsets[:8], data.target.encode(labels[:8]))
    torch.testing.assert_close(trainer.setup.objective.loss(out, index), expected)


def test_more_labels_for_as_many_steps(data: TrainingData, columns: Columns, task: Task) -> None:
    config = config_of(task)
    again = refit_columns(columns, data, config.train, CPU, ("train",))
    assert again.steps == columns.steps
    both = refit_columns(columns, data, config.train, CPU, ("train", "val"))
    values = data.columns_of(data.seeds["test"])
    assert not torch.equal(both.network.outputs(values), again.network.outputs(values))


def test_it_is_read_again_for_the_same_run_alone(
    data: TrainingData, columns: Columns, tmp_path: Path
) -> None:
    assert begun_columns(tmp_path, "a") is None
    save_columns(tmp_path, "a", columns)
    assert begun_columns(tmp_path, "b") is None
    again = begun_columns(tmp_path, "a")
    assert again is not None
    assert (again.steps, again.is_cut_off) == (columns.steps, columns.is_cut_off)
    seeds = data.seeds["train"]
    assert torch.equal(again.offsets(data, seeds), columns.offsets(data, seeds))


def test_without_time_it_has_no_folds(data: TrainingData, task: Task) -> None:
    columns = fit_columns(data, config_of(task).train, CPU, members=2, seconds=1e-6)
    assert columns is not None
    assert columns.is_cut_off
    assert columns.folds == ()
    seeds = data.seeds["train"]
    assert torch.isfinite(columns.offsets(data, seeds)).all()


def test_a_run_has_its_parts(db: Database, task: Task, tmp_path: Path) -> None:
    config = small(task.task_type).with_values("set", train__epochs=EPOCHS, model__column_members=2)
    run = train_run(db, task, tmp_path / "run", config, Options(baselines=False))
    assert set(run.record.parts) >= {"network", "columns"}
    again, stored = evaluate_run(run, db)["parts"], run.record.to_json()["parts"]
    for part in ("network", "columns"):
        assert again[part]["test"] == stored[part]["test"]
    assert not list(run.folder.glob("checkpoint*"))
