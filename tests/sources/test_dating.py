"""What dates tables without a time column, by rule and by row."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

import gelgt
from gelgt.errors import SchemaError
from gelgt.sources.row_times import NEVER, TIMELESS, RowTimes

DAY = 86_400 * 10**6


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GELGT_CACHE", str(tmp_path / "cache"))


def days(*numbers: int) -> pd.Series:
    return pd.Timestamp("2024-01-01") + pd.to_timedelta(pd.Series(numbers), unit="D")


def shop(**more: pd.DataFrame) -> dict[str, pd.DataFrame]:
    return {
        "users": pd.DataFrame({"id": [10, 11, 12]}),
        "orders": pd.DataFrame(
            {
                "id": range(6),
                "user_id": [10, 10, 10, 11, 11, 12],
                "placed_at": days(0, 20, 40, 10, 30, 50),
            }
        ),
        **more,
    }


def lines(*orders: int | None) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "id": range(len(orders)),
            "order_id": pd.array(orders, dtype="Int64"),
            "price": np.arange(len(orders)) + 0.5,
        }
    )


def keys_of(db: gelgt.Database, table: str) -> tuple[str, ...]:
    dating = db.table(table).dating
    return () if dating is None else dating.keys


def times_of(db: gelgt.Database, table: str) -> dict[Any, Any]:
    """Days since the first of January 2024 by the user's own key; None for never."""
    times, keys = RowTimes(db).of(table), db.keys(table)
    names = range(len(times)) if keys is None else keys.column(0).to_pylist()
    start = int(np.datetime64("2024-01-01", "us").astype(np.int64))
    return {
        name: None if t == NEVER else "always" if t == TIMELESS else (int(t) - start) // DAY
        for name, t in zip(names, times)
    }


def test_lines_are_as_new_as_their_order() -> None:
    db = gelgt.open(shop(lines=lines(5, 0, None, 3)))
    assert keys_of(db, "lines") == ("order_id",)
    assert times_of(db, "lines") == {0: 50, 1: 0, 2: None, 3: 10}
    assert times_of(db, "users") == {10: "always", 11: "always", 12: "always"}


def test_through_chains_and_no_earlier_than_anything_that_is_named() -> None:
    parcels = pd.DataFrame({"id": [0, 1], "sent_at": days(45, 2)})
    labels = pd.DataFrame(
        {"id": [0, 1, 2], "line_id": [0, 1, 1], "parcel_id": pd.array([1, 0, None], dtype="Int64")}
    )
    stamps = pd.DataFrame({"id": [7], "label_id": [1]})
    db = gelgt.open(shop(lines=lines(5, 0), parcels=parcels, labels=labels, stamps=stamps))
    assert times_of(db, "labels") == {0: 50, 1: 45, 2: None}, "never dated by the older line alone"
    assert times_of(db, "stamps") == {7: 45}
    graph = db.graph()
    number = graph.table_number("stamps")
    assert (
        graph.node_time[graph.offsets[number]]
        == (pd.Timestamp("2024-01-01") + pd.Timedelta(days=45)).timestamp()
    )


def test_a_pointer_that_is_updated_neither_dates_nor_is_followed() -> None:
    """A user who points to the last order existed before it; and that an order is the last one is
    not known when it is placed."""
    frames = shop()
    frames["users"]["last_order_id"] = [2, 4, 5]
    db = gelgt.open(frames)
    assert keys_of(db, "users") == ()
    assert db.table("users").pointers == {"last_order_id"}
    assert set(times_of(db, "users").values()) == {"always"}
    graph = db.graph()
    assert (graph.table_parents("users") == -1).all()
    assert all(len(graph.neighbours(int(node))) == 1 for node in graph.nodes("orders", range(6))), (
        "an order knows its user alone"
    )
    report = db_report(db)
    assert ("pointer", "users", "last_order_id") in [
        (f["code"], f["table"], f["column"]) for f in report["findings"]
    ]


def test_a_pointer_of_a_table_with_a_time_is_not_followed_either(tmp_path: Path) -> None:
    frames = shop()
    frames["users"]["last_order_id"], frames["users"]["created_at"] = [2, 4, 5], days(-3, -2, -1)
    schema = {"users": {"pkey": "id", "fkeys": {"last_order_id": "orders"}}}
    db = gelgt.open(frames, schema=schema, out=tmp_path / "shop")
    assert db.table("users").pointers == {"last_order_id"}
    assert times_of(db, "users") == {10: -3, 11: -2, 12: -1}
    assert (db.graph().table_parents("users") == -1).all()
    assert [f["column"] for f in db_report(db)["findings"] if f["code"] == "pointer"] == [
        "last_order_id"
    ]
    assert gelgt.open(tmp_path / "shop").schema == db.schema
    schema["users"]["dated_by"] = None  # type: ignore[assignment]
    assert gelgt.open(frames, schema=schema).table("users").pointers == frozenset()


def test_a_document_that_its_order_names_too_is_dated_by_it() -> None:
    """A cycle of keys alone is no pointer: an order and its invoice name each other, and the
    invoice is as new as the order."""
    frames = shop(invoices=pd.DataFrame({"id": range(6), "order_id": range(6)}))
    frames["orders"]["invoice_id"] = range(6)
    db = gelgt.open(frames)
    assert keys_of(db, "invoices") == ("order_id",)
    assert times_of(db, "invoices") == {0: 0, 1: 20, 2: 40, 3: 10, 4: 30, 5: 50}


def test_a_table_whose_only_time_is_optional_is_left_out() -> None:
    """Most coupons name no order: nothing says when they came."""
    coupons = pd.DataFrame(
        {
            "id": range(5),
            "user_id": [10, 10, 11, 12, 12],
            "order_id": pd.array([1, None, None, None, None], dtype="Int64"),
        }
    )
    db = gelgt.open(shop(coupons=coupons))
    assert keys_of(db, "coupons") == ()
    assert db.table("coupons").pointers == {"order_id"}
    assert db.table("coupons").is_left_out
    assert set(times_of(db, "coupons").values()) == {None}


def test_a_key_that_is_filled_later_does_not_hide_a_row_until_then() -> None:
    """Lines that come back would be unseen until they do, so that those which are seen would be
    known to stay."""
    returns = pd.DataFrame({"id": [0, 1], "created_at": days(45, 60)})
    items = lines(0, 1, 2, 3, 4, 5).assign(
        return_id=pd.array([None, 0, None, 1, None, None], dtype="Int64")
    )
    fkeys = {"lines": {"pkey": "id", "fkeys": {"order_id": "orders", "return_id": "returns"}}}
    db = gelgt.open(shop(lines=items, returns=returns), schema=fkeys)
    assert keys_of(db, "lines") == ("order_id",)
    assert db.table("lines").pointers == {"return_id"}
    assert times_of(db, "lines") == {0: 0, 1: 20, 2: 40, 3: 10, 4: 30, 5: 50}


def test_of_keys_that_take_turns_each_dates() -> None:
    """A comment is on an order or on a photo: the keys are empty by turns, and a row is as new as
    what it names."""
    photos = pd.DataFrame({"id": [0, 1, 2], "taken_at": days(60, 70, 80)})
    comments = pd.DataFrame(
        {"id": range(6), "order_id": pd.array([0, 1, 2, None, None, None], "Int64")}
    )
    comments["photo_id"] = pd.array([None, None, None, 0, 1, 2], "Int64")
    db = gelgt.open(shop(photos=photos, comments=comments))
    assert keys_of(db, "comments") == ("order_id", "photo_id")
    assert times_of(db, "comments") == {0: 0, 1: 20, 2: 40, 3: 60, 4: 70, 5: 80}


def test_later_rows_can_only_take_a_key_out() -> None:
    """Up to the validation time nothing came back; later returns show that `return_id` is filled
    afterwards, and it never dates."""
    orders = pd.DataFrame({"id": range(100), "placed_at": days(*range(100))})
    returns = pd.DataFrame({"id": range(30), "made_at": days(*range(75, 105))})
    came_back = pd.array([*range(30), *([None] * 70)], dtype="Int64")
    items = pd.DataFrame({"id": range(100), "order_id": range(100), "return_id": came_back})
    schema = {"val_timestamp": "2024-03-01", "test_timestamp": "2024-03-15", "tables": {}}
    db = gelgt.open({"orders": orders, "items": items, "returns": returns}, schema=schema)
    assert keys_of(db, "items") == ("order_id",)
    assert db.table("items").pointers == {"return_id"}


def test_a_filled_key_dates_however_much_older_the_other_parent_is() -> None:
    """Every discount names an old campaign and an order; one of an order after the validation time
    is no discount whose order is missing."""
    orders = pd.DataFrame({"id": range(100), "placed_at": days(*range(100))})
    campaigns = pd.DataFrame({"id": range(4), "started_at": days(-4, -3, -2, -1)})
    discounts = pd.DataFrame({"id": range(100), "order_id": range(100)})
    discounts["campaign_id"] = discounts["id"] % 4
    schema = {"val_timestamp": "2024-03-01", "test_timestamp": "2024-03-15", "tables": {}}
    frames = {"orders": orders, "campaigns": campaigns, "discounts": discounts}
    db = gelgt.open(frames, schema=schema)
    assert set(keys_of(db, "discounts")) == {"order_id", "campaign_id"}
    assert db.table("discounts").pointers == set()
    assert times_of(db, "discounts") == {row: row for row in range(100)}


def test_later_rows_can_only_date_a_table_more_strictly() -> None:
    """Coupons are spent with an order in one of three cases until March. Those that come later with
    an order show that it may date them, and then a coupon without one is never visible."""
    orders = pd.DataFrame({"id": range(100), "placed_at": days(*range(100))})
    keys = [*range(20), *([None] * 40), *range(61, 100)]
    schema = {"val_timestamp": "2024-03-01", "test_timestamp": "2024-03-15", "tables": {}}
    for end in (60, len(keys)):
        coupons = pd.DataFrame({"id": range(end), "order_id": pd.array(keys[:end], dtype="Int64")})
        db = gelgt.open({"orders": orders, "coupons": coupons}, schema=schema)
        # 20 of 60 rows name an order; 59 of all 99
        assert keys_of(db, "coupons") == (() if end == 60 else ("order_id",)), end


def test_references_to_the_own_table_and_cycles_of_untimed_tables() -> None:
    """A reply is as new as its order; that it names another reply says nothing. Tables that name
    each other are dated by the first."""
    replies = pd.DataFrame(
        {
            "id": [0, 1],
            "order_id": [3, 0],
            "reply_to_id": pd.array([1, None], dtype="Int64"),
            "mail_id": [1, 0],
        }
    )
    mails = pd.DataFrame({"id": [0, 1], "reply_id": [1, 0]})
    schema = {
        "replies": {
            "pkey": "id",
            "fkeys": {"order_id": "orders", "reply_to_id": "replies", "mail_id": "mails"},
        },
        "mails": {"pkey": "id", "fkeys": {"reply_id": "replies"}},
    }
    db = gelgt.open(shop(replies=replies, mails=mails), schema=schema)
    assert keys_of(db, "replies") == ("order_id",)
    assert times_of(db, "replies") == {0: 10, 1: 0}
    assert times_of(db, "mails") == {0: 0, 1: 10}


def test_the_user_may_state_it() -> None:
    frames = shop(lines=lines(5, 0))
    assert set(
        times_of(gelgt.open(frames, schema={"lines": {"dated_by": None}}), "lines").values()
    ) == {"always"}
    frames["users"]["last_order_id"] = [2, 4, 5]
    stated = gelgt.open(frames, schema={"users": {"dated_by": "last_order_id"}})
    assert times_of(stated, "users") == {10: 40, 11: 30, 12: 50}
    assert stated.table("users").dating.origin == "manifest"  # type: ignore[union-attr]
    with pytest.raises(
        SchemaError, match="'lines' must be dated by one of its foreign keys, got 'price'"
    ):
        gelgt.open(frames, schema={"lines": {"dated_by": "price"}})


def test_the_manifest_keeps_it_and_can_be_edited(tmp_path: Path) -> None:
    db = gelgt.open(shop(lines=lines(5, 0, 3)), out=tmp_path / "shop")
    manifest = tmp_path / "shop" / "manifest.yaml"
    content = yaml.safe_load(manifest.read_text())
    assert content["gelgt"]["tables"]["lines"]["dated_by"]["keys"] == ["order_id"]
    assert gelgt.open(tmp_path / "shop").schema == db.schema
    content["gelgt"]["tables"]["lines"]["dated_by"] = None
    manifest.write_text(yaml.safe_dump(content))
    assert set(times_of(gelgt.open(tmp_path / "shop"), "lines").values()) == {"always"}
    del content["gelgt"]
    manifest.write_text(yaml.safe_dump(content))
    assert keys_of(gelgt.open(tmp_path / "shop"), "lines") == ("order_id",), (
        "a RelBench folder states nothing: inferred again"
    )


def test_kinds_and_statistics_come_from_lines_up_to_the_validation_time() -> None:
    """Lines of later orders neither make a column of numbers a text nor move its mean."""
    orders = pd.DataFrame({"id": range(400), "placed_at": days(*range(400))})
    items = pd.DataFrame({"id": range(400), "order_id": range(400), "price": 1.0, "note": "a"})
    items.loc[:300, "price"] = np.arange(301) % 7
    items.loc[:300, "note"] = np.where(np.arange(301) % 2, "x", "y")
    items.loc[350:, "price"] = 1e9
    items.loc[350:, "note"] = [f"a long and unique text number {i}" for i in range(50)]
    schema = {"val_timestamp": "2024-10-01", "test_timestamp": "2024-11-01", "tables": {}}
    db = gelgt.open({"orders": orders, "items": items}, schema=schema)
    assert db.table("items").kinds["note"].kind == "categorical"
    statistics = db.features().statistics.tables["items"]
    assert statistics["price"].count == 275  # type: ignore[union-attr]
    assert statistics["price"].quantiles[-1] == 6  # type: ignore[union-attr]
    assert set(statistics["note"].categories) == {"x", "y"}  # type: ignore[union-attr]


def db_report(db: gelgt.Database) -> dict[str, Any]:
    from gelgt.schema.report import inspect

    return inspect(db)


def test_inspect_says_how_lines_are_dated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from gelgt.cli.inspect import print_inspection

    report = db_report(gelgt.open(shop(lines=lines(5, 0, None))))
    assert ("null_time", "lines", 1) in [
        (f["code"], f["table"], f["count"]) for f in report["findings"]
    ]
    assert report["tables"]["lines"]["dated_by"]["times"] == "orders.placed_at"
    assert report["tables"]["lines"]["dated_by"]["origin"] == "inferred"
    assert report["tables"]["orders"]["dated_by"] is None
    print_inspection(report)
    text = "lines: as new as orders.placed_at (through order_id); 1 of 3 rows are never visible"
    assert text in capsys.readouterr().out
