"""`gelgt import`: a folder that gelgt and RelBench read, or nothing."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gelgt
from gelgt.demo import Shop

Run = Callable[..., Any]


def test_a_relbench_folder(run: Run, small_shop: Shop, tmp_path: Path) -> None:
    result = run("import", small_shop.url, tmp_path / "out")
    assert (result.code, result.err) == (0, "")
    assert (
        result.out.splitlines()[0]
        == f"{tmp_path / 'out'}: 8 tables, 14,332 rows from {small_shop.url}"
    )
    assert gelgt.open(tmp_path / "out").num_rows("orders") == 1537
    from relbench import load_dataset

    assert len(load_dataset(str(tmp_path / "out")).get_db().table_dict) == 8


def test_json_with_findings(run: Run, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "a.db") as connection:
        connection.execute("CREATE TABLE users (id INTEGER PRIMARY KEY, created_at INTEGER)")
        connection.execute(
            "CREATE TABLE orders (id INTEGER PRIMARY KEY, user_id INTEGER REFERENCES users (id))"
        )
        connection.execute("INSERT INTO users VALUES (1, 1700000000), (2, 1700000001)")
        connection.execute("INSERT INTO orders VALUES (1, 1), (2, 9)")
    result = run("import", tmp_path / "a.db", tmp_path / "out", "--json")
    assert (result.code, result.err) == (0, "")
    assert result.json["out"] == str(tmp_path / "out")
    assert result.json["rows"] == {"orders": 2, "users": 2}
    assert {(f["code"], f["table"], f["column"], f["count"]) for f in result.json["findings"]} == {
        ("epoch_time", "users", "created_at", None),
        ("dangling_key", "orders", "user_id", 1),
    }
    assert (
        "warning  dangling_key: orders.user_id (1): no such row in 'users': 9; kept as null"
        in run("import", tmp_path / "a.db", tmp_path / "b").out
    )


def test_a_folder_that_is_taken(run: Run, shop_source: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    result = run("import", shop_source, tmp_path, "--json")
    assert (result.code, result.error) == (2, "exists")
    assert [p.name for p in tmp_path.iterdir()] == ["mine.txt"]


def test_a_refused_import_leaves_nothing(run: Run, tmp_path: Path) -> None:
    (tmp_path / "csv").mkdir()
    (tmp_path / "csv" / "users.csv").write_text("id,name\n1,a\n1,b\n")
    (tmp_path / "schema.yaml").write_text("users: {pkey: id}")
    result = run(
        "import", tmp_path / "csv", tmp_path / "out", "--schema", tmp_path / "schema.yaml", "--json"
    )
    assert (result.code, result.error) == (2, "duplicate_key")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["csv", "schema.yaml"]


def test_some_tables(run: Run, small_shop: Shop, tmp_path: Path) -> None:
    result = run(
        "import", small_shop.url, tmp_path / "out", "--tables", "customers,orders", "--json"
    )
    assert list(result.json["rows"]) == ["customers", "orders"]
