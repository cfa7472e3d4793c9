"""Every task type on the tiny database, with a signal that is there to be found, and every way of
having nothing to learn."""

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.metrics import roc_auc_score

import gelgt
from gelgt.baselines import Examples, LightGBMResult, boosting, lightgbm_baseline
from gelgt.baselines import lightgbm as module
from gelgt.config import SamplingConfig
from gelgt.history import TaskData
from gelgt.sampling.seeds import task_seeds
from gelgt.tasks.label_space import targets

pytestmark = pytest.mark.usefixtures("whole_forests")

SPLIT_DAYS = {"train": range(8, 20), "val": range(21, 30), "test": range(31, 40)}


def fit(tiny: Any, task: Any, threads: int = 1, **options: Any) -> LightGBMResult:
    return lightgbm_baseline(data_of(tiny.db, task), threads=threads, **options)


def data_of(db: Any, task: Any) -> TaskData:
    return TaskData(db, db.graph(), db.features(), task, SamplingConfig())


def labelled(tiny: Any, label: Any) -> list[list[tuple[int, int, Any]]]:
    """Each user who has joined, on each day of a split, with a label from the user's score."""
    users = tiny.frames["users"]
    start = int(np.datetime64("2024-01-01", "s").astype(int))
    return [
        [
            (u, d, label(users.score[u]))
            for d in days
            for u in range(len(users))
            if users.joined[u] <= start + d * 86_400
        ]
        for days in SPLIT_DAYS.values()
    ]


def is_high(score: float) -> int:
    return int(score > 50)


def test_binary(tiny: Any, make_task: Any) -> None:
    task = make_task(*labelled(tiny, is_high), "binary_classification")
    result = fit(tiny, task)
    for split in ("val", "test"):
        predicted = result.predictions[split]
        assert predicted.shape == (task.rows[split],)
        assert ((predicted >= 0) & (predicted <= 1)).all()
        assert roc_auc_score(targets(task, split), predicted) > 0.9
    assert next(iter(result.importance)) == "score"
    assert set(result.importance) <= set(result.features)
    assert result.rounds >= 1
    assert result.train_rows == task.rows["train"]
    assert not result.notices


def test_regression_stays_within_the_training_range(tiny: Any, make_task: Any) -> None:
    task = make_task(*labelled(tiny, lambda s: 0.0 if np.isnan(s) else s), "regression")
    result = fit(tiny, task)
    truth, train = targets(task, "test"), targets(task, "train")
    assert (
        np.abs(result.predictions["test"] - truth).mean()
        < 0.5 * np.abs(np.median(train) - truth).mean()
    )
    assert result.predictions["test"].min() >= train.min()
    assert result.predictions["test"].max() <= train.max()


def test_multiclass(tiny: Any, make_task: Any) -> None:
    task = make_task(
        *labelled(tiny, lambda s: int(s > 40) + int(s > 60)),
        "multiclass_classification",
        classes=("low", "middle", "high"),
    )
    predicted = fit(tiny, task).predictions["test"]
    assert predicted.shape == (task.rows["test"], 3)
    assert np.allclose(predicted.sum(axis=1), 1)
    truth = targets(task, "test")
    most_frequent = np.bincount(truth).max() / len(truth)
    assert (predicted.argmax(axis=1) == truth).mean() > most_frequent + 0.15


def test_multilabel_has_a_column_for_each_label(tiny: Any, make_task: Any) -> None:
    splits = labelled(
        tiny,
        lambda s: [
            name for name, is_on in (("high", s > 50), ("low", s < 30), ("all", True)) if is_on
        ],
    )
    task = make_task(*splits, "multilabel_classification", arrow=pa.list_(pa.string()))
    result = fit(tiny, task)
    truth, predicted = targets(task, "test"), result.predictions["test"]  # all, high, low
    assert predicted.shape == truth.shape == (task.rows["test"], 3)
    assert (predicted[:, 0] == 1).all()  # what every training row has cannot be learned
    assert roc_auc_score(truth[:, 1], predicted[:, 1]) > 0.9
    assert "nothing to learn" in result.notices[0]


def test_the_same_call_gives_the_same_predictions(tiny: Any, make_task: Any) -> None:
    rng = np.random.default_rng(3)
    task = make_task(*labelled(tiny, lambda s: int(rng.random() < 0.4)), "binary_classification")
    first, again, other = (
        fit(tiny, task, hops=2, seed=seed).predictions["test"] for seed in (0, 0, 1)
    )
    assert first.tobytes() == again.tobytes()
    assert first.tobytes() != other.tobytes()
    more = fit(tiny, task, threads=2, hops=2)
    assert first.tobytes() == more.predictions["test"].tobytes()


@pytest.mark.parametrize(
    "task_type", ["binary_classification", "regression", "multiclass_classification"]
)
def test_a_single_training_label_gives_a_constant(
    tiny: Any, make_task: Any, task_type: str
) -> None:
    splits = labelled(tiny, lambda s: 1)
    task = make_task(*splits, task_type, classes=("a", "b"))
    result = fit(tiny, task)
    expected = [0.0, 1.0] if task_type.startswith("multiclass") else 1.0
    assert (result.predictions["test"] == expected).all()
    assert len(result.predictions["test"]) == task.rows["test"]
    assert "nothing to learn" in result.notices[0]


@pytest.mark.parametrize(
    "task_type",
    [
        "binary_classification",
        "regression",
        "multiclass_classification",
        "multilabel_classification",
    ],
)
def test_empty_splits(tiny: Any, make_task: Any, task_type: str) -> None:
    is_list = task_type.startswith("multilabel")
    options = {"arrow": pa.list_(pa.int64())} if is_list else {"classes": ("a", "b")}
    train, _, test = labelled(
        tiny, lambda s: [is_high(s), 1 - is_high(s)] if is_list else is_high(s)
    )
    result = fit(tiny, make_task(train, [], test, task_type, **options))
    width = (2,) if task_type.startswith("multi") else ()
    assert result.predictions["val"].shape == (0, *width)
    assert result.predictions["test"].shape == (len(test), *width)
    assert np.std(result.predictions["test"]) > 0.05
    assert "no validation labels" in result.notices[0]
    assert np.isfinite(
        fit(tiny, make_task(train[:0], [], test, task_type, **options)).predictions["test"]
    ).all()


def test_a_single_class_in_validation_is_fine(tiny: Any, make_task: Any) -> None:
    train, val, test = labelled(tiny, is_high)
    task = make_task(train, [(e, d, 1) for e, d, _ in val], test, "binary_classification")
    assert len(fit(tiny, task).predictions["test"]) == len(test)


def test_without_any_column_it_predicts_the_base_rate(tiny: Any, make_task: Any) -> None:
    import dataclasses

    train, val, test = labelled(tiny, is_high)
    task = make_task(
        train,
        val,
        test,
        "binary_classification",
        remove_columns=[("shops", "size"), ("users", "shop_id"), ("orders", "shop_id")],
    )
    n = len(tiny.frames["shops"])
    task = dataclasses.replace(
        task,
        entity_table="shops",
        labels={s: t.filter(pa.compute.less(t["id"], n)) for s, t in task.labels.items()},
    )
    result = fit(tiny, task)
    assert result.features == ()
    assert np.allclose(result.predictions["test"], targets(task, "train").mean())


@pytest.mark.parametrize("task_type", ["multiclass_classification", "multilabel_classification"])
def test_rare_classes_share_what_is_left(
    tiny: Any, make_task: Any, monkeypatch: pytest.MonkeyPatch, task_type: str
) -> None:
    monkeypatch.setattr(boosting, "MAX_CLASSES", 1)
    is_list = task_type.startswith("multilabel")
    options = {"arrow": pa.list_(pa.int64())} if is_list else {"classes": ("low", "middle", "high")}

    def label(score: float) -> Any:
        number = int(score > 20) + int(score > 80)
        return [int(number == i) for i in range(3)] if is_list else number

    task = make_task(*labelled(tiny, label), task_type, **options)
    result = fit(tiny, task)
    truth, predicted = targets(task, "test"), result.predictions["test"]
    assert predicted.shape == (task.rows["test"], 3)
    assert "most frequent of 3 classes" in result.notices[0]
    middle = truth[:, 1] if is_list else truth == 1
    assert roc_auc_score(middle, predicted[:, 1]) > 0.9
    train = targets(task, "train")
    low, high = train.mean(axis=0)[[0, 2]] if is_list else [(train == c).mean() for c in (0, 2)]
    assert np.allclose(predicted[:, 0] * high, predicted[:, 2] * low, rtol=1e-5)
    assert is_list or np.allclose(predicted.sum(axis=1), 1)


def test_large_training_sets_are_sampled_and_it_says_so(
    tiny: Any, make_task: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_TRAIN_ROWS", 100)
    task = make_task(*labelled(tiny, is_high), "binary_classification")
    result, again = fit(tiny, task), fit(tiny, task)
    assert result.train_rows == 100
    assert f"100 of {task.rows['train']}" in result.notices[0]
    assert result.predictions["test"].tobytes() == again.predictions["test"].tobytes()


@pytest.fixture(scope="module")
def coloured(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Things with one of forty colours; every other colour is a good one, so that the order of the
    codes means nothing."""
    rng = np.random.default_rng(0)
    names = np.array([f"colour {number:02}" for number in rng.permutation(40)])
    # Codes run by falling frequency: the more frequent a colour, the smaller its code.
    colour = np.repeat(np.arange(40), np.arange(119, 39, -2))
    frame = pd.DataFrame({"id": np.arange(len(colour)), "colour": names[colour]})
    db = gelgt.open(
        {"things": frame},
        schema={"tables": {"things": {"pkey": "id"}}},
        out=tmp_path_factory.mktemp("coloured") / "db",
    )
    days = pd.to_datetime(np.array(["2024-01-01", "2024-02-01", "2024-03-01"]))
    labels = pd.concat(
        [pd.DataFrame({"id": frame.id, "at": day, "good": colour % 2}) for day in days]
    )
    return db, db.task(labels, entity="things.id", val=days[1], test=days[2], timedelta="5 days")


def test_categories_are_no_ordered_numbers(coloured: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    db, task = coloured
    monkeypatch.setattr(boosting, "ROUNDS", 3)
    result = lightgbm_baseline(data_of(db, task), threads=1)
    assert result.features[0] == "colour"
    assert all(name.startswith("colour is colour ") for name in result.features[1:])
    assert roc_auc_score(targets(task, "test"), result.predictions["test"]) > 0.99


def test_a_retrain_predicts_test_and_leaves_validation_alone(tiny: Any, make_task: Any) -> None:
    """The first fit learns noise; what is known later says more, and early stopping has chosen how
    long that is learned."""
    rng = np.random.default_rng(1)
    train, val, test = labelled(tiny, is_high)
    task = make_task(
        [(e, d, int(rng.random() < 0.5)) for e, d, _ in train], val, test, "binary_classification"
    )
    graph = tiny.db.graph()
    examples = {
        split: Examples(task_seeds(task, graph, split), targets(task, split))
        for split in ("train", "val", "test")
    }
    alone, retrained = (
        fit(tiny, task),
        fit(tiny, task, examples=examples | {"known": examples["val"]}),
    )
    assert retrained.predictions["val"].tobytes() == alone.predictions["val"].tobytes()
    truth = targets(task, "test")
    assert roc_auc_score(truth, alone.predictions["test"]) < 0.8
    assert roc_auc_score(truth, retrained.predictions["test"]) > 0.9
    assert (retrained.train_rows, retrained.known_rows) == (len(train), len(val))
    assert retrained.rounds == alone.rounds


@pytest.mark.parametrize(
    "task_type", ["regression", "multiclass_classification", "multilabel_classification"]
)
def test_every_type_can_be_retrained(tiny: Any, make_task: Any, task_type: str) -> None:
    is_list = task_type.startswith("multilabel")
    options = {"arrow": pa.list_(pa.int64())} if is_list else {"classes": ("low", "high")}
    task = make_task(
        *labelled(tiny, lambda s: [is_high(s), 1 - is_high(s)] if is_list else is_high(s)),
        task_type,
        **options,
    )
    examples = {
        split: Examples(task_seeds(task, tiny.db.graph(), split), targets(task, split))
        for split in ("train", "val", "test")
    }
    result, alone = fit(tiny, task, examples=examples | {"known": examples["val"]}), fit(tiny, task)
    assert result.predictions["test"].shape == alone.predictions["test"].shape
    assert result.predictions["test"].tobytes() != alone.predictions["test"].tobytes()
    assert np.isfinite(result.predictions["test"]).all()


def test_lightgbm_is_silent(tiny: Any, make_task: Any, capfd: pytest.CaptureFixture[str]) -> None:
    fit(tiny, make_task(*labelled(tiny, is_high), "binary_classification"), hops=2)
    fit(tiny, make_task(*labelled(tiny, lambda s: 1.0), "regression"))
    assert capfd.readouterr() == ("", "")
