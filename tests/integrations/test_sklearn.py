"""scikit-learn's own tools on the estimators: they find a planted signal, and nothing after the
labels of a fit reaches it."""

import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit, cross_validate
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

import gelgt
from gelgt import GelgtError
from gelgt.integrations.sklearn import RelationalClassifier, RelationalRegressor, TimeSplit

from .conftest import TINY

START = pd.Timestamp("2026-01-01")
SETTINGS = {**TINY, "model.history_columns": 20, "train.rate": 0.01}
CUSTOMERS, CALLS, DAYS = 60, 1500, 120


@dataclass(frozen=True)
class Planted:
    """Customers who at some time begin to call about faults, and at length: they are about to
    leave."""

    frames: dict[str, pd.DataFrame]
    X: pd.DataFrame
    leaves: pd.Series

    @property
    def minutes(self) -> pd.Series:
        """What a call lasts, about."""
        return self.leaves * 15.0 + 5.0


@pytest.fixture(scope="module")
def planted() -> Planted:
    rng = np.random.default_rng(0)
    ids = np.arange(100, 100 + CUSTOMERS)
    turns = rng.uniform(0, 1.3 * DAYS, CUSTOMERS)
    caller, day = rng.integers(0, CUSTOMERS, CALLS), np.sort(rng.uniform(0, DAYS, CALLS))
    is_angry = day > turns[caller]
    calls = pd.DataFrame(
        {
            "id": np.arange(CALLS),
            "customer_id": ids[caller],
            "called_at": START + pd.to_timedelta(day, "D"),
            "about": np.where(is_angry, "fault", rng.choice(["order", "other"], CALLS)),
            "minutes": (rng.exponential(5, CALLS) + 15 * is_angry).round(1),
            # one value until a time, then a category: its kind depends on how far rows are read
            "mood": np.where(day < 57, "unknown", np.where(is_angry, "loud", "calm")),
        }
    )
    customers = pd.DataFrame({"id": ids, "region": rng.choice(["north", "south"], CUSTOMERS)})
    days = np.arange(20, DAYS, 10)
    X = pd.DataFrame(
        {
            "id": np.tile(ids, len(days)),
            "time": START + pd.to_timedelta(np.repeat(days, CUSTOMERS), "D"),
        }
    )
    leaves = pd.Series(np.tile(turns, len(days)) < np.repeat(days, CUSTOMERS) - 5)
    return Planted({"customers": customers, "calls": calls}, X, leaves)


@pytest.fixture(scope="module")
def source(planted: Planted, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(planted.frames, tmp_path_factory.mktemp("planted"))


def write(frames: dict[str, pd.DataFrame], folder: Path) -> Path:
    for name, frame in frames.items():
        frame.to_csv(folder / f"{name}.csv", index=False)
    return folder


def classifier(source: Any, **options: Any) -> RelationalClassifier:
    return RelationalClassifier(str(source), "customers", settings=SETTINGS, **options)


@pytest.fixture(scope="module")
def fitted(source: Path, planted: Planted) -> RelationalClassifier:
    return classifier(source).fit(planted.X, np.where(planted.leaves, "leaves", "stays"))


def test_a_time_ordered_cross_validation_finds_the_signal(source: Path, planted: Planted) -> None:
    def scores(y: Any) -> Any:
        return cross_validate(
            classifier(source),
            planted.X,
            y,
            cv=TimeSplit(2),
            scoring="roc_auc",
            error_score="raise",
        )["test_score"]

    assert scores(planted.leaves).min() > 0.9
    shuffled = np.random.default_rng(1).permutation(planted.leaves)
    assert scores(shuffled).max() < 0.65, "there is nothing to find in random labels"


def test_classes_probabilities_and_score(fitted: RelationalClassifier, planted: Planted) -> None:
    y = np.where(planted.leaves, "leaves", "stays")
    assert fitted.classes_.tolist() == ["leaves", "stays"]
    assert fitted.feature_names_in_.tolist() == ["id", "time"]
    some = planted.X.sample(50, random_state=0).rename_axis("id")
    p = fitted.predict_proba(some)
    assert p.shape == (50, 2)
    np.testing.assert_allclose(p.sum(1), 1)
    assert np.array_equal(fitted.predict(some), fitted.classes_[p.argmax(1)])
    assert fitted.score(planted.X, y) > 0.8 > max((y == "stays").mean(), (y == "leaves").mean())
    direct = fitted.model_.predict(fitted.database_, frame=some.reset_index(drop=True))
    assert np.array_equal(p[:, 1], direct["probability"].to_numpy()), "the model's own, in order"


def test_every_label_is_learned_from(fitted: RelationalClassifier, planted: Planted) -> None:
    record, rows = fitted.model_.run.record, len(planted.X)
    assert sum(record.task.rows.values()) == rows
    assert record.retrain is not None
    assert (record.retrain.labels, record.retrain.rows) == ("all", rows)
    assert record.regime == "seed-time"


def test_rows_after_the_labels_of_a_fit_change_nothing(planted: Planted, tmp_path: Path) -> None:
    """The same bits from a source that ends with the last label of a fit, and from one that goes
    on with hostile rows."""
    end = START + pd.Timedelta(days=70)
    calls, known = planted.frames["calls"], planted.X["time"] <= end
    later = calls["called_at"] >= end
    assert later.sum() > 100
    changed = calls.copy()
    changed["about"] = changed["about"].where(~later, "new " + changed["id"].astype(str))
    changed["minutes"] = changed["minutes"].where(~later, -1e9)
    found, learned = [], []
    for name, rows in (("cut", calls[~later]), ("hostile", changed)):
        (tmp_path / name).mkdir()
        model = classifier(write({**planted.frames, "calls": rows}, tmp_path / name))
        model.fit(planted.X[known], planted.leaves[known])
        found.append(model.predict_proba(planted.X[known]))
        run = model.model_.run
        assert str(run.record.task.test_timestamp) < str(end)
        weights = {name: tensor.numpy().tobytes() for name, tensor in run.weights().items()}
        learned.append((weights, (run.folder / "features.json").read_text()))
        assert run.schema.tables["calls"].kinds["mood"].kind == "categorical"
    assert np.array_equal(*found)
    assert learned[0] == learned[1], "weights and statistics too"
    assert np.unique(found[0]).size > 20


def test_rows_before_the_end_of_a_fit_do_change_it(
    fitted: RelationalClassifier, planted: Planted, tmp_path: Path
) -> None:
    """So that the test above could fail."""
    calls = planted.frames["calls"]
    longer = calls.assign(minutes=calls["minutes"] ** 2)
    model = classifier(write({**planted.frames, "calls": longer}, tmp_path))
    model.fit(planted.X, planted.leaves)
    assert not np.array_equal(model.predict_proba(planted.X), fitted.predict_proba(planted.X))


def test_new_rows_of_the_source_are_seen(planted: Planted, tmp_path: Path) -> None:
    source, known = (
        write(planted.frames, tmp_path),
        planted.X["time"] <= START + pd.Timedelta("60D"),
    )
    model = classifier(source).fit(planted.X[known], planted.leaves[known])
    calls, last = planted.frames["calls"], START + pd.Timedelta(days=DAYS)
    calm = planted.X["id"][~planted.leaves].iloc[-1]
    asked = pd.DataFrame({"id": [calm], "time": [last + pd.Timedelta(days=5)]})
    before = model.predict_proba(asked)[0, 1]
    more = calls.tail(30).assign(
        id=np.arange(10_000, 10_030), customer_id=calm, about="fault", called_at=last, minutes=20.0
    )
    write({**planted.frames, "calls": pd.concat([calls, more])}, tmp_path)
    assert model.predict_proba(asked)[0, 1] > before


def test_several_classes_and_one_that_comes_late(source: Path, planted: Planted) -> None:
    is_north = planted.frames["customers"].set_index("id")["region"] == "north"
    y = planted.leaves * 10 + planted.X["id"].map(is_north) * 5
    y[(planted.X["time"] == planted.X["time"].max()) & (y == 15)] = 30
    model = classifier(source).fit(planted.X, y)
    assert model.classes_.tolist() == [0, 5, 10, 15, 30]
    p = model.predict_proba(planted.X.head(40))
    assert p.shape == (40, 5)
    np.testing.assert_allclose(p.sum(1), 1, atol=1e-6)
    assert not p[:, 4].any(), "a class that training lacks is not known to the model"
    assert set(model.predict(planted.X.head(40))) <= {0, 5, 10, 15}


@pytest.mark.usefixtures("whole_forests")
def test_a_regressor_in_a_pipeline_and_a_search(source: Path, planted: Planted) -> None:
    only_key_and_time = FunctionTransformer(lambda frame: frame[["id", "time"]])
    regressor = RelationalRegressor(str(source), "customers", settings=SETTINGS)
    pipeline = Pipeline([("columns", only_key_and_time), ("gelgt", regressor)])
    search = GridSearchCV(
        pipeline,
        {"gelgt__settings": [SETTINGS, {**SETTINGS, "model.trees": False}]},
        cv=TimeSplit(1),
        scoring="neg_mean_absolute_error",
        n_jobs=1,
        error_score="raise",
    )
    X, y = planted.X.assign(noise=1.0), planted.minutes
    search.fit(X, y)
    assert search.best_index_ in (0, 1)
    assert -search.best_score_ < np.abs(y - y.median()).mean()
    assert search.score(X, y) > -np.abs(y - y.median()).mean() / 2


def test_scikit_learns_own_time_split(source: Path, planted: Planted) -> None:
    split = TimeSeriesSplit(2, test_size=2 * CUSTOMERS)
    scores = cross_validate(
        classifier(source),
        planted.X,
        planted.leaves,
        cv=split,
        scoring="roc_auc",
        error_score="raise",
    )
    assert scores["test_score"].min() > 0.9


def test_parameters_are_plain(tmp_path: Path) -> None:
    model = RelationalClassifier("x.db", "customers", timedelta="5 days", settings={"a": 1})
    again = clone(model)
    assert again is not model
    assert again.get_params() == model.get_params()
    assert again.set_params(random_state=3).random_state == 3
    assert pickle.loads(pickle.dumps(model)).get_params() == model.get_params()
    assert "timedelta='5 days'" in repr(model)
    with pytest.raises(NotFittedError):
        model.predict(pd.DataFrame({"id": [1], "time": [START]}))


def test_a_fitted_estimator_is_saved_as_a_run_folder(
    fitted: RelationalClassifier, planted: Planted, tmp_path: Path
) -> None:
    with pytest.raises(GelgtError) as caught:
        pickle.dumps(fitted)
    assert caught.value.code == "not_pickled"
    again = gelgt.load(fitted.model_.save(tmp_path / "run"))
    found = again.predict(frame=planted.X.head(5))["probability"].to_numpy()
    assert np.array_equal(found, fitted.predict_proba(planted.X.head(5))[:, 1])


@pytest.mark.parametrize(
    ("change", "code", "says"),
    [
        (lambda X, y: (X.drop(columns="time"), y), "unknown_column", "no column 'time'"),
        (lambda X, y: (X.assign(age=3), y), "unknown_column", "age"),
        (lambda X, y: (X.to_numpy(), y), "bad_frame", "pandas frame"),
        (lambda X, y: (X.assign(id=7), y), "unknown_key", "7"),
        (lambda X, y: (X.assign(time="soon"), y), "bad_time", "soon"),
        (lambda X, y: (X, np.ones(len(X))), "one_class", "1.0"),
        (lambda X, y: (X[X["time"] == X["time"].min()], y[: len(X) // 10]), "too_few_times", "1 d"),
    ],
)
def test_mistakes(source: Path, planted: Planted, change: Any, code: str, says: str) -> None:
    with pytest.raises(GelgtError) as caught:
        classifier(source).fit(*change(planted.X, planted.leaves.to_numpy()))
    assert caught.value.code == code
    assert says in str(caught.value)


def test_a_window_keeps_labels_out_of_validation(source: Path, planted: Planted) -> None:
    X = planted.X
    model = classifier(source, timedelta="15 days").fit(X, planted.leaves)
    run = model.model_.run
    train, val = (
        pd.read_parquet(run.folder / "labels" / f"{split}.parquet")["time"]
        for split in ("train", "val")
    )
    assert train.max() + pd.Timedelta(days=15) <= val.min()
    assert val.max() + pd.Timedelta(days=15) <= pd.Timestamp(run.record.task.test_timestamp)
    for train_rows, test_rows in TimeSplit(2, timedelta="15 days").split(X):
        last = X["time"].iloc[train_rows].max()
        assert last + pd.Timedelta(days=15) <= X["time"].iloc[test_rows].min()


def test_without_a_source() -> None:
    with pytest.raises(GelgtError) as caught:
        RelationalClassifier().fit(pd.DataFrame({"id": [1, 2]}), [0, 1])
    assert caught.value.code == "missing_option"
