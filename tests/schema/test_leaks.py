"""Planted leaks of every sort are found, and honest databases raise no alarm."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

import gelgt
from gelgt.demo import Shop
from gelgt.schema.finding_text import answers
from gelgt.schema.leaks import MIN_ROWS, find_leaks
from gelgt.schema.model import Finding

ROWS = 400
AT = pd.date_range("2024-01-01", periods=ROWS, freq="D")


def orders(rows: int = ROWS, **more: Any) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    amount = rng.normal(10, 2, rows).round(2)
    return pd.DataFrame({"id": range(rows), "placed_at": AT[:rows], "amount": amount} | more)


def leaks(**tables: pd.DataFrame) -> dict[tuple[str, str | None], Finding]:
    """What is suspected where no date is taken for unknown before it happens."""
    plain = {name: {"event_dates": {}} for name in tables}
    suspects = find_leaks(gelgt.open(dict(tables), schema=plain))
    assert all((f.code, f.severity) == ("suspected_leak", "leak") for f in suspects)
    return {(f.table, f.column): f for f in suspects}


def test_honest_columns_raise_no_alarm() -> None:
    earlier = AT - pd.Timedelta(days=9)
    gaps = pd.Series(range(ROWS)).where(np.random.default_rng(1).random(ROWS) < 0.7)
    assert leaks(orders=orders(last_seen=earlier, discount=gaps)) == {}


def test_a_date_later_than_the_row() -> None:
    suspects = leaks(orders=orders(delivered_at=AT + pd.Timedelta(days=3)))
    assert list(suspects) == [("orders", "delivered_at")]
    assert suspects["orders", "delivered_at"].count == ROWS
    assert "later than 'placed_at' in 100%" in suspects["orders", "delivered_at"].message


def test_a_date_that_is_now_and_then_later_is_no_leak() -> None:
    shift = np.where(np.arange(ROWS) % 4 == 0, 2, -2)
    assert leaks(orders=orders(checked_on=AT + pd.to_timedelta(shift, "D"))) == {}


def test_a_column_that_is_filled_after_the_fact() -> None:
    is_open = np.arange(ROWS) >= ROWS - 40
    suspects = leaks(orders=orders(resolution=np.where(is_open, None, np.arange(ROWS) % 3)))
    assert list(suspects) == [("orders", "resolution")]
    assert (
        "missing in 100% of the newest rows but in 0% of older ones"
        in suspects["orders", "resolution"].message
    )
    assert suspects["orders", "resolution"].count == ROWS - 40


def test_a_column_that_ceased_long_ago_is_not_filled_after_the_fact() -> None:
    assert leaks(orders=orders(fax=np.where(np.arange(ROWS) >= 50, None, "by fax"))) == {}


def test_a_column_that_is_empty_where_a_late_date_is() -> None:
    cancelled = np.random.default_rng(2).random(ROWS) < 0.3
    when = pd.Series(AT + pd.Timedelta(days=1)).where(cancelled)
    reason = pd.Series(["price", "delay"] * (ROWS // 2)).where(cancelled)
    other = pd.Series(["web", "shop"] * (ROWS // 2)).where(
        np.random.default_rng(3).random(ROWS) < 0.3
    )
    suspects = leaks(orders=orders(cancelled_at=when, reason=reason, channel=other))
    assert set(suspects) == {("orders", "cancelled_at"), ("orders", "reason")}
    assert "filled exactly where 'cancelled_at' is" in suspects["orders", "reason"].message


def visits_and_users(counted: Callable[[pd.Series], pd.Series]) -> dict[str, pd.DataFrame]:
    """Sixty users with one to nine visits each."""
    owner = np.repeat(np.arange(60), np.arange(60) % 9 + 1)
    visits = pd.DataFrame(
        {
            "id": range(len(owner)),
            "user_id": owner,
            "visited_at": pd.date_range("2024", periods=len(owner), freq="h"),
        }
    )
    counts = visits.groupby("user_id").size()
    users = pd.DataFrame(
        {
            "id": range(60),
            "name": [f"user {i}" for i in range(60)],
            "visit_count": counted(counts).to_numpy(),
        }
    )
    return {"users": users, "visits": visits}


def test_a_counter_of_todays_child_rows() -> None:
    suspects = leaks(**visits_and_users(lambda counts: counts))
    assert list(suspects) == [("users", "visit_count")]
    assert "today's number of 'visits' rows" in suspects["users", "visit_count"].message


def test_a_counter_with_gaps_is_still_found() -> None:
    assert ("users", "visit_count") in leaks(
        **visits_and_users(lambda counts: counts.where(counts.index % 20 != 0))
    )


def test_another_number_is_no_counter() -> None:
    assert leaks(**visits_and_users(lambda counts: counts + 1)) == {}
    assert (
        leaks(
            **visits_and_users(
                lambda counts: counts.sample(frac=1, random_state=0).reset_index(drop=True)
            )
        )
        == {}
    )


def test_a_key_that_is_updated_with_every_order() -> None:
    users = pd.DataFrame(
        {"id": range(100), "joined_at": AT[:100], "last_order_id": np.arange(300, 400)}
    )
    tables = {"users": users, "orders": orders(user_id=np.arange(ROWS) % 100)}
    assert leaks(**tables) == {}, "it is not followed, so that it tells nothing"
    followed = gelgt.open(tables, schema={"users": {"dated_by": None}})
    (leak,) = find_leaks(followed)
    assert (leak.table, leak.column) == ("users", "last_order_id")
    assert "newer than the row itself in 100% of its rows" in leak.message
    first = users.assign(last_order_id=np.arange(100))  # the order that came with the user
    assert leaks(users=first, orders=orders(user_id=np.arange(ROWS) % 100)) == {}


def test_a_date_behind_what_dates_the_row() -> None:
    """Deliveries without a time column are dated by their order, but are planned for days after
    it."""
    lines = pd.DataFrame(
        {"id": range(ROWS), "order_id": range(ROWS), "scheduled_for": AT + pd.Timedelta(days=3)}
    )
    suspects = leaks(orders=orders(), deliveries=lines)
    assert list(suspects) == [("deliveries", "scheduled_for")]
    assert (
        "later than orders.placed_at, which dates its rows, in 100% of them"
        in suspects["deliveries", "scheduled_for"].message
    )
    assert (
        leaks(orders=orders(), deliveries=lines.assign(scheduled_for=AT - pd.Timedelta(days=3)))
        == {}
    )


def test_every_leak_has_an_answer_that_silences_it() -> None:
    tables = {
        **visits_and_users(lambda counts: counts),
        "orders": orders(delivered_at=AT + pd.Timedelta(days=3)),
    }
    plain = {"orders": {"event_dates": {}}}
    suspects = find_leaks(gelgt.open(tables, schema=plain))
    assert {f.place for f in suspects} == {"users.visit_count", "orders.delivered_at"}
    stated = yaml.safe_load("\n".join(answers(f.repair for f in suspects)))
    stated["tables"]["orders"] |= plain["orders"]
    assert find_leaks(gelgt.open(tables, schema=stated)) == []


def test_a_key_that_is_followed_can_be_left() -> None:
    users = pd.DataFrame(
        {"id": range(100), "joined_at": AT[:100], "last_order_id": np.arange(300, 400)}
    )
    tables = {"users": users, "orders": orders(user_id=np.arange(ROWS) % 100)}
    (leak,) = find_leaks(gelgt.open(tables, schema={"users": {"dated_by": None}}))
    answered = gelgt.open(tables, schema=leak.repair)
    assert answered.table("users").pointers == {"last_order_id"}
    assert find_leaks(answered) == []


def test_a_date_that_a_model_does_not_know_ahead_is_no_leak() -> None:
    cancelled = np.random.default_rng(2).random(ROWS) < 0.3
    when = pd.Series(AT + pd.Timedelta(days=1)).where(cancelled)
    reason = pd.Series(["price", "delay"] * (ROWS // 2)).where(cancelled)
    frames = {"orders": orders(cancelled_at=when, reason=reason)}
    known = gelgt.open(frames, schema={"orders": {"event_dates": {}}})
    assert len(find_leaks(known)) == 2
    db = gelgt.open(frames)
    (date,) = db.table("orders").event_dates or ()
    assert (date.column, dict(date.filled)) == ("cancelled_at", {"reason": None})
    assert find_leaks(db) == []


def test_many_batches_count_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shares and ends are those of the whole table, however it is read."""
    is_open = np.arange(ROWS) >= ROWS - 40
    frames = {
        **visits_and_users(lambda counts: counts),
        "orders": orders(
            delivered_at=AT + pd.Timedelta(days=3),
            resolution=np.where(is_open, None, np.arange(ROWS) % 3),
        ),
    }
    db = gelgt.open(frames, schema={"orders": {"event_dates": {}}})
    whole, batches = find_leaks(db), db.batches
    monkeypatch.setattr(db, "batches", lambda *names: batches(*names, batch_size=7))
    assert find_leaks(db) == whole
    assert len(whole) == 3


def test_few_rows_prove_nothing() -> None:
    late = AT[: MIN_ROWS - 1] + pd.Timedelta(days=3)
    assert leaks(orders=orders(MIN_ROWS - 1, delivered_at=late)) == {}
    late = AT[:MIN_ROWS] + pd.Timedelta(days=3)
    assert leaks(orders=orders(MIN_ROWS, delivered_at=late)) != {}


def test_what_is_ignored_is_no_longer_reported() -> None:
    frame = orders(delivered_at=AT + pd.Timedelta(days=3))
    db = gelgt.open({"orders": frame}, schema={"orders": {"kinds": {"delivered_at": "ignored"}}})
    assert find_leaks(db) == []


def test_no_false_alarm_in_the_shop(small_shop: Shop) -> None:
    assert find_leaks(gelgt.open(small_shop.url)) == []


@pytest.mark.parametrize("name", ["rel-f1", "rel-stack-beer"])
def test_no_false_alarm_in_real_databases(name: str, relbench_data: Callable[[str], Path]) -> None:
    assert find_leaks(gelgt.open(relbench_data(name))) == []
