from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gelgt
from gelgt.bench.quality import Runs, bench_quality, compare, markdown
from gelgt.testing import Shop
from gelgt.training.progress import Progress

TINY = {
    "model.width": 16,
    "model.heads": 2,
    "model.row_width": 8,
    "sampling.budget": 16,
    "train.epochs": 1,
    "train.steps_per_epoch": 2,
    "train.members": 1,
}


def made_run(folder: Path, label: np.ndarray, **models: np.ndarray) -> Any:
    """A run folder with predictions alone."""
    (folder / "predictions").mkdir(parents=True)
    (folder / "labels").mkdir()
    for split in ("val", "test"):
        columns = {"prediction" if name == "gelgt" else f"baseline:{name}": values for name, values in models.items()}
        pq.write_table(pa.table({"label": label, **columns}), folder / "predictions" / f"{split}.parquet")
    pq.write_table(pa.table({"y": label}), folder / "labels" / "train.parquet")
    return SimpleNamespace(folder=folder, metrics={"task": {"target": "y"}})


def test_who_beats_whom(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    label = rng.integers(0, 2, 400)
    good, bad = label + rng.normal(0, 0.7, 400), label + rng.normal(0, 5, 400)
    runs = Runs(
        "t", "binary_classification", "frozen", [made_run(tmp_path, label, gelgt=good, weak=bad, same=good + 1e-9, best=1.0 * label)]
    )
    found = {entry["model"]: entry for entry in compare(runs, draws=200)}
    assert found["weak"]["gelgt beats it"] == "yes"
    assert found["best"]["gelgt beats it"] == "no, it is beaten"
    assert found["same"]["gelgt beats it"] == "undecided"
    assert found["best"]["test"] == found["best"]["low"] == found["best"]["high"] == 1.0
    assert found["gelgt"]["low"] < found["gelgt"]["test"] < found["gelgt"]["high"]


def test_counts_that_are_mostly_zero(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    label = np.where(rng.random(500) < 0.1, 3.0, 0.0)
    runs = Runs("votes", "regression", "frozen", [made_run(tmp_path, label, gelgt=0.1 * label + rng.random(500) * 0.01)])
    found = {(entry["metric"], entry["model"]): entry for entry in compare(runs, draws=100)}
    assert found["any_auc", "gelgt"]["test"] > 0.99
    assert found["any_auc", "constant"]["test"] == 0.5
    assert found["mae", "constant"]["test"] == pytest.approx(label.mean(), abs=1e-4)
    assert found["mae", "constant"]["gelgt beats it"] == "yes"


class Count(Progress):
    def __init__(self) -> None:
        self.epochs = 0

    def epoch(self, record: dict[str, Any], best_epoch: int) -> None:
        self.epochs += 1


def test_it_trains_what_is_missing_and_nothing_twice(small_shop: Shop, tmp_path: Path) -> None:
    db = gelgt.open(small_shop.url, out=tmp_path / "shop")
    task = db.task(small_shop.sentence, name="soon", val=small_shop.val_timestamp, test=small_shop.test_timestamp)
    counts = []
    for seeds in (range(1), range(2), range(2)):
        progress = Count()
        result = bench_quality(db, [task], tmp_path / "out", seeds=seeds, changes=TINY, progress=progress)
        counts.append(progress.epochs)
    assert counts == [1, 1, 0]
    assert [entry["model"] for entry in result["results"]] == ["gelgt", "lightgbm", "entity-mean"]
    text = markdown(result)
    assert text.count("**") == 2
    assert "| soon | seed-time | roc_auc | lightgbm |" in text
