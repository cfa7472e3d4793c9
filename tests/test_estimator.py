"""`gelgt.GelGT` and `gelgt.load`: the whole way in a few lines."""

import json
import os
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import gelgt
from gelgt import GelgtError
from gelgt.demo import Shop
from gelgt.training import Progress

TINY = {
    "train.retrain": False,
    "train.epochs": 2,
    "train.steps_per_epoch": 4,
    "train.ensemble": 1,
    "train.windows": 1,
    "train.best_epochs": 1,
    "train.batch_size": 32,
    "model.width": 16,
    "model.heads": 2,
    "model.keep": 12,
    "model.row_width": 8,
    "model.history_columns": 20,
    "sampling.budget": 24,
}


class Watch(Progress):
    def __init__(self) -> None:
        self.phases: list[str] = []

    def phase(self, name: str, facts: str = "") -> None:
        self.phases.append(name)


@pytest.fixture(scope="module")
def db(small_shop: Shop, tmp_path_factory: pytest.TempPathFactory) -> gelgt.Database:
    return gelgt.open(small_shop.url, out=tmp_path_factory.mktemp("estimator") / "shop")


@pytest.fixture(scope="module")
def model(db: gelgt.Database, small_shop: Shop) -> gelgt.GelGT:
    watch = Watch()
    made = gelgt.GelGT(preset="cpu", seed=3, settings=TINY).fit(
        db, db.task(small_shop.sentence), progress=watch
    )
    assert "training" in watch.phases
    return made


@pytest.fixture(scope="module")
def ids(db: gelgt.Database) -> list[int]:
    keys = db.keys("customers")
    assert keys is not None
    found: list[int] = keys.column(0).to_pylist()
    return found


def test_scores_beside_baselines(model: gelgt.GelGT, db: gelgt.Database, small_shop: Shop) -> None:
    found = model.evaluate()
    assert found["metrics"]["test"] == model.metrics["metrics"]["test"]
    assert set(found["baselines"]) == {"lightgbm", "entity-mean"}
    assert (
        model.evaluate(db, db.task(small_shop.sentence), split="val")["metrics"]["val"]
        == model.metrics["metrics"]["val"]
    )
    assert model.evaluate(small_shop.url)["metrics"] == found["metrics"]
    assert (
        found["seed"],
        model.run.config.train.seed,
        model.run.config.origins["model.width"],
    ) == (3, 3, "set")


def test_predict_and_embed(
    model: gelgt.GelGT, db: gelgt.Database, small_shop: Shop, ids: list[int]
) -> None:
    frame = model.predict(db, entities=ids[:2], at=small_shop.test_timestamp)
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.columns) == ["id", "time", "prediction", "probability"]
    assert frame["id"].tolist() == ids[:2]
    assert frame.attrs["notices"] == []
    pd.testing.assert_frame_equal(
        model.predict(small_shop.url, ids[:2], small_shop.test_timestamp), frame
    )
    pd.testing.assert_frame_equal(model.predict(frame=frame), frame, atol=1e-6)
    assert model.embed(db, ids[:2], small_shop.test_timestamp).shape == (2, 18)
    with pytest.warns(UserWarning, match="just after it"):
        everyone = model.predict(db)
    signed_up = db.read("customers").column("signed_up_at").to_numpy()
    assert len(everyone) == (signed_up <= everyone["time"].iloc[0].to_datetime64()).sum() > 0
    assert "just after it" in everyone.attrs["notices"][0]


def test_save_and_load(
    model: gelgt.GelGT, db: gelgt.Database, small_shop: Shop, ids: list[int], tmp_path: Path
) -> None:
    ids = ids[:50]
    path = model.save(tmp_path / "deep" / "churn")
    again = gelgt.load(path)
    pd.testing.assert_frame_equal(
        again.predict(db, ids, small_shop.test_timestamp),
        model.predict(db, ids, small_shop.test_timestamp),
        check_exact=True,
    )
    assert again.metrics == model.metrics
    assert again.evaluate(db)["metrics"] == model.evaluate(db)["metrics"]
    assert again.evaluate()["metrics"] == model.evaluate()["metrics"], "it knows where its data was"
    assert again.temporal_profile() == model.temporal_profile()
    assert "centre" in again.temporal_profile()[0][0]["text"]
    assert os.listdir(path.parent) == ["churn"]
    with pytest.raises(GelgtError) as caught:
        model.save(path)
    assert caught.value.code == "run_exists"


def test_a_loaded_model_is_trained_again_as_it_was(
    db: gelgt.Database, small_shop: Shop, tmp_path: Path
) -> None:
    """The same kind of model with the same settings: the same weights, bit for bit."""
    settings = {
        "train.epochs": 1,
        "train.steps_per_epoch": 2,
        "train.batch_size": 16,
        "model.width": 16,
        "sampling.budget": 24,
    }
    task = db.task(small_shop.sentence)
    made = gelgt.GelGT(
        model="rdl", seed=5, settings=settings, as_of=small_shop.val_timestamp, device="cpu"
    )
    made.fit(db, task, tmp_path / "rdl")
    again = gelgt.load(tmp_path / "rdl").fit(db, task, tmp_path / "again")
    assert (again.run.config.kind, again.metrics["model"]) == ("rdl", "rdl")
    assert again.run.config == made.run.config
    assert again.run.config.sampling.horizon is not None
    assert again.metrics["metrics"] == made.metrics["metrics"]
    assert "model='rdl'" in repr(again)


def test_save_is_whole_or_not_at_all(
    model: gelgt.GelGT, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("gelgt.files.os.replace", full)
    with pytest.raises(GelgtError, match="No space left"):
        model.save(tmp_path / "run")
    assert os.listdir(tmp_path) == []


def test_report(model: gelgt.GelGT, tmp_path: Path) -> None:
    assert model.report(tmp_path / "report.html").read_text().startswith("<!doctype html>")
    assert model.report() == model.run.folder / "report.html"


def test_a_temporary_run_lives_as_long_as_the_model(small_shop: Shop) -> None:
    import gc

    made = gelgt.GelGT(settings={**TINY, "train.epochs": 1, "train.steps_per_epoch": 1}).fit(
        small_shop.url, small_shop.sentence
    )
    folder = made.run.folder
    assert folder.is_dir()
    assert json.loads((folder / "config.json").read_text())["train"]["epochs"] == 1
    del made
    gc.collect()
    assert not folder.exists()


def test_mistakes_are_told_early() -> None:
    with pytest.raises(GelgtError) as caught:
        gelgt.GelGT(preset="cup")
    assert caught.value.code == "unknown_preset"
    with pytest.raises(GelgtError, match=r"Did you mean 'model\.width'"):
        gelgt.GelGT(settings={"model.widht": 3})
    with pytest.raises(GelgtError) as caught:
        gelgt.GelGT().predict({})
    assert caught.value.code == "not_fitted"
    with pytest.raises(GelgtError) as caught:
        gelgt.GelGT().fit({}, "PREDICT …", resume=True)
    assert caught.value.code == "bad_option"


def leaky() -> gelgt.Database:
    """Users whose `closed_at` lies behind their visits, and labels of them."""
    days = pd.date_range("2024-01-01", periods=60)
    users = pd.DataFrame({"id": range(60), "joined_at": days})
    users["closed_at"] = days + pd.to_timedelta(range(200, 260), "D")
    owners = [i % 60 for i in range(600)]
    times = pd.Timestamp("2024-03-01") + pd.to_timedelta(range(0, 3_000, 5), "h")
    visits = pd.DataFrame({"id": range(600), "user_id": owners, "at": times})
    # as if the end were known ahead
    return gelgt.open({"users": users, "visits": visits}, schema={"users": {"event_dates": {}}})


def test_fit_warns_of_leaks_before_and_after() -> None:
    db = leaky()
    model = gelgt.GelGT(settings=TINY)
    with pytest.warns(UserWarning, match="users.closed_at") as warned:
        model.fit(db, "PREDICT COUNT(visits.*, 0, 5, days) > 0 FOR EACH users.id")
    told = [str(w.message) for w in warned if "users.closed_at" in str(w.message)]
    assert len(told) == 2
    assert told[0].startswith("leak: users.closed_at (60): later than 'joined_at'")
    assert told[1].startswith("users.closed_at: suspected leak, ")
    assert [f["is_accepted"] for f in model.metrics["findings"]] == [False]


def test_fit_stops_at_an_error_that_nobody_accepts() -> None:
    db = gelgt.open({"users": pd.DataFrame({"id": range(40), "score": range(40)})})
    moments = [f"2024-{month:02}-01" for month in range(1, 10)]
    labels = pd.DataFrame(
        [(i, at, (i + int(at[6])) % 2) for at in moments for i in range(40)],
        columns=["id", "at", "target"],
    )
    task = db.task(
        labels, entity="users.id", timedelta="20 days", val="2024-06-15", test="2024-08-15"
    )
    with pytest.raises(GelgtError, match="no table has a time column") as error:
        gelgt.GelGT(settings=TINY).fit(db, task)
    assert error.value.code == "unanswered_findings"
    match = "accepted: no table has a time column"
    with pytest.warns(UserWarning, match="error: users"), pytest.warns(UserWarning, match=match):
        gelgt.GelGT(settings=TINY).fit(db, task, accept=["no_times:users"])
