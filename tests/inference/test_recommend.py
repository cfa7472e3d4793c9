"""Recommendations of a trained run: whose they are, what they may name, and what they may know."""

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from relbench import load_dataset

from gelgt import GelgtError
from gelgt.inference import Predictor, Recommend, evaluate_run, write_relbench
from gelgt.metrics import score
from gelgt.training import Run

from .conftest import Twins, tiny_run


@pytest.fixture(scope="session")
def run(run_of: Callable[[str], Run]) -> Run:
    return run_of("recommendation")


@pytest.fixture(scope="session")
def predictor(run: Run, twins: Twins) -> Predictor:
    return Predictor(run, twins.whole, "cpu")


def bought(twins: Twins, at: pd.Timestamp) -> pd.DataFrame:
    with sqlite3.connect(twins.folder / "whole.db") as connection:
        rows = pd.read_sql(
            "SELECT o.customer_id, i.product_sku, o.placed_at FROM order_items i "
            "JOIN orders o ON o.id = i.order_id",
            connection,
        )
    return rows[pd.to_datetime(rows["placed_at"]) < at]


def test_lists_are_ranked_and_named_by_the_users_keys(predictor: Predictor, twins: Twins) -> None:
    table = predictor.predict(at=twins.at).to_pandas()
    assert table.columns.tolist() == ["id", "time", "rank", "sku", "score"]
    for _, of_one in table.groupby("id"):
        assert of_one["rank"].tolist() == list(range(1, len(of_one) + 1))
        assert of_one["score"].is_monotonic_decreasing
        assert of_one["sku"].is_unique
    assert (table.groupby("id").size() == 10).all()


def test_the_same_question_gives_the_same_bits_beside_anyone(
    predictor: Predictor, twins: Twins
) -> None:
    everyone = predictor.predict(at=twins.at).to_pandas()
    some = everyone["id"].unique()[[3, 40, 17]]
    few = predictor.predict([int(key) for key in some], at=twins.at).to_pandas()
    for key in some:
        mine = everyone[everyone["id"] == key].reset_index(drop=True)
        again = few[few["id"] == key].reset_index(drop=True)
        pd.testing.assert_frame_equal(mine, again, check_exact=False, rtol=1e-5)


def test_nothing_from_the_future_changes_them(run: Run, twins: Twins) -> None:
    tables = [
        Predictor(run, db, "cpu").predict(at=twins.at, recommend=Recommend(5)).to_pandas()
        for db in (twins.whole, twins.cut)
    ]
    assert len(tables[0]) > 100
    pd.testing.assert_frame_equal(*tables, check_exact=True)


def test_training_on_the_cut_database_gives_the_same_run(
    run: Run, twins: Twins, tmp_path: Path
) -> None:
    again = tiny_run(twins.cut, twins.task("recommendation", twins.cut), tmp_path / "cut")
    ours, theirs = run.weights(), again.weights()
    assert ours.keys() == theirs.keys()
    assert all(ours[name].equal(theirs[name]) for name in ours)
    assert run.record.ranking == again.record.ranking


def test_new_only_leaves_out_what_was_bought(predictor: Predictor, twins: Twins) -> None:
    had = set(map(tuple, bought(twins, twins.at)[["customer_id", "product_sku"]].to_numpy()))
    plain = predictor.predict(at=twins.at).to_pandas()
    new = predictor.predict(at=twins.at, recommend=Recommend(new_only=True)).to_pandas()
    assert had & set(zip(plain["id"], plain["sku"]))
    assert not had & set(zip(new["id"], new["sku"]))
    assert (new.groupby("id").size() == 10).all()


def test_only_allowed_keys_are_named_in_the_same_order(predictor: Predictor, twins: Twins) -> None:
    every = predictor.predict(at=twins.at, recommend=Recommend(10_000)).to_pandas()
    keys = sorted(every["sku"].unique())[::7]
    few = predictor.predict(at=twins.at, recommend=Recommend(allowed=keys)).to_pandas()
    assert set(few["sku"]) <= set(keys)
    one = few["id"].iloc[0]
    order = [sku for sku in every[every["id"] == one]["sku"] if sku in keys]
    assert few[few["id"] == one]["sku"].tolist() == order[:10]


def test_more_than_there_are_gives_all_that_exist(predictor: Predictor, twins: Twins) -> None:
    early = twins.val - pd.Timedelta(days=150)
    with sqlite3.connect(twins.folder / "whole.db") as connection:
        listed = pd.read_sql("SELECT * FROM products", connection)
    times = [name for name in listed.columns if name.endswith("_at")]
    exist = (
        len(listed)
        if not times
        else int((pd.to_datetime(listed[times[0]]) < early).sum())
    )
    table = predictor.predict(at=early, recommend=Recommend(10_000)).to_pandas()
    assert (table.groupby("id").size() == exist).all()


def test_scores_are_those_of_the_run_and_of_relbench(
    run: Run, twins: Twins, tmp_path: Path
) -> None:
    result = evaluate_run(run, twins.whole)
    assert result["metrics"]["test"] == run.record.metrics["test"]
    path = write_relbench(run, twins.whole, tmp_path / "sub.csv")
    lists = [json.loads(text) for text in pd.read_csv(path)["product_sku"]]
    assert all(len(row) == 10 for row in lists)
    labels = pq.read_table(run.folder / "labels" / "test.parquet")
    saved = twins.task("recommendation").save()
    theirs = load_dataset(twins.folder / "whole").load_task(saved.name).evaluate(np.array(lists))
    width = max(len(row) for row in labels.column("product_sku").to_pylist())
    padded = np.array(
        [row + [-1] * (width - len(row)) for row in labels.column("product_sku").to_pylist()]
    )
    ours = score("recommendation", padded, np.array(lists))
    assert ours["map"] == pytest.approx(theirs["map"], abs=1e-12)
    assert ours == pytest.approx(run.record.metrics["test"])


@pytest.mark.parametrize(
    ("recommend", "code", "says"),
    [
        (Recommend(0), "bad_option", "at least 1"),
        (Recommend(allowed=["no such sku"]), "unknown_keys", "no such sku"),
        (Recommend(allowed=[]), "bad_option", "products"),
    ],
)
def test_wishes_that_cannot_be(
    predictor: Predictor, recommend: Recommend, code: str, says: str
) -> None:
    with pytest.raises(GelgtError) as caught:
        predictor.predict([1], recommend=recommend)
    assert caught.value.code == code
    assert says in f"{caught.value.message} {caught.value.hint}"


def test_a_run_that_predicts_values_recommends_nothing(binary_run: Run, twins: Twins) -> None:
    with pytest.raises(GelgtError) as caught:
        Predictor(binary_run, twins.whole, "cpu").predict([1], recommend=Recommend(5))
    assert "predicts a value" in caught.value.message
