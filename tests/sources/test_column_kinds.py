"""Kinds of a task whose training ends before the database's own validation time."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import gelgt
from gelgt.presets import RunConfig
from gelgt.sources.column_kinds import with_kinds_until
from gelgt.training.data import TrainingData
from gelgt.training.regime import in_regime


@pytest.fixture
def db(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> gelgt.Database:
    """Orders whose status is a text with few values until day 200, and free text after it."""
    monkeypatch.setenv("GELGT_CACHE", str(tmp_path / "cache"))
    days = np.arange(400)
    note = [
        ("open", "done")[i % 2] if i < 200 else f"free text of the order number {i}" for i in days
    ]
    times = pd.Timestamp("2024-01-01") + pd.to_timedelta(days, unit="D")
    orders = pd.DataFrame(
        {"id": days, "user_id": days % 5, "placed_at": times, "note": note, "size": days % 3 + 0.5}
    )
    schema = {
        "val_timestamp": "2024-12-01",
        "test_timestamp": "2025-01-01",
        "tables": {"orders": {"kinds": {"size": "categorical"}}},
    }
    return gelgt.open({"users": pd.DataFrame({"id": range(5)}), "orders": orders}, schema=schema)


def test_kinds_of_an_earlier_time(db: gelgt.Database) -> None:
    assert db.table("orders").kinds["note"].kind == "text"
    early = with_kinds_until(db, pd.Timestamp("2024-07-01"))
    assert early.table("orders").kinds["note"].kind == "categorical"
    assert early.table("orders").kinds["size"] == db.table("orders").kinds["size"], (
        "what is stated stays"
    )
    assert with_kinds_until(db, pd.Timestamp("2024-12-20")) is db
    assert with_kinds_until(db, None) is db


def test_training_takes_the_kinds_of_its_own_period(db: gelgt.Database) -> None:
    sentence = "PREDICT COUNT(orders.*, 0, 10, days) > 1 FOR EACH users.id"
    kinds = {}
    for name, val, test in (("early", "2024-06-01", "2024-07-01"), ("late", None, None)):
        task = db.task(sentence, val=val, test=test)
        data = TrainingData.of(db, task, in_regime(RunConfig.of("cpu", task.task_type), task))
        kinds[name] = data.features.statistics.tables["orders"]["note"].kind
    assert kinds == {"early": "categorical", "late": "text"}
