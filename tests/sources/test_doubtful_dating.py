"""Databases whose tables without a time are easily dated wrongly: labels equal a plain join or are
refused, and what may come from the future is not visible."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import gelgt
from gelgt.errors import TaskError
from gelgt.schema.findings import find
from gelgt.sources.row_times import NEVER, RowTimes

START = pd.Timestamp("2023-01-01")
CUSTOMERS, PRODUCTS, ORDERS, LINES = 300, 40, 2000, 5000
SUM = "PREDICT SUM(lines.price, 0, 30, days) FOR EACH products.id"
TIMES = {"val": "2024-06-01", "test": "2024-09-01"}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GELGT_CACHE", str(tmp_path / "cache"))


def day(numbers: Any) -> pd.Series:
    return START + pd.to_timedelta(pd.Series(np.asarray(numbers, float)), unit="D")


def shop() -> dict[str, pd.DataFrame]:
    """Customers, products, their orders of two years, and the lines of these."""
    rng = np.random.default_rng(0)
    signed = np.sort(rng.integers(0, 300, CUSTOMERS))
    who = rng.integers(0, CUSTOMERS, ORDERS)
    placed = np.minimum(signed[who] + rng.integers(1, 400, ORDERS), 720) + 0.25
    order = rng.integers(0, ORDERS, LINES)
    return {
        "customers": pd.DataFrame({"id": range(CUSTOMERS), "signed_up_at": day(signed)}),
        "products": pd.DataFrame({"id": range(PRODUCTS), "launched_at": day(np.arange(PRODUCTS))}),
        "orders": pd.DataFrame({"id": range(ORDERS), "customer_id": who, "placed_at": day(placed)}),
        "lines": pd.DataFrame(
            {
                "id": range(LINES),
                "order_id": order,
                "product_id": rng.integers(0, PRODUCTS, LINES),
                "price": rng.integers(1, 9, LINES),
            }
        ),
    }


def labels_equal_a_join(db: gelgt.Database, frames: dict[str, pd.DataFrame]) -> None:
    """Sums of prices by product in 30 days, by pandas."""
    task = db.task(SUM, **TIMES)
    lines = frames["lines"].dropna(subset=["order_id"])
    lines = lines.merge(frames["orders"], left_on="order_id", right_on="id", suffixes=("", "_o"))
    for split in ("train", "val", "test"):
        table = task.table(split).to_pandas().set_axis(["time", "product", "label"], axis=1)
        assert len(table)
        for time, part in table.groupby("time"):
            is_in = (lines["placed_at"] > time) & (
                lines["placed_at"] <= time + pd.Timedelta(days=30)
            )
            expected = lines[is_in].groupby("product_id")["price"].sum()
            # the keys of products are their row numbers: both are ordered by the launch
            told = part.set_index("product")["label"]
            assert (told == expected.reindex(told.index).fillna(0)).all(), (split, time)


@pytest.mark.parametrize("share", [0.01, 0.04, 0.06, 0.3, 0.6])
def test_lines_of_archived_orders(share: float) -> None:
    """The oldest orders are gone; their lines have no time, and none is as new as its product."""
    frames = shop()
    frames["orders"] = frames["orders"].sort_values("placed_at").iloc[int(share * ORDERS) :]
    db = gelgt.open(frames)
    dating = db.table("lines").dating
    assert dating is not None
    assert dating.required == (("order_id",),)
    gone = ~frames["lines"]["order_id"].isin(frames["orders"]["id"])
    assert ((RowTimes(db).of("lines") == NEVER) == gone.to_numpy()).all()
    labels_equal_a_join(db, frames)


@pytest.mark.parametrize("share", [0.01, 0.04, 0.07, 0.45])
def test_lines_without_an_order(share: float) -> None:
    """Carts that were left: without its order, a line is never as old as its product."""
    frames = shop()
    is_left = np.random.default_rng(1).random(LINES) < share
    frames["lines"]["order_id"] = frames["lines"]["order_id"].astype("Int64").mask(is_left)
    db = gelgt.open(frames)
    assert ((RowTimes(db).of("lines") == NEVER) == is_left).all()
    labels_equal_a_join(db, frames)


def test_carts_most_of_which_are_left() -> None:
    """Nothing says when most lines came: the table is left out, and labels over it are refused."""
    frames = shop()
    is_left = np.random.default_rng(1).random(LINES) < 0.55
    frames["lines"]["order_id"] = frames["lines"]["order_id"].astype("Int64").mask(is_left)
    db = gelgt.open(frames)
    assert db.table("lines").is_left_out
    assert (RowTimes(db).of("lines") == NEVER).all()
    with pytest.raises(TaskError, match="'lines' have no time of their own") as caught:
        db.task(SUM, **TIMES)
    assert "lines: {time_col: …}" in str(caught.value.hint)
    stated = gelgt.open(frames, schema={"lines": {"dated_by": "order_id"}})
    labels_equal_a_join(stated, frames)


def test_two_readings_refuse_labels() -> None:
    """Lines are as new as their parcel, or as their order and sent later: both are told."""
    frames = shop()
    parcels = frames["orders"].iloc[: int(0.8 * ORDERS)]
    frames["parcels"] = pd.DataFrame(
        {"id": parcels["id"], "sent_at": parcels["placed_at"] + pd.Timedelta(days=2)}
    )
    sent = frames["lines"]["order_id"].astype("Int64")
    frames["lines"]["parcel_id"] = sent.where(sent < len(parcels))
    db = gelgt.open(frames)
    dating = db.table("lines").dating
    assert dating is not None
    assert ("parcel_id",) in dating.required
    with pytest.raises(TaskError, match="two readings") as caught:
        db.task(SUM, **TIMES)
    assert "'parcel_id' is empty in" in str(caught.value)
    stated = gelgt.open(frames, schema={"lines": {"dated_by": "order_id"}})
    labels_equal_a_join(stated, frames)


@pytest.mark.parametrize("once", [0.5, 0.96, 0.99])
def test_the_last_order_of_a_customer(once: float) -> None:
    """Few order twice; whose last order is not the first is known only afterwards."""
    rng = np.random.default_rng(2)
    count = 2000
    first = np.sort(rng.integers(0, 500, count)).astype(float)
    again = rng.random(count) > once
    who = np.concatenate([np.arange(count), np.flatnonzero(again)])
    placed = np.concatenate([first, first[again] + rng.integers(5, 90, again.sum())])
    orders = pd.DataFrame({"id": range(len(who)), "customer_id": who, "placed_at": day(placed)})
    last = orders.sort_values("placed_at").groupby("customer_id")["id"].last().to_numpy()
    for columns in ({"signed_up_at": day(first)}, {}):
        customers = pd.DataFrame({"id": range(count), "last_order_id": last, **columns})
        db = gelgt.open({"customers": customers, "orders": orders})
        assert "last_order_id" in db.table("customers").pointers
        assert db.table("orders").pointers == frozenset()


def test_a_pointer_around_two_corners() -> None:
    frames = shop()
    subscriptions = frames["orders"].rename(columns={"placed_at": "started_at"})
    invoices = pd.DataFrame(
        {
            "id": range(ORDERS),
            "subscription_id": range(ORDERS),
            "issued_at": subscriptions["started_at"] + pd.Timedelta(days=3),
        }
    )
    latest = subscriptions.sort_values("started_at").groupby("customer_id")["id"].last()
    customers = frames["customers"].assign(
        latest_invoice_id=latest.reindex(range(CUSTOMERS)).astype("Int64").to_numpy()
    )
    tables = {"customers": customers, "subscriptions": subscriptions, "invoices": invoices}
    db = gelgt.open(tables)
    assert db.table("customers").pointers == {"latest_invoice_id"}
    assert db.table("invoices").pointers == db.table("subscriptions").pointers == frozenset()
    followed = gelgt.open(tables, schema={"customers": {"follows": ["latest_invoice_id"]}})
    assert followed.table("customers").pointers == frozenset()


def test_keys_to_the_own_table() -> None:
    """A reply names what it answers; the newest reply of a message is known only later."""
    at = day(np.arange(400))
    answered = pd.array([None if i % 3 == 0 else i - i % 7 - 1 for i in range(400)], "Int64")
    answered[answered < 0] = None
    messages = pd.DataFrame({"id": range(400), "sent_at": at, "reply_to_id": answered})
    newest = messages.dropna().groupby("reply_to_id")["id"].max()
    messages["last_reply_id"] = newest.reindex(range(400)).astype("Int64").to_numpy()
    keys = {"reply_to_id": "messages", "last_reply_id": "messages"}
    db = gelgt.open({"messages": messages}, schema={"messages": {"pkey": "id", "fkeys": keys}})
    assert db.table("messages").pointers == {"last_reply_id"}


def test_a_key_to_a_later_race_stays() -> None:
    """The qualifying comes before its race, which leads nowhere back: nothing was overwritten."""
    races = pd.DataFrame({"id": range(100), "date": day(np.arange(100) * 7.0 + 1)})
    qualifying = pd.DataFrame(
        {
            "id": range(1000),
            "race_id": np.arange(1000) % 100,
            "date": day((np.arange(1000) % 100) * 7.0),
        }
    )
    db = gelgt.open({"races": races, "qualifying": qualifying})
    assert db.table("qualifying").pointers == frozenset()


def test_cancellations_are_left_out_and_profiles_are_not() -> None:
    """A cancellation may have come at any time after the sign-up; an address came with it."""
    frames = shop()
    gone = np.flatnonzero(np.random.default_rng(3).random(CUSTOMERS) < 0.4)
    frames["cancellations"] = pd.DataFrame({"customer_id": gone, "reason": "moved"})
    frames["addresses"] = pd.DataFrame({"customer_id": range(CUSTOMERS), "city": "Bonn"})
    db = gelgt.open(frames)
    assert db.table("cancellations").is_left_out
    assert (RowTimes(db).of("addresses") == RowTimes(db).of("customers")).all()
    shown = {(finding.code, finding.table) for finding in find(db)}
    assert ("left_out_table", "cancellations") in shown
    stated = gelgt.open(frames, schema={"cancellations": {"dated_by": None}})
    assert not stated.table("cancellations").has_time


def test_cancellations_of_customers_without_a_time() -> None:
    frames = shop()
    del frames["customers"]["signed_up_at"]
    gone = np.flatnonzero(np.random.default_rng(3).random(CUSTOMERS) < 0.4)
    frames["cancellations"] = pd.DataFrame({"customer_id": gone, "reason": "moved"})
    db = gelgt.open(frames)
    assert db.table("cancellations").is_left_out
    assert not db.table("customers").has_time


@pytest.mark.parametrize("share", [0.01, 0.3])
def test_labels_count_events_of_guests_without_a_time(share: float) -> None:
    """Train and validation labels count what test labels count, whatever lies between the entity
    and its events."""
    rng = np.random.default_rng(4)
    arrived = np.sort(rng.integers(0, 500, 600))
    is_empty = rng.random(600) < share
    frames = {
        "hotels": pd.DataFrame({"id": range(8)}),
        "guests": pd.DataFrame(
            {
                "id": range(600),
                "hotel_id": rng.integers(0, 8, 600),
                "signed_up_at": day(arrived).mask(is_empty),
            }
        ),
    }
    guest = rng.integers(0, 600, 6000)
    stays = pd.DataFrame({"id": range(6000), "guest_id": guest})
    stays["arrived_at"] = day(arrived[guest] + rng.integers(0, 200, 6000) + 0.5)
    task = gelgt.open({**frames, "stays": stays}).task(
        "PREDICT COUNT(stays.*, 0, 30, days) FOR EACH hotels.id",
        val="2024-01-01",
        test="2024-03-01",
    )
    stays["hotel"] = frames["guests"]["hotel_id"].to_numpy()[guest]
    for split in ("train", "val", "test"):
        table = task.table(split).to_pandas().set_axis(["time", "hotel", "label"], axis=1)
        for time, part in table.groupby("time"):
            after = stays["arrived_at"] - time
            is_in = (after > pd.Timedelta(0)) & (after <= pd.Timedelta(days=30))
            expected = stays[is_in].groupby("hotel").size()
            told = part.set_index("hotel")["label"]
            assert (told == expected.reindex(told.index).fillna(0)).all(), (split, time)
