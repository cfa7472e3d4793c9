"""Scores of a run: those of its metrics.json on the same data, new labels on other data, and what
RelBench itself says."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import gelgt
from gelgt import GelgtError
from gelgt.inference import evaluate_run, write_relbench
from gelgt.training import Run

from .conftest import SENTENCES, Twins, change, tiny_run


@pytest.mark.parametrize("name", SENTENCES)
def test_scores_are_those_of_the_run(twins: Twins, run_of: Callable[[str], Run], name: str) -> None:
    run = run_of(name)
    # a retrained model has learned validation since it was scored there
    for split in ("val", "test") if run.record.retrain is None else ("test",):
        found = evaluate_run(run, twins.whole, split, device="cpu")
        assert found["metrics"][split] == run.record.to_json()["metrics"][split], "bit for bit"
        assert found["baselines"] == {
            n: {split: s[split]} for n, s in run.record.to_json()["baselines"].items()
        }
        assert (found["regime"], found["seed"], found["run"], found["notices"]) == (
            "seed-time",
            0,
            str(run.folder),
            [],
        )
    assert (
        evaluate_run(run, twins.whole, "train")["rows"]
        == run.record.to_json()["task"]["rows"]["train"]
    )


def test_the_source_of_the_run_is_the_default(twins: Twins, binary_run: Run) -> None:
    assert (
        evaluate_run(binary_run)["metrics"]["test"]
        == binary_run.record.to_json()["metrics"]["test"]
    )


def test_an_unknown_split(twins: Twins, binary_run: Run) -> None:
    with pytest.raises(GelgtError, match="Did you mean 'test'"):
        evaluate_run(binary_run, twins.whole, "tset")


@pytest.mark.parametrize("name", ["binary", "multiclass"])
def test_labels_are_made_again_on_other_data(
    twins: Twins, run_of: Callable[[str], Run], tmp_path: Path, name: str
) -> None:
    """Rows that come and go behind the last window: another hash, and other row numbers of nothing
    that counts."""
    run = run_of(name)
    found = evaluate_run(run, twins.cut)
    assert found["metrics"]["test"] == run.record.to_json()["metrics"]["test"]
    assert found["baselines"] == {}
    assert "baselines" in found["notices"][0]
    shutil.copy(twins.folder / "cut.db", tmp_path / "shop.db")
    change(
        tmp_path / "shop.db",
        [
            "DELETE FROM orders WHERE id % 4 = 0",
            "UPDATE orders SET channel = 'pigeon' WHERE id % 4 = 1",
        ],
    )
    other = evaluate_run(run, tmp_path / "shop.db")
    assert other["metrics"]["test"] != run.record.to_json()["metrics"]["test"]
    assert any("never saw" in text for text in other["notices"]) == (name == "multiclass")


def test_given_labels_belong_to_their_data(twins: Twins, tmp_path: Path) -> None:
    keys = twins.cut.keys("customers").column(0).to_pylist()[:60]  # type: ignore[union-attr]
    days = pd.date_range(
        twins.val - pd.Timedelta(days=40), twins.at - pd.Timedelta(days=5), freq="7D"
    )
    frame = pd.DataFrame(
        [(key, day, float(key % 7)) for key in keys for day in days], columns=["id", "day", "size"]
    )
    signed_up = twins.cut.read("customers", ["signed_up_at"]).column(0).to_pylist()[:60]
    frame = frame[frame["day"] > frame["id"].map(dict(zip(keys, signed_up)))]
    task = twins.cut.task(
        frame, entity="customers.id", timedelta="7 days", val=twins.val, test=twins.test
    )
    run = tiny_run(twins.cut, task, tmp_path / "run")
    assert (
        evaluate_run(run, twins.cut)["metrics"]["test"] == run.record.to_json()["metrics"]["test"]
    )
    with pytest.raises(GelgtError) as caught:
        evaluate_run(run, twins.whole)
    assert caught.value.code == "labels_of_other_data"


def test_edited_labels_belong_to_their_data(twins: Twins, tmp_path: Path) -> None:
    """On other data the definition would give labels, but not those that the model has learned."""
    folder = twins.task("binary", twins.cut).save(tmp_path / "task")
    labels = pd.read_parquet(folder / "train.parquet")
    labels.assign(target=1 - labels["target"]).to_parquet(folder / "train.parquet")
    run = tiny_run(twins.cut, twins.cut.task(folder), tmp_path / "run")
    assert (
        evaluate_run(run, twins.cut)["metrics"]["test"] == run.record.to_json()["metrics"]["test"]
    )
    with pytest.raises(GelgtError) as caught:
        evaluate_run(run, twins.whole)
    assert caught.value.code == "labels_of_other_data"


def test_a_refitted_model_says_so(twins: Twins, tmp_path: Path) -> None:
    run = tiny_run(twins.cut, twins.task("binary", twins.cut), tmp_path / "run", retrain_all=True)
    found = evaluate_run(run, twins.cut)
    assert "learned the labels of 'test'" in found["notices"][0]
    with pytest.raises(GelgtError) as caught:
        write_relbench(run, twins.cut, tmp_path)
    assert caught.value.code == "learned_test"


def test_another_task(twins: Twins, binary_run: Run) -> None:
    later = twins.whole.task(
        SENTENCES["binary"],
        val=twins.val,
        test=twins.test + pd.Timedelta(days=10),
        eval_timestamps=1,
    )
    found = evaluate_run(binary_run, twins.whole, task=later)
    assert found["rows"] == later.rows["test"]
    assert found["metrics"]["test"] != binary_run.record.to_json()["metrics"]["test"]
    assert found["baselines"] == {}
    same = evaluate_run(binary_run, twins.whole, task=twins.task("binary"))
    without_task = evaluate_run(binary_run, twins.whole)
    assert same.pop("rows_per_second") > 0
    assert without_task.pop("rows_per_second") > 0
    assert same == without_task, "the same labels, so its baselines stand beside it"
    with pytest.raises(GelgtError) as caught:
        evaluate_run(binary_run, twins.whole, task=SENTENCES["products"])
    assert caught.value.code == "other_task"
    with pytest.raises(GelgtError) as caught:
        evaluate_run(binary_run, twins.cut, task=later)
    assert caught.value.code == "other_data"


# RelBench.
@pytest.mark.parametrize(
    ("task", "visibility"), [("driver-top3", "frozen"), ("driver-position", "seed-time")]
)
def test_relbench_scores_our_table_alike(
    relbench_data: Callable[[str], Path], tmp_path: Path, task: str, visibility: Any
) -> None:
    from relbench.load import RelBenchDataset
    from relbench.submit import evaluate_task

    folder = relbench_data("rel-f1")
    db = gelgt.open(folder)
    run = tiny_run(db, db.task(task), tmp_path / "run", visibility=visibility)
    path = write_relbench(run, db, tmp_path / "submission")
    assert path == tmp_path / "submission" / f"rel-f1__{task}.csv"
    dataset = RelBenchDataset(folder)
    theirs = evaluate_task(f"rel-f1/{task}", path, dataset=dataset)
    ours = run.record.to_json()["metrics"]["test"]
    made = dataset.load_task(task)
    if task == "driver-top3":
        assert theirs["roc_auc"] == pytest.approx(ours["roc_auc"], abs=1e-12)
    else:
        spread = made.get_table("train").df[made.target_col].std(ddof=1)
        assert theirs["nmae"] * spread == pytest.approx(ours["mae"], rel=1e-9)
    table = pd.read_csv(path)
    assert list(table.columns) == [made.entity_col, made.time_col, made.target_col]
    test = made.get_table("test", mask_input_cols=False).df
    np.testing.assert_array_equal(table[made.entity_col], test[made.entity_col])
    evaluated = made.evaluate(table[made.target_col].to_numpy())
    assert evaluated == pytest.approx(theirs)


def test_relbench_takes_no_classes(
    twins: Twins, run_of: Callable[[str], Run], tmp_path: Path
) -> None:
    with pytest.raises(GelgtError) as caught:
        write_relbench(run_of("multiclass"), twins.whole, tmp_path / "out.csv")
    assert caught.value.code == "no_submission"
