"""Unusual input that works all the same, and what is reported about it."""

import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import gelgt
from gelgt.schema.report import inspect
from order_frames import customers, orders


def findings(source: Any, **options: Any) -> dict[tuple[str, str, str | None], dict[str, Any]]:
    db = gelgt.open(source, **options)
    db.graph()
    db.features()
    return {(f["code"], f["table"], f["column"]): f for f in inspect(db)["findings"]}


def test_dangling_foreign_keys_are_null_and_reported() -> None:
    reported = findings(
        {"customers": customers(), "orders": orders(customer_id=[1, 99, 2, 77])},
        schema={"orders": {"fkeys": {"customer_id": "customers"}}},
    )
    finding = reported["dangling_key", "orders", "customer_id"]
    assert finding["count"] == 2
    assert "77, 99" in finding["message"]
    db = gelgt.open(
        {"customers": customers(), "orders": orders(customer_id=[1, 99, 2, 77])},
        schema={"orders": {"fkeys": {"customer_id": "customers"}}},
    )
    assert db.read("orders", ["customer_id"]).column(0).to_pylist() == [0, None, 1, None]


def test_empty_table_works() -> None:
    reported = findings({"customers": customers(), "orders": orders().head(0)})
    assert ("empty_table", "orders", None) in reported


def test_all_null_and_constant_columns_work() -> None:
    reported = findings({"customers": customers(note=[None, None, None], country="SE")})
    assert reported["all_null_column", "customers", "note"]["count"] == 3
    assert "'SE'" in reported["constant_column", "customers", "country"]["message"]


def test_key_only_table_works() -> None:
    links = pd.DataFrame({"customer_id": [1, 2, 3], "friend_customer_id": [2, 3, 1]})
    reported = findings({"customers": customers(), "friends": links})
    assert ("key_only_table", "friends", None) in reported


def test_tables_without_time_work() -> None:
    reported = findings(
        {
            "customers": customers().drop(columns="joined_at"),
            "orders": orders().drop(columns="placed_at"),
        }
    )
    assert any(code == "no_times" for code, _, _ in reported)


def test_cyclic_and_self_referencing_keys_work() -> None:
    people = pd.DataFrame({"id": [1, 2, 3], "parent_id": [2, 3, 1], "team_id": [1, 1, 2]})
    teams = pd.DataFrame({"id": [1, 2], "lead_person_id": [1, 3]})
    schema = {
        "people": {"fkeys": {"parent_id": "people", "team_id": "teams"}},
        "teams": {"fkeys": {"lead_person_id": "people"}},
    }
    db = gelgt.open({"people": people, "teams": teams}, schema=schema)
    assert db.graph().num_nodes == 5
    assert len(db.graph().indices) == 2 * 8


def test_nan_and_infinity_count_as_missing() -> None:
    reported = findings({"orders": orders(amount=[1.0, np.inf, -np.inf, 2.0])})
    assert reported["non_finite", "orders", "amount"]["count"] == 2


def test_a_million_categories() -> None:
    n = 1_000_000
    frame = pd.DataFrame(
        {"id": np.arange(n), "code": pd.Series(np.arange(n)).astype(str).radd("c")}
    )
    db = gelgt.open({"things": frame}, schema={"things": {"kinds": {"code": "categorical"}}})
    features = db.features()
    assert any(f.code == "many_categories" and f.column == "code" for f in features.findings)
    assert features.frame("things", np.array([0, n - 1])).num_rows == 2


def test_names_that_need_quoting_work(tmp_path: Path) -> None:
    path = tmp_path / "odd names.db"
    with sqlite3.connect(path) as connection:
        connection.execute(
            'CREATE TABLE "Kunden & Co" ("Kunden Nr." INTEGER PRIMARY KEY, "select" TEXT, "a""b" '
            'REAL, "datum;" DATETIME)'
        )
        connection.execute(
            'CREATE TABLE "order" ("group" INTEGER PRIMARY KEY, "für" INTEGER REFERENCES "Kunden '
            '& Co"("Kunden Nr."), "100%" REAL)'
        )
        connection.execute(
            """INSERT INTO "Kunden & Co"
               VALUES (7, 'x', 1.5, '2024-01-01'), (8, 'y', 2.5, '2024-01-02')"""
        )
        connection.execute('INSERT INTO "order" VALUES (1, 8, 0.1), (2, 7, 0.2)')
    db = gelgt.open(path)
    assert db.graph().num_nodes == 4
    assert db.features().frame("order", np.array([0, 1])).num_rows == 2
    assert db.keys("Kunden & Co").column("Kunden Nr.").to_pylist() == [7, 8]  # type: ignore[union-attr]
