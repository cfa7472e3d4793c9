"""Futures: the window of a label as further targets, of the right rows, none of them from after
what may be learned. A trained model has no trace of them."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from tiny import opened, small
from torch.nn import functional

from gelgt import Database, Task
from gelgt.nn.target import Target
from gelgt.sampling import Seeds
from gelgt.tasks.label_space import LabelSpace
from gelgt.tasks.times import seconds
from gelgt.training import data as training_data
from gelgt.training.columns_fit import ColumnRows, ColumnsFit
from gelgt.training.data import TrainingData
from gelgt.training.examples import KNOWN
from gelgt.training.fit import Trainer
from gelgt.training.futures import _window_values, future_targets
from gelgt.training.model import make_model
from gelgt.training.objective import Objective
from gelgt.training.regime import in_regime

DAY = 86_400


@pytest.fixture(scope="module")
def data(db: Database, task: Task) -> TrainingData:
    return opened(db, task, in_regime(small(task.task_type), task))


def trainer(data: TrainingData, **changes: Any) -> Trainer:
    config = small(data.task.task_type, **changes)
    return Trainer(make_model(data, config), data, config.train)


def length_of(task: Task) -> int:
    assert task.timedelta is not None
    return int(task.timedelta.total_seconds())


def test_they_are_what_the_windows_hold(db: Database, task: Task, data: TrainingData) -> None:
    """Counts and means, each found by pandas among the rows of the database."""
    seeds = data.seeds["train"]
    values = _window_values(data.visible, seeds, None)
    orders = pd.read_parquet(db.folder / "db" / "orders.parquet")
    keys = pd.read_parquet(db.folder / "db" / "customers.parquet")["id"].to_numpy()
    rows = seeds.node - data.graph.offsets[data.graph.table_number("customers")]
    number = next(name for name, _ in data.visible.columns("orders", "numerical"))
    counts, means = [], []
    for row, time in zip(rows, pd.to_datetime(seeds.asked, unit="s")):
        own = orders[orders["customer_id"] == keys[row]]
        inside = (own["placed_at"] > time) & (own["placed_at"] <= time + task.timedelta)
        counts.append(inside.sum())
        means.append(own.loc[inside, number].mean())
    assert sum(counts) > 50
    assert any(np.array_equal(column, counts) for column in values.T)
    assert any(np.allclose(column, means, rtol=1e-4, equal_nan=True) for column in values.T)
    # The task asks whether there is an order: its label is one bit of that count.
    assert np.array_equal(np.array(counts) > 0, data.labels("train") > 0)


def test_windows_that_end_later_teach_nothing(data: TrainingData, task: Task) -> None:
    seeds, length = data.seeds["train"], length_of(task)
    middle = int(np.median(seeds.asked)) + length
    known, every = (_window_values(data.visible, seeds, until) for until in (middle, None))
    is_later = seeds.asked + length > middle
    assert is_later.any()
    assert np.isnan(known[is_later]).all()
    assert np.array_equal(known[~is_later], every[~is_later], equal_nan=True)


@pytest.mark.parametrize(
    ("splits", "end"),
    [(("train",), "val_timestamp"), ((KNOWN,), "test_timestamp"), (("train", "val"), None)],
)
def test_they_end_where_learned_labels_end(
    data: TrainingData,
    task: Task,
    monkeypatch: pytest.MonkeyPatch,
    splits: tuple[str, ...],
    end: str | None,
) -> None:
    asked: list[int | None] = []

    def targets(_: object, seeds: Seeds, until: int | None) -> torch.Tensor:
        asked.append(until)
        return torch.zeros(len(seeds), 0)

    monkeypatch.setattr("gelgt.training.data.future_targets", targets)
    fresh = replace(data)
    fresh.futures(data.seeds["val"], splits)
    fresh.futures(data.seeds["val"], splits)  # kept
    assert asked == [None if end is None else seconds(getattr(task, end))]


def test_stale_views_have_the_future_of_their_label(data: TrainingData) -> None:
    fresh = data.seeds["train"]
    lag = np.full(len(fresh), 40 * DAY)
    stale = Seeds(fresh.node, fresh.time - lag, fresh.key, lag)
    one, other = (_window_values(data.visible, seeds, None) for seeds in (stale, fresh))
    assert np.array_equal(one, other, equal_nan=True)


def test_the_loss_counts_what_is_known() -> None:
    target, out = Target(LabelSpace("binary_classification")), torch.randn(4, 3)
    labels, unknown = torch.tensor([0.0, 1.0, 1.0, 0.0, 1.0]), torch.nan
    futures = torch.tensor(
        [[0.0, 1.0], [unknown, 2.0], [unknown, unknown], [0.5, -0.5], [9.0, 9.0]]
    )
    index = torch.tensor([3, 1, 2, 0])
    losses = Objective(target, labels, futures, 2.0).losses(out, index)
    plain = functional.binary_cross_entropy_with_logits(out[:, 0], labels[index], reduction="none")
    gap = functional.smooth_l1_loss(out[:, 1:], futures[index], reduction="none")
    beside = torch.stack([gap[0].mean(), gap[1, 1], torch.tensor(0.0), gap[3].mean()])
    torch.testing.assert_close(losses, plain + 2.0 * beside)
    torch.testing.assert_close(Objective(target, labels).losses(out[:, :1], index), plain)


def test_a_trained_model_has_no_trace_of_them(data: TrainingData, task: Task) -> None:
    training = trainer(data)
    layer, objective = training.model.futures, training.setup.objective
    assert isinstance(objective, Objective)
    assert layer is not None
    assert objective.futures is not None
    assert layer.out_features == objective.futures.shape[1] > 5
    before = layer.weight.detach().clone()
    training.run()
    assert not torch.equal(layer.weight, before), "it was not trained"
    assert training.model.futures is None
    plain = make_model(data, small(task.task_type, model__futures=0.0))
    assert set(training.model.state_dict()) == set(plain.state_dict())


def test_they_change_what_is_learned_and_not_what_it_starts_from(data: TrainingData) -> None:
    starts, ends = [], []
    for weight in (0.0, 3.0):
        training = trainer(data, model__futures=weight)
        weights = training.model.state_dict()
        starts.append({n: t.clone() for n, t in weights.items() if not n.startswith("futures")})
        training.run()
        ends.append(training.model.state_dict())
    assert all(torch.equal(starts[0][name], starts[1][name]) for name in starts[0])
    assert not torch.equal(ends[0]["head.1.weight"], ends[1]["head.1.weight"])


def test_beside_numbers_there_are_none(data: TrainingData) -> None:
    target = Target(LabelSpace("regression"), scale=2.0)
    assert replace(data, target=target).futures(data.seeds["train"], ("train",)).shape[1] == 0
    assert data.futures(data.seeds["train"], ("train",)).shape[1] > 5


def test_without_a_window_there_are_none(data: TrainingData, task: Task) -> None:
    open_ended = replace(data.visible, task=replace(task, timedelta=None))
    assert future_targets(open_ended, data.seeds["train"], None).shape[1] == 0


def test_the_columns_network_learns_them_beside_its_labels() -> None:
    """A hundred noisy labels of a number whose exact value the window tells: with it, the network
    finds the number."""
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(400, 6, generator=generator)
    truth = values @ torch.tensor([1.0, -1.0, 0.5, 0.0, 0.0, 0.0])
    labels = (truth + 3 * torch.randn(400, generator=generator) > 0).float()
    fit = ColumnsFit(Target(LabelSpace("binary_classification")), torch.device("cpu"), 0, 4)
    rows = ColumnRows(values[:200], labels[:200])
    futures = torch.where(torch.arange(200) % 3 > 0, truth[:200], torch.nan)[:, None]
    beside = replace(rows, futures=futures, weight=3.0)
    ranks = []
    for each in (rows, beside):
        network = fit.fixed(each, 120)
        assert network.futures is None
        out = network.outputs(values[200:])[:, 0]
        ranks.append(float(np.corrcoef(out.numpy(), truth[200:].numpy())[0, 1]))
    assert ranks[1] > ranks[0] + 0.03, ranks


def test_those_who_read_other_histories_share_what_else_is_read(
    db: Database, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Labels are asked for and futures computed once for networks with columns and without."""
    config = in_regime(small(task.task_type, train__windows=2), task)
    data = TrainingData.opened(db, task, config)
    counted: list[str] = []
    for name in ("with_more_windows", "future_targets"):
        target = f"gelgt.training.data.{name}"
        function = getattr(training_data, name)

        def counting(*args: Any, name: str = name, function: Any = function, **options: Any) -> Any:
            counted.append(name)
            return function(*args, **options)

        monkeypatch.setattr(target, counting)
    beside, without = data.with_columns(config), data.without_history()
    assert beside.plan != without.plan
    for each in (without, beside):
        seeds, _ = each.windows("train", 2)
        each.futures(seeds, ("train",))
    assert beside.seeds is without.seeds
    assert counted == ["with_more_windows", "future_targets"]
