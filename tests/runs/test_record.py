"""A run's record: written once, read everywhere, and refused where it does not fit."""

import json
from pathlib import Path
from typing import Any

import pytest

from gelgt import GelgtError
from gelgt.runs.record import FORMAT, RunRecord, read_record

LEAST: dict[str, Any] = {
    "task": {"name": "churn", "task_type": "binary_classification"},
    "metric": "roc_auc",
    "metrics": {"test": {"roc_auc": 0.8}},
}


def written(folder: Path, content: Any) -> Path:
    path = folder / "metrics.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_what_is_written_is_read(tmp_path: Path) -> None:
    record = RunRecord(
        **LEAST,
        epochs=[{"epoch": 1, "loss": 0.5, "val": {"roc_auc": 0.7}}],
        members=[{"best_epoch": 1, "epochs": 1, "averaged_epochs": [1]}],
        trees={"share": 0.25, "rounds": [3, 4]},
        retrain={"labels": "known", "rows": 12, "epochs": 1},
    )
    assert read_record(written(tmp_path, record.to_json()), RunRecord) == record
    assert record.to_json()["format"] == FORMAT


def test_the_least_that_a_record_holds_and_what_it_may_hold_besides(tmp_path: Path) -> None:
    record = read_record(written(tmp_path, LEAST | {"new": 1}), RunRecord)
    assert record.metrics["test"]["roc_auc"] == 0.8
    assert record.retrain is None


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "not readable JSON"),
        ({key: LEAST[key] for key in ("task", "metrics")}, "at metric"),
        (LEAST | {"tree_share": 2}, "at tree_share"),
        (LEAST | {"epochs": [{"loss": 1.0}]}, "at epochs.0.epoch"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path: Path, content: Any, words: str) -> None:
    path = written(tmp_path, content)
    with pytest.raises(GelgtError, match=words) as caught:
        read_record(path, RunRecord)
    assert caught.value.code == "broken_run"
    assert str(path) in caught.value.message
