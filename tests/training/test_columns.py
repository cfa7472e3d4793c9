"""The columns network of a run: learned first, the networks over subgraphs beside it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny import opened, small

from gelgt import Database, Task
from gelgt.history import NO_HISTORY
from gelgt.inference.evaluate import evaluate_run
from gelgt.nn.dropout import own_dropout
from gelgt.nn.ensemble import Ensemble
from gelgt.presets import RunConfig
from gelgt.scoring import Scorer
from gelgt.training import Options, columns_step, train_run
from gelgt.training.columns import (
    Columns,
    begun_columns,
    column_rows,
    columns_key,
    fit_columns,
    refit_columns,
    save_columns,
)
from gelgt.training.columns_fit import ColumnRows, ColumnsFit
from gelgt.training.columns_step import ColumnsStep, StepPlan
from gelgt.training.data import TrainingData
from gelgt.training.model import make_model
from gelgt.training.regime import in_regime
from gelgt.training.weights import MovingAverage

CPU = torch.device("cpu")
EPOCHS = 2


def config_of(task: Task) -> RunConfig:
    return in_regime(small(task.task_type), task).with_values("set", train__epochs=EPOCHS)


def fitted(data: TrainingData, config: RunConfig) -> Columns:
    columns = fit_columns(data, config, CPU)
    assert columns is not None
    return columns


@pytest.fixture(scope="module")
def data(db: Database, task: Task) -> TrainingData:
    return opened(db, task, config_of(task))


@pytest.fixture(scope="module")
def columns(data: TrainingData, task: Task) -> Columns:
    return fitted(data, config_of(task))


def test_the_networks_over_subgraphs_read_no_columns(
    data: TrainingData, columns: Columns, task: Task
) -> None:
    """What they learn is the task itself: from the base rate on, and not by the columns."""
    model = make_model(data, config_of(task), reads_history=False)
    assert model.history is None
    assert make_model(data, config_of(task)).history is not None
    seeds = data.seeds["val"]
    start = Scorer(model, data).outputs(seeds)
    others = replace(data, plan=NO_HISTORY)
    torch.testing.assert_close(Scorer(model, others).outputs(seeds), start, rtol=0, atol=1e-6)


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_columns_and_subgraphs_are_mixed(
    data: TrainingData, columns: Columns, task: Task, share: float
) -> None:
    model = make_model(data, config_of(task), reads_history=False)
    seeds = data.seeds["val"]
    alone, graph = columns.network.outputs(data.columns_of(seeds)), Scorer(model, data)
    expected = (1 - share) * alone + share * graph.outputs(seeds)
    mixed = Ensemble([model], columns=columns.network, graph=share)
    torch.testing.assert_close(Scorer(mixed, data).outputs(seeds), expected)
    inputs = next(iter(data.loader(seeds.take(np.arange(8)), 8)))
    torch.testing.assert_close(mixed.eval()(inputs), expected[:8], rtol=1e-4, atol=1e-4)


def test_more_labels_for_as_many_steps(data: TrainingData, columns: Columns, task: Task) -> None:
    config = config_of(task)

    def refitted(*splits: str) -> Columns:
        return refit_columns(columns, column_rows(data, config, splits), data.target, config, CPU)

    again = refitted("train")
    assert again.steps == columns.steps
    both = refitted("train", "val")
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
    values = data.columns_of(data.seeds["train"])
    assert torch.equal(again.network.outputs(values), columns.network.outputs(values))


def test_a_network_of_other_columns_is_not_read_again(data: TrainingData) -> None:
    """A later version may choose others for the same run."""
    names = data.plan.columns
    assert names is not None
    others = replace(data, plan=replace(data.plan, columns=names[::-1]))
    assert columns_key("a", data) == columns_key("a", replace(data))
    assert len({columns_key("a", data), columns_key("b", data), columns_key("a", others)}) == 3


def test_without_time_it_takes_a_step(data: TrainingData, task: Task) -> None:
    columns = fit_columns(data, config_of(task), CPU, seconds=1e-6)
    assert columns is not None
    assert (columns.is_cut_off, columns.steps) == (True, 1)


def test_a_run_has_its_parts(db: Database, task: Task, tmp_path: Path) -> None:
    config = small(task.task_type).with_values("set", train__epochs=EPOCHS, model__column_members=2)
    run = train_run(db, task, tmp_path / "run", config, Options(baselines=False))
    assert set(run.record.parts) >= {"network", "columns"}
    again, stored = evaluate_run(run, db)["parts"], run.record.to_json()["parts"]
    for part in ("network", "columns"):
        assert again[part]["test"] == stored[part]["test"]
    assert not list(run.folder.glob("checkpoint*"))


def rows_of(device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    draws = torch.Generator().manual_seed(5)
    values = torch.randn(37, 6, generator=draws)
    return values.to(device), (values[:, 0] * values[:, 1] > 0).float().to(device)


def stepped(data: TrainingData, device: torch.device, count: int) -> dict[str, torch.Tensor]:
    """The averaged weights after some steps of 8 rows of 37, each pass in the order of the rows."""
    fit, there = ColumnsFit(data.target, device, seed=3, members=2), rows_of(CPU)
    network, (values, labels) = fit.network(ColumnRows(*there)), rows_of(device)
    average, plan = MovingAverage(network, 0.98), StepPlan(8, 1e-3, 4, 0.1)
    take = ColumnsStep(network, average, values, labels, data.target, plan, values[:, :0], 0.0)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(7)
        for _ in range(count):
            if take.is_used_up:
                take.shuffle(torch.arange(len(labels)))
            take()
    return {name: value.cpu() for name, value in average.values.items()}


def test_steps_are_those_of_a_plain_loop(data: TrainingData) -> None:
    """Rows in turn (five of 37 are left out of each pass), a rate that grows over four steps, AdamW
    with clipped gradients, and an average that forgets faster while it is young."""
    values, labels = rows_of(CPU)
    network = ColumnsFit(data.target, CPU, seed=3, members=2).network(ColumnRows(values, labels))
    optimiser = torch.optim.AdamW(network.parameters(), weight_decay=0.1)
    average = {name: p.detach().clone() for name, p in network.named_parameters()}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        for step in range(1, 11):
            first = (step - 1) % 4 * 8
            optimiser.param_groups[0]["lr"] = 1e-3 * min(1.0, step / 4)
            with own_dropout(int(torch.randint(2**31 - 1, ()))):
                out = network.train().of_members(values[first : first + 8])
            members = [data.target.loss(each, labels[first : first + 8]) for each in out]
            optimiser.zero_grad()
            torch.stack(members).mean().backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimiser.step()
            share = 1 - min(0.98, step / (step + 9))
            for name, p in network.named_parameters():
                average[name] += share * (p.detach() - average[name])
    taken = stepped(data, CPU, 10)
    assert taken.keys() == average.keys()
    for name, value in taken.items():
        torch.testing.assert_close(value, average[name], rtol=1e-4, atol=1e-6)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_recorded_steps_are_those_of_the_device(
    data: TrainingData, monkeypatch: pytest.MonkeyPatch
) -> None:
    cuda = torch.device("cuda")
    recorded, again = stepped(data, cuda, 20), stepped(data, cuda, 20)
    monkeypatch.setattr(columns_step, "EAGER", 20)
    eager = stepped(data, cuda, 20)
    for name, value in recorded.items():
        assert torch.equal(value, again[name])
        torch.testing.assert_close(value, eager[name], rtol=1e-4, atol=1e-6)
