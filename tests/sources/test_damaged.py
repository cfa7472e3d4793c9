"""Damaged imports and cache entries: noticed, told as an error of the file, or built again."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml

import gelgt
from gelgt import Database, GelgtError
from gelgt.demo import Shop
from gelgt.sources.cache import build_folder
from gelgt.sources.seal import SEAL, SMALL, is_whole


@pytest.fixture
def imported(small_shop: Shop, tmp_path: Path) -> Database:
    return gelgt.open(small_shop.url, out=tmp_path / "import")


def flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(bytes(content))


DAMAGES: dict[str, Callable[[Path], object]] = {
    "flipped": lambda path: flip(path, path.stat().st_size - 9),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-8]),
    "emptied": lambda path: path.write_bytes(b""),
    "removed": Path.unlink,
    "a folder": lambda path: (path.unlink(), path.mkdir()),
    "a pipe": lambda path: (path.unlink(), os.mkfifo(path)),
    "a link": lambda path: (path.rename(path.parent.parent / "x"), path.symlink_to("../x")),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("graph", "node_time.npy"),
        ("graph", "indices.npy"),
        ("graph", "graph.json"),
        ("graph", SEAL),
        ("features", "features.json"),
        ("features", "stats.json"),
        ("features", "tables/1/numerical.npy"),
    ],
)
def test_a_damaged_cache_entry_is_built_again(
    imported: Database, kind: str, name: str, damage: str
) -> None:
    whole = getattr(imported, kind)()
    expected, folder = whole.content_hash(), whole.folder
    DAMAGES[damage](folder / name)
    again = getattr(gelgt.open(imported.folder), kind)()
    assert (again.folder, again.content_hash()) == (folder, expected)
    assert is_whole(folder)


def test_features_of_a_run_are_not_taken_from_a_damaged_entry(imported: Database) -> None:
    from gelgt.features import open_features

    whole = imported.features()
    expected, statistics = whole.content_hash(), whole.statistics
    flip(whole.folder / "tables" / "1" / "numerical.npy", -1)
    assert open_features(imported, statistics=statistics).content_hash() == expected


def test_large_entries_are_compared_where_their_files_were_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert SMALL > 1 << 20
    folder = tmp_path / "entry"

    def fill(place: Path) -> None:
        np.save(place / "a.npy", np.arange(100))

    build_folder(folder, fill, is_sealed=True)
    monkeypatch.setattr("gelgt.sources.seal.SMALL", 1)
    assert is_whole(folder)
    (folder / "a.npy").touch()
    assert is_whole(folder)
    flip(folder / "a.npy", -1)
    assert not is_whole(folder)


def test_flipped_bits_of_an_import_are_noticed(imported: Database) -> None:
    path = imported.folder / "db" / "visits.parquet"
    pages = pq.read_metadata(path).row_group(0).column(3)
    first = pages.data_page_offset
    for place in range(first + 200, first + pages.total_compressed_size, 997):
        flip(path, place)
        with pytest.raises(GelgtError) as caught:
            gelgt.open(imported.folder).read("visits")
        assert caught.value.code == "unreadable_file"
        flip(path, place)
    assert gelgt.open(imported.folder).read("visits").num_rows > 0


@pytest.mark.parametrize("damage", ["cut", "emptied", "a folder", "a pipe"])
def test_damaged_keys_and_rows_are_told(imported: Database, damage: str) -> None:
    keys = imported.folder / "gelgt" / "keys" / "orders.parquet"
    DAMAGES[damage](keys)
    for read in (Database.keys, Database.key_schema):
        with pytest.raises(GelgtError) as caught:
            read(imported, "orders")
        assert caught.value.code == "unreadable_file"
    with pytest.raises(GelgtError):
        imported.keys_of("orders", np.arange(3))


@contextmanager
def without_rights() -> Iterator[Path]:
    """A folder that everybody may look into, in the hands of a user whose rights count."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    is_root = os.geteuid() == 0
    try:
        yield folder
    finally:
        if is_root:
            os.seteuid(0)
        shutil.rmtree(folder)


@pytest.mark.parametrize("name", ["shop.db", "customers.csv"])
def test_a_source_that_may_not_be_read(small_shop: Shop, name: str) -> None:
    with without_rights() as folder:
        path = folder / name
        if name == "shop.db":
            shutil.copy(small_shop.path, path)
        else:
            path.write_text("id,name\n1,a\n")
        path.chmod(0)
        if os.geteuid() == 0:
            os.seteuid(65_534)
        with pytest.raises(GelgtError) as caught:
            gelgt.open(path if name == "shop.db" else folder)
        assert caught.value.code == "cannot_open"
        assert name in caught.value.message


def test_columns_that_cannot_be_keys_or_times() -> None:
    import pyarrow as pa

    tables = {
        "a": pa.table({"id": [0, 1], "raw": pa.array([b"x", b"y"]), "l": [["u"], ["v"]]}),
        "b": pa.table({"id": [0, 1]}),
    }
    for entry in (
        {"fkeys": {"raw": "b"}},
        {"fkeys": {"l": "b"}},
        {"pkey": "raw"},
        {"pkey": ["id", "l"]},
        {"time_col": "raw"},
    ):
        with pytest.raises(GelgtError) as caught:
            gelgt.open(tables, schema={"a": entry, "b": {"pkey": "id"}})
        assert caught.value.code in ("unusable_column", "unknown_column"), entry


def test_a_table_of_bytes_alone_is_left_out() -> None:
    import pyarrow as pa

    tables = {"a": pa.table({"id": [0, 1]}), "b": pa.table({"raw": pa.array([b"x"])})}
    db = gelgt.open(tables)
    assert db.table_names == ["a"]
    assert ("no_columns", "b") in [(f.code, f.table) for f in db.import_findings]
    with pytest.raises(GelgtError) as caught:
        gelgt.open({"b": tables["b"]})
    assert caught.value.code == "no_columns"


def test_a_sqlite_file_whose_errors_are_no_text(small_shop: Shop, tmp_path: Path) -> None:
    """SQLite repeats the damaged name of a table, and Python cannot decode it."""
    path = tmp_path / "shop.db"
    content = Path(small_shop.path).read_bytes()
    name = b"tablecustomerscustomers"
    assert content.count(name) == 1
    content = content.replace(name, b"tablecust\xcdmerscustomers")
    path.write_bytes(content.replace(b"CREATE TABLE customers", b"CREATX TABLE customers"))
    with pytest.raises(GelgtError) as told:
        gelgt.open(path)
    assert told.value.code == "cannot_open"
    assert "quick_check" in told.value.hint


def test_a_parquet_file_whose_names_are_no_text(tmp_path: Path) -> None:
    import pyarrow as pa

    path = tmp_path / "customers.parquet"
    pq.write_table(pa.table({"label": [1, 2]}), path)
    path.write_bytes(path.read_bytes().replace(b"label", b"labe\xec"))
    with pytest.raises(GelgtError) as told:
        gelgt.open(tmp_path)
    assert told.value.code == "unreadable_file"
    assert path.name in told.value.message


def test_a_primary_key_that_is_the_time(imported: Database) -> None:
    """As somebody may write it into a manifest."""
    manifest = imported.folder / "manifest.yaml"
    content = yaml.safe_load(manifest.read_text())
    content["tables"]["page_pings"]["pkey"] = content["tables"]["page_pings"]["time_col"]
    manifest.write_text(yaml.safe_dump(content))
    with pytest.raises(GelgtError) as told:
        gelgt.open(imported.folder)
    assert told.value.code == "bad_manifest"


@pytest.mark.parametrize(
    ("field", "value"), [("pkey", {}), ("time_col", {}), ("time_col", []), ("time_col", {"id": 1})]
)
def test_a_name_in_a_manifest_that_is_no_text(
    imported: Database, field: str, value: object
) -> None:
    """Also where it is empty, and so taken for none at first: the folder is imported again, since
    its manifest was edited."""
    manifest = imported.folder / "manifest.yaml"
    content = yaml.safe_load(manifest.read_text())
    content["tables"]["page_pings"][field] = value
    manifest.write_text(yaml.safe_dump(content))
    with pytest.raises(GelgtError) as told:
        gelgt.open(imported.folder)
    assert told.value.code == "bad_manifest"
