"""Recommendations from the command line: the task, what training prints, the run's report, and what
can be asked of a prediction."""

import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from gelgt.demo import Shop
from gelgt.runs.record import FORMAT, RankingFacts, RunRecord, TaskFacts

Run = Callable[..., Any]
SENTENCE = "PREDICT LIST_DISTINCT(order_items.product_sku, 0, 30, days) FOR EACH customers.id"
TINY = (
    "--set",
    "train.epochs=1",
    "--set",
    "train.steps_per_epoch=2",
    "--set",
    "train.ensemble=1",
    "--set",
    "train.batch_size=32",
    "--set",
    "train.windows=1",
)


@dataclass(frozen=True)
class Recommended:
    """A run that recommends, and what the command printed."""

    folder: Path
    out: str
    err: str


@pytest.fixture(scope="module")
def recommended(small_shop: Shop, tmp_path_factory: pytest.TempPathFactory) -> Recommended:
    """One run for the tests here, trained in this process."""
    from gelgt.cli import main

    folder = tmp_path_factory.mktemp("recommended") / "runs" / "next"
    out, err = StringIO(), StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setenv("GELGT_CACHE", str(tmp_path_factory.mktemp("recommended-cache")))
        command = ("train", small_shop.path, SENTENCE, "--out", folder, *TINY)
        patch.setattr(sys, "argv", ["gelgt", *map(str, command)])
        with pytest.raises(SystemExit) as ended:
            main()
    assert not ended.value.code, err.getvalue()
    return Recommended(folder, out.getvalue(), err.getvalue())


def test_a_task_shows_the_keys_of_the_source(run: Run, shop_source: Path) -> None:
    result = run("task", shop_source, SENTENCE, "--name", "next", "--dry-run")
    lines = result.out.splitlines()
    assert lines[0] == "next: recommends rows of products to each row of customers"
    assert "the first 10 recommendations are evaluated" in lines
    assert "keys on average" in result.out
    start = next(i for i, line in enumerate(lines) if line.startswith("timestamp "))
    for line in lines[start + 1 : start + 6]:
        keys = line.split("  ")[-1].split("; ")
        assert all(key.startswith("SKU-") for key in keys), line
    found = run("task", shop_source, SENTENCE, "--dry-run", "--json").json
    assert (found["dst_entity_table"], found["task_type"]) == ("products", "recommendation")


def test_training_says_what_its_baselines_are(recommended: Recommended) -> None:
    assert "recommends rows of products to each row of customers" in recommended.err
    assert "of what is right is among them" in recommended.err
    for line in (
        "Scores are of the first 10 recommendations, over the rows that have at least one right",
        "  past      the rows of products that the entity has had, the most frequent first",
        "  recent    what anyone has had, the newest first",
        "  popular   what everyone has had lately, the most frequent first",
        "of the training labels name rows that the entity has had before",
    ):
        assert line in recommended.out
    assert "windows have closed" not in recommended.out
    assert f"gelgt predict  {recommended.folder} --all --k 5 --new-only" in recommended.out
    page = (recommended.folder / "report.html").read_text(encoding="utf-8")
    assert '<section id="recommendations">' in page
    assert "Hits by rank" in page
    assert "but predictions/test.parquet gives" not in page  # the lists give the stored score


def test_an_evaluation_gives_the_same(run: Run, recommended: Recommended) -> None:
    result = run("evaluate", recommended.folder)
    assert result.code == 0, result.err
    ours = next(line for line in recommended.out.splitlines() if line.startswith("gelgt  "))
    again = next(line for line in result.out.splitlines() if line.startswith("gelgt  "))
    assert again.split()[1:] == ours.split()[2:]  # without the validation score
    assert "windows have closed" not in result.out


def test_predictions_name_new_rows_only(
    run: Run, recommended: Recommended, small_shop: Shop, tmp_path: Path
) -> None:
    out = tmp_path / "offers.parquet"
    options = ("--all", "--at", "2024-12-26", "--k", 3, "--out", out)
    result = run("predict", recommended.folder, *options, "--new-only")
    assert result.code == 0, result.err
    frame = pd.read_parquet(out)
    entities = frame["id"].nunique()
    assert result.out.startswith(f"Recommendations for {entities:,} entities written to {out}")
    assert list(frame.columns) == ["id", "time", "rank", "sku", "score"]
    assert frame.groupby("id")["rank"].max().max() == 3
    query = "SELECT customer_id, product_sku FROM order_items WHERE ordered_at < '2024-12-26'"
    with closing(sqlite3.connect(small_shop.path)) as connection:
        had = set(connection.execute(query).fetchall())
    assert had
    assert not had & set(zip(frame["id"].tolist(), frame["sku"].tolist()))


def test_words_of_a_run_without_facts_or_baselines() -> None:
    from gelgt.cli.scores import ranking_lines
    from gelgt.runs.words import ranking_words, repeat_words, score_words

    task = TaskFacts(name="t", task_type="recommendation")
    empty = RunRecord(format=FORMAT, task=task, metric="map", metrics={})
    assert (ranking_words(empty), repeat_words(empty), score_words(empty)) == ({}, "", "")
    facts = RankingFacts(table="movie", k=12, repeats=0.004)
    bare = empty.model_copy(update={"ranking": facts})
    assert ranking_lines(bare) == [score_words(bare)]
    assert "first 12" in score_words(bare)
    assert repeat_words(bare).startswith("less than 1 %")
