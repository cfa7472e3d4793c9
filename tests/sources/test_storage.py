"""Object storage as a source: the same rows as from a local folder, and nothing read in vain."""

import gzip
import os
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gelgt
from gelgt.errors import SourceError
from gelgt.inference.source import stated
from gelgt.sources import object_parquet, objects
from gelgt.sources.growth import read_growth
from gelgt.sources.unchanged import content_hash
from gelgt.storage import Store

HOURS = pd.date_range("2024-01-01", periods=2000, freq="h").astype("datetime64[us]")
SCHEMA = {
    "customers": {"pkey": "id", "time_col": "joined_at", "fkeys": {}},
    "orders": {"pkey": "id", "time_col": "placed_at", "fkeys": {"customer_id": "customers"}},
    "notes": {"pkey": "id", "time_col": None, "fkeys": {"customer_id": "customers"}},
}


def orders(first: int, rows: int = 300) -> pd.DataFrame:
    numbers = range(first, first + rows)
    return pd.DataFrame(
        {
            "id": numbers,
            "customer_id": [i % 20 for i in numbers],
            "placed_at": HOURS[first : first + rows],
            "tags": [["a", "b"][: i % 3] for i in numbers],
            "picture": [os.urandom(5000) for _ in numbers],
        }
    )


def write(folder: Path) -> Path:
    """A file, a compressed file, parts and partitions of several row groups."""
    folder.mkdir(parents=True)
    customers = pd.DataFrame({"id": range(20), "joined_at": HOURS[:20], "name": "Zoë"})
    customers.to_csv(folder / "customers.csv", index=False)
    notes = "id,customer_id,text\n" + "".join(f"{i},{i % 20},word {i}\n" for i in range(50))
    (folder / "notes.csv.gz").write_bytes(gzip.compress(notes.encode()))
    for month in (1, 2, 10):
        part = folder / "orders" / "year=2024" / f"month={month}" / "part-0.parquet"
        part.parent.mkdir(parents=True)
        orders(month * 100 - 100 if month < 10 else 600, 100).to_parquet(part, row_group_size=40)
    (folder / "orders" / "_SUCCESS").write_text("")
    (folder / "orders" / "_temporary").mkdir()
    (folder / "orders" / "_temporary" / "half.parquet").write_text("half")
    return folder


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GELGT_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "shop")


def same(found: Any, expected: Any) -> None:
    """Rows, graph and features, byte for byte."""
    assert content_hash(found.folder) == content_hash(expected.folder)
    assert found.schema.tables == expected.schema.tables
    assert found.graph().content_hash() == expected.graph().content_hash()
    features = [
        {p.name: p.read_bytes() for p in sorted(db.features().folder.rglob("*")) if p.is_file()}
        for db in (found, expected)
    ]
    assert features[0] == features[1]
    assert features[0]


def test_the_same_database_as_from_a_local_folder(folder: Path, s3: Any) -> None:
    local, found = gelgt.open(folder), gelgt.open(s3.put_folder(folder, "data/shop") + "/")
    same(found, local)
    assert found.source == s3.address("data/shop")
    assert found.table("orders").columns["month"] == "int64"
    assert set(found.read("orders").column("month").to_pylist()) == {1, 2, 10}


def test_row_groups_that_arrive_ahead(
    folder: Path, s3: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small windows, pieces and tails: every byte is put together from several requests."""
    monkeypatch.setattr(object_parquet, "TAIL", 64)
    monkeypatch.setattr(object_parquet, "PIECE", 300)
    monkeypatch.setattr(object_parquet, "GAP", 0)
    monkeypatch.setattr(object_parquet, "WINDOW", 1000)
    same(gelgt.open(s3.put_folder(folder, "shop")), gelgt.open(folder))


def test_columns_that_no_import_keeps_are_not_asked_for(folder: Path, s3: Any) -> None:
    """Pictures are nearly all of the bytes."""
    rows = orders(0, 500)
    table = pa.Table.from_pandas(rows.drop(columns="tags"))
    pq.write_table(table, folder / "orders" / "big.parquet", compression="none")
    size = (folder / "orders" / "big.parquet").stat().st_size
    address = s3.put_folder(folder, "shop")
    sent: list[int] = []
    original = object_parquet.ObjectReader.range

    def spied(self: Any, start: int, length: int) -> bytes:
        sent.append(length)
        return original(self, start, length)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(object_parquet.ObjectReader, "range", spied)
        found = gelgt.open(address)
    assert "picture" not in found.table("orders").columns
    assert [f.code for f in found.import_findings if f.column == "picture"] == ["binary_column"]
    assert sum(sent) < size  # with every other file of the folder


def test_tables_that_are_not_asked_for_are_not_read(folder: Path, s3: Any) -> None:
    address = s3.put_folder(folder, "shop")
    found = gelgt.open(address, tables=["customers"])
    assert found.table_names == ["customers"]
    assert found.unread_tables == ("notes", "orders")
    assert not [path for verb, path in s3.requests if verb == "GET" and "part-0" in path]
    with pytest.raises(SourceError, match="has no table 'order'") as caught:
        gelgt.open(address, tables=["order"])
    assert (caught.value.code, caught.value.hint) == ("unknown_table", "Did you mean 'orders'?")


def test_unchanged_objects_are_listed_and_not_read(
    folder: Path, s3: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = s3.put_folder(folder, "shop")
    first = gelgt.open(address)
    s3.requests.clear()
    assert gelgt.open(address).folder == first.folder
    # the versions of objects that changed lately are compared
    assert len([path for verb, path in s3.requests if verb == "HEAD"]) == 6
    assert all("list-type" in path for verb, path in s3.requests if verb == "GET")
    monkeypatch.setattr(objects, "DOUBT", -1e9)
    assert gelgt.open(address).folder == first.folder  # compared once more
    s3.requests.clear()
    assert gelgt.open(address).folder == first.folder
    assert [verb for verb, _ in s3.requests] == ["HEAD", "GET", "GET"]  # a manifest? and the list


def test_an_object_replaced_within_its_second(
    folder: Path, s3: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Same size, same second: the listing shows nothing, its version does."""
    s3.put_folder(folder, "shop")
    listed = {item.path: item.changed for item in Store(s3.address("shop")).objects()}
    original = Store.objects

    def frozen(self: Store) -> list[Any]:
        return [
            objects.Object(o.path, o.size, listed.get(o.path, o.changed)) for o in original(self)
        ]

    monkeypatch.setattr(Store, "objects", frozen)
    assert gelgt.open(s3.address("shop")).read("customers").column("name")[0].as_py() == "Zoë"
    text = (folder / "customers.csv").read_bytes().replace("Zoë".encode(), "Zoé".encode())
    s3.put("shop/customers.csv", text)
    assert gelgt.open(s3.address("shop")).read("customers").column("name")[0].as_py() == "Zoé"


@pytest.mark.parametrize(
    ("name", "is_recent"),
    [("month=10/part-1", True), ("month=1/a", True), ("month=3/part-0", False)],
)
def test_new_parts_are_added(
    name: str, is_recent: bool, folder: Path, s3: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever their names come among the older ones."""
    if not is_recent:
        monkeypatch.setattr(objects, "DOUBT", -1e9)
    address = s3.put_folder(folder, "shop")
    base = gelgt.open(address, schema=SCHEMA)
    options: dict[str, Any] = {"schema": stated(base.schema), "tables": base.table_names}
    part = folder / "orders" / "year=2024" / f"{name}.parquet"
    part.parent.mkdir(exist_ok=True)
    orders(1000, 30).to_parquet(part)
    s3.put(f"shop/{part.relative_to(folder).as_posix()}", part.read_bytes())
    s3.requests.clear()
    grown = gelgt.open(address, **options)
    growth = read_growth(grown.folder)
    assert growth is not None
    assert {name: len(rows) for name, rows in growth.new_rows.items()} == {"orders": 30}
    # the footers of all, the rows of the new one
    assert len([p for verb, p in s3.requests if verb == "GET" and ".parquet" in p]) == 4 + 1
    whole = gelgt.open(folder, **options)
    for table in whole.table_names:
        assert grown.read(table).equals(whole.read(table))
    assert grown.graph().content_hash() == whole.graph().content_hash()


def test_a_part_that_was_replaced_is_read_again(folder: Path, s3: Any) -> None:
    address = s3.put_folder(folder, "shop")
    base = gelgt.open(address, schema=SCHEMA)
    options: dict[str, Any] = {"schema": stated(base.schema), "tables": base.table_names}
    part = folder / "orders" / "year=2024" / "month=2" / "part-0.parquet"
    orders(700, 100).assign(id=range(5000, 5100)).to_parquet(part)
    s3.put(f"shop/{part.relative_to(folder).as_posix()}", part.read_bytes())
    found = gelgt.open(address, **options)
    assert read_growth(found.folder) is None
    assert found.read("orders").equals(gelgt.open(folder, **options).read("orders"))


def test_a_local_folder_grows_by_partitions_too(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gelgt.sources.state.DOUBT", -1e9)
    base = gelgt.open(folder, schema=SCHEMA)
    options: dict[str, Any] = {"schema": stated(base.schema), "tables": base.table_names}
    part = folder / "orders" / "year=2024" / "month=11" / "0.parquet"  # before month=2 by name
    part.parent.mkdir()
    orders(1000, 30).to_parquet(part)
    grown = gelgt.open(folder, **options)
    growth = read_growth(grown.folder)
    assert growth is not None
    assert len(growth.new_rows["orders"]) == 30
    assert grown.read("orders").equals(gelgt.open(folder, fresh=True, **options).read("orders"))


def test_values_of_partitions(tmp_path: Path) -> None:
    parts = {
        "day=2024-01-05/size=007/kind=a%2Fb": 1,
        "day=2024-02-05/size=12/kind=__HIVE_DEFAULT_PARTITION__": 2,
        "day=2024-03-05/size=-3/id=9": 3,  # a file that has the column counts more
    }
    for name, key in parts.items():
        path = tmp_path / "events" / name / "0.parquet"
        path.parent.mkdir(parents=True)
        pq.write_table(pa.table({"id": [key]}), path)
    rows = gelgt.open(tmp_path, schema={"events": {"pkey": "id"}}).read("events").to_pylist()
    assert [row["size"] for row in rows] == [7, 12, -3]
    assert [row["kind"] for row in rows] == ["a/b", None, None]
    assert [str(row["day"].date()) for row in rows] == ["2024-01-05", "2024-02-05", "2024-03-05"]


@pytest.mark.parametrize("own", ["event_time", "happened"])
def test_the_date_of_a_folder_is_no_time_of_rows_that_have_one(own: str, tmp_path: Path) -> None:
    """It counts from midnight, so that rows would be seen before they exist."""
    for day, hours in HOURS[:480].to_series().groupby(HOURS[:480].strftime("%Y-%m-%d")):
        path = tmp_path / "events" / f"date={day}" / "0.parquet"
        path.parent.mkdir(parents=True)
        ids = [int(hour.timestamp()) for hour in hours]
        pd.DataFrame({"id": ids, own: hours.values}).to_parquet(path)
    db = gelgt.open(tmp_path)
    assert db.table("events").time_col == own
    assert db.table("events").columns["date"] == "timestamp"


def test_a_relbench_folder(folder: Path, s3: Any, tmp_path: Path) -> None:
    local = gelgt.open(folder, out=tmp_path / "relbench")
    address = s3.put_folder(tmp_path / "relbench", "benchmarks/shop")
    found = gelgt.open(address)
    same(found, local)
    assert found.source == address
    s3.requests.clear()
    assert gelgt.open(address).folder == found.folder
    assert all("list-type" in path for verb, path in s3.requests if verb == "GET")
    damaged = found.folder / "db" / "orders.parquet"
    damaged.write_bytes(damaged.read_bytes()[:-10])
    same(gelgt.open(address), local)
    s3.put("benchmarks/shop/db/orders.parquet", b"no Parquet")
    with pytest.raises(SourceError) as caught:
        gelgt.open(address)
    assert caught.value.code == "unreadable_file"


def test_what_is_written_here_alone(folder: Path, s3: Any) -> None:
    from gelgt.explain.explanation import check_path
    from gelgt.runs.claim import check_out

    place = s3.address("copy")
    for write_to in (
        lambda: gelgt.open(folder, out=place),
        lambda: gelgt.open(folder, out=Path(place)),
        lambda: check_out(Path(place)),
        lambda: check_path(f"{place}/why.html"),
    ):
        with pytest.raises(gelgt.GelgtError) as caught:
            write_to()
        assert caught.value.code == "not_local"
    assert s3.keys() == []
