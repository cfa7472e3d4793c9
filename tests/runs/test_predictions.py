"""Predictions as training writes them, and with the gaps that happen."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gelgt.errors import GelgtError
from gelgt.runs.predictions import Predictions, read_predictions


def read(
    folder: Path, task_type: str, classes: tuple[str, ...] = (), **columns: Any
) -> Predictions | None:
    pq.write_table(pa.table(columns), folder / "test.parquet")
    return read_predictions(folder / "test.parquet", task_type, "gelgt", classes)


def test_binary_takes_the_probability(tmp_path: Path) -> None:
    columns = {
        "baseline:lightgbm": [0.5, 0.6],
        "time": pa.array([0, 86_400_000_000], pa.timestamp("us", tz="UTC")),
    }
    found = read(
        tmp_path,
        "binary_classification",
        prediction=[1, 0],
        probability=[0.9, 0.2],
        label=[True, False],
        **columns,
    )
    assert found is not None
    assert found.scores["gelgt"].tolist() == [0.9, 0.2]
    assert found.scores["lightgbm"].tolist() == [0.5, 0.6]
    assert found.label.tolist() == [1, 0]
    assert found.time is not None
    assert found.time.tolist() == np.array(["1970-01-01", "1970-01-02"], "datetime64[s]").tolist()


def test_rows_without_label_or_score_are_left_out_and_counted(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        "regression",
        prediction=[1.0, None, 3.0, float("inf")],
        label=[1.0, 2.0, None, 4.0],
    )
    assert found is not None
    assert (found.label.tolist(), found.left_out) == ([1.0], 3)


def test_a_baseline_with_gaps_does_not_cost_rows(tmp_path: Path) -> None:
    columns = {"baseline:entity-mean": [None, 2.0], "baseline:lightgbm": [1.0, 2.0]}
    found = read(tmp_path, "regression", prediction=[1.0, 2.0], label=[1.0, 2.0], **columns)
    assert found is not None
    assert list(found.scores) == ["gelgt", "lightgbm"]
    assert len(found) == 2


def test_multiclass_by_class_value(tmp_path: Path) -> None:
    columns = {"probability_1": [0.7, 0.1, 0.2], "probability_5": [0.3, 0.9, 0.8]}
    found = read(
        tmp_path, "multiclass_classification", prediction=[1, 5, 5], label=[1, 5, 9], **columns
    )
    assert found is not None
    assert found.classes == ("1", "5")
    assert found.label.tolist() == [0, 1, -1]  # 9 was never seen in training
    assert found.scores["gelgt"].shape == (3, 2)


@pytest.mark.parametrize("labels", [[["a"], ["a", "b"], []], [[1, 0], [1, 1], [0, 0]]])
def test_multilabel_as_names_or_as_zeros_and_ones(tmp_path: Path, labels: list[Any]) -> None:
    found = read(
        tmp_path,
        "multilabel_classification",
        ("a", "b"),
        probability=[[0.9, 0.1], [0.8, 0.7], [0.1, 0.2]],
        label=labels,
    )
    assert found is not None
    assert found.label.tolist() == [[1, 0], [1, 1], [0, 0]]
    assert found.classes == ("a", "b")


def test_no_labels_or_no_charts(tmp_path: Path) -> None:
    assert read(tmp_path, "regression", prediction=[1.0]) is None
    assert read(tmp_path, "recommendation", prediction=[[1]], label=[[2]]) is None


def test_broken_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "test.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(GelgtError, match="not readable Parquet"):
        read_predictions(tmp_path / "test.parquet", "regression", "gelgt")
    read(tmp_path, "regression", prediction=[1.0], label=[1.0])
    content = (tmp_path / "test.parquet").read_bytes()
    (tmp_path / "test.parquet").write_bytes(content.replace(b"label", b"labe\xec"))
    with pytest.raises(GelgtError, match="not readable Parquet"):
        read_predictions(tmp_path / "test.parquet", "regression", "gelgt")
    with pytest.raises(GelgtError, match="does not hold the predictions of a regression task"):
        read(tmp_path, "regression", prediction=["a"], label=[1.0])
    with pytest.raises(GelgtError, match="does not hold the predictions"):
        read(tmp_path, "regression", label=[1.0])
