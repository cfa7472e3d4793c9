"""Versions of rows: what a row held before a date is what encoding such a row gives."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import gelgt
from gelgt.errors import GelgtError
from gelgt.features import Features, open_features
from gelgt.features.versions import Versions
from gelgt.sources import state

DAY = pd.Timedelta(days=1)
START = pd.Timestamp("2024-01-01")
DATES: dict[str, dict[str, Any]] = {
    "shipped_at": {"note": "not yet", "weight": 0.0, "flag": False},
    "closed_at": {"reason": None, "tags": None, "flag": False},
}
KINDS = {
    "note": "text",
    "comment": "text",
    "weight": "numerical",
    "reason": "categorical",
    "tags": {"kind": "multicategorical", "separator": "|"},
    "labels": {"kind": "multicategorical", "separator": "|"},
}


def orders(rows: int = 300, seed: int = 0) -> pd.DataFrame:
    """Some dates lie before their row or on the same second, some are equal, some are missing."""
    rng = np.random.default_rng(seed)
    placed = START + np.sort(rng.integers(0, 60, rows)) * DAY
    frame = pd.DataFrame({"id": np.arange(rows), "placed_at": placed})
    for date in DATES:
        after = rng.integers(-3, 12, rows)
        frame[date] = (frame["placed_at"] + pd.to_timedelta(after, unit="D")).mask(
            rng.random(rows) < 0.3
        )
    frame["note"] = rng.choice(["a red bicycle", "two lamps", "not yet"], rows)
    frame["comment"] = rng.choice(["good", "bad"], rows)
    frame["weight"] = rng.random(rows).round(2)
    frame["flag"] = rng.random(rows) < 0.5
    frame["reason"] = rng.choice(np.array(["late", "broken", None]), rows)
    frame["tags"] = rng.choice(np.array(["x|y", "y", "z|x", "", None]), rows)
    frame["labels"] = rng.choice(["a|b", "b", "c|a"], rows)
    return frame


def before(frame: pd.DataFrame, limit: pd.Timestamp) -> pd.DataFrame:
    """The rows as they were just before a time."""
    frame = frame.copy()
    ahead = {date: frame[date] >= limit for date in DATES}
    for date, filled in DATES.items():
        for column, rest in {date: None, **filled}.items():
            frame.loc[ahead[date], column] = rest
    return frame


def stated(dates: dict[str, dict[str, Any]] = DATES) -> dict[str, Any]:
    entry = {"pkey": "id", "time_col": "placed_at", "kinds": KINDS, "fkeys": {}}
    filled = {date: {"filled": columns} for date, columns in dates.items()}
    table = entry | {"event_dates": filled}
    splits = {"val_timestamp": "2024-02-01", "test_timestamp": "2024-02-15"}
    return {"tables": {"orders": table}, **splits}


@pytest.mark.parametrize("seed", range(3))
def test_a_version_is_the_row_as_it_was(seed: int, tmp_path: Path) -> None:
    frame = orders(seed=seed)
    db = gelgt.open({"orders": frame}, schema=stated(), out=tmp_path / "whole")
    features, rows = db.features(), np.arange(len(frame))
    assert features.size("orders") > len(frame)
    for day in range(0, 75, 7):
        limit = START + day * DAY
        made = {"orders": before(frame, limit)}
        cut = gelgt.open(made, schema=stated({}), out=tmp_path / f"cut{day}")
        expected = open_features(cut, statistics=features.statistics)
        read = features.rows_at("orders", rows, int(limit.timestamp()))
        # a row reads itself before it exists: nobody sees it then
        exists = frame["placed_at"].to_numpy() < limit
        shown = features.frame("orders", read[exists])
        assert shown == expected.frame("orders", rows[exists]), day
    np.testing.assert_array_equal(features.rows_at("orders", rows, 2**40), rows)
    nobody = features.rows_at("orders", np.array([-1, -1]), 0)
    np.testing.assert_array_equal(nobody, [-1, -1])


def test_texts_that_no_date_changes_are_not_written_again(tmp_path: Path) -> None:
    frame = orders()
    few = {"shipped_at": {"weight": 0.0}}
    db = gelgt.open({"orders": frame}, schema=stated(few), out=tmp_path / "few")
    features = db.features()
    arrays, rows = features.arrays("orders"), len(frame)
    assert len(arrays["text"]) == rows < len(arrays["numerical"])
    # without texts a version is its row
    hidden = [str(c) for c in frame if c not in ("note", "comment")]
    versions = np.arange(rows, features.size("orders"))
    assert features.frame("orders", versions, hidden) == features.frame(
        "orders", arrays["version-row"], hidden
    )


def test_a_row_whose_dates_are_not_later_has_no_version(tmp_path: Path) -> None:
    frame = orders()
    for date in DATES:
        frame[date] = (frame["placed_at"] - DAY).where(frame[date].notna())
    features = gelgt.open({"orders": frame}, schema=stated(), out=tmp_path / "db").features()
    assert features.versions("orders") is None
    assert not any(name.startswith("version") for name in features.arrays("orders"))
    dates = features.statistics.event_dates["orders"]
    assert not any(date.is_late for date in dates)


def test_versions_are_found_by_their_limits() -> None:
    versions = Versions(np.array([1, 1, 3]), np.array([10, 20, 5]), np.array([0, 0, 2, 2, 3]))
    rows = np.array([0, 1, 1, 1, 1, 2, 3, 3, -1])
    limits = np.array([1, 1, 10, 11, 21, 1, 5, 6, 1])
    found = versions.at(rows, limits)
    np.testing.assert_array_equal(found, [0, 4, 4, 5, 1, 2, 6, 3, -1])
    np.testing.assert_array_equal(versions.source(found), rows)


def test_a_value_that_does_not_fit_its_column_is_named(tmp_path: Path) -> None:
    wrong = {"shipped_at": {"weight": "nothing"}}
    db = gelgt.open({"orders": orders()}, schema=stated(wrong), out=tmp_path / "db")
    with pytest.raises(GelgtError, match=r"'orders\.weight' holds double values") as error:
        db.features()
    assert error.value.code == "bad_event_date"


def test_features_that_grow_have_the_same_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "DOUBT", -1e9)
    frame, folder = orders(), tmp_path / "data"
    folder.mkdir()

    def opened(rows: int, **options: Any) -> gelgt.Database:
        frame[:rows].to_parquet(folder / "orders.parquet")
        return gelgt.open(folder, schema=stated(), tables=["orders"], **options)

    opened(250).features()
    grown = opened(len(frame))
    assert grown.growth is not None
    found, expected = grown.features(), opened(len(frame), out=tmp_path / "whole").features()
    assert isinstance(found, Features)
    for name, array in expected.arrays("orders").items():
        np.testing.assert_array_equal(found.arrays("orders")[name], array, name)
    assert found.content_hash() == expected.content_hash()
