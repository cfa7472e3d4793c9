"""Killed, crowded and full: whatever happens to a build, the next one finds all of it or
nothing."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gelgt
from gelgt import GelgtError
from gelgt.demo import Shop
from gelgt.sources import importer
from gelgt.sources.cache import scratch_folder, sweep
from gelgt.sources.stage import StagedColumn

BUILD = """
import sys, gelgt
db = gelgt.open(sys.argv[1])
print("imported", flush=True)
print(db.folder, db.graph().content_hash(), db.features().content_hash(), flush=True)
"""
LIMITED = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
import gelgt
from gelgt.sources import importer
gelgt.open({"warm": __import__("pyarrow").table({"id": [1, 2]})})
def fill(*arguments):
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
url, moment = sys.argv[1:]
try:
    if moment == "reading":
        fill()
    elif moment == "writing":
        importer.check_keys = fill
    db = gelgt.open(url)
    fill()
    db.graph() if moment == "graph" else db.features()
except gelgt.GelgtError as error:
    print(error.code, error.message)
"""


def start(code: str, *arguments: str, cache: Path) -> "subprocess.Popen[str]":
    environment = {**os.environ, "GELGT_CACHE": str(cache)}
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments], env=environment, stdout=subprocess.PIPE, text=True
    )


def finish(process: "subprocess.Popen[str]") -> str:
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    return out


def test_a_killed_build_is_built_again_and_gives_the_same(small_shop: Shop, tmp_path: Path) -> None:
    begin = time.monotonic()
    whole = (
        finish(start(BUILD, small_shop.url, cache=tmp_path / "quiet")).splitlines()[-1].split()[1:]
    )
    length = time.monotonic() - begin
    cache = tmp_path / "killed"
    killed = 0
    for share in (0.35, 0.5, 0.65, 0.8, 0.9):
        process = start(BUILD, small_shop.url, cache=cache)
        time.sleep(share * length)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
        killed += process.returncode == -signal.SIGKILL
    assert killed
    assert finish(start(BUILD, small_shop.url, cache=cache)).splitlines()[-1].split()[1:] == whole


def test_two_processes_that_open_the_same_source_at_once_agree(
    small_shop: Shop, tmp_path: Path
) -> None:
    processes = [start(BUILD, small_shop.url, cache=tmp_path) for _ in range(2)]
    results = [finish(process) for process in processes]
    assert results[0] == results[1]
    assert not list(tmp_path.rglob(".*.tmp"))


def test_what_a_killed_process_left_is_removed_and_what_is_in_use_is_not(tmp_path: Path) -> None:
    left = tmp_path / ".gelgt-import.dead0000.tmp"
    (left / "deep").mkdir(parents=True)
    young = tmp_path / ".gelgt-import.young.tmp"
    young.mkdir()
    os.utime(left, (1, 1))
    with scratch_folder(tmp_path, "used") as used:
        os.utime(used, (1, 1))
        sweep(tmp_path)
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted([young.name, used.name])
    assert [path.name for path in tmp_path.iterdir()] == [young.name]


def test_folders_of_the_user_are_not_taken_for_what_a_killed_process_left(tmp_path: Path) -> None:
    names = (".notes.tmp", ".build.0123abcd.tmp", ".gelgt-import.0123abcd.tmp")
    for name in names:
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (1, 1))
    gelgt.open({"shops": pa.table({"id": [1, 2]})}, out=tmp_path / "project")
    assert sorted(p.name for p in tmp_path.iterdir()) == [*sorted(names[:2]), "project"]


def test_what_killed_label_sql_has_spilled_is_removed(
    small_shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (".gelgt-sql.0123abcd.tmp", ".other.0123abcd.tmp"):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (1, 1))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    db = gelgt.open(small_shop.url)
    assert db.task("PREDICT COUNT(orders.*, 0, 30, days) = 0 FOR EACH customers.id").rows["train"]
    assert [path.name for path in tmp_path.iterdir()] == [".other.0123abcd.tmp"]


def test_a_refused_import_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    left = tmp_path / ".gelgt-import.0123abcd.tmp"
    left.mkdir()
    os.utime(left, (1, 1))
    (tmp_path / "project" / "mine").mkdir(parents=True)
    with pytest.raises(GelgtError) as caught:
        gelgt.open({"shops": pa.table({"id": [1, 2]})}, out=tmp_path / "project")
    assert caught.value.code == "exists"
    assert [p.name for p in tmp_path.iterdir()] == ["project"]


def test_an_import_that_is_slower_than_another_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two imports into one folder: the slower one does not take the other's rows for its own."""
    out = tmp_path / "project"
    write = importer._write_whole

    def slow(*arguments: Any) -> None:
        write(*arguments)
        monkeypatch.setattr(importer, "_write_whole", write)
        gelgt.open({"shops": pa.table({"id": [7]})}, out=out)

    monkeypatch.setattr(importer, "_write_whole", slow)
    with pytest.raises(GelgtError) as caught:
        gelgt.open({"shops": pa.table({"id": [1, 2]})}, out=out)
    assert caught.value.code == "exists"
    assert gelgt.open(out).num_rows("shops") == 1
    assert [p.name for p in tmp_path.iterdir()] == ["project"]


def test_a_cache_that_cannot_be_written_is_an_error_that_names_it(
    small_shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("GELGT_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(GelgtError, match="GELGT_CACHE") as caught:
        gelgt.open(small_shop.url)
    assert caught.value.code == "cannot_write"
    assert str(tmp_path / "file") in caught.value.message


@pytest.mark.skipif(sys.platform == "win32", reason="needs resource limits")
@pytest.mark.parametrize("moment", ["reading", "writing", "graph", "features"])
def test_a_full_disk_is_an_error_and_leaves_nothing(
    small_shop: Shop, tmp_path: Path, moment: str
) -> None:
    out = finish(start(LIMITED, small_shop.url, moment, cache=tmp_path))
    assert out.startswith("cannot_write Cannot write to")
    # the one that was made before the disk was full, and the import that graph and features need
    is_imported = moment in ("graph", "features")
    assert len(list((tmp_path / "imports").iterdir())) == 1 + is_imported
    assert not list(tmp_path.rglob(".*.tmp"))
    derived = [path for path in tmp_path.glob("derived/*/*") if path.name.startswith(moment)]
    assert derived == []


def test_a_file_that_is_cut_short_while_it_is_read_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, rows = tmp_path / "source", 2_000_000
    source.mkdir()
    path = source / "orders.parquet"
    numbers = np.random.default_rng(0).random(rows)
    table = pa.table({"id": np.arange(rows), "amount": numbers})
    pq.write_table(table, path, row_group_size=100_000)
    add = StagedColumn.add

    def cut(self: StagedColumn, values: pa.Array) -> None:
        with path.open("r+b") as file:
            file.truncate(1000)
        add(self, values)

    monkeypatch.setattr(StagedColumn, "add", cut)
    with pytest.raises(GelgtError, match=r"orders\.parquet") as caught:
        gelgt.open(source, out=tmp_path / "project")
    assert caught.value.code in ("unreadable_file", "source_changed")
    assert [p.name for p in tmp_path.iterdir()] == ["source"]
