"""Keys: the user's own values are kept, rows are numbered in time order, composite and shared keys
work."""

import sqlite3
from pathlib import Path

import pandas as pd
import pytest
import relbench

import gelgt
from gelgt import GelgtError
from gelgt.schema.manifest import dump_yaml, load_yaml


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """Text keys, a composite key that is referred to, a shared (one-to-one) key, a key to a unique
    column, a self reference."""
    path = tmp_path / "library.db"
    with sqlite3.connect(path) as connection:
        connection.executescript(
            """
            CREATE TABLE authors (code TEXT PRIMARY KEY, email TEXT UNIQUE,
                                  mentor TEXT REFERENCES authors(code));
            CREATE TABLE profiles (code TEXT PRIMARY KEY REFERENCES authors(code), height REAL);
            CREATE TABLE copies (isbn TEXT, number INTEGER, bought_at DATETIME,
                                 author_email TEXT REFERENCES authors(email),
                                 PRIMARY KEY (isbn, number));
            CREATE TABLE loans (id INTEGER PRIMARY KEY, isbn TEXT, number INTEGER,
                                lent_at DATETIME, days INTEGER,
                                FOREIGN KEY (isbn, number) REFERENCES copies(isbn, number));
            INSERT INTO authors VALUES ('z', 'z@x', NULL), ('a', 'a@x', 'z'), ('m', 'm@x', 'z');
            INSERT INTO profiles VALUES ('m', 1.7), ('z', 1.8);
            INSERT INTO copies VALUES ('b', 1, '2024-01-03', 'a@x'), ('b', 2, '2024-01-01', 'z@x'),
                                      ('a', 1, '2024-01-02', NULL);
            INSERT INTO loans VALUES (5, 'b', 1, '2024-02-02', 7), (6, 'b', 2, '2024-02-01', 9),
                                     (7, 'x', 1, '2024-02-03', 1), (8, NULL, 1, '2024-02-04', 2);
            """
        )
    return path


def column(db: gelgt.Database, table: str, name: str) -> list[object]:
    return db.read(table, [name]).column(0).to_pylist()


def own_keys(db: gelgt.Database, table: str) -> list[tuple[object, ...]]:
    keys = db.keys(table)
    assert keys is not None
    return list(zip(*(keys.column(c).to_pylist() for c in keys.column_names)))


def test_rows_are_ordered_by_time_then_key(library: Path) -> None:
    db = gelgt.open(library)
    assert own_keys(db, "copies") == [("b", 2), ("a", 1), ("b", 1)]
    assert own_keys(db, "authors") == [("a",), ("m",), ("z",)]
    assert column(db, "loans", "days") == [9, 7, 1, 2]


def test_composite_keys(library: Path) -> None:
    db = gelgt.open(library)
    assert db.table("copies").pkey == "isbn+number"
    assert column(db, "loans", "isbn+number") == [0, 2, None, None]
    assert column(db, "loans", "isbn") == ["b", "b", "x", None], "the parts stay as columns"
    [finding] = [f for f in db.import_findings if f.code == "dangling_key"]
    assert (finding.table, finding.count) == ("loans", 1)


def test_shared_self_and_unique_column_keys(library: Path) -> None:
    db = gelgt.open(library)
    assert column(db, "authors", "mentor") == [2, 2, None]
    assert own_keys(db, "profiles") == [("m",), ("z",)]
    assert column(db, "profiles", "code@authors") == [1, 2]
    assert column(db, "copies", "author_email") == [2, None, 0]


def test_relbench_loads_the_import_unchanged(library: Path, tmp_path: Path) -> None:
    db = gelgt.open(library, out=tmp_path / "project")
    dataset = relbench.load_dataset(tmp_path / "project")
    theirs = dataset.get_db(upto_test_timestamp=False)
    for name in db.table_names:
        table = theirs.table_dict[name]
        assert table.pkey_col == db.table(name).pkey
        assert table.time_col == db.table(name).time_col
        assert table.fkey_col_to_pkey_table == {
            fk.column: fk.table for fk in db.table(name).foreign_keys
        }
        assert len(table) == db.num_rows(name)
    assert len(dataset.get_db().table_dict["loans"]) < 4, "the cut at the test time works"


def test_reopening_reads_the_manifest(library: Path, tmp_path: Path) -> None:
    first = gelgt.open(library, out=tmp_path / "project")
    again = gelgt.open(tmp_path / "project")
    assert again.schema == first.schema
    assert again.folder == tmp_path / "project"
    assert again.source == str(tmp_path / "project"), (
        "what was opened, not what it was once imported from"
    )


def test_edited_manifest_is_followed(library: Path, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    gelgt.open(library, out=folder)
    manifest = folder / "manifest.yaml"
    content = load_yaml(manifest)
    del content["tables"]["authors"]["fkeys"]["mentor"]
    content["tables"]["loans"]["time_col"] = None
    content["gelgt"]["tables"]["loans"]["kinds"]["days"] = "categorical"
    dump_yaml(content, manifest)
    db = gelgt.open(folder)
    assert db.table("authors").foreign_keys == ()
    assert column(db, "authors", "mentor") == ["z", "z", None], "the user's own values are back"
    assert db.table("loans").time_col is None
    assert own_keys(db, "loans") == [(5,), (6,), (7,), (8,)], "ordered by key, as there is no time"
    assert column(db, "loans", "isbn+number") == [2, 0, None, None]
    assert db.table("loans").kinds["days"].kind == "categorical"
    assert own_keys(db, "copies") == [("b", 2), ("a", 1), ("b", 1)]


def test_a_folder_that_breaks_relbenchs_contract_is_imported(tmp_path: Path) -> None:
    folder = tmp_path / "byod"
    (folder / "db").mkdir(parents=True)
    pd.DataFrame({"id": [30, 10], "at": pd.to_datetime(["2024-01-02", "2024-01-01"])}).to_parquet(
        folder / "db" / "events.parquet"
    )
    (folder / "manifest.yaml").write_text(
        "name: byod\nval_timestamp: '2024-01-01'\ntest_timestamp: '2024-01-02'\ntables:\n  "
        "events: {pkey: id, time_col: at, fkeys: {}}\n"
    )
    db = gelgt.open(folder)
    assert db.folder != folder
    assert own_keys(db, "events") == [(10,), (30,)]
    assert db.schema.val_timestamp == "2024-01-01"


def test_times_as_text_in_a_hosted_folder_become_times(tmp_path: Path) -> None:
    folder = tmp_path / "byod"
    (folder / "db").mkdir(parents=True)
    pd.DataFrame({"id": [0, 1], "at": ["2024-01-02", "2024-01-01"]}).to_parquet(
        folder / "db" / "events.parquet"
    )
    head = "name: byod\nval_timestamp: '2024-01-01'\ntest_timestamp: '2024-01-02'\n"
    (folder / "manifest.yaml").write_text(
        head + "tables:\n  events: {pkey: id, time_col: at, fkeys: {}}\n"
    )
    db = gelgt.open(folder)
    assert db.table("events").columns["at"] == "timestamp"
    assert own_keys(db, "events") == [(1,), (0,)]


def test_hosted_folders_are_used_in_place(relbench_data: object) -> None:
    path = relbench_data("rel-f1")  # type: ignore[operator]
    db = gelgt.open(path)
    assert db.folder == path
    assert db.keys("drivers") is None


def test_floats_and_text_that_hold_whole_numbers_meet_their_keys() -> None:
    parents = pd.DataFrame({"id": [1, 2, 3]})
    children = pd.DataFrame(
        {"id": [1, 2, 3], "parent_id": [2.0, None, 3.0], "other": ["1", "x", "3"]}
    )
    schema = {"children": {"fkeys": {"parent_id": "parents", "other": "parents"}}}
    db = gelgt.open({"parents": parents, "children": children}, schema=schema)
    assert column(db, "children", "parent_id") == [1, None, 2]
    assert column(db, "children", "other") == [0, None, 2]


def test_later_rows_do_not_renumber_earlier_ones() -> None:
    frame = pd.DataFrame(
        {"id": [9, 5, 7], "created_at": pd.to_datetime(["2024-01-03", "2024-01-01", "2024-01-02"])}
    )
    later = pd.DataFrame({"id": [1, 2], "created_at": pd.to_datetime(["2024-06-01", "2024-06-02"])})
    before = own_keys(gelgt.open({"events": frame}), "events")
    after = own_keys(gelgt.open({"events": pd.concat([later, frame])}), "events")
    assert after[: len(before)] == before


def test_columns_named_like_our_own_keep_their_values(tmp_path: Path) -> None:
    """Shared and doubled keys get columns of their own, which must not take the place of the
    user's."""
    with sqlite3.connect(tmp_path / "names.db") as connection:
        connection.execute(
            'CREATE TABLE authors (code TEXT PRIMARY KEY, "row" INTEGER, k0 TEXT, c0 TEXT)'
        )
        connection.execute(
            'CREATE TABLE books (code TEXT PRIMARY KEY REFERENCES authors, "code@authors" TEXT, '
            "p0 TEXT, d0 TEXT)"
        )
        connection.execute('CREATE TABLE notes ("a+b" TEXT REFERENCES authors, a TEXT, b TEXT)')
        connection.executemany(
            "INSERT INTO authors VALUES (?, ?, ?, ?)",
            [(f"a{i}", i, f"k{i}", f"c{i}") for i in range(3)],
        )
        connection.executemany(
            "INSERT INTO books VALUES (?, ?, ?, ?)",
            [(f"a{i}", f"mine{i}", f"p{i}", f"d{i}") for i in range(3)],
        )
        connection.executemany("INSERT INTO notes VALUES (?, 'x', 'y')", [("a2",), ("a0",)])
    connection.close()
    db = gelgt.open(tmp_path / "names.db", schema={"notes": {"fkeys": {"a+b": "authors"}}})
    assert db.read("authors", ["row", "k0", "c0"]).to_pylist()[1] == {
        "row": 1,
        "k0": "k1",
        "c0": "c1",
    }
    books = db.read("books").to_pydict()
    assert books["code@authors"] == ["mine0", "mine1", "mine2"]
    assert [fk.column for fk in db.table("books").foreign_keys] == ["code@authors@"]
    assert books["code@authors@"] == [0, 1, 2]
    assert (books["p0"], books["d0"]) == (["p0", "p1", "p2"], ["d0", "d1", "d2"])
    assert [(fk.columns, fk.table) for fk in db.table("notes").foreign_keys] == [
        (("a+b",), "authors")
    ]
    assert db.graph().num_edges == 5


def test_a_composite_key_whose_column_would_hide_another_is_refused(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "names.db") as connection:
        connection.execute(
            'CREATE TABLE t (a INTEGER, b INTEGER, "a+b" INTEGER, PRIMARY KEY (a, b))'
        )
    connection.close()
    with pytest.raises(GelgtError, match="'a\\+b'") as caught:
        gelgt.open(tmp_path / "names.db")
    assert caught.value.code == "name_collision"
