"""Recommendations on a small database with everything that can be missing: a composite key, no
destination yet, no candidate, an empty list, fewer rows than k."""

import json
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import gelgt
from gelgt import Database, GelgtError
from gelgt.explain import Explainer
from gelgt.explain.item_reasons import explain_list
from gelgt.explain.items import ItemsExplanation
from gelgt.inference import Predictor, Recommend
from gelgt.presets import RunConfig
from gelgt.sampling import make_seeds
from gelgt.scoring.recommend import RecommendScorer, Wish
from gelgt.training import Options, Run, train_run
from gelgt.training.examples import KNOWN
from gelgt.training.recommend import RecommendData
from gelgt.training.regime import in_regime

START = pd.Timestamp("2024-01-01")
SENTENCE = 'PREDICT LIST_DISTINCT(buys."region+sku", 0, 20, days) FOR EACH users.id'
TINY = {
    "train.epochs": 2,
    "train.steps_per_epoch": 4,
    "train.ensemble": 1,
    "train.windows": 1,
    "train.batch_size": 32,
    "model.width": 16,
    "model.heads": 2,
    "model.row_width": 8,
    "sampling.budget": 24,
}


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Users who buy one of their two regions' products; a product is listed every ten days, from
    the 20th day on."""
    folder = tmp_path_factory.mktemp("regions")
    rng = np.random.default_rng(0)
    connection = sqlite3.connect(folder / "regions.db")
    connection.executescript(
        """
        CREATE TABLE users(id INTEGER PRIMARY KEY, joined_at TEXT, age INTEGER);
        CREATE TABLE products(
            region TEXT, sku INTEGER, price REAL, listed_at TEXT, PRIMARY KEY(region, sku));
        CREATE TABLE buys(
            id INTEGER PRIMARY KEY, user_id INTEGER REFERENCES users(id), region TEXT, sku INTEGER,
            bought_at TEXT, FOREIGN KEY(region, sku) REFERENCES products(region, sku));
        """
    )
    users = [
        (user, str(START - pd.Timedelta(days=user)), int(rng.integers(18, 80)))
        for user in range(50)
    ]
    products = [
        ("ab"[i % 2], i, round(float(rng.random()), 3), str(START + pd.Timedelta(days=20 + 10 * i)))
        for i in range(20)
    ]
    buys = []
    for day in range(20, 280):
        listed = [p for i, p in enumerate(products) if 20 + 10 * i < day]
        for _ in range(8 if listed else 0):
            user = int(rng.integers(0, 49))  # the last one never buys
            mine = [p for p in listed if p[0] == "ab"[user % 2]] or listed
            region, sku, *_ = mine[int(rng.integers(0, len(mine)))]
            at = START + pd.Timedelta(days=day, minutes=int(rng.integers(1, 1400)))
            buys.append((len(buys), user, region, sku, str(at)))
    for table, rows in (("users", users), ("products", products), ("buys", buys)):
        marks = ", ".join("?" * len(rows[0]))
        connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
    connection.commit()
    connection.close()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GELGT_CACHE", str(folder / "cache"))
        yield gelgt.open(f"sqlite:///{folder / 'regions.db'}")


@pytest.fixture(scope="module")
def run(db: Database, tmp_path_factory: pytest.TempPathFactory) -> Run:
    task = db.task(SENTENCE)
    out = tmp_path_factory.mktemp("runs") / "next"
    config = RunConfig.of("cpu", task.task_type, TINY)
    return train_run(db, task, out, config, Options(device="cpu"))


def test_a_composite_key_is_named_whole(db: Database, run: Run) -> None:
    table = Predictor(run, db, "cpu").predict([1, 2], at="2024-08-01").to_pandas()
    assert table.columns.tolist() == ["id", "time", "rank", "region", "sku", "score"]
    listed = pd.Timestamp("2024-08-01") - START > pd.to_timedelta(20 + 10 * table["sku"], "D")
    assert listed.all()
    few = Recommend(5, allowed=[("a", 0), ("b", 1)])
    named = Predictor(run, db, "cpu").predict([1], at="2024-08-01", recommend=few).to_pandas()
    assert sorted(zip(named["region"], named["sku"])) == [("a", 0), ("b", 1)]


def test_a_part_of_a_key_is_no_key(db: Database) -> None:
    with pytest.raises(GelgtError) as caught:
        db.task("PREDICT LIST_DISTINCT(buys.sku, 0, 20, days) FOR EACH users.id")
    assert 'LIST_DISTINCT(buys."region+sku", …)' in str(caught.value)


def test_nothing_is_recommended_before_it_exists(db: Database, run: Run) -> None:
    predictor = Predictor(run, db, "cpu")
    early = predictor.predict([1, 2], at="2024-01-15")
    assert len(early) == 0
    assert any("no row of 'products' exists yet" in text for text in early.notices)
    # three are listed by then, and nobody has bought the last
    few = predictor.predict([1, 2], at=START + pd.Timedelta(days=41)).to_pandas()
    assert few.groupby("id").size().tolist() == [3, 3]


def test_whoever_never_bought_gets_what_is_popular(db: Database, run: Run) -> None:
    table = Predictor(run, db, "cpu").predict([49], at="2024-08-01").to_pandas()
    assert len(table) == 10
    assert np.isfinite(table["score"]).all()


def test_lists_that_name_nothing_yet_there_teach_nothing(db: Database) -> None:
    """A label may name only rows that do not exist at its seed time."""
    task = db.task(SENTENCE)
    config = in_regime(RunConfig.of("cpu", task.task_type, TINY), task, "seed-time")
    data = RecommendData.opened(db, task, config.with_values("derived", model__history=0))
    seeds = data.seeds["train"]
    rows = data.labels("train").copy()
    newest = int(data.destinations.finder.times.argmax())
    rows[0] = -1
    rows[1] = -1
    rows[1, 0] = newest
    usable, labels = data.some(seeds, rows)
    assert len(usable) <= len(seeds) - 2
    assert ((labels >= 0).sum(1) > 0).all()
    limits = data.destinations.finder.limits(usable)
    assert data.destinations.exists(labels, limits)[labels >= 0].all()


def test_a_small_validation_is_joined_by_the_last_training_times(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = db.task(SENTENCE)
    config = in_regime(RunConfig.of("cpu", task.task_type, TINY), task, "seed-time")
    data = RecommendData.opened(db, task, config.with_values("derived", model__history=0))
    held = data.with_held()
    assert held.held_since is not None
    window = int(task.timedelta.total_seconds())
    times, rows = data.seeds["train"].time, len(data.seeds["val"])
    joined = int(np.count_nonzero(times >= held.held_since))
    assert 0 < joined <= 0.2 * len(times)
    # whole seed times, and what was there comes last
    np.testing.assert_array_equal(held.seeds["val"].time[:joined], times[times >= held.held_since])
    np.testing.assert_array_equal(held.seeds["val"].node[joined:], data.seeds["val"].node)
    np.testing.assert_array_equal(
        held.labels("val")[joined:, : data.labels("val").shape[1]], data.labels("val")
    )
    for split, windows in (("train", 1), ("train", 3)):
        seeds, labels = held.windows(split, windows)
        assert len(seeds) == len(labels) > 0
        assert (seeds.time + window <= held.held_since).all()
    np.testing.assert_array_equal(held.seeds["test"].node, data.seeds["test"].node)
    # what is learned behind the choice holds everything again
    assert len(held.windows(KNOWN, 1)[0]) == len(data.windows(KNOWN, 1)[0])

    monkeypatch.setattr("gelgt.training.recommend.FEW_VALIDATED", rows)
    assert data.with_held().held_since is None


def test_the_run_says_what_candidates_cover(run: Run) -> None:
    ranking = run.record.ranking
    assert ranking is not None
    assert ranking.table == "products"
    assert ranking.size == 20
    assert set(ranking.locality) == {"users ← buys → products"}
    assert 0 < ranking.locality["users ← buys → products"] <= ranking.covered <= 1
    assert ranking.repeats == ranking.locality["users ← buys → products"]
    assert {"network", "trees"} <= run.record.parts.keys()


def test_destinations_that_come_later_change_nothing(db: Database, tmp_path: Path) -> None:
    """Neither what is learned nor what is recommended, bit for bit; the loss samples rows."""
    at = START + pd.Timedelta(days=200)
    whole = Path(str(db.source).removeprefix("sqlite:///"))
    shutil.copy(whole, tmp_path / "cut.db")
    with sqlite3.connect(tmp_path / "cut.db") as connection:
        connection.execute("DELETE FROM buys WHERE bought_at >= ?", (str(at),))
        gone = connection.execute("DELETE FROM products WHERE listed_at >= ?", (str(at),)).rowcount
    connection.close()
    assert gone == 2
    stated = {
        "val_timestamp": str(START + pd.Timedelta(days=120)),
        "test_timestamp": str(START + pd.Timedelta(days=150)),
    }
    tables, weights = [], []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gelgt.training.rank_objective.DENSE", 5)
        patch.setattr("gelgt.training.rank_objective.SAMPLED", 4)
        for name, path in (("whole", whole), ("cut", tmp_path / "cut.db")):
            opened = gelgt.open(f"sqlite:///{path}", schema=stated, out=tmp_path / name)
            task = opened.task(SENTENCE, eval_timestamps=1)
            config = RunConfig.of("cpu", task.task_type, TINY)
            run = train_run(opened, task, tmp_path / f"{name}-run", config, Options(device="cpu"))
            weights.append(run.weights())
            tables.append(Predictor(run, opened, "cpu").predict(at=at).to_pandas())
    assert all(weights[0][name].equal(weights[1][name]) for name in weights[0])
    assert len(tables[0]) > 400
    pd.testing.assert_frame_equal(*tables, check_exact=True)


def test_it_learns_whose_region_is_whose(db: Database, tmp_path: Path) -> None:
    """The network alone ranks products of the user's own region first."""
    task = db.task(SENTENCE)
    changes = TINY | {"train.epochs": 12, "train.steps_per_epoch": 12, "train.rate": 0.01}
    changes |= {"train.retrain": False}  # what validation scored is what predicts
    run = train_run(
        db,
        task,
        tmp_path / "run",
        RunConfig.of("cpu", task.task_type, changes),
        Options(device="cpu"),
    )
    ours = run.record.parts["network"]["val"]["map"] or 0.0
    popular = run.record.baselines["popular"]["val"]["map"] or 0.0
    assert ours > popular + 0.1  # half of what is popular is of the other region
    table = Predictor(run, db, "cpu").predict(at="2024-09-01", recommend=Recommend(3)).to_pandas()
    table = table[table["id"] < 49]
    own = table["region"] == np.where(table["id"] % 2, "b", "a")
    assert own.mean() > 0.9


def test_why_these_rows_are_recommended(db: Database, run: Run, tmp_path: Path) -> None:
    predictor = Predictor(run, db, "cpu")
    at = pd.Timestamp("2024-08-01")
    why = explain_list(predictor, 1, at, k=4)
    assert why == explain_list(predictor, 1, at, k=4), "the same question gives the same bits"
    table = predictor.predict([1], at=at, recommend=Recommend(4)).to_pandas()
    assert [item.key for item in why.items] == table[["region", "sku"]].to_numpy().tolist()
    assert [item.score for item in why.items] == pytest.approx(table["score"].tolist())

    paths = [reason for item in why.items for reason in item.reasons if reason.kind == "path"]
    assert paths
    for reason in paths:
        assert reason.name == "users ← buys → products"
        assert len(reason.walks) == min(reason.count or 0, 3)
        times = [pd.Timestamp(row["time"]) for walk in reason.walks for row in walk]
        assert times == sorted(times, reverse=True)
        assert max(times) < at
        assert reason.days == pytest.approx((at - times[0]) / pd.Timedelta(days=1), abs=1e-3)
    kinds = {reason.kind for item in why.items for reason in item.reasons}
    assert {"path", "everyone"} <= kinds
    assert json.loads(why.save(tmp_path / "why.json").read_text(encoding="utf-8"))["entity"] == 1
    page = why.save(tmp_path / "why.html").read_text(encoding="utf-8")
    assert "place" in page
    assert "buys" in page


def test_why_new_rows_are_recommended(db: Database, run: Run) -> None:
    """Nothing that the entity has had is explained, and the rows are those that are recommended."""
    predictor = Predictor(run, db, "cpu")
    at = pd.Timestamp("2024-08-01")
    why = explain_list(predictor, 1, at, k=4, new_only=True)
    table = predictor.predict([1], at=at, recommend=Recommend(4, new_only=True)).to_pandas()
    assert [item.key for item in why.items] == table[["region", "sku"]].to_numpy().tolist()
    assert why.items

    def bought(listed: ItemsExplanation) -> list[object]:
        path = "users ← buys → products"
        return [i.key for i in listed.items if any(reason.name == path for reason in i.reasons)]

    assert bought(explain_list(predictor, 1, at, k=4))
    assert not bought(why)


def test_scores_of_a_candidate_are_those_that_rank(db: Database, run: Run) -> None:
    """And without what ties it to the entity, it is scored as if nothing did."""
    predictor = Predictor(run, db, "cpu")
    scorer = predictor.scorer
    assert isinstance(scorer, RecommendScorer)
    chosen = predictor.seeds([3], "2024-08-01")
    seed = make_seeds(db, scorer.data.graph, "users", chosen.rows, chosen.times)
    ranked = scorer.rank(seed, Wish(5))
    candidates = scorer.destinations.finder.find(seed)
    columns = scorer.destinations.reader.read(seed, candidates).whole()[0]
    for row, score in zip(ranked.row[0], ranked.score[0]):
        place = np.flatnonzero(candidates.row[0] == row)
        again = scorer.scores_with(seed, int(row), torch.from_numpy(columns[place]))
        assert float(again[0]) == pytest.approx(float(score), abs=1e-5)


def test_predictions_for_nobody_leave_a_network_in_one_mode(db: Database, run: Run) -> None:
    """A worker without validation rows once trained on with a part of its network in another mode:
    training asks the network whether it has to change any."""
    predictor = Predictor(run, db, "cpu")
    scorer, chosen = predictor.scorer, predictor.seeds([3, 4, 5], "2024-08-01")
    assert isinstance(scorer, RecommendScorer)
    some = make_seeds(db, scorer.data.graph, "users", chosen.rows, chosen.times)
    network = scorer.model.networks[0]
    for count in (0, 3):
        scorer._kept = None
        network.train()
        scorer.predict(some.take(np.arange(count)))
        assert len({module.training for module in network.modules()}) == 1


def test_an_explanation_of_lists_asks_for_lists(db: Database, run: Run) -> None:
    with pytest.raises(GelgtError, match="one list at a time"):
        Explainer(Predictor(run, db, "cpu"))
