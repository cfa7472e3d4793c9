"""Every kind of bad input: either it works, with a finding, or one GelgtError says what, where and
how to repair it.

In both cases nothing half-written stays behind: neither in the output folder nor in the cache.
"""

import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import gelgt
from gelgt.schema.report import inspect
from gelgt.sources.cache import cache_root

DAY = pd.date_range("2024-01-01", periods=6, tz=None)


def customers(**more: Any) -> pd.DataFrame:
    return pd.DataFrame(
        {"id": [1, 2, 3], "joined_at": DAY[:3], "name": ["Ann", "Bob", "Cid"]} | more
    )


def orders(**more: Any) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "id": [10, 11, 12, 13],
            "customer_id": [1, 1, 2, 3],
            "placed_at": DAY[2:6],
            "amount": [5.0, 7.5, 1.0, 9.0],
        }
        | more
    )


def leftovers() -> list[Path]:
    """What an import that failed left in the cache."""
    folder = cache_root() / "imports"
    return list(folder.iterdir()) if folder.exists() else []


def refuse(source: Any, code: str, *words: str, **options: Any) -> None:
    """The source is refused with this code, a message that holds these words, and nothing is left
    behind."""
    with pytest.raises(gelgt.GelgtError) as caught:
        gelgt.open(source, **options)
    assert caught.value.code == code, str(caught.value)
    for word in words:
        assert word in str(caught.value)
    assert caught.value.hint, "an error names its repair"
    assert leftovers() == []


def findings(source: Any, **options: Any) -> dict[tuple[str, str, str | None], dict[str, Any]]:
    db = gelgt.open(source, **options)
    db.graph()
    db.features()
    return {(f["code"], f["table"], f["column"]): f for f in inspect(db)["findings"]}


def test_missing_table_in_a_relbench_folder(tmp_path: Path) -> None:
    gelgt.open({"customers": customers(), "orders": orders()}, out=tmp_path / "db")
    (tmp_path / "db" / "db" / "orders.parquet").rename(tmp_path / "db" / "db" / "order.parquet")
    with pytest.raises(
        gelgt.GelgtError, match=r"lists the table 'orders'.*Did you mean 'order'"
    ) as caught:
        gelgt.open(tmp_path / "db")
    assert caught.value.code == "missing_table"


def test_unknown_table_and_column_in_the_schema() -> None:
    tables = {"customers": customers(), "orders": orders()}
    refuse(
        tables,
        "unknown_table",
        "'oders'",
        "Did you mean 'orders'?",
        schema={"oders": {"pkey": "id"}},
    )
    refuse(
        tables,
        "unknown_column",
        "'orders'",
        "'placed'",
        "Did you mean 'placed_at'?",
        schema={"orders": {"time_col": "placed"}},
    )
    refuse(
        tables,
        "unknown_table",
        "customers_",
        schema={"orders": {"fkeys": {"customer_id": "customers_"}}},
    )
    refuse(
        tables,
        "unknown_kind",
        "orders.amount",
        "numeric",
        "Did you mean 'numerical'?",
        schema={"orders": {"kinds": {"amount": "numeric"}}},
    )
    refuse(tables, "unknown_entry", "primary", schema={"orders": {"primary_key": "id"}})
    refuse(tables, "unknown_table", "'order'", tables=["order"])


def test_duplicate_primary_key(tmp_path: Path) -> None:
    twice = customers(id=[1, 2, 2])
    refuse(
        {"customers": twice},
        "duplicate_key",
        "'customers.id'",
        "1 rows repeat",
        "for example 2",
        schema={"customers": {"pkey": "id"}},
    )
    refuse(
        {"customers": twice},
        "duplicate_key",
        "customers.id",
        schema={"customers": {"pkey": "id"}},
        out=tmp_path / "never",
    )
    assert not (tmp_path / "never").exists()
    assert list(tmp_path.iterdir()) == []


def test_null_primary_key() -> None:
    holes = customers(id=[1, None, 3])
    refuse(
        {"customers": holes},
        "null_key",
        "'customers.id'",
        "1 of 3 rows",
        schema={"customers": {"pkey": "id"}},
    )


def test_dangling_foreign_keys_are_null_and_reported() -> None:
    found = findings(
        {"customers": customers(), "orders": orders(customer_id=[1, 99, 2, 77])},
        schema={"orders": {"fkeys": {"customer_id": "customers"}}},
    )
    finding = found["dangling_key", "orders", "customer_id"]
    assert finding["count"] == 2
    assert "77, 99" in finding["message"]
    db = gelgt.open(
        {"customers": customers(), "orders": orders(customer_id=[1, 99, 2, 77])},
        schema={"orders": {"fkeys": {"customer_id": "customers"}}},
    )
    assert db.read("orders", ["customer_id"]).column(0).to_pylist() == [0, None, 1, None]


def test_mixed_time_zones() -> None:
    mixed = ["2024-01-01 10:00:00+02:00", "2024-01-02 10:00:00", "2024-01-03 10:00:00Z"]
    refuse(
        {"customers": customers(joined_at=mixed)},
        "mixed_time_zones",
        "customers.joined_at",
        "'2024-01-02 10:00:00'",
    )
    objects = [
        pd.Timestamp("2024-01-01", tz="UTC").to_pydatetime(),
        pd.Timestamp("2024-01-02").to_pydatetime(),
        None,
    ]
    frame = customers()
    frame["joined_at"] = pd.Series(objects, dtype=object)
    refuse({"customers": frame}, "mixed_time_zones", "customers.joined_at")


def test_unparseable_dates(tmp_path: Path) -> None:
    times = ["2024-01-01"] * 19 + ["yesterday"]
    frame = pd.DataFrame({"id": range(20), "created_at": times})
    refuse({"events": frame}, "unparseable_date", "events.created_at", "1 of 20", "'yesterday'")
    frame.loc[19, "created_at"] = "2024-13-45"
    (tmp_path / "csv").mkdir()
    frame.to_csv(tmp_path / "csv" / "events.csv", index=False)
    refuse(tmp_path / "csv", "unparseable_date", "events.created_at", "'2024-13-45'")
    assert (
        gelgt.open(tmp_path / "csv", schema={"events": {"kinds": {"created_at": "text"}}})
        .table("events")
        .columns["created_at"]
        == "string"
    )


def test_declared_dates_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "events.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE events (id INTEGER PRIMARY KEY, at DATETIME)")
        connection.executemany("INSERT INTO events VALUES (?, ?)", [(1, "soon"), (2, "later")])
    refuse(path, "unparseable_date", "events.at")


def test_empty_table_works() -> None:
    found = findings({"customers": customers(), "orders": orders().head(0)})
    assert ("empty_table", "orders", None) in found


def test_all_null_and_constant_columns_work() -> None:
    found = findings({"customers": customers(note=[None, None, None], country="SE")})
    assert found["all_null_column", "customers", "note"]["count"] == 3
    assert "'SE'" in found["constant_column", "customers", "country"]["message"]


def test_key_only_table_works() -> None:
    links = pd.DataFrame({"customer_id": [1, 2, 3], "friend_customer_id": [2, 3, 1]})
    found = findings({"customers": customers(), "friends": links})
    assert ("key_only_table", "friends", None) in found


def test_tables_without_time_work() -> None:
    found = findings(
        {
            "customers": customers().drop(columns="joined_at"),
            "orders": orders().drop(columns="placed_at"),
        }
    )
    assert any(code == "no_times" for code, _, _ in found)


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
    found = findings({"orders": orders(amount=[1.0, np.inf, -np.inf, 2.0])})
    assert found["non_finite", "orders", "amount"]["count"] == 2


def test_a_million_categories() -> None:
    n = 1_000_000
    frame = pd.DataFrame(
        {"id": np.arange(n), "code": pd.Series(np.arange(n)).astype(str).radd("c")}
    )
    db = gelgt.open({"things": frame}, schema={"things": {"kinds": {"code": "categorical"}}})
    features = db.features()
    assert any(f.code == "many_categories" and f.column == "code" for f in features.findings)
    assert features.frame("things", np.array([0, n - 1])).num_rows == 2


def test_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "customers.csv").write_bytes("id,name\n1,Zoë\n".encode("latin1"))
    refuse(tmp_path, "not_utf8", "customers.csv", "column 'name'", "iconv")
    path = tmp_path / "latin.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT)")
        connection.execute("INSERT INTO people VALUES (1, CAST(x'5A6FEB' AS TEXT))")
    refuse(path, "not_utf8", "people.name")


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
            """INSERT INTO "Kunden & Co" VALUES (7, 'x', 1.5, '2024-01-01'), (8, 'y', 2.5, '2024-01-02')"""
        )
        connection.execute('INSERT INTO "order" VALUES (1, 8, 0.1), (2, 7, 0.2)')
    db = gelgt.open(path)
    assert db.graph().num_nodes == 4
    assert db.features().frame("order", np.array([0, 1])).num_rows == 2
    assert db.keys("Kunden & Co").column("Kunden Nr.").to_pylist() == [7, 8]  # type: ignore[union-attr]


def test_names_that_sql_cannot_tell_apart() -> None:
    refuse({"customers": customers(NAME=["a", "b", "c"])}, "case_collision", "'name'", "'NAME'")
    refuse({"customers": customers(), "Customers": customers()}, "case_collision", "'Customers'")
    refuse({"a/b": customers()}, "bad_name", "'a/b'")


def test_mixed_python_types() -> None:
    refuse(
        {"customers": customers(name=["Ann", 5, None])},
        "mixed_types",
        "customers.name",
        "'Ann' (str)",
        "5 (int)",
    )


def test_no_tables(tmp_path: Path) -> None:
    refuse({}, "no_tables", "empty")
    refuse(tmp_path, "no_tables", "no .csv, .tsv or .parquet files")
    refuse(42, "unknown_source", "int")
    refuse(tmp_path / "shp.db", "not_found", "shp.db")
    (tmp_path / "notes.txt").write_text("hello")
    refuse(tmp_path / "notes.txt", "unknown_file", "notes.txt")
    refuse("oracle://host/db", "unknown_dialect", "oracle")
    refuse("sqlite:///nowhere.db", "not_found", "nowhere.db")


def test_time_column_of_the_wrong_type() -> None:
    refuse(
        {"orders": orders()},
        "not_a_time",
        "orders.amount",
        "float64",
        schema={"orders": {"time_col": "amount"}},
    )


def test_irregular_csv(tmp_path: Path) -> None:
    (tmp_path / "orders.csv").write_text("id,amount\n1,2\n3,4,5\n")
    refuse(tmp_path, "bad_csv", "orders.csv")
    (tmp_path / "orders.csv").write_text("")
    refuse(tmp_path, "empty_file", "orders.csv")
    (tmp_path / "orders.csv").write_text("id,id\n1,2\n")
    refuse(tmp_path, "duplicate_column", "'id'")


def test_output_folder_that_exists(tmp_path: Path) -> None:
    (tmp_path / "kept.txt").write_text("mine")
    refuse({"orders": orders()}, "exists", out=tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["kept.txt"]


def test_interrupted_import_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gelgt.sources import order

    def stop(*args: Any, **kwargs: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(order.TableWriter, "write_rows", stop)
    with pytest.raises(KeyboardInterrupt):
        gelgt.open({"orders": orders()}, out=tmp_path / "project")
    assert list(tmp_path.iterdir()) == []
