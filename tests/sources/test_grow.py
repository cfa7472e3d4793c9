"""New rows of a source are added to its import: what comes out is what a whole import gives."""

import copy
import gc
import os
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from growing import DAY, SCHEMA, Frames, rows, times

import gelgt
from gelgt.inference.source import stated
from gelgt.sources import state
from gelgt.sources.database import Database
from gelgt.sources.grown_tables import MOST_PARTS
from gelgt.sources.growth import read_growth

Write = Callable[[Frames, Frames], Any]  # older rows, then new ones beside them; the source


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are old enough for their times to be trusted, as soon as they are written."""
    monkeypatch.setattr(state, "DOUBT", -1e9)


def same(grown: Database, whole: Database) -> None:
    assert grown.schema.tables.keys() == whole.schema.tables.keys()
    for name in whole.table_names:
        assert grown.read(name).equals(whole.read(name)), name
        keys, expected = grown.keys(name), whole.keys(name)
        assert (keys is None) == (expected is None), name
        assert keys is None or keys.equals(expected), name
    findings = [
        sorted((f.code, f.table, f.column, f.count) for f in db.import_findings)
        for db in (grown, whole)
    ]
    assert findings[0] == findings[1]
    assert grown.graph().content_hash() == whole.graph().content_hash()


def check(write: Write, old: Frames, new: Frames, schema: Any = None) -> Database:
    """Import the older rows, add new ones, import these, and compare with an import of all."""
    source = write(old, {})
    base = gelgt.open(source, schema=schema)
    base.graph()
    options: dict[str, Any] = {"schema": stated(base.schema), "tables": base.table_names}
    if schema is not None:
        gelgt.open(source, **options)
    source = write(old, new)
    grown = gelgt.open(source, **options)
    same(grown, gelgt.open(source, fresh=True, **options))
    return grown


@pytest.fixture
def parquet_parts(tmp_path: Path) -> Write:
    """A folder for each table: new rows come in new files."""

    def write(old: Frames, new: Frames) -> Path:
        for number, frames in enumerate([old, new]):
            for name, frame in frames.items():
                path = tmp_path / "data" / name / f"{number}.parquet"
                path.parent.mkdir(parents=True, exist_ok=True)
                if not path.exists():
                    frame.to_parquet(path)
        return tmp_path / "data"

    return write


@pytest.fixture
def csv_files(tmp_path: Path) -> Write:
    def write(old: Frames, new: Frames) -> Path:
        (tmp_path / "data").mkdir(exist_ok=True)
        for name, frame in old.items():
            whole = pd.concat([frame, new[name]]) if name in new else frame
            whole.to_csv(tmp_path / "data" / f"{name}.csv", index=False)
        return tmp_path / "data"

    return write


@pytest.fixture
def sqlite_rows(tmp_path: Path) -> Write:
    def write(old: Frames, new: Frames) -> str:
        path = tmp_path / "shop.db"
        frames = new if path.exists() else old
        with closing(sqlite3.connect(path)) as connection, connection:
            for name, frame in frames.items():
                frame.to_sql(name, connection, index=False, if_exists="append")
        return f"sqlite:///{path}"

    return write


@pytest.fixture
def duckdb_rows(tmp_path: Path) -> Write:
    def write(old: Frames, new: Frames) -> Path:
        path = tmp_path / "shop.duckdb"
        first, frames = not path.exists(), new if path.exists() else old
        with duckdb.connect(str(path)) as connection:
            for name, frame in frames.items():
                connection.register("frame", frame)
                verb = f'CREATE TABLE "{name}" AS' if first else f'INSERT INTO "{name}"'
                connection.execute(f"{verb} SELECT * FROM frame")
        return path

    return write


@pytest.fixture
def postgres_rows(postgres: Any) -> Iterator[Write]:
    url = postgres.url.replace("postgresql:", "postgresql+psycopg:")
    engine = sa.create_engine(url)
    written: list[bool] = []

    def write(old: Frames, new: Frames) -> str:
        frames = new if written else old
        written.append(True)
        with engine.begin() as connection:
            for name, frame in frames.items():
                frame.to_sql(name, connection, index=False, if_exists="append", schema="growing")
        return str(postgres.url)

    with engine.begin() as connection:
        connection.execute(sa.text("CREATE SCHEMA growing"))
    yield write
    with engine.begin() as connection:
        connection.execute(sa.text("DROP SCHEMA growing CASCADE"))
    engine.dispose()


KINDS = ["parquet_parts", "csv_files", "sqlite_rows", "duckdb_rows"]


@pytest.mark.parametrize("kind", KINDS)
def test_new_rows_are_added(kind: str, request: pytest.FixtureRequest) -> None:
    grown = check(request.getfixturevalue(kind), *rows(1), SCHEMA)
    assert read_growth(grown.folder) is not None


@pytest.mark.parametrize("seed", range(12))
def test_any_new_rows(seed: int, parquet_parts: Write) -> None:
    """Late rows, new shops among the older ones, dangling keys that find their row."""
    check(parquet_parts, *rows(seed, late=seed % 2 == 1), SCHEMA)


def test_rows_that_come_late_move_older_ones(parquet_parts: Write) -> None:
    grown = check(parquet_parts, *rows(3, late=True), SCHEMA)
    growth = read_growth(grown.folder)
    assert growth is not None
    assert (
        growth.new_rows["orders"][0] < pq.read_metadata(growth.base / "db/orders.parquet").num_rows
    )


def test_postgres_reads_the_new_rows_alone(
    postgres_rows: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gelgt.sources.postgres import PostgresSource

    old, new = rows(1)
    source = postgres_rows(old, {})
    base = gelgt.open(source, schema=SCHEMA, namespace="growing")
    options: dict[str, Any] = {
        "schema": stated(base.schema),
        "tables": base.table_names,
        "namespace": "growing",
    }
    gelgt.open(source, **options)
    postgres_rows(old, new)
    conditions, original = [], PostgresSource._rows

    def spied(self: Any, table: str, columns: Any, condition: str = "true") -> Any:
        conditions.append(condition)
        return original(self, table, columns, condition)

    monkeypatch.setattr(PostgresSource, "_rows", spied)
    grown = gelgt.open(source, **options)
    assert read_growth(grown.folder) is not None
    assert "true" not in conditions
    same(grown, gelgt.open(source, fresh=True, **options))
    engine = sa.create_engine(source.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE growing.orders SET amount = 7 WHERE id = 0"))
    engine.dispose()
    changed = gelgt.open(source, **options)
    assert read_growth(changed.folder) is None
    same(changed, gelgt.open(source, fresh=True, **options))


@pytest.mark.parametrize("kind", KINDS)
def test_the_import_of_a_training_grows(kind: str, request: pytest.FixtureRequest) -> None:
    """Keys and times that the training inferred are stated by the prediction."""
    old, new = rows(2)
    del old["tags"], new["tags"]
    grown = check(request.getfixturevalue(kind), old, new)
    assert read_growth(grown.folder) is not None


def _changed(frames: Frames, table: str, column: str, value: Any) -> Frames:
    frame = frames[table].copy()
    frame[column] = frame[column].astype(object)
    frame.loc[0, column] = value
    return {**frames, table: frame}


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [("orders", "amount", 99.0), ("users", "name", "eve"), ("lines", "units", 9)],
)
def test_rows_that_changed_are_read_whole(
    table: str, column: str, value: Any, csv_files: Write
) -> None:
    old, new = rows(4)
    source = csv_files(old, {})
    base = gelgt.open(source, schema=SCHEMA)
    options: dict[str, Any] = {"schema": stated(base.schema), "tables": base.table_names}
    gelgt.open(source, **options)
    csv_files(_changed(old, table, column, value), new)
    whole = gelgt.open(source, **options)
    assert read_growth(whole.folder) is None
    same(whole, gelgt.open(source, fresh=True, **options))


def test_an_update_of_sqlite_leaves_no_traceback(
    sqlite_rows: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The comparison with the older rows ends at the first difference, and closes the file."""
    source = sqlite_rows(rows(4)[0], {})
    base = gelgt.open(source, schema=SCHEMA)
    options: dict[str, Any] = {"schema": stated(base.schema), "tables": base.table_names}
    gelgt.open(source, **options)
    with closing(sqlite3.connect(source.removeprefix("sqlite:///"))) as connection, connection:
        connection.execute("UPDATE users SET name = 'eve' WHERE id = 0")
    told: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    gelgt.open(source, **options)
    gc.collect()
    assert [entry.exc_value for entry in told] == []


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [("lines", "units", "many"), ("lines", "units", 1.5), ("orders", "placed_at", "1e9")],
)
def test_values_of_another_type_are_read_whole(
    table: str, column: str, value: Any, csv_files: Write
) -> None:
    """One value that is no number makes a column of numbers text, the older rows too."""
    old, new = rows(4)
    source = csv_files(old, {})
    base = gelgt.open(source, schema=SCHEMA)
    options: dict[str, Any] = {"schema": stated(base.schema), "tables": base.table_names}
    csv_files(old, _changed(new, table, column, value))
    if column == "placed_at":
        with pytest.raises(gelgt.GelgtError, match="no ISO dates"):
            gelgt.open(source, **options)
        return
    whole = gelgt.open(source, **options)
    assert read_growth(whole.folder) is None
    assert whole.read(table).column(column).type == ("double" if value == 1.5 else "string")


def with_kind(table: str, column: str, kind: str) -> dict[str, Any]:
    schema: dict[str, Any] = copy.deepcopy(SCHEMA)
    schema[table]["kinds"] = {column: kind}
    return schema


@pytest.mark.parametrize("kind", ["text", "ignored", "categorical"])
@pytest.mark.parametrize("column", ["user", "amount"])
def test_an_import_with_other_kinds_is_no_base(kind: str, column: str, csv_files: Write) -> None:
    """As when somebody inspects a source with `--schema`, and then predicts by an older run."""
    old, new = rows(4)
    source = csv_files(old, {})
    base = gelgt.open(source, schema=SCHEMA)
    options: dict[str, Any] = {"schema": stated(base.schema), "tables": base.table_names}
    other = with_kind("orders", column, kind)
    gelgt.open(source, schema=other)
    again = gelgt.open(source, **options)
    assert again.table("orders").columns == base.table("orders").columns
    gelgt.open(source, schema=other)
    csv_files(old, new)
    same(gelgt.open(source, **options), gelgt.open(source, fresh=True, **options))


def test_an_import_with_other_kinds_has_its_own_growth(csv_files: Write) -> None:
    old, new = rows(4)
    grown = check(csv_files, old, new, with_kind("orders", "amount", "text"))
    assert read_growth(grown.folder) is not None
    assert grown.table("orders").columns["amount"] == "string"


def test_a_repeated_key_is_an_error(csv_files: Write) -> None:
    old, new = rows(4)
    source = csv_files(old, {})
    base = gelgt.open(source, schema=SCHEMA)
    options: dict[str, Any] = {"schema": stated(base.schema), "tables": base.table_names}
    csv_files(old, _changed(new, "orders", "id", int(old["orders"]["id"][0])))
    with pytest.raises(gelgt.GelgtError, match="not unique"):
        gelgt.open(source, **options)


def test_a_key_that_finds_its_row_later_is_read_whole(csv_files: Write) -> None:
    old, new = rows(4)
    old = _changed(old, "orders", "shop", "zz")
    new = {**new, "shops": pd.DataFrame({"code": ["zz"], "size": [1.0]})}
    grown = check(csv_files, old, new, SCHEMA)
    assert read_growth(grown.folder) is None


def test_a_source_without_new_rows_keeps_its_import(sqlite_rows: Write) -> None:
    old, _ = rows(4)
    source = sqlite_rows(old, {})
    schema = stated(gelgt.open(source, schema=SCHEMA).schema)
    base = gelgt.open(source, schema=schema, tables=list(SCHEMA))
    path = source.removeprefix("sqlite:///")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE audits (id INTEGER PRIMARY KEY)")
    again = gelgt.open(source, schema=schema, tables=list(SCHEMA))
    assert again.folder == base.folder


def test_numbers_that_are_texts_in_a_key_are_read_whole(parquet_parts: Write) -> None:
    """Lines are ordered by their texts, "10" before "9", and these are not kept."""
    old, new = rows(1)
    for frames in (old, new):
        frames["lines"]["order"] = frames["lines"]["order"].astype("str")
    grown = check(parquet_parts, old, new, SCHEMA)
    assert read_growth(grown.folder) is None


def test_a_growth_without_its_record_is_taken_unless_it_is_damaged(parquet_parts: Write) -> None:
    """As where another process was faster."""
    old, new = rows(1)
    source = parquet_parts(old, {})
    schema = stated(gelgt.open(source, schema=SCHEMA).schema)
    records = Path(os.environ["GELGT_CACHE"]) / "records"
    before = {path: path.read_bytes() for path in records.iterdir()}
    parquet_parts(old, new)

    def grow() -> Database:
        for path, content in before.items():
            path.write_bytes(content)
        for path in set(records.iterdir()) - set(before):
            path.unlink()
        return gelgt.open(source, schema=schema, tables=list(SCHEMA))

    grown = grow()
    written = grown.paths("orders")[-1]
    inode, size = written.stat().st_ino, written.stat().st_size
    assert grow().folder == grown.folder
    assert written.stat().st_ino == inode
    written.write_bytes(b"damaged")
    assert grow().folder == grown.folder
    assert written.stat().st_size == size


def test_many_small_growths_end_in_one_file(parquet_parts: Write, tmp_path: Path) -> None:
    old, _ = rows(5)
    source = parquet_parts(old, {})
    base = gelgt.open(source, schema=SCHEMA)
    options: dict[str, Any] = {"schema": stated(base.schema), "tables": base.table_names}
    gelgt.open(source, **options)
    last = 10 + len(old["orders"])
    for number in range(1, MOST_PARTS + 3):
        row = old["orders"][:1].assign(id=last + number, placed_at=times([61 * DAY + number]))
        row.to_parquet(tmp_path / "data" / "orders" / f"{100 + number}.parquet")
        grown = gelgt.open(source, **options)
        assert read_growth(grown.folder) is not None
        assert len(grown.paths("orders")) <= MOST_PARTS
    same(grown, gelgt.open(source, fresh=True, **options))
