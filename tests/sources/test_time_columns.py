"""Which date says since when a row exists: values veto, names choose."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import gelgt
from gelgt.inference.seeds import choose_seeds
from gelgt.sources.row_times import NEVER, RowTimes, instant
from gelgt.tasks.population import existing

START = pd.Timestamp("2023-01-01")
MEMBERS, VISITS = 800, 6000


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GELGT_CACHE", str(tmp_path / "cache"))


def day(numbers: Any) -> pd.Series:
    return START + pd.to_timedelta(pd.Series(np.asarray(numbers)), unit="D")


def gym(**columns: Any) -> dict[str, pd.DataFrame]:
    """Members of a gym, who come from a day on, and their visits; more columns of the members."""
    rng = np.random.default_rng(0)
    joined = np.sort(rng.integers(0, 400, MEMBERS))
    who = np.concatenate([np.arange(MEMBERS), rng.integers(0, MEMBERS, VISITS - MEMBERS)])
    when = joined[who] + rng.integers(0, 300, VISITS) + 0.5
    visits = pd.DataFrame({"id": range(VISITS), "member_id": who, "visited_at": day(when)})
    members = {name: make(joined, rng) for name, make in columns.items()}
    return {"members": pd.DataFrame({"id": range(MEMBERS), **members}), "visits": visits}


def vetoes(db: gelgt.Database) -> dict[str | None, str]:
    return {f.column: f.message for f in db.import_findings if f.code == "vetoed_time"}


def joined_at(joined: Any, rng: Any) -> pd.Series:
    return day(joined)


def left_at(joined: Any, rng: Any) -> pd.Series:
    """When members left; most have not."""
    return day(joined + 310).where(rng.random(MEMBERS) < 0.4)


def test_the_end_of_a_membership_is_no_beginning() -> None:
    """Members who have not left exist: all are predicted, from their first visit on."""
    db = gelgt.open(gym(left_at=left_at))
    members = db.table("members")
    assert members.time_col is None
    assert members.is_named_first
    assert "rows that timed rows name (visits)" in vetoes(db)["left_at"]
    visits = gym()["visits"]
    first = visits.groupby("member_id")["visited_at"].min().astype("datetime64[us]").astype("int64")
    assert (RowTimes(db).of("members") == first.to_numpy()).all()
    assert len(existing(db, "members", np.datetime64("2026-01-01", "us"))) == MEMBERS


def test_a_member_without_a_visit_is_there_from_the_newest_visit_on() -> None:
    frames = gym(left_at=left_at)
    frames["visits"] = frames["visits"][frames["visits"]["member_id"] != 7]
    db = gelgt.open(frames)
    assert RowTimes(db).of("members")[7] == NEVER, "no model sees the row before"
    newest = frames["visits"]["visited_at"].max()
    before, after = (np.datetime64(newest + pd.Timedelta(days=n), "us") for n in (-1, 1))
    assert 7 not in existing(db, "members", before)
    assert 7 in existing(db, "members", after)
    task = db.task("PREDICT COUNT(visits.*, 0, 30, days) = 0 FOR EACH members.id")
    asked = choose_seeds(db, db.graph(), task, at=after)
    assert len(asked.rows) == MEMBERS, "all are predicted, also those without a visit"


@pytest.mark.parametrize("share", [0.005, 0.015])
def test_a_few_empty_times_are_no_veto(share: float) -> None:
    def some(joined: Any, rng: Any) -> pd.Series:
        return day(joined).where(rng.random(MEMBERS) >= share)

    db = gelgt.open(gym(joined_at=some))
    assert db.table("members").time_col == "joined_at"
    assert not vetoes(db)


def test_the_date_of_a_load_is_vetoed_and_the_next_best_is_taken() -> None:
    db = gelgt.open(gym(created_at=lambda joined, rng: day(joined * 0 + 500), joined_at=joined_at))
    assert db.table("members").time_col == "joined_at"
    assert "it is the same in all rows; 'joined_at' is taken" in vetoes(db)["created_at"]


def test_a_date_after_most_visits_is_vetoed() -> None:
    def snapshot(joined: Any, rng: Any) -> pd.Series:
        return day(joined + 290 + rng.integers(0, 20, MEMBERS))

    db = gelgt.open(gym(snapshot_date=snapshot))
    assert db.table("members").is_named_first
    assert "of the rows of 'visits' that name it" in vetoes(db)["snapshot_date"]


def test_an_invoice_that_comes_after_its_lines_keeps_its_date() -> None:
    """Lines that wait for their invoice do not show that it was there before."""
    rng = np.random.default_rng(1)
    issued = np.sort(rng.integers(20, 600, 300))
    lines = pd.DataFrame({"id": range(1200), "invoice_id": np.arange(1200) % 300})
    lines["arrived_at"] = day(issued[lines["invoice_id"]] - rng.integers(1, 20, 1200))
    invoices = pd.DataFrame({"id": range(300), "issued_on": day(issued)})
    db = gelgt.open({"invoices": invoices, "lines": lines})
    assert db.table("invoices").time_col == "issued_on"


@pytest.mark.parametrize("is_sorted", [True, False])
def test_a_copy_of_the_member_s_date_does_not_date_a_payment(is_sorted: bool) -> None:
    """But dates that ascend with the payments' own numbers are their own."""
    rng = np.random.default_rng(2)
    frames = gym(joined_at=joined_at)
    who = np.sort(rng.integers(0, MEMBERS, 3000)) if is_sorted else rng.integers(0, MEMBERS, 3000)
    since = frames["members"]["joined_at"].to_numpy()[who]
    payments = pd.DataFrame({"id": range(3000), "member_id": who, "since": since})
    db = gelgt.open({**frames, "payments": payments})
    if is_sorted:
        assert db.table("payments").time_col == "since"
    else:
        assert db.table("payments").is_left_out
        assert vetoes(db)["since"].startswith(
            "no time of its rows, because it is a copy of 'members"
        )


def test_later_rows_can_only_add_a_veto() -> None:
    """Up to `inferred_until` every member has a date; later members have none."""
    frames = gym(joined_at=joined_at)
    late = frames["members"]["joined_at"] > START + pd.Timedelta(days=350)
    frames["members"].loc[late, "joined_at"] = pd.NaT
    stated = {"inferred_until": "2023-10-01", "tables": {}}
    db = gelgt.open(frames, schema=stated)
    assert db.schema.inferred_until == "2023-10-01 00:00:00.000000"
    assert db.table("members").is_named_first


def test_inference_reads_the_first_four_fifths_of_the_timed_rows() -> None:
    frames = gym(joined_at=joined_at)
    db = gelgt.open(frames)
    times = np.sort(
        np.concatenate(
            [frames["members"]["joined_at"].to_numpy(), frames["visits"]["visited_at"].to_numpy()]
        ).astype("datetime64[us]")
    )
    assert db.schema.inferred_until is not None
    share = np.mean(times.astype("int64") <= instant(db.schema.inferred_until))
    assert share == pytest.approx(0.8, abs=0.01)


@pytest.mark.parametrize(
    ("table", "columns", "chosen"),
    [
        ("employee", {"birthdate": 0, "hiredate": 9000, "modifieddate": 9900}, "hiredate"),
        ("salespersonquotahistory", {"quotadate": 9000, "modifieddate": 9900}, "quotadate"),
        ("currencyrate", {"currencyratedate": 9000, "modifieddate": 9900}, "currencyratedate"),
        ("prices", {"valid_from": 9000, "valid_to": 9100}, "valid_from"),
        ("people", {"birth_date": 0}, None),
    ],
)
def test_names_choose(table: str, columns: dict[str, int], chosen: str | None) -> None:
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({f"{table}id": rng.permutation(200)})
    for name, first in columns.items():
        frame[name] = pd.Timestamp("1980-01-01") + pd.to_timedelta(
            first + rng.integers(0, 90, 200), unit="D"
        )
    assert gelgt.open({table: frame}).table(table).time_col == chosen


def test_a_date_in_a_declared_key_is_the_time_of_its_rows(tmp_path: Path) -> None:
    import sqlite3

    connection = sqlite3.connect(tmp_path / "hr.db")
    connection.execute(
        "CREATE TABLE employeepayhistory (employeeid INTEGER, ratechangedate TEXT, rate REAL, "
        "PRIMARY KEY (employeeid, ratechangedate))"
    )
    rows = [(i % 40, str((START + pd.Timedelta(days=i)).date()), float(i)) for i in range(200)]
    connection.executemany("INSERT INTO employeepayhistory VALUES (?, ?, ?)", rows)
    connection.commit()
    connection.close()
    db = gelgt.open(f"sqlite:///{tmp_path / 'hr.db'}")
    assert db.table("employeepayhistory").time_col == "ratechangedate"
