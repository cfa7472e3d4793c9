"""Sources that changed since training: what is missing is an error that names it, what is new
changes nothing."""

import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import gelgt
from gelgt import GelgtError
from gelgt.demo import Shop
from gelgt.demo.taste import Taste
from gelgt.inference import Predictor, open_for
from gelgt.inference.source import stated
from gelgt.schema.manifest import dump_yaml, load_yaml
from gelgt.sources import grow, reading
from gelgt.sources.stage import stage_table
from gelgt.testing import to_csv, to_duckdb, to_frames, to_parquet
from gelgt.training import Run

from .conftest import Twins, change, tiny_run

NO_TASTE = Taste(np.zeros(0, np.int64), np.zeros(0))


@pytest.fixture
def drifted(twins: Twins, tmp_path: Path) -> Callable[..., str]:
    """The cut shop with changes, as an address."""

    def make(*statements: str) -> str:
        shutil.copy(twins.folder / "cut.db", tmp_path / "drifted.db")
        change(tmp_path / "drifted.db", statements, least=0)
        return f"sqlite:///{tmp_path / 'drifted.db'}"

    return make


def failure(run: Run, source: Any) -> GelgtError:
    with pytest.raises(GelgtError) as caught:
        open_for(run, source)
    return caught.value


MISSING = {
    "table": (
        "ALTER TABLE visits RENAME TO visit",
        "missing_table",
        ["'visits'", "Did you mean 'visit'?"],
    ),
    "column": (
        "ALTER TABLE orders RENAME COLUMN channel TO channels",
        "missing_column",
        ["'orders'", "'channel'", "Did you mean 'channels'?"],
    ),
    "dropped": (
        "ALTER TABLE orders DROP COLUMN coupon",
        "missing_column",
        ["'orders'", "'coupon'"],
    ),
    "time": (
        "ALTER TABLE orders RENAME COLUMN placed_at TO placed",
        "missing_column",
        ["'placed_at'", "Did you mean 'placed'?"],
    ),
    "key": (
        "ALTER TABLE visits RENAME COLUMN product_sku TO product",
        "missing_column",
        ["'visits'", "'product_sku'"],
    ),
    "words": (
        "UPDATE orders SET shipping_fee = 'dear'",
        "changed_type",
        ["'orders.shipping_fee'", "float64", "string", "'dear'"],
    ),
    "times": (
        "UPDATE products SET price = 'cheap', quality = 'good'",
        "changed_type",
        ["'products.price'", "string"],
    ),
}


# A database that is opened by itself finds another time or key where one was renamed: see
# `test_other_keys`.
@pytest.mark.parametrize(
    ("name", "is_opened"),
    [(n, o) for n in MISSING for o in (False, True) if not (o and n in ("time", "key"))],
)
def test_what_is_missing_or_has_changed(
    binary_run: Run, drifted: Callable[..., str], name: str, is_opened: bool
) -> None:
    statement, code, words = MISSING[name]
    source: Any = drifted(statement)
    error = failure(binary_run, gelgt.open(source) if is_opened else source)
    assert error.code == code
    for word in words:
        assert word in str(error)
    assert "train again" in error.hint


def test_what_is_new_changes_nothing(
    binary_run: Run, twins: Twins, drifted: Callable[..., str]
) -> None:
    source = drifted(
        "CREATE TABLE aaa_reviews (id INTEGER PRIMARY KEY, customer_id INTEGER REFERENCES "
        "customers (id), written_at DATETIME, n INTEGER)",
        "INSERT INTO aaa_reviews SELECT id, customer_id, placed_at, 5 FROM orders",
        "ALTER TABLE orders ADD COLUMN aaa_mood TEXT DEFAULT 'fine'",
        "ALTER TABLE customers ADD COLUMN friend_id INTEGER REFERENCES customers (id)",
    )
    expected = Predictor(binary_run, twins.cut).predict(at=twins.at)
    for given in (source, gelgt.open(source)):
        predictor = Predictor(binary_run, given)
        assert predictor.db.table_names == twins.cut.table_names
        assert predictor.graph.relations == twins.cut.graph().relations
        made = predictor.predict(at=twins.at)
        assert made.table.equals(expected.table)
        assert "Tables that the model does not know are left out: aaa_reviews." in made.notices
        assert (
            "Columns of 'orders' that the model does not know are left out: aaa_mood."
            in made.notices
        )
        assert expected.notices == ()


def test_new_tables_are_not_read(binary_run: Run, drifted: Callable[..., str]) -> None:
    source = drifted(
        "CREATE TABLE broken (id INTEGER PRIMARY KEY, x TEXT)",
        # no text at all: an import would fail
        "INSERT INTO broken VALUES (1, CAST(x'ff' AS TEXT))",
    )
    with pytest.raises(GelgtError):
        gelgt.open(source)
    assert "broken" in open_for(binary_run, source).notices[0]


def test_types_that_read_alike(binary_run: Run, twins: Twins, drifted: Callable[..., str]) -> None:
    """A column of whole numbers with one fraction, and one of numbers with many words."""
    source = drifted(
        "UPDATE customers SET birth_year = birth_year + 0.5 WHERE id = (SELECT max(id) FROM "
        "customers)",
        "UPDATE page_pings SET latency_ms = 'about ' || id WHERE id % 2 = 0",
    )
    opened = open_for(binary_run, source)
    assert opened.db.table("page_pings").columns["latency_ms"] == "string"
    assert opened.notices == (
        "'page_pings.latency_ms' holds text now; what is no number counts as missing.",
    )
    assert len(Predictor(binary_run, opened).predict(at=twins.at)) == twins.cut.num_rows(
        "customers"
    )


def test_columns_of_nulls_have_no_type(binary_run: Run, twins: Twins, tmp_path: Path) -> None:
    cut = Shop(twins.folder / "cut.db", "", "", (), (), NO_TASTE)
    folder = to_csv(cut, tmp_path / "files")
    frame = pd.read_csv(folder / "page_pings.csv").assign(latency_ms=None)
    frame.to_csv(folder / "page_pings.csv", index=False)
    opened = open_for(binary_run, folder)
    assert opened.db.table("page_pings").columns["latency_ms"] == "string"
    assert opened.notices == ()
    assert len(Predictor(binary_run, opened).predict(at=twins.at)) == twins.cut.num_rows(
        "customers"
    )


def test_an_import_by_another_schema_changes_no_run(
    binary_run: Run, twins: Twins, tmp_path: Path
) -> None:
    """As after `gelgt inspect SOURCE --schema other.yaml`."""
    cut = Shop(twins.folder / "cut.db", "", "", (), (), NO_TASTE)
    folder = to_csv(cut, tmp_path / "files")
    other = stated(twins.cut.schema)
    other["tables"]["page_pings"]["kinds"] = {"latency_ms": "text"}
    gelgt.open(folder, schema=other, tables=twins.cut.table_names)
    opened = open_for(binary_run, folder)
    assert opened.db.table("page_pings").columns["latency_ms"] == "float64"
    assert opened.notices == ()


def test_other_keys(binary_run: Run, twins: Twins, tmp_path: Path) -> None:
    """A database that was opened with other keys or times is refused; its address would be opened
    with the run's."""
    cases = {
        "The time column of 'orders' was placed_at": {"orders": {"time_col": None}},
        "The primary key of 'visits' was id": {"visits": {"pkey": None}},
        "foreign key 'customer_id' of 'visits' was customers": {
            "visits": {"fkeys": {"product_sku": "products"}}
        },
    }
    for words, schema in cases.items():
        error = failure(binary_run, gelgt.open(twins.url("cut"), schema=schema))
        assert error.code == "changed_key"
        assert words in error.message


def test_an_edited_folder(binary_run: Run, twins: Twins, tmp_path: Path) -> None:
    """Kinds are the run's, whatever a manifest says; keys that were edited are refused."""
    shutil.copytree(twins.folder / "cut", tmp_path / "folder")
    content = load_yaml(tmp_path / "folder" / "manifest.yaml")
    content["gelgt"]["tables"]["orders"]["kinds"]["channel"] = "text"
    dump_yaml(content, tmp_path / "folder" / "manifest.yaml")
    expected = Predictor(binary_run, twins.cut).predict(at=twins.at).table
    assert Predictor(binary_run, tmp_path / "folder").predict(at=twins.at).table.equals(expected)
    content["tables"]["visits"]["fkeys"].pop("customer_id")
    dump_yaml(content, tmp_path / "folder" / "manifest.yaml")
    assert failure(binary_run, tmp_path / "folder").code == "changed_key"


def test_the_database_itself_is_used_where_nothing_differs(binary_run: Run, twins: Twins) -> None:
    assert open_for(binary_run, twins.whole).db is twins.whole


@pytest.mark.parametrize(
    "write", [to_csv, to_parquet, to_duckdb, None], ids=["csv", "parquet", "duckdb", "frames"]
)
def test_the_same_rows_from_another_kind_of_source(
    binary_run: Run, twins: Twins, tmp_path: Path, write: Any
) -> None:
    """Files and frames declare no keys; they are taken from the run."""
    cut = Shop(twins.folder / "cut.db", "", "", (), (), NO_TASTE)
    source = (
        to_frames(cut)
        if write is None
        else write(cut, tmp_path / "shop.duckdb" if write is to_duckdb else tmp_path / "files")
    )
    expected = Predictor(binary_run, twins.cut).predict(at=twins.at).table
    found = Predictor(binary_run, source).predict(at=twins.at)
    assert found.table.equals(expected)
    assert found.notices == ()


def test_views(binary_run: Run, twins: Twins, drifted: Callable[..., str]) -> None:
    """A table that has become a view is still offered, by its name."""
    source = drifted(
        "ALTER TABLE visits RENAME TO visits_2024",
        "CREATE VIEW visits AS SELECT * FROM visits_2024",
    )
    made = Predictor(binary_run, source).predict(at=twins.at)
    assert made.table.equals(Predictor(binary_run, twins.cut).predict(at=twins.at).table)


def test_no_source(binary_run: Run, tmp_path: Path) -> None:
    assert failure(binary_run, tmp_path / "nowhere.db").code == "not_found"
    assert failure(binary_run, 3).code == "unknown_source"
    (tmp_path / "text.db").write_text("hello")
    assert failure(binary_run, tmp_path / "text.db").code == "unknown_file"


def test_the_source_of_a_run_is_found_from_any_folder(
    twins: Twins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two folders have a shop.db each; predictions read the one that was trained on, wherever they
    are asked for."""
    here, there = tmp_path / "here", tmp_path / "there"
    for folder, name in ((here, "cut"), (there, "whole")):
        folder.mkdir()
        shutil.copy(twins.folder / f"{name}.db", folder / "shop.db")
    monkeypatch.chdir(here)
    db = gelgt.open("shop.db")
    run = tiny_run(db, twins.task("binary", db), here / "run")
    assert run.record.to_json()["data"]["source"] == str(here / "shop.db")
    after = twins.at + pd.Timedelta(days=60)  # the whole shop has rows after the cut
    expected = Predictor(run, here / "shop.db").predict(at=after)
    assert not expected.table.equals(Predictor(run, there / "shop.db").predict(at=after).table)
    monkeypatch.chdir(there)
    found = Predictor(run, None).predict(at=after)
    assert found.table.equals(expected.table)
    assert found.notices == ()

    # An older run kept what was typed: it says which file that is from here.
    kept = run.record.data.model_copy(update={"source": "shop.db"})
    old = replace(run, record=run.record.model_copy(update={"data": kept}))
    assert str(there / "shop.db") in open_for(old, None).notices[0]
    (here / "shop.db").rename(here / "moved.db")
    with pytest.raises(GelgtError) as caught:
        open_for(run, None)
    assert caught.value.code == "not_found"
    assert str(here / "shop.db") in caught.value.message
    assert "--source" in caught.value.hint


def test_statements_hold_what_a_user_chose(binary_run: Run, twins: Twins) -> None:
    schema = twins.whole.schema
    kinds = dict(schema.tables["orders"].kinds)
    kinds["coupon"] = replace(
        kinds["coupon"], kind="multicategorical", origin="manifest", separator=";"
    )
    tables = {**schema.tables, "orders": replace(schema.tables["orders"], kinds=kinds)}
    made = stated(replace(schema, tables=tables))
    assert made["val_timestamp"] == schema.val_timestamp
    orders = made["tables"]["orders"]
    assert orders.pop("dated_by")["pointers"] == []
    assert orders == {
        "pkey": ["id"],
        "time_col": "placed_at",
        "fkeys": {"customer_id": "customers"},
        "event_dates": {},
        "kinds": {"coupon": {"kind": "multicategorical", "separator": ";"}},
    }
    assert made["tables"]["categories"]["time_col"] is None


def test_keys_that_cannot_be_stated_are_the_databases_own(tmp_path: Path) -> None:
    """Composite keys, a shared key, a key to another unique column: an import with the statement
    gives the same database."""
    connection = sqlite3.connect(tmp_path / "library.db")
    with connection:
        connection.executescript(
            """
            CREATE TABLE authors (
                code TEXT PRIMARY KEY, email TEXT UNIQUE, mentor TEXT REFERENCES authors(code)
            );
            CREATE TABLE profiles (code TEXT PRIMARY KEY REFERENCES authors(code), height REAL);
            CREATE TABLE copies (isbn TEXT, number INTEGER, bought_at DATETIME,
                                 author_email TEXT REFERENCES authors(email),
                                 PRIMARY KEY (isbn, number));
            CREATE TABLE loans (id INTEGER PRIMARY KEY, isbn TEXT, number INTEGER, lent_at DATETIME,
                                days INTEGER,
                                FOREIGN KEY (isbn, number) REFERENCES copies(isbn, number));
            INSERT INTO authors VALUES ('z', 'z@x', NULL), ('a', 'a@x', 'z'), ('m', 'm@x', 'z');
            INSERT INTO profiles VALUES ('m', 1.7), ('z', 1.8);
            INSERT INTO copies VALUES ('b', 1, '2024-01-03', 'a@x'), ('b', 2, '2024-01-01', 'z@x'),
                                      ('a', 1, '2024-01-02', NULL);
            INSERT INTO loans VALUES (5, 'b', 1, '2024-02-02', 7), (6, 'b', 2, '2024-02-01', 9),
                                     (8, NULL, 1, '2024-02-04', 2);
            """
        )
    connection.close()
    db = gelgt.open(tmp_path / "library.db")
    again = gelgt.open(
        tmp_path / "library.db", schema=stated(db.schema), tables=db.table_names, fresh=True
    )
    assert again.folder != db.folder
    assert again.graph().content_hash() == db.graph().content_hash()
    for name in db.table_names:
        assert pa.Table.equals(again.read(name), db.read(name)), name


def test_ignored_columns_may_go(twins: Twins, tmp_path: Path) -> None:
    from .conftest import tiny_run

    db = gelgt.open(twins.url("cut"), schema={"orders": {"kinds": {"coupon": "ignored"}}})
    run = tiny_run(
        db,
        db.task(
            "PREDICT COUNT(orders.*, 0, 10, days) > 0 FOR EACH customers.id",
            val=twins.val,
            test=twins.test,
        ),
        tmp_path / "run",
    )
    shutil.copy(twins.folder / "cut.db", tmp_path / "less.db")
    change(tmp_path / "less.db", ["ALTER TABLE orders DROP COLUMN coupon"], least=0)
    made = Predictor(run, tmp_path / "less.db").predict(at=pd.Timestamp(twins.at))
    assert made.notices == ("The column 'orders.coupon' is gone; the model did not use it.",)
    assert made.table.equals(Predictor(run, db).predict(at=twins.at).table)


@pytest.fixture
def read_tables(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tables that are read, as they are read."""
    names: list[str] = []

    def stage(table: Any, *rest: Any) -> Any:
        names.append(table.name)
        return stage_table(table, *rest)

    for module in (reading, grow):
        monkeypatch.setattr(module, "stage_table", stage)
    return names


def test_the_import_of_the_training_serves_predictions(
    twins: Twins, drifted: Callable[..., str], tmp_path: Path, read_tables: list[str]
) -> None:
    url = drifted()
    db = gelgt.open(url)
    run = tiny_run(db, twins.task("binary", db), tmp_path / "run")
    keys = db.keys("customers")
    assert keys is not None
    asked = keys.column(0).to_pylist()[:5]
    before = Predictor(run, url).predict(asked, at=twins.at).table
    read_tables.clear()
    opened = open_for(run, url)
    assert (opened.db.folder, opened.notices, read_tables) == (db.folder, (), [])
    # a new table is not read, but another row of an old one is
    change(tmp_path / "drifted.db", ["CREATE TABLE audits (id INTEGER PRIMARY KEY)"], least=0)
    opened = open_for(run, url)
    assert opened.notices == ("Tables that the model does not know are left out: audits.",)
    assert sorted(read_tables) == sorted(run.schema.tables)
    again = open_for(run, url)
    assert (again.db.folder, again.notices) == (db.folder, opened.notices)
    assert len(read_tables) == len(run.schema.tables)
    assert Predictor(run, again).predict(asked, at=twins.at).table.equals(before)
    change(tmp_path / "drifted.db", ["DELETE FROM orders"], least=1)
    assert open_for(run, url).db.num_rows("orders") == 0


def test_a_fresh_look_at_the_source(
    binary_run: Run, drifted: Callable[..., str], read_tables: list[str]
) -> None:
    url = drifted()
    first = open_for(binary_run, url)
    read_tables.clear()
    assert open_for(binary_run, url).db.folder == first.db.folder
    assert read_tables == []
    assert open_for(binary_run, url, fresh=True).db.folder == first.db.folder
    assert sorted(read_tables) == sorted(binary_run.schema.tables)
