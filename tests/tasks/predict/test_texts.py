"""Texts of a sentence mean themselves, whatever SQL, comments or windows they look like."""

from datetime import datetime, timedelta
from typing import Any

import pandas as pd
import pytest

import gelgt

START = datetime(2024, 1, 1)
WORDS = ["{timedelta}", "x {timedelta} {timedelta}", "/* x", "*/", "/**/", "-- x", "it's", "%"]


@pytest.fixture
def db(tmp_path_factory: pytest.TempPathFactory) -> gelgt.Database:
    users = pd.DataFrame({"name": WORDS, "joined": [START] * len(WORDS)})
    days = [START + timedelta(days=d) for d in range(100)]
    orders = pd.DataFrame(
        {
            "id": range(100 * len(WORDS)),
            "user": [word for _ in days for word in WORDS],
            "placed": [day for day in days for _ in WORDS],
            "note": [word for _ in days for word in WORDS],
        }
    )
    schema: dict[str, Any] = {
        "users": {"pkey": "name", "time_col": "joined", "fkeys": {}},
        "orders": {"pkey": "id", "time_col": "placed", "fkeys": {"user": "users"}},
    }
    return gelgt.open({"users": users, "orders": orders}, schema=schema)


def entities(task: gelgt.Task, target: int | None = None) -> set[Any]:
    """The users that have a label, or this label."""
    keys = task.database.keys("users")
    assert keys is not None
    rows = task.table("train").to_pylist()
    names = keys.column("name").to_pylist()
    return {
        names[row[task.entity_col]]
        for row in rows
        if target is None or row[task.label_col] == target
    }


@pytest.mark.parametrize("word", WORDS)
def test_texts_in_conditions(db: gelgt.Database, word: str) -> None:
    text = word.replace("'", "''")
    target = f"COUNT(orders.* WHERE note = '{text}', 0, 5, days) > 0"
    task = db.task(f"PREDICT {target} FOR EACH users.name", name="t")
    assert entities(task, 1) == {word}
    task = db.task(f"PREDICT LAST(orders.note, 0, 5, days) = '{text}' FOR EACH users.name")
    assert entities(task, 1) == {word}


@pytest.mark.parametrize("word", WORDS)
def test_texts_as_keys(db: gelgt.Database, word: str) -> None:
    text = word.replace("'", "''")
    sentence = "PREDICT COUNT(orders.*, 0, 5, days) > 3 FOR EACH users.name WHERE name IN"
    assert entities(db.task(f"{sentence} ('{text}', '%')")) == {word, "%"}
