"""Prediction intervals of a run: the columns, what they come from, and what is refused."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import gelgt
from gelgt import GelgtError
from gelgt.calibration import ProbabilityMap
from gelgt.calibration.intervals import conformal_rank
from gelgt.inference import Predictor, bounds_of, evaluate_run
from gelgt.runs.folder import INTERVALS, finish_run, load_run
from gelgt.training import Run

from .conftest import Twins, tiny_run


@pytest.fixture(scope="module")
def run(run_of: Callable[[str], Run]) -> Run:
    return run_of("regression")


def scored(run: Run, split: str) -> tuple[np.ndarray, np.ndarray]:
    table = pq.read_table(run.folder / "predictions" / f"{split}.parquet")
    return table["prediction"].to_numpy(), table["label"].to_numpy()


def test_columns_beside_predictions(twins: Twins, run: Run) -> None:
    predictor = Predictor(run, twins.whole)
    plain = predictor.predict(at=twins.at).table
    table = predictor.predict(at=twins.at, interval=0.8).table
    assert table.column_names == ["id", "time", "prediction", "lower", "upper"]
    assert table.select(plain.column_names).equals(plain)
    predictions = table["prediction"].to_numpy()
    intervals = run.intervals()
    assert intervals is not None
    lower, upper = intervals.bounds(predictions, 0.8)
    np.testing.assert_array_equal(table["lower"].to_numpy(), lower)
    np.testing.assert_array_equal(table["upper"].to_numpy(), upper)
    assert (lower >= 0).all(), "sums of prices are not negative"
    wider = predictor.predict(at=twins.at, interval=0.9).table
    assert pc.all(pc.greater_equal(wider["upper"], table["upper"])).as_py()
    frame = gelgt.load(run.folder).predict(twins.whole, at=twins.at, interval=0.8)
    np.testing.assert_array_equal(frame["upper"], upper)


def test_intervals_come_from_the_validation_rows(twins: Twins, run: Run) -> None:
    predictions, labels = scored(run, "val")
    intervals = run.intervals()
    assert intervals is not None
    assert intervals.rows == len(labels)
    lower, upper = intervals.bounds(predictions, 0.9)
    inside = ((labels >= lower) & (labels <= upper)).mean()
    assert inside == pytest.approx(conformal_rank(len(labels), 0.9) / len(labels), abs=0.03)
    train = pq.read_table(run.folder / "labels" / "train.parquet")
    assert intervals.floor == pc.min(train[run.record.task.target]).as_py()


def test_coverage_is_that_of_the_test_rows(twins: Twins, run: Run) -> None:
    predictions, labels = scored(run, "test")
    intervals = run.intervals()
    assert intervals is not None
    lower, upper = intervals.bounds(predictions, 0.9)
    stored = run.record.to_json()["intervals"]
    assert stored["0.9"]["coverage"] == ((labels >= lower) & (labels <= upper)).mean()
    assert stored["0.9"]["mean_width"] == pytest.approx((upper - lower).mean())
    found = evaluate_run(run, twins.whole, "test", device="cpu")["intervals"]
    assert {level: each["coverage"] for level, each in found.items()} == {
        level: each["coverage"] for level, each in stored.items()
    }
    assert [part["rows"] for part in found["0.9"]["times"]] == [len(labels)]


def test_later_labels_change_nothing(twins: Twins, run: Run, tmp_path: Path) -> None:
    """Other test labels: the same intervals, to the bit."""
    task = twins.task("regression")
    test = task.table("test")
    place = test.column_names.index(task.label_col)
    other = pa.array(test.column(place).to_numpy() * 7 + 1000)
    changed = {**task.labels, "test": test.set_column(place, task.label_col, other)}
    again = tiny_run(twins.whole, replace(task, labels=changed), tmp_path / "run")
    assert (again.folder / INTERVALS).read_bytes() == (run.folder / INTERVALS).read_bytes()
    before, after = run.record.intervals["0.9"], again.record.intervals["0.9"]
    assert after.coverage < before.coverage, "the labels did change"


def test_only_numbers_have_intervals(twins: Twins, run: Run, binary_run: Run) -> None:
    with pytest.raises(GelgtError, match="intervals are of predicted numbers") as error:
        Predictor(binary_run, twins.whole).predict(at=twins.at, interval=0.9)
    assert error.value.code == "no_interval"
    assert evaluate_run(binary_run, twins.whole, device="cpu")["intervals"] == {}
    for kind in ("multiclass_classification", "recommendation"):
        space = replace(run.target.space, task_type=kind)
        other = replace(run, target=replace(run.target, space=space))
        with pytest.raises(GelgtError, match=kind):
            bounds_of(other, 0.9)


@pytest.mark.parametrize("level", [0, 1, 90, "0.9"])
def test_bad_levels(twins: Twins, run: Run, level: Any) -> None:
    with pytest.raises(GelgtError) as error:
        Predictor(run, twins.whole).predict(at=twins.at, interval=level)
    assert error.value.code == "bad_level"


def test_too_few_validation_rows(twins: Twins, run: Run) -> None:
    intervals = run.intervals()
    assert intervals is not None
    with pytest.raises(GelgtError, match=f"{intervals.rows} validation rows") as error:
        Predictor(run, twins.whole).predict(at=twins.at, interval=0.9999)
    assert error.value.code == "too_few_rows"


def test_a_run_that_kept_nothing(twins: Twins, run: Run, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(run.folder, tmp_path / "old"))
    (folder / INTERVALS).unlink()
    finish_run(folder)
    predictor = Predictor(load_run(folder), twins.whole)
    assert len(predictor.predict(at=twins.at))
    with pytest.raises(GelgtError, match="older gelgt") as error:
        predictor.predict(at=twins.at, interval=0.9)
    assert error.value.code == "no_calibration"
    assert "Train again" in error.value.hint


def test_probabilities_are_mapped_in_every_place(twins: Twins, binary_run: Run) -> None:
    """A run that has a map predicts with it, and is scored with it; its ranks stay."""
    run = binary_run
    record = run.record.model_copy(update={"probabilities": ProbabilityMap("platt", 0.5, -1.0)})
    mapped, plain = (
        replace(run, record=record),
        replace(run, record=run.record.model_copy(update={"probabilities": None})),
    )
    tables = [Predictor(each, twins.whole).predict(at=twins.at).table for each in (mapped, plain)]
    after, before = (table["probability"].to_numpy() for table in tables)
    odds = np.log(before / (1 - before))
    np.testing.assert_allclose(np.log(after / (1 - after)), 0.5 * odds - 1, rtol=1e-9)
    np.testing.assert_array_equal(tables[0]["prediction"].to_numpy(), after > 0.5)
    scores = [
        evaluate_run(e, twins.whole, device="cpu")["metrics"]["test"] for e in (mapped, plain)
    ]
    assert scores[0]["roc_auc"] == scores[1]["roc_auc"]
    assert scores[0]["log_loss"] != scores[1]["log_loss"]
