"""Split-conformal intervals: quantiles against a slow reference, coverage on exchangeable rows."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from gelgt.calibration.folds import folds, time_folds
from gelgt.calibration.intervals import PredictionIntervals, check_level, conformal_rank
from gelgt.errors import GelgtError


def reference_quantile(scores: list[float], level: float) -> float:
    """The smallest score that enough of them, and one row to come, do not exceed."""
    wanted = math.ceil(round((len(scores) + 1) * level, 9))
    return min(s for s in scores if sum(other <= s for other in scores) >= wanted)


@pytest.mark.parametrize("rows", [9, 10, 37, 49])
@pytest.mark.parametrize("level", [0.1, 0.5, 0.8, 0.9])
def test_quantiles_equal_a_slow_reference(rows: int, level: float) -> None:
    generator = np.random.default_rng(rows)
    predictions, labels = generator.normal(size=rows), generator.normal(size=rows).round(1)
    fitted = PredictionIntervals.fit(predictions, labels, np.arange(rows))
    expected = reference_quantile(np.abs(labels - predictions).tolist(), level)
    assert fitted.quantile(level) == expected
    lower, upper = fitted.bounds(predictions, level)
    np.testing.assert_allclose(upper - predictions, expected, rtol=1e-6)
    np.testing.assert_allclose(predictions - lower, expected, rtol=1e-6)


def test_scores_that_are_left_out_widen_intervals_by_next_to_nothing() -> None:
    generator = np.random.default_rng(0)
    scores = generator.exponential(size=30_000)
    fitted = PredictionIntervals.fit(np.zeros(30_000), scores, np.arange(30_000))
    assert len(fitted.scores) == 2_000
    for level in (0.5, 0.9, 0.99, 0.9999):
        kept = np.array(fitted.ranks)[np.array(fitted.scores) == fitted.quantile(level)]
        rank = conformal_rank(30_000, level)
        assert rank <= kept.item() <= rank + 15  # 0.05 % of the rows


def sample(
    generator: np.random.Generator, rows: int, is_even: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Predictions, labels whose errors grow with them, and entities that come about four times."""
    predictions = generator.exponential(5, rows)
    noise = generator.normal(size=rows) * (2.0 if is_even else 0.3 + 0.5 * predictions)
    return predictions, predictions + noise, generator.integers(0, rows // 4, rows)


@pytest.mark.parametrize("is_even", [False, True])
def test_coverage_of_exchangeable_rows_is_the_level(is_even: bool) -> None:
    generator = np.random.default_rng(1)
    level, rows, trials, inside = 0.9, 400, 80, []
    for _ in range(trials):
        fitted = PredictionIntervals.fit(*sample(generator, rows, is_even))
        predictions, labels, _ = sample(generator, rows, is_even)
        lower, upper = fitted.bounds(predictions, level)
        inside.append(float(((labels >= lower) & (labels <= upper)).mean()))
    # the binomial error of the validation rows and that of the new rows
    error = math.sqrt(2 * level * (1 - level) / rows / trials)
    assert abs(float(np.mean(inside)) - level) < 4 * error
    assert is_even or fitted.score == "scaled"


def test_scaled_intervals_are_narrower_and_fair_where_errors_grow() -> None:
    generator = np.random.default_rng(2)
    fitted = PredictionIntervals.fit(*sample(generator, 4_000))
    assert fitted.score == "scaled"
    assert fitted.widths["scaled"] < 0.95 * fitted.widths["plain"]
    predictions, labels, _ = sample(generator, 20_000)
    lower, upper = fitted.bounds(predictions, 0.9)
    inside = (labels >= lower) & (labels <= upper)
    large = predictions > np.quantile(predictions, 0.9)
    assert inside[large].mean() > 0.85
    assert inside[~large].mean() < 0.93  # a plain interval holds nearly all of these


def test_scale_is_plain_where_errors_are_even() -> None:
    generator = np.random.default_rng(3)
    chosen = [
        PredictionIntervals.fit(*sample(generator, 600, is_even=True)).score for _ in range(20)
    ]
    assert chosen.count("plain") >= 15


def test_no_interval_reaches_below_the_smallest_label() -> None:
    generator = np.random.default_rng(4)
    labels = generator.poisson(1.0, 500).astype(float)
    fitted = PredictionIntervals.fit(np.ones(500), labels, np.arange(500), floor=0.0)
    lower, upper = fitted.bounds(np.array([0.2, 3.0, -1.0]), 0.9)
    assert lower.tolist()[0] == 0.0
    assert lower[1] > 0.0
    assert lower[2] == -1.0  # an interval always holds its prediction
    assert (upper > lower).all()


@pytest.mark.parametrize("is_scaled", [False, True])
def test_ends_are_whole_where_labels_are_and_hold_the_same_labels(is_scaled: bool) -> None:
    rng = np.random.default_rng(8)
    predictions = rng.integers(0, 20, 3_000).astype(float)
    spread = predictions / 3 + 0.5 if is_scaled else 2.0
    labels = np.maximum(0.0, np.rint(predictions + rng.normal(size=3_000) * spread))
    learned, other = slice(None, 1_000), slice(1_000, None)
    rows = predictions[learned], labels[learned], np.arange(1_000)
    whole = PredictionIntervals.fit(*rows, floor=0.0, is_whole=True)
    exact = replace(whole, is_whole=False)
    again = PredictionIntervals.from_dict(json.loads(json.dumps(whole.to_dict())))
    for level in (0.5, 0.8, 0.9, 0.99):
        lower, upper = again.bounds(predictions[other], level)
        np.testing.assert_array_equal(lower, np.rint(lower))
        np.testing.assert_array_equal(upper, np.rint(upper))
        assert (lower <= predictions[other]).all()
        assert (upper >= predictions[other]).all()
        below, above = exact.bounds(predictions[other], level)
        truth = labels[other]
        np.testing.assert_array_equal(
            (lower <= truth) & (truth <= upper), (below <= truth) & (truth <= above)
        )
    content = {k: v for k, v in whole.to_dict().items() if k != "is_whole"}
    assert not PredictionIntervals.from_dict(content).is_whole  # of an older run


def test_rows_that_decide_lie_inside_their_own_interval() -> None:
    """Whatever rounding does to (label - prediction) / scale · scale."""
    generator = np.random.default_rng(5)
    predictions, labels, entity = sample(generator, 999)
    fitted = PredictionIntervals.fit(predictions, labels, entity)
    plain = PredictionIntervals(999, fitted.ranks, tuple(np.sort(np.abs(labels - predictions))))
    for level in np.linspace(0.01, 0.99, 99):
        lower, upper = plain.bounds(predictions, float(level))
        inside = int(((labels >= lower) & (labels <= upper)).sum())
        assert inside == conformal_rank(999, float(level))


def test_rows_without_a_label_do_not_count() -> None:
    predictions, labels = np.zeros(30), np.arange(30.0)
    labels[20:] = np.nan
    fitted = PredictionIntervals.fit(predictions, labels, np.arange(30))
    assert fitted.rows == 20
    assert fitted.quantile(0.5) == 10.0


@pytest.mark.parametrize("rows", [0, 5, 18])
def test_too_few_rows_for_a_level(rows: int) -> None:
    fitted = PredictionIntervals.fit(np.zeros(rows), np.ones(rows), np.arange(rows))
    assert not fitted.has(0.95)
    with pytest.raises(GelgtError, match=f"{rows} validation rows") as error:
        fitted.bounds(np.zeros(1), 0.95)
    assert error.value.code == "too_few_rows"
    if rows:
        highest = float(error.value.hint.split("at most ")[1].split(",")[0])
        assert fitted.quantile(highest) == 1.0
    else:
        assert "validation" in error.value.hint


@pytest.mark.parametrize("level", [0, 1, -0.1, 90, float("nan"), True, "0.9", None])
def test_levels_that_are_none(level: object) -> None:
    with pytest.raises(GelgtError, match="between 0 and 1") as error:
        check_level(level)  # type: ignore[arg-type]
    assert error.value.code == "bad_level"
    assert ("0.9" in error.value.hint) or error.value.hint.startswith("Did you mean")


def test_intervals_survive_json() -> None:
    fitted = PredictionIntervals.fit(*sample(np.random.default_rng(6), 500), floor=0.0)
    text = json.dumps(fitted.to_dict())
    assert PredictionIntervals.from_dict(json.loads(text)) == fitted
    damaged = json.loads(text) | {"scores": [1.0]}
    with pytest.raises(GelgtError, match="not readable") as error:
        PredictionIntervals.from_dict(damaged)
    assert error.value.code == "bad_run"


def test_folds_keep_entities_together_and_do_not_move() -> None:
    entity = np.random.default_rng(7).integers(0, 2**63, 200).repeat(3).astype(np.uint64)
    parts = list(folds(entity))
    assert len(parts) == 5
    assert sorted(np.concatenate([held for _, held in parts]).tolist()) == list(range(600))
    for learned, held in parts:
        assert not set(entity[learned]) & set(entity[held])
    fewer = [set(entity[:300][held].tolist()) for _, held in folds(entity[:300])]
    for some, (_, held) in zip(fewer, parts, strict=True):
        assert some <= set(entity[held].tolist())
    assert len(list(folds(np.arange(1000)))) == 5  # keys that count up, too
    assert list(time_folds(np.zeros(10, np.int64))) == []
    two = list(time_folds(np.repeat([10, 20], 5)))
    assert [held.tolist() for _, held in two] == [list(range(5)), list(range(5, 10))]
