"""Bad input: one GelgtError says what, where and how to repair it, and nothing half-written stays
behind, neither in the output folder nor in the cache."""

import sqlite3
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gelgt
from gelgt.sources.cache import cache_root
from order_frames import customers, orders


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


def test_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "customers.csv").write_bytes("id,name\n1,Zoë\n".encode("latin1"))
    refuse(tmp_path, "not_utf8", "customers.csv", "column 'name'", "iconv")
    path = tmp_path / "latin.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT)")
        connection.execute("INSERT INTO people VALUES (1, CAST(x'5A6FEB' AS TEXT))")
    refuse(path, "not_utf8", "people.name")


def test_parquet_text_that_is_not_utf8(tmp_path: Path) -> None:
    words = pa.array([b"a"] * 2000 + [b"Zo\xeb"]).view(pa.string())
    pq.write_table(pa.table({"id": range(2001), "name": words}), tmp_path / "people.parquet")
    refuse(tmp_path, "not_utf8", "'people.name'", "UTF-8")


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
