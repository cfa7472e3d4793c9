"""What is never taken for unchanged, and imports and records that are damaged."""

import os
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from changing import Reads, amounts, folder, reads, settled, sqlite_file

import gelgt
from gelgt import GelgtError

__all__ = ["folder", "reads", "settled", "sqlite_file"]  # fixtures


def test_frames_are_read_each_time(reads: Reads) -> None:
    frames = {"accounts": pd.DataFrame({"id": [1, 2]})}
    for _ in range(2):
        gelgt.open(frames)
        assert reads.take() == ["accounts"]


@pytest.mark.usefixtures("settled")
def test_fresh_reads_again(sqlite_file: Path, folder: Path, reads: Reads) -> None:
    for source in (sqlite_file, folder):
        first = gelgt.open(source)
        reads.take()
        assert gelgt.open(source, fresh=True).folder == first.folder
        assert reads.take() == ["accounts", "payments"]
        gelgt.open(source)
        assert reads.take() == []


def test_fresh_on_a_missing_source(sqlite_file: Path) -> None:
    gelgt.open(sqlite_file)
    sqlite_file.unlink()
    for fresh in (True, False):
        with pytest.raises(GelgtError) as caught:
            gelgt.open(sqlite_file, fresh=fresh)
        assert caught.value.code == "not_found"


def _cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-20])


def _flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("damage", [_cut, _flip, Path.unlink])
@pytest.mark.parametrize(
    "part", ["db/payments.parquet", "gelgt/keys/payments.parquet", "manifest.yaml"]
)
@pytest.mark.parametrize("kind", ["sqlite", "files"])
def test_a_damaged_import_is_made_anew(
    request: pytest.FixtureRequest,
    reads: Reads,
    damage: Callable[[Path], None],
    part: str,
    kind: str,
) -> None:
    source = request.getfixturevalue("sqlite_file" if kind == "sqlite" else "folder")
    db = gelgt.open(source)
    rows = db.read("payments").to_pylist()
    reads.take()
    damage(db.folder / part)
    again = gelgt.open(source)
    assert again.read("payments").to_pylist() == rows
    assert reads.take() == ["accounts", "payments"]
    gelgt.open(source)
    assert reads.take() == []


@pytest.mark.usefixtures("settled")
def test_a_damaged_record_is_no_record(sqlite_file: Path, reads: Reads) -> None:
    gelgt.open(sqlite_file)
    records = list((Path(os.environ["GELGT_CACHE"]) / "records").iterdir())
    for text in ("", "[]", "{}", records[0].read_text()[:-30]):
        reads.take()
        for record in records:
            record.write_text(text)
        gelgt.open(sqlite_file)
        assert reads.take() == ["accounts", "payments"]


def test_a_cache_that_cannot_be_written(
    sqlite_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("GELGT_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(GelgtError) as caught:
        gelgt.open(sqlite_file)
    assert caught.value.code == "cannot_write"


@pytest.mark.usefixtures("settled")
def test_records_that_cannot_be_written_cost_time_alone(sqlite_file: Path, reads: Reads) -> None:
    cache = Path(os.environ["GELGT_CACHE"])
    (cache / "records").write_text("no folder")
    for _ in range(2):
        assert amounts(gelgt.open(sqlite_file)) == [10, 20, 30]
        assert reads.take() == ["accounts", "payments"]
