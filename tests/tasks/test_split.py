from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gelgt.errors import TaskError
from gelgt.sources.database import Database
from gelgt.tasks.split import Split, seed_times, split_times

Make = Callable[..., Database]
DAY = pd.Timedelta(days=1)


@pytest.fixture
def hundred(make_db: Make) -> Callable[..., Database]:
    """One event a day for a hundred days from 2024-01-01."""

    def make(**options: Any) -> Database:
        at = np.datetime64("2024-01-01", "us") + np.arange(101).astype("timedelta64[D]")
        people = {"columns": {"id": [0]}, "pkey": "id"}
        return make_db(
            {
                "people": people,
                "events": {
                    "columns": {"at": at, "p": [0] * 101},
                    "time_col": "at",
                    "fkeys": {"p": "people"},
                },
            },
            **options,
        )

    return make


def test_declared_times_are_kept(hundred: Callable[..., Database]) -> None:
    db = hundred(val="2024-03-01", test="2024-03-21")
    assert split_times(db, window=DAY) == Split(
        pd.Timestamp("2024-03-01"), pd.Timestamp("2024-03-21")
    )
    assert split_times(db, val="2024-02-01", window=DAY).val == pd.Timestamp("2024-02-01")


def test_inferred_times_give_way_to_the_window(hundred: Callable[..., Database]) -> None:
    db = hundred(val="2024-03-21", test="2024-03-31", split_origin="inferred")
    assert split_times(db, window=5 * DAY).test == pd.Timestamp("2024-03-31")
    split = split_times(db, window=20 * DAY)  # 2024-04-10 is the last day
    assert (split.val, split.test) == (pd.Timestamp("2024-03-01"), pd.Timestamp("2024-03-21"))
    times = seed_times(db, split, 20 * DAY, None)
    assert {name: len(t) for name, t in times.items()} == {"train": 3, "val": 1, "test": 1}


def test_inferred_without_any_times(
    hundred: Callable[..., Database], monkeypatch: pytest.MonkeyPatch
) -> None:
    db = hundred()
    monkeypatch.setattr(type(db), "val_timestamp", None)
    monkeypatch.setattr(type(db), "test_timestamp", None)
    split = split_times(db, window=DAY)
    assert (split.val, split.test) == (pd.Timestamp("2024-03-21"), pd.Timestamp("2024-03-31"))


def test_seed_times_are_relbenchs(hundred: Callable[..., Database]) -> None:
    db = hundred(val="2024-03-01", test="2024-03-21")
    times = seed_times(db, split_times(db), 10 * DAY, None)
    assert times["train"].astype("datetime64[D]").astype(str).tolist() == [
        f"2024-{d}" for d in ("01-01", "01-11", "01-21", "01-31", "02-10", "02-20")
    ]
    assert times["val"].astype("datetime64[D]").astype(str).tolist() == ["2024-03-01", "2024-03-11"]
    assert times["test"].astype("datetime64[D]").astype(str).tolist() == [
        "2024-03-21",
        "2024-03-31",
    ]
    assert len(seed_times(db, split_times(db), 10 * DAY, 1)["test"]) == 1


@pytest.mark.parametrize(
    ("val", "test", "window", "code", "message", "hint"),
    [
        (
            "2024-03-01",
            "2024-03-05",
            10,
            "no_room",
            "A window of 10 days does not fit between the validation time 2024-03-01",
            "2024-02-24 or earlier",
        ),
        (
            "2024-03-01",
            "2024-04-05",
            10,
            "no_room",
            "A window of 10 days after the test time 2024-04-05 ends after the latest row "
            "(2024-04-10).",
            "2024-03-31",
        ),
        (
            "2024-01-15",
            "2024-03-05",
            10,
            "too_few_windows",
            "Only 1 windows of 10 days fit between the earliest row (2024-01-01)",
            "2024-01-31 or later",
        ),
        (
            "2024-03-05",
            "2024-03-01",
            10,
            "bad_split",
            "The validation time 2024-03-05 is not before the test time 2024-03-01.",
            "--val",
        ),
    ],
)
def test_no_room(
    hundred: Callable[..., Database],
    val: str,
    test: str,
    window: int,
    code: str,
    message: str,
    hint: str,
) -> None:
    db = hundred()
    with pytest.raises(TaskError) as caught:
        seed_times(db, split_times(db, val, test, window * DAY), window * DAY, None)
    assert caught.value.code == code
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_rows_known_at_the_test_time_must_reach_over_the_validation_window(
    make_db: Make, days: Callable[..., Any]
) -> None:
    at = days("2024-01-01", "2024-02-01", "2024-03-01", "2024-06-01")
    people = {"columns": {"id": [0]}, "pkey": "id"}
    db = make_db(
        {
            "people": people,
            "events": {
                "columns": {"at": at, "p": [0] * 4},
                "time_col": "at",
                "fkeys": {"p": "people"},
            },
        }
    )
    with pytest.raises(TaskError) as caught:
        seed_times(
            db, Split(pd.Timestamp("2024-02-25"), pd.Timestamp("2024-04-01")), 10 * DAY, None
        )
    assert "the latest row up to the test time (2024-03-01)" in caught.value.message
    assert "2024-02-20" in caught.value.hint


def test_a_window_that_no_split_could_hold(hundred: Callable[..., Database]) -> None:
    with pytest.raises(TaskError) as caught:
        hundred(split_origin="inferred").task(
            "PREDICT COUNT(events.*, 0, 25, days) FOR EACH people.id"
        )
    assert "Only 2 windows of 25 days fit" in caught.value.message
    assert "Shorten the window: 20 days 00:00:00 is the longest" in caught.value.hint


def test_too_many_windows(hundred: Callable[..., Database]) -> None:
    with pytest.raises(TaskError, match="Use a longer window"):
        hundred(val="2024-03-01", test="2024-03-21").task(
            "PREDICT COUNT(events.*, 0, 1, second) FOR EACH people.id"
        )


def test_no_time_at_all(make_db: Make) -> None:
    db = make_db({"people": {"columns": {"id": [0], "x": [1]}, "pkey": "id"}})
    with pytest.raises(TaskError, match="No table of 'tiny' has a row with a time") as no:
        seed_times(db, split_times(db), DAY, None)
    assert no.value.hint.endswith("for --schema (Python: schema=): TABLE: {time_col: …}.")
