"""Weighted metrics equal scikit-learn's, and intervals cover what they should."""

import time
from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, mean_squared_error, roc_auc_score

from gelgt.runs.intervals import MOST_ROWS, bootstrap, scorer, value
from gelgt.runs.predictions import Predictions


def drawn(rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    label = (generator.random(rows) < 0.3).astype(float)
    score = np.round(generator.normal(size=rows) + label, 1)  # rounded, so that many tie
    return label, score, generator.integers(0, 4, rows).astype(float)


@pytest.mark.parametrize("seed", range(3))
def test_ranked_metrics_with_ties_and_weights(seed: int) -> None:
    label, score, weights = drawn(400, seed)
    for metric, theirs in (
        ("roc_auc", roc_auc_score),
        ("average_precision", average_precision_score),
    ):
        ours = scorer(metric, label, score)
        assert ours is not None
        assert ours(weights) == pytest.approx(
            theirs(label, score, sample_weight=weights), abs=1e-12
        )
        repeated = np.repeat(np.arange(400), weights.astype(int))
        assert ours(weights) == pytest.approx(theirs(label[repeated], score[repeated]), abs=1e-12)


def test_means_over_rows() -> None:
    label, score, weights = drawn(100)
    for metric, expected in (
        ("mae", np.average(np.abs(label - score), weights=weights)),
        ("rmse", mean_squared_error(label, score, sample_weight=weights) ** 0.5),
        ("accuracy", np.average((score > 0.5) == (label > 0.5), weights=weights)),
    ):
        ours = scorer(metric, label, score)
        assert ours is not None
        assert ours(weights) == pytest.approx(expected)


def test_reciprocal_rank_shares_ties_and_gives_unseen_classes_nothing() -> None:
    chances = np.array([[0.5, 0.3, 0.2], [0.4, 0.4, 0.2], [0.1, 0.2, 0.7], [0.9, 0.1, 0.0]])
    ours = scorer("mrr", np.array([1.0, 0.0, 2.0, -1.0]), chances)
    assert ours is not None
    assert ours(np.ones(4)) == pytest.approx((1 / 2 + 1 / 1.5 + 1 + 0) / 4)


def test_macro_over_labels_skips_labels_without_both() -> None:
    label, score, _ = drawn(200)
    both = np.column_stack([label, np.ones(200)])
    ours = scorer("macro_roc_auc", both, np.column_stack([score, score]))
    assert ours is not None
    assert ours(np.ones(200)) == pytest.approx(roc_auc_score(label, score))


def test_undefined_and_unknown_metrics_are_none() -> None:
    one_class = Predictions(np.ones(20), {"gelgt": np.linspace(0, 1, 20)}, None)
    assert value("roc_auc", one_class, "gelgt") is None
    assert value("made-up", one_class, "gelgt") is None
    assert value("roc_auc", one_class, "not scored") is None
    assert bootstrap("roc_auc", one_class) is None
    few = one_class.take(np.arange(3))
    assert bootstrap("mae", few) is None


def test_interval_of_a_mean_is_that_of_the_textbook() -> None:
    generator = np.random.default_rng(1)
    error = generator.exponential(size=3000)
    found = bootstrap("mae", Predictions(np.zeros(3000), {"gelgt": error}, None))
    assert found is not None
    one, half = found.models["gelgt"], 1.96 * error.std() / np.sqrt(3000)
    assert one.value == pytest.approx(error.mean())
    assert one.low == pytest.approx(error.mean() - half, abs=0.2 * half)
    assert one.high == pytest.approx(error.mean() + half, abs=0.2 * half)


def test_difference_uses_the_same_resamples() -> None:
    label, score, _ = drawn(2000)
    found = bootstrap(
        "roc_auc",
        Predictions(
            label,
            {"gelgt": score + 0.3 * label, "lightgbm": score, "twin": score + 0.3 * label},
            None,
        ),
    )
    assert found is not None
    gain = found.gains["lightgbm"]
    assert 0 < gain.low < gain.value < gain.high
    both = (
        found.models["gelgt"].high - found.models["gelgt"].low,
        found.models["lightgbm"].high - found.models["lightgbm"].low,
    )
    assert gain.high - gain.low < max(both)  # paired, so narrower than either
    assert (found.gains["twin"].low, found.gains["twin"].high) == (0, 0)
    assert found == bootstrap("roc_auc", Predictions(label, found_scores(label, score), None))


def found_scores(label: np.ndarray, score: np.ndarray) -> dict[str, np.ndarray]:
    return {"gelgt": score + 0.3 * label, "lightgbm": score, "twin": score + 0.3 * label}


def test_a_million_rows_are_sampled_and_scaled() -> None:
    generator = np.random.default_rng(2)
    error = generator.exponential(size=1_000_000)
    start = time.perf_counter()
    found = bootstrap("mae", Predictions(np.zeros(len(error)), {"gelgt": error}, None))
    assert time.perf_counter() - start < 10
    assert found is not None
    assert found.rows == MOST_ROWS
    one, half = found.models["gelgt"], 1.96 * error.std() / 1000
    assert one.value == pytest.approx(error.mean())
    assert one.high - one.low == pytest.approx(2 * half, rel=0.3)


def test_entities_are_drawn_where_they_repeat() -> None:
    """Rows that are copies of each other say nothing new: the interval is that of one row an
    entity."""
    label, score, _ = drawn(300)
    once = bootstrap("roc_auc", Predictions(label, {"gelgt": score}, None))
    entity = np.repeat(np.arange(300), 10)
    copied = Predictions(np.repeat(label, 10), {"gelgt": np.repeat(score, 10)}, None, entity=entity)
    by_entity, by_row = (
        bootstrap("roc_auc", copied),
        bootstrap("roc_auc", replace(copied, entity=None)),
    )
    assert once is not None
    assert by_entity is not None
    assert by_row is not None
    assert by_entity.models["gelgt"].low == pytest.approx(once.models["gelgt"].low)
    assert by_entity.models["gelgt"].high == pytest.approx(once.models["gelgt"].high)
    narrow = by_row.models["gelgt"].high - by_row.models["gelgt"].low
    assert once.models["gelgt"].high - once.models["gelgt"].low > 2.5 * narrow
    assert by_entity.over_entities
    assert not by_row.over_entities


def test_of_many_rows_whole_entities_are_resampled() -> None:
    rows = 3 * MOST_ROWS
    generator = np.random.default_rng(4)
    entity = np.sort(generator.integers(0, rows // 5, rows))
    entity = np.unique(entity, return_inverse=True)[1]
    error = np.abs(generator.normal(size=int(entity.max()) + 1))[entity]
    found = bootstrap("mae", Predictions(np.zeros(rows), {"gelgt": error}, None, entity=entity))
    assert found is not None
    assert found.rows < rows
    half = 1.96 * np.abs(generator.normal(size=10**5)).std() / np.sqrt(entity.max() + 1)
    one = found.models["gelgt"]
    assert (one.high - one.low) / 2 == pytest.approx(half, rel=0.35)
