"""The entity mean against a loop over past labels, and labels by hand."""

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from gelgt.baselines import entity_mean
from gelgt.errors import TaskError
from gelgt.tasks.label_space import label_space, targets

START = int(np.datetime64("2024-01-01", "s").astype(int))
DAY = 86_400
Row = tuple[int, int, Any]


def rows(
    rng: np.random.Generator, days: range, entities: int, per_day: int, draw: Any
) -> list[Row]:
    labels = [
        (int(e), d, draw(rng)) for d in days for e in rng.choice(entities, per_day, replace=False)
    ]
    return sorted(labels, key=lambda r: (r[1], r[0]))


def slow(
    history: list[Row],
    seeds: list[Row],
    train: list[Row],
    window: int,
    horizon: int | None,
    average: Any,
) -> np.ndarray[Any, Any]:
    averages = []
    for entity, day, _ in seeds:
        cutoff = day if horizon is None else min(day, horizon)
        known = [(e, y) for e, d, y in history if (d + window <= cutoff if window else d < cutoff)]
        past = [y for e, y in known if e == entity]
        averages.append(average(past or [y for _, y in known] or [y for _, _, y in train]))
    return np.array(averages)


DRAWS = {
    "binary_classification": (lambda rng: int(rng.random() < 0.3), np.mean),
    "regression": (lambda rng: round(float(rng.normal()), 1), np.median),
    "multiclass_classification": (
        lambda rng: int(rng.integers(3)),
        lambda y: np.bincount(y, minlength=3) / len(y),
    ),
    "multilabel_classification": (
        lambda rng: rng.integers(0, 2, 3).tolist(),
        lambda y: np.mean(y, axis=0),
    ),
}


@pytest.mark.parametrize("task_type", DRAWS)
@pytest.mark.parametrize("window", [4, 0])
@pytest.mark.parametrize("horizon", [None, 28, 1])
def test_it_is_what_a_loop_over_closed_windows_finds(
    make_task: Any, task_type: str, window: int, horizon: int | None
) -> None:
    rng = np.random.default_rng(5)
    draw, average = DRAWS[task_type]
    train, val, test = (
        rows(rng, days, 12, 4, draw)
        for days in (range(0, 18, 2), range(18, 26, 3), range(26, 40, 4))
    )
    options = {"arrow": pa.list_(pa.int64())} if task_type.startswith("multilabel") else {}
    task = make_task(
        train,
        val,
        test,
        task_type,
        timedelta=pd.Timedelta(days=window) if window else None,
        classes=(0, 1, 2),
        **options,
    )
    predicted = entity_mean(task, None if horizon is None else START + horizon * DAY)
    np.testing.assert_allclose(
        predicted["val"], slow(train + val, val, train, window, horizon, average)
    )
    np.testing.assert_allclose(
        predicted["test"], slow(train + val + test, test, train, window, horizon, average)
    )


def test_a_label_counts_from_the_moment_its_window_closes(make_task: Any) -> None:
    task = make_task(
        [(0, 0, 0), (0, 10, 1), (1, 0, 0)],
        [(0, 14, 0), (0, 15, 1)],
        [(0, 30, 0)],
        "binary_classification",
    )
    # five days: the label of day 10 is known on day 15
    assert entity_mean(task)["val"].tolist() == [0.0, 0.5]
    assert entity_mean(task)["test"].tolist() == [0.5]


def test_windows_of_the_same_split_count_once_they_have_closed(make_task: Any) -> None:
    """Five days: on day 35 the window of day 30 has closed, on day 34 it is open; a seed's own
    label never counts."""
    test = [(0, 30, 1), (0, 34, 1), (0, 35, 0), (1, 35, 1)]
    task = make_task([(0, 0, 0), (1, 0, 0)], [(0, 14, 0)], test, "binary_classification")
    assert entity_mean(task)["test"].tolist() == [0.0, 0.0, pytest.approx(1 / 3), 0.0]
    frozen = entity_mean(task, START + 31 * DAY)["test"]
    assert frozen.tolist() == [0.0, 0.0, 0.0, 0.0], "nothing after the horizon is known"
    turned = make_task(
        [(0, 0, 0), (1, 0, 0)],
        [(0, 14, 0)],
        [(e, d, 1 - y if d > 30 else y) for e, d, y in test],
        "binary_classification",
    )
    assert entity_mean(turned)["test"].tolist() == entity_mean(task)["test"].tolist(), (
        "labels of open windows change nothing"
    )
    later = make_task([(0, 0, 0)], [(0, 20, 1), (0, 25, 0)], [], "binary_classification")
    assert entity_mean(later)["val"].tolist() == [0.0, 0.5]


def test_many_labels_take_seconds(make_task: Any) -> None:
    import time

    rng = np.random.default_rng(0)
    task = make_task([(0, 0, 1.0)], [(0, 20, 1.0)], [(0, 30, 1.0)], "regression")
    size = 300_000
    table = pa.table(
        {
            "time": pa.array((START + rng.integers(0, 10, size) * DAY) * 10**6).cast(
                "timestamp[us]"
            ),
            # one entity has a third of all labels
            "id": pa.array(np.minimum(rng.zipf(1.3, size), 10**6)),
            "target": pa.array(rng.normal(size=size)),
        }
    )
    later = table.set_column(
        0,
        "time",
        pa.array(rng.integers(START + 20 * DAY, START + 24 * DAY, size) * 10**6).cast(
            "timestamp[us]"
        ),
    )
    task.labels.update({"train": table, "val": later, "test": later})  # type: ignore[attr-defined]
    entity_mean(make_task([(0, 0, 1.0)], [(0, 20, 1.0)], [(0, 30, 1.0)], "regression"))  # compiles
    start = time.perf_counter()
    predicted = entity_mean(task)
    assert time.perf_counter() - start < 10
    frame = table.to_pandas()
    expected = frame.groupby("id").target.median()
    seeds = later.to_pandas()["id"]
    np.testing.assert_allclose(predicted["val"], seeds.map(expected).fillna(frame.target.median()))


@pytest.mark.parametrize(
    ("lists", "labels", "first"),
    [
        ([[1, 0, 0], [0, 1, 1]], (0, 1, 2), [1, 0, 0]),
        ([[7, 3], [], [3]], (3, 7), [1, 1]),
        ([["b"], ["c", "a"]], ("a", "b", "c"), [0, 1, 0]),
    ],
)
def test_multilabel_lists_are_indicators_or_names(
    make_task: Any, lists: list[Any], labels: tuple[Any, ...], first: list[int]
) -> None:
    arrow = pa.list_(pa.string() if isinstance(labels[0], str) else pa.int64())
    unseen = [["z", "a"]] if isinstance(labels[0], str) else [[9, 3]]
    triples = [(i, i, y) for i, y in enumerate(lists)]
    task = make_task(triples, [(0, 20, unseen[0])], [], "multilabel_classification", arrow=arrow)
    assert label_space(task).labels == labels
    indicators = targets(task, "train")
    assert indicators.shape == (len(lists), len(labels))
    assert indicators[0].tolist() == first
    if not label_space(task).is_indicator:
        assert targets(task, "val").sum() == 1  # what training never names is no label
    assert targets(task, "test").shape == (0, len(labels))


def test_recommendations_have_no_baseline(make_task: Any) -> None:
    with pytest.raises(TaskError, match="there is no mean"):
        entity_mean(make_task([], [], [], "recommendation"))
