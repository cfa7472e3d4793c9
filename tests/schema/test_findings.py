"""Everything a user should know is found, with its count, and nothing is said about clean rows."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

import gelgt
from gelgt.demo import Shop
from gelgt.schema.findings import find, statistics
from gelgt.schema.model import Dating, Finding

DAYS = pd.date_range("2024-01-01", periods=4)
USERS = pd.DataFrame({"id": [1, 2, 3, 4], "joined_at": DAYS, "name": ["Ann", "Bob", "Cid", "Dee"]})
ORDERS = pd.DataFrame(
    {"id": [5, 6, 7, 8], "user_id": [1, 1, 2, 3], "placed_at": DAYS, "amount": [1.5, 2.5, 3.5, 4.5]}
)


def findings_of(**tables: pd.DataFrame) -> dict[str, Finding]:
    return {f.code: f for f in find(gelgt.open(dict(tables)))}


def test_clean_rows_have_no_findings() -> None:
    assert findings_of(users=USERS, orders=ORDERS) == {}


def test_the_shop_has_no_findings(small_shop: Shop) -> None:
    assert [
        f.code
        for f in find(gelgt.open(small_shop.url))
        if f.code in ("suspected_leak", "dangling_key", "null_time")
    ] == []


def test_what_the_import_saw_comes_first() -> None:
    dangling = ORDERS.assign(user_id=[1, 1, 2, 99])
    listed = find(
        gelgt.open(
            {"users": USERS, "orders": dangling.assign(note=None)},
            schema={"orders": {"fkeys": {"user_id": "users"}}},
        )
    )
    assert [(f.code, f.count) for f in listed] == [("dangling_key", 1), ("all_null_column", 4)]
    assert [f.severity for f in listed] == ["warning", "notice"], "a fourth of the orders"
    assert "99" in listed[0].message


def test_rows_without_a_time() -> None:
    finding = findings_of(
        users=USERS, orders=ORDERS.assign(placed_at=[DAYS[0], None, None, DAYS[3]])
    )["null_time"]
    assert (finding.table, finding.column, finding.count) == ("orders", "placed_at", 2)


def test_constant_and_empty_columns() -> None:
    findings = findings_of(users=USERS.assign(country="SE", note=None), orders=ORDERS)
    assert (findings["constant_column"].column, findings["constant_column"].count) == ("country", 4)
    assert "'SE'" in findings["constant_column"].message
    assert findings["all_null_column"].column == "note"


def test_a_constant_with_gaps_is_not_constant() -> None:
    assert findings_of(users=USERS.assign(country=["SE", "SE", None, "SE"]), orders=ORDERS) == {}


def test_tables_that_are_empty_unlinked_or_only_keys() -> None:
    friends = pd.DataFrame({"user_id": [1, 2], "other_user_id": [2, 3]})
    weather = pd.DataFrame({"station": ["a", "b"], "at": DAYS[:2], "degrees": [1.5, 2.5]})
    findings = findings_of(users=USERS, friends=friends, weather=weather, orders=ORDERS.head(0))
    assert findings["empty_table"].table == "orders"
    assert findings["key_only_table"].table == "friends"
    assert findings["unlinked_table"].table == "weather"


def test_a_single_table_is_not_unlinked() -> None:
    assert findings_of(orders=ORDERS.drop(columns="user_id")) == {}


def test_dates_that_are_no_time_column() -> None:
    born = USERS.rename(columns={"joined_at": "birth_date"})
    born["birth_date"] -= pd.Timedelta(days=9_000)
    findings = findings_of(users=born, orders=ORDERS)
    assert (findings["timeless_table"].table, findings["timeless_table"].column) == (
        "users",
        "birth_date",
    )
    assert "no_times" not in findings
    assert findings["timeless_table"].severity == "notice", "they were born before it all began"


def test_rows_that_are_visible_before_their_date() -> None:
    """`due_on` of users that are always visible lies behind the validation time."""
    finding = findings_of(
        users=USERS.rename(columns={"joined_at": "due_on"}).assign(
            due_on=DAYS + pd.Timedelta(days=1)
        ),
        orders=ORDERS,
    )["timeless_table"]
    assert (finding.severity, finding.column, finding.count) == ("warning", "due_on", 2)
    assert finding.repair == {"tables": {"users": {"time_col": "due_on"}}}


def test_a_few_dangling_keys_are_a_notice() -> None:
    users = [1] * 39 + [99]
    days = pd.date_range("2024-01-01", periods=40)
    orders = pd.DataFrame({"id": range(40), "user_id": users, "placed_at": days, "x": range(40)})
    schema = {"orders": {"fkeys": {"user_id": "users"}}}
    db = gelgt.open({"users": USERS, "orders": orders}, schema=schema)
    assert [(f.code, f.severity) for f in find(db)] == [("dangling_key", "notice")]


def test_a_table_that_is_left_out() -> None:
    refunds = pd.DataFrame({"id": [1, 2], "order_id": [5, 6], "why": ["a", "b"]})
    db = gelgt.open({"users": USERS, "orders": ORDERS, "refunds": refunds})
    dating = Dating(evidence="orders are named long after their time", rule="unknown")
    table = replace(db.table("refunds"), dating=dating)
    db.schema = replace(db.schema, tables={**db.schema.tables, "refunds": table})
    (finding,) = (f for f in find(db) if f.code == "left_out_table")
    assert (finding.table, finding.severity) == ("refunds", "warning")
    assert "orders are named long after their time" in finding.message
    assert finding.repair == {"tables": {"refunds": {"dated_by": "order_id"}}}


def test_a_date_of_one_load_tells_nothing() -> None:
    days = pd.date_range("2024-01-01", periods=60)
    orders = pd.DataFrame({"id": range(60), "placed_at": days, "loaded_on": days[-1]})
    codes = {f.code: f.column for f in find(gelgt.open({"orders": orders}))}
    assert codes == {"constant_column": "loaded_on"}


def test_a_database_without_any_time() -> None:
    findings = findings_of(
        users=USERS.drop(columns="joined_at"), orders=ORDERS.drop(columns="placed_at")
    )
    assert "users" in findings["no_times"].message
    assert "orders" in findings["no_times"].message
    assert findings["no_times"].severity == "error"
    assert findings["no_times"].repair is None
    dated = findings_of(users=USERS.rename(columns={"joined_at": "birth_date"}))["no_times"]
    assert dated.repair == {"tables": {"users": {"time_col": "birth_date"}}}


def test_dangling_keys_of_a_folder_from_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "db").mkdir()
    pq.write_table(pa.table({"id": [0, 1]}), tmp_path / "db" / "users.parquet")
    pq.write_table(
        pa.table(
            {"user_id": [0, 5, -1, None], "at": pa.array(DAYS.to_numpy(), pa.timestamp("us"))}
        ),
        tmp_path / "db" / "orders.parquet",
    )
    tables: dict[str, Any] = {
        "users": {"pkey": "id", "time_col": None, "fkeys": {}},
        "orders": {"pkey": None, "time_col": "at", "fkeys": {"user_id": "users"}},
    }
    content = {
        "name": "elsewhere",
        "val_timestamp": "2024-01-02",
        "test_timestamp": "2024-01-03",
        "tables": tables,
    }
    (tmp_path / "manifest.yaml").write_text(yaml.safe_dump(content))
    finding = {f.code: f for f in find(gelgt.open(tmp_path))}["dangling_key"]
    assert (finding.table, finding.column, finding.count) == ("orders", "user_id", 2)


def test_statistics_join_the_row_groups(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(
        pa.table({"x": [3, None, 1, 9, None, None], "all": pa.nulls(6, pa.string())}),
        path,
        row_group_size=2,
    )
    assert statistics([path])["x"] == (3, 1, 9)
    assert statistics([path])["all"] == (6, None, None)
