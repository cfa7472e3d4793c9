"""Everything a user should know is found, with its count, and nothing is said about clean rows."""

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

import gelgt
from gelgt.demo import Shop
from gelgt.schema.findings import find, statistics
from gelgt.schema.model import Finding

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
    findings = findings_of(users=USERS.rename(columns={"joined_at": "birth_date"}), orders=ORDERS)
    assert (findings["timeless_table"].table, findings["timeless_table"].column) == (
        "users",
        "birth_date",
    )
    assert "no_times" not in findings


def test_a_database_without_any_time() -> None:
    findings = findings_of(
        users=USERS.drop(columns="joined_at"), orders=ORDERS.drop(columns="placed_at")
    )
    assert "users" in findings["no_times"].message
    assert "orders" in findings["no_times"].message


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
