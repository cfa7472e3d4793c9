"""Points of a suite, and the same on resampled entities."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gelgt.bench.suite.scores import (
    Predicted,
    _drawn,
    _points,
    raw_score,
    resampled_points,
    seed_points,
)
from gelgt.runs.intervals import scorer


def predicted(labels: Any, entities: Any, task_type: str, **columns: Any) -> Predicted:
    unit: Any = SimpleNamespace(title="a / b", origin=0, task=SimpleNamespace(task_type=task_type))
    by_seed = {name: dict(enumerate(seeds)) for name, seeds in columns.items()}
    return Predicted(unit, np.asarray(labels, float), np.asarray(entities), 1.0, by_seed)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_resampled_auc_is_that_of_weighted_rows(rng: np.random.Generator) -> None:
    labels, entities = rng.integers(0, 2, 300), rng.integers(0, 40, 300)
    seeds = [np.round(labels + rng.normal(0, 1, 300), 1) for _ in range(2)]  # with ties
    made = predicted(labels, entities, "binary_classification", one=seeds)
    counts = _drawn(made, 20, np.random.default_rng(1))
    assert (counts.sum(axis=1) == 40).all()
    for place, each in enumerate(counts):
        expected = np.mean([scorer("roc_auc", labels, s)(each[entities]) for s in seeds])  # type: ignore[misc]
        assert _points(made, seeds, counts)[place] == pytest.approx(100 * expected)
    whole = seed_points(made)["one"][0]
    assert whole == pytest.approx(100 * scorer("roc_auc", labels, seeds[0])(np.ones(300)))  # type: ignore[misc]


def test_points_of_values_are_relative_to_the_constant(rng: np.random.Generator) -> None:
    labels, entities = rng.poisson(2, 200).astype(float), rng.integers(0, 30, 200)
    constant, half = np.ones(200), (labels + 1) / 2
    made = predicted(labels, entities, "regression", one=[constant], two=[half], three=[labels])
    points = {name: by_seed[0] for name, by_seed in seed_points(made).items()}
    assert points == {"one": pytest.approx(0), "two": pytest.approx(50), "three": 100}
    drawn = resampled_points(made, 50)
    assert np.allclose(drawn["two"], 50)  # whatever the entities
    assert raw_score(50.0, is_binary=False) == 0.5
    assert raw_score(75.0, is_binary=True) == 0.75


def test_a_draw_always_has_both_classes(rng: np.random.Generator) -> None:
    labels = np.zeros(12)
    labels[3] = 1
    made = predicted(labels, np.arange(12), "binary_classification", one=[rng.random(12)])
    drawn = resampled_points(made, 200)["one"]
    assert np.isfinite(drawn).all()
    assert drawn.std() > 0


def test_the_same_draws_whatever_the_columns(rng: np.random.Generator) -> None:
    labels, entities = rng.integers(0, 2, 100), rng.integers(0, 9, 100)
    one, two = rng.random(100), rng.random(100)
    alone = resampled_points(predicted(labels, entities, "binary_classification", one=[one]), 70)
    both = resampled_points(
        predicted(labels, entities, "binary_classification", two=[two], one=[one]), 70
    )
    assert np.array_equal(alone["one"], both["one"])
