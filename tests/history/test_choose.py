"""Which history columns are read: what tells something, within a budget, from training rows
alone."""

from typing import Any

import numpy as np
import pytest

from gelgt.config import SamplingConfig
from gelgt.history import TaskData, aggregates, pieces
from gelgt.history import choose as module
from gelgt.history.aggregates import proposals
from gelgt.history.choose import ColumnChoice, choose_columns

pytestmark = pytest.mark.usefixtures("whole_forests")

DAY = 86_400
START = int(np.datetime64("2024-01-01", "s").astype(int))
TOLD = "score"


@pytest.fixture
def seeds(tiny: Any) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return rng.integers(0, len(tiny.frames["users"]), 600), START + rng.integers(20, 45, 600) * DAY


@pytest.fixture
def data(tiny: Any, make_task: Any) -> TaskData:
    task = make_task([(0, 9, 0.0)], [], [], "regression")
    return TaskData(tiny.db, tiny.db.graph(), tiny.db.features(), task, SamplingConfig())


@pytest.fixture
def labels(data: TaskData, seeds: Any) -> Any:
    """A label that one column says."""
    return np.nan_to_num(aggregates(data, *seeds, names=[TOLD]).values[:, 0]).astype(np.float64)


def choose(data: TaskData, seeds: Any, labels: Any, budget: int, **options: Any) -> ColumnChoice:
    return choose_columns(data, *seeds, labels, hops=2, budget=budget, **options)


def best(choice: ColumnChoice) -> str:
    return max(choice.columns, key=lambda column: column.gain).name


def test_the_best_columns_are_kept(data: TaskData, seeds: Any, labels: Any) -> None:
    chosen = choose(data, seeds, labels, 5)
    assert len(chosen.columns) == 5
    assert best(chosen) == TOLD
    assert sum(column.gain for column in chosen.columns) == pytest.approx(1.0)
    every = choose(data, seeds, labels, 10_000)
    assert best(every) == TOLD
    least = min(column.gain for column in chosen.columns)
    names = [column.name for column in every.columns]
    places = [names.index(column.name) for column in chosen.columns]
    assert places == sorted(places), "columns stay in the order of the schema"
    gains = np.array([column.gain for column in every.columns])
    assert set(places) == set(np.argsort(-gains, kind="stable")[:5])
    assert least > 0
    assert len(every.columns) + sum(every.left_out.values()) == every.proposed
    assert chosen.proposed == every.proposed > 100
    assert chosen.left_out["too little gain"] == len(every.columns) - 5


def test_constant_and_repeated_columns_are_left_out(
    data: TaskData, seeds: Any, labels: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def more(*arguments: Any) -> Any:
        for proposal in proposals(*arguments):
            yield proposal
            if proposal.name == TOLD:
                yield proposal._replace(name="the same again")
                yield proposal._replace(name="one value", values=np.full(600, 7.0, np.float32))
                yield proposal._replace(name="no value", values=np.full(600, np.nan, np.float32))

    before = choose(data, seeds, labels, 10_000)
    monkeypatch.setattr(module, "proposals", more)
    chosen = choose(data, seeds, labels, 10_000)
    assert {c.name for c in chosen.columns} == {c.name for c in before.columns}
    assert chosen.left_out["constant"] == before.left_out.get("constant", 0) + 2
    assert chosen.left_out["duplicate"] == before.left_out.get("duplicate", 0) + 1


def test_many_columns_are_judged_a_part_at_a_time(
    data: TaskData, seeds: Any, labels: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ROUND", 40)
    chosen = choose(data, seeds, labels, 5)
    assert TOLD in {column.name for column in chosen.columns}
    assert chosen.left_out["too little gain"] > 100


def test_classes_and_several_labels(data: TaskData, seeds: Any, labels: Any) -> None:
    edges = np.quantile(labels, [0.3, 0.6])
    classes = np.digitize(labels, edges)
    several = np.stack([classes == 0, classes == 2], 1).astype(np.float64)
    for truth in (classes, several, (classes == 2).astype(np.float64)):
        assert best(choose(data, seeds, truth, 3)) == TOLD


@pytest.mark.parametrize("classes", [2, 4])
def test_lanes_change_nothing(
    data: TaskData, seeds: Any, labels: Any, classes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    codes = (np.argsort(np.argsort(labels)) * classes // len(labels)).astype(np.int64)
    monkeypatch.setattr(pieces, "SMALL", 0)
    found = []
    for lanes in (1, 3):
        monkeypatch.setattr(pieces, "core_count", lambda lanes=lanes: lanes)
        every = aggregates(data, *seeds, hops=2)
        chosen = choose(data, seeds, codes, 20)
        found.append((every.names, every.values.tobytes(), every.is_code.tolist(), chosen))
    assert found[0] == found[1]


def test_several_labels_are_judged_as_if_each_were_alone(
    data: TaskData, seeds: Any, labels: Any
) -> None:
    """Though their columns are binned once."""
    several = np.stack([labels > np.quantile(labels, q) for q in (0.3, 0.6)], 1).astype(np.float64)
    alone = [choose(data, seeds, several[:, place], 10_000) for place in (0, 1)]
    gains = [np.array([column.gain for column in each.columns]) for each in alone]
    both = np.array([column.gain for column in choose(data, seeds, several, 10_000).columns])
    # shares of two sums: the sums of each are what is left to find
    weights = np.linalg.lstsq(np.stack(gains, 1), both, rcond=None)[0]
    np.testing.assert_allclose(np.stack(gains, 1) @ weights, both, atol=1e-9)
    assert weights.min() > 0.05


def test_nothing_to_learn_and_no_room(data: TaskData, seeds: Any, labels: Any) -> None:
    assert len(choose(data, seeds, np.zeros(600), 7).columns) == 7
    assert choose(data, seeds, labels, 0).columns == ()
    missing = np.full(600, np.nan)
    assert choose(data, seeds, missing, 7).columns == ()


def test_only_the_columns_of_given_names_are_computed(data: TaskData, seeds: Any) -> None:
    every = aggregates(data, *seeds, hops=2)
    rng = np.random.default_rng(1)
    places = rng.permutation(len(every.names))[:60]
    names = [every.names[place] for place in places]
    some = aggregates(data, *seeds, hops=2, names=[*names, "no such column"])
    assert some.names == (*names, "no such column")
    assert np.array_equal(some.values[:, :-1], every.values[:, places], equal_nan=True)
    assert np.array_equal(some.is_code[:-1], every.is_code[places])
    assert np.isnan(some.values[:, -1]).all()


def test_without_lightgbm_ranks_decide(
    data: TaskData, seeds: Any, labels: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "lightgbm", None)
    assert TOLD in {column.name for column in choose(data, seeds, labels, 5).columns}
