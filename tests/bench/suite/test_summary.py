"""Ranks, means and differences over tasks and databases."""

import numpy as np
import pytest

from gelgt.bench.suite.summary import (
    TaskScore,
    compare_columns,
    interval,
    mean_points,
    mean_ranks,
    score_entry,
)


def score(points: float, width: float = 0.0) -> TaskScore:
    drawn = np.linspace(points - width, points + width, 101)
    return TaskScore(points, (points - 1, points + 1), {1: points}, {1: drawn})


def test_ranks_share_ties_and_put_the_missing_last() -> None:
    scores = {
        "a": {"one": score(60), "two": score(60), "three": score(50)},
        "b": {"one": score(60), "two": score(70)},
    }
    names = ["one", "two", "three"]
    assert mean_ranks(scores, names) == {"one": 1.75, "two": 1.25, "three": 3.0}
    assert mean_points(scores, names) == {"one": 60, "two": 65}  # three has no score on b


def test_a_difference_has_two_intervals_and_counts_tasks() -> None:
    scores = {
        "a": {"one": score(60, 1), "two": score(50)},
        "b": {"one": score(60, 3), "two": score(59)},
        "c": {"one": score(40, 1), "two": score(50)},
        "d": {"one": score(40, 1)},
    }
    datasets = {"a": "x", "b": "x", "c": "y", "d": "y"}
    found = compare_columns(scores, datasets, "one", "two")
    assert found is not None
    assert found["difference"] == pytest.approx(1 / 3, abs=1e-3)
    assert [task["shown"] for task in found["tasks"]] == ["win", "undecided", "loss"]
    assert (found["wins"], found["losses"]) == (1, 1)
    assert found["entities"][0] < found["difference"] < found["entities"][1]
    # x alone has a mean of +5.5, y alone of -10
    assert found["databases"] == [-10.0, 5.5]
    assert compare_columns(scores, datasets, "one", "three") is None


def test_one_database_says_nothing_of_others() -> None:
    scores = {"a": {"one": score(60), "two": score(50)}}
    found = compare_columns(scores, {"a": "x"}, "one", "two")
    assert found is not None
    assert found["databases"] is None


def test_origins_that_both_have_are_compared() -> None:
    many = TaskScore(55, (55,), {1: 60, 2: 50}, {1: np.full(9, 60.0), 2: np.full(9, 50.0)})
    few = TaskScore(58, (58,), {1: 58}, {1: np.full(9, 58.0)})
    found = compare_columns({"a": {"one": many, "two": few}}, {"a": "x"}, "one", "two")
    assert found is not None
    assert found["difference"] == 2


def test_an_entry_has_points_and_the_metric() -> None:
    entry = score_entry(score(40), is_binary=False)
    assert (entry["points"], entry["score"]) == (40, 0.6)
    assert entry["spread"] == pytest.approx(1.414)
    assert interval(np.arange(1001.0)) == pytest.approx((25, 975))
