"""A tiny run on a small shop, and clusters of Ray made of processes on this machine."""

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import gelgt
from gelgt.demo import shop
from gelgt.inference.part_scorer import PartScorer, Question
from gelgt.presets import RunConfig
from gelgt.training import Options, train_run

sys.path.insert(0, str(Path(__file__).parent))  # for nodes.py

TINY: Mapping[str, Any] = {
    "train.epochs": 1,
    "train.steps_per_epoch": 4,
    "train.ensemble": 1,
    "train.windows": 1,
    "train.batch_size": 32,
    "model.width": 16,
    "model.heads": 2,
    "model.keep": 12,
    "model.row_width": 8,
    "model.history_columns": 20,
    "model.column_members": 2,
    "sampling.budget": 24,
}
SENTENCE = "PREDICT COUNT(orders.*, 0, 10, days) > 0 FOR EACH customers.id"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a cache that this process and the workers share."""
    folder = tmp_path_factory.mktemp("engines")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GELGT_CACHE", str(folder / "cache"))
        package = str(Path(gelgt.__file__).parents[1])
        patch.setenv("PYTHONPATH", f"{package}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
        yield folder


@pytest.fixture(scope="module")
def question(place: Path) -> Question:
    made = shop(place / "shop.db", customers=400, days=300, seed=11)
    db = gelgt.open(made.url)
    task = db.task(SENTENCE)
    config = RunConfig.of("cpu", task.task_type, TINY)
    run = train_run(db, task, place / "run", config, Options(baseline_hops=(), device="cpu"))
    return Question(str(run.folder), made.url, at=made.val_timestamp, device="cpu")


@pytest.fixture(scope="module")
def scorer(question: Question) -> PartScorer:
    return PartScorer(question)


@pytest.fixture(autouse=True)
def _shared_cache(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GELGT_CACHE", str(place / "cache"))
