"""Dates that a model must not know ahead, and what is filled along with them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import gelgt
from coin_shop import DATES, SPLITS, Frames, coin_shop, where, write_csv, write_sqlite
from gelgt.errors import SchemaError
from gelgt.inference.source import stated
from gelgt.sources import state


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GELGT_CACHE", str(tmp_path / "cache"))


def dates_of(db: gelgt.Database) -> dict[tuple[str, str], dict[str, Any]]:
    return {
        (table.name, date.column): dict(date.filled)
        for table in db.schema.tables.values()
        for date in table.event_dates or ()
    }


def visits(rows: int = 2_000, seed: int = 0, **more: Any) -> Frames:
    """One table of visits, some of which end; `more` are columns."""
    rng = np.random.default_rng(seed)
    began = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(rows), unit="h")
    ended = pd.Series(began + pd.Timedelta(days=3)).where(rng.random(rows) < 0.6)
    frame = pd.DataFrame({"id": np.arange(rows), "began_at": began, "ended_at": ended})
    return {"visits": frame.assign(**{c: make(frame, rng) for c, make in more.items()})}


def filled(frames: Frames, **options: Any) -> dict[str, Any]:
    db = gelgt.open(frames, **options)
    return dates_of(db)["visits", "ended_at"]


@pytest.mark.parametrize("write", [write_sqlite, write_csv])
def test_what_is_filled_along_with_a_date_is_the_same_in_every_source(
    write: Callable[[Frames, Path], str], tmp_path: Path
) -> None:
    db = gelgt.open(write(coin_shop(), tmp_path / "shop"), schema=SPLITS)
    found = dates_of(db)
    assert found.keys() == DATES.keys()
    for date, expected in DATES.items():
        # CSV reads 0 and 1 of a table that SQLite wrote as numbers
        assert found[date] == expected, date
    status = db.table("orders").kinds["status"]
    assert status.kind == "ignored"
    assert status.evidence.startswith("tells whether")
    assert db.table("customers").kinds["nickname"].kind == "categorical"


def test_a_value_that_is_no_null_is_given_back() -> None:
    frames = visits(
        state=lambda f, rng: where(f["ended_at"].isna(), "open", rng.choice(["won", "lost"])),
        score=lambda f, rng: where(f["ended_at"].isna(), 0.0, rng.random(len(f))),
        note=lambda f, rng: where(f["ended_at"].isna(), None, "x"),
        colour=lambda f, rng: rng.choice(["red", "blue"], len(f)),
    )
    assert filled(frames) == {"state": "open", "score": 0.0, "note": None}


def test_one_row_in_a_thousand_may_be_otherwise() -> None:
    def reason(strays: int) -> Callable[[pd.DataFrame, Any], Any]:
        def make(frame: pd.DataFrame, rng: Any) -> Any:
            there = frame["ended_at"].notna().to_numpy(copy=True)
            there[np.flatnonzero(~there)[:strays]] = True
            return where(there, rng.choice(["a", "b", "c"], len(frame)), None)

        return make

    frames = visits(20_000, few=reason(5), many=reason(400))
    assert filled(frames) == {"few": None}
    # too many to be given back, and few enough to tell the date
    assert gelgt.open(frames).table("visits").kinds["many"].kind == "ignored"


@pytest.mark.parametrize("missing", [0, 2])
def test_columns_are_not_caught_by_chance(missing: int) -> None:
    """Where a date is hardly ever empty, a column that is often empty may be so in just these
    rows."""
    rng = np.random.default_rng(3)
    began = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(900), unit="h")
    ended = pd.Series(began + pd.Timedelta(days=2))
    ended = ended.mask(np.isin(np.arange(900), rng.choice(900, missing, replace=False)))
    columns = {f"c{i}": where(rng.random(900) < 0.5, "x", None) for i in range(40)}
    columns |= {f"n{i}": np.round(rng.random(900), 2) for i in range(5)}
    for column in list(columns)[:10]:  # empty where the date is
        columns[column] = where(ended.isna(), None, columns[column])
    frame = pd.DataFrame({"id": range(900), "began_at": began, "ended_at": ended, **columns})
    db = gelgt.open({"visits": frame})
    assert dates_of(db) == {("visits", "ended_at"): {}}
    assert all(db.table("visits").kinds[c].kind != "ignored" for c in list(columns)[1:])


def test_dates_before_their_rows_hide_nothing() -> None:
    """Who states a birthday states a gender too; neither is about what comes."""
    frames = visits()
    frame, rng = frames["visits"], np.random.default_rng(1)
    born = pd.Series(frame["began_at"] - pd.Timedelta(days=9_000))
    frame["born_on"] = born.where(rng.random(len(frame)) < 0.5)
    frame["gender"] = where(frame["born_on"].isna(), None, "f")
    found = dates_of(gelgt.open(frames))
    assert found == {("visits", "ended_at"): {}, ("visits", "born_on"): {}}


def test_far_dates_stand_for_none() -> None:
    frames = visits(is_current=lambda f, rng: f["ended_at"].isna())
    frame = frames["visits"]
    frame["ended_at"] = (
        frame["ended_at"].astype("datetime64[us]").fillna(np.datetime64("9999-12-31", "us"))
    )
    assert filled(frames) == {"is_current": True}


def test_later_rows_can_only_add(tmp_path: Path) -> None:
    """What the rows up to `inferred_until` show holds, whatever later ones say."""
    frames = visits(4_000, note=lambda f, rng: where(f["ended_at"].isna(), None, "x"))
    frame = frames["visits"]
    late = frame["began_at"] > pd.Timestamp("2024-05-01")
    assert late.sum() > 500
    frame.loc[late, "note"] = "y"
    assert filled(frames, schema={"inferred_until": "2024-05-01"}) == {"note": None}


def test_what_is_known_ahead_is_stated() -> None:
    frames = visits(note=lambda f, rng: where(f["ended_at"].isna(), None, "x"))
    known = {"visits": {"known_ahead": ["ended_at"]}}
    assert dates_of(gelgt.open(frames, schema=known)) == {}
    given = {"visits": {"event_dates": {"ended_at": {"filled": {"note": "none yet"}}}}}
    assert dates_of(gelgt.open(frames, schema=given)) == {
        ("visits", "ended_at"): {"note": "none yet"}
    }


@pytest.mark.parametrize(
    "entry",
    [
        {"known_ahead": ["endet_at"]},
        {"event_dates": {"endet_at": {}}},
        {"event_dates": {"ended_at": {"filled": {"endet_at": None}}}},
    ],
)
def test_unknown_columns_are_named(entry: dict[str, Any]) -> None:
    with pytest.raises(SchemaError, match="no column 'endet_at'") as error:
        gelgt.open(visits(), schema={"visits": entry})
    assert "ended_at" in (error.value.hint or "")


@pytest.mark.parametrize(
    "dates", [["ended_at"], {"ended_at": "note"}, {"ended_at": {"filled": ["id"]}}]
)
def test_a_statement_of_another_form_is_refused(dates: Any) -> None:
    with pytest.raises(SchemaError, match="must map each date"):
        gelgt.open(visits(), schema={"visits": {"event_dates": dates}})


def test_keys_that_are_filled_along_with_a_date_are_not_followed() -> None:
    frames = visits(
        host_id=lambda f, rng: rng.integers(0, 20, len(f)),
        closing_host_id=lambda f, rng: pd.array(rng.integers(0, 20, len(f)), "Int64"),
    )
    frame = frames["visits"]
    frame.loc[frame["ended_at"].isna(), "closing_host_id"] = pd.NA
    frames["hosts"] = pd.DataFrame({"id": range(20)})
    fkeys = {"host_id": "hosts", "closing_host_id": "hosts"}
    db = gelgt.open(frames)
    assert {fk.column for fk in db.table("visits").foreign_keys} == set(fkeys)
    assert db.table("visits").pointers == {"closing_host_id"}
    assert dates_of(db)["visits", "ended_at"] == {"closing_host_id": None}
    stated = gelgt.open(frames, schema={"visits": {"fkeys": fkeys}})
    assert stated.table("visits").pointers == frozenset()


def test_a_source_that_grows_keeps_the_dates_of_its_base(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "DOUBT", -1e9)
    frames = visits(note=lambda f, rng: where(f["ended_at"].isna(), None, "x"))
    frame = frames["visits"]
    base = gelgt.open(write_csv({"visits": frame[:1500]}, tmp_path / "data"))
    options: dict[str, Any] = {"schema": stated(base.schema), "tables": base.table_names}
    source = write_csv({"visits": frame}, tmp_path / "data")
    grown = gelgt.open(source, **options)
    assert grown.growth is not None
    assert dates_of(grown) == dates_of(base) == {("visits", "ended_at"): {"note": None}}
    entry = {**options["schema"]["tables"]["visits"], "known_ahead": ["ended_at"]}
    del entry["event_dates"]
    other = gelgt.open(
        source,
        schema={**options["schema"], "tables": {"visits": entry}},
        tables=base.table_names,
    )
    assert dates_of(other) == {}


@pytest.mark.parametrize("name", ["last_seen_at", "seen", "checked"])
def test_a_date_that_each_event_writes_again_is_ignored(name: str) -> None:
    """Hidden, `last_seen_at` would tell that something comes after the seed."""
    rng = np.random.default_rng(5)
    who = np.concatenate([np.arange(300), rng.integers(0, 300, 2700)])
    at = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 400, 3000), "D")
    events = pd.DataFrame({"id": range(3000), "user_id": who, "happened_at": at})
    newest = events.groupby("user_id")["happened_at"].max()
    users = pd.DataFrame({"id": range(300), name: newest.to_numpy(), "x": rng.random(300)})
    kinds = gelgt.open({"users": users, "events": events}).table("users").kinds
    assert kinds[name].kind == "ignored"
    assert kinds["x"].kind == "numerical"


def test_the_end_of_some_is_not_overwritten() -> None:
    """Nothing comes after a cancellation, but most have none."""
    rng = np.random.default_rng(6)
    who = np.concatenate([np.arange(300), rng.integers(0, 300, 2700)])
    at = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 400, 3000), "D")
    events = pd.DataFrame({"id": range(3000), "user_id": who, "happened_at": at})
    gone = events.groupby("user_id")["happened_at"].max() + pd.Timedelta(days=3)
    users = pd.DataFrame({"id": range(300), "cancelled_at": gone.to_numpy()})
    users.loc[rng.random(300) < 0.6, "cancelled_at"] = pd.NaT
    table = gelgt.open({"users": users, "events": events}).table("users")
    assert table.kinds["cancelled_at"].kind == "timestamp"
    assert [date.column for date in table.event_dates or ()] == ["cancelled_at"]


def test_a_date_that_stands_for_none_is_ignored_with_what_comes_along() -> None:
    """1900-01-01 is written where there is no end: hidden ends would differ from it."""
    frames = visits(note=lambda f, rng: where(f["ended_at"].isna(), None, "x"))
    frames["visits"]["ended_at"] = frames["visits"]["ended_at"].fillna(pd.Timestamp("1900-01-01"))
    kinds = gelgt.open(frames).table("visits").kinds
    assert [kinds[name].kind for name in ("ended_at", "note")] == ["ignored", "ignored"]
    assert kinds["ended_at"].evidence.startswith("stands for none")
