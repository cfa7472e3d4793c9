"""The cache: an entry is whole or not there, whoever builds it."""

import multiprocessing
import os
import threading
import time
from pathlib import Path

import pytest

from gelgt import GelgtError
from gelgt.sources.cache import (
    build_folder,
    cache_root,
    hash_files,
    release,
    remove_unused,
    stat_key,
    text_key,
)


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GELGT_CACHE", str(tmp_path / "mine"))
    assert cache_root() == tmp_path / "mine"
    assert not cache_root().exists()
    monkeypatch.delenv("GELGT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_root() == tmp_path / "gelgt"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_root() == tmp_path / "home" / ".cache" / "gelgt"


def test_a_folder_is_built_once(tmp_path: Path) -> None:
    built: list[Path] = []

    def build(folder: Path) -> None:
        built.append(folder)
        (folder / "data").write_text("whole")

    target = tmp_path / "deep" / "entry"
    assert build_folder(target, build) == target
    assert build_folder(target, build) == target
    assert (target / "data").read_text() == "whole"
    assert len(built) == 1
    assert os.listdir(target.parent) == ["entry"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, ValueError])
def test_an_interrupted_build_leaves_nothing(error: type[BaseException], tmp_path: Path) -> None:
    def build(folder: Path) -> None:
        (folder / "half").write_text("half")
        assert not (tmp_path / "entry").exists()
        raise error

    with pytest.raises(error):
        build_folder(tmp_path / "entry", build)
    assert list(tmp_path.iterdir()) == []


def test_of_two_builders_the_first_result_is_kept(tmp_path: Path) -> None:
    """Both start before either is done; whoever finishes second finds the other's entry and leaves
    it alone."""
    both_started = threading.Barrier(2)
    first_is_done = threading.Event()
    results: list[Path] = []

    def build(name: str, folder: Path) -> None:
        (folder / "name").write_text(name)
        both_started.wait(10)
        if name == "second":
            first_is_done.wait(10)

    def run(name: str) -> None:
        results.append(build_folder(tmp_path / "entry", lambda folder: build(name, folder)))
        first_is_done.set()

    threads = [threading.Thread(target=run, args=(name,)) for name in ("first", "second")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert results == [tmp_path / "entry"] * 2
    assert (tmp_path / "entry" / "name").read_text() == "first"
    assert os.listdir(tmp_path) == ["entry"]


def _killed(target: Path) -> None:
    def build(folder: Path) -> None:
        (folder / "half").write_text("half")
        os._exit(9)

    build_folder(target, build)


def test_a_killed_builder_is_not_in_the_way(tmp_path: Path) -> None:
    process = multiprocessing.get_context("fork").Process(
        target=_killed, args=(tmp_path / "entry",)
    )
    process.start()
    process.join(20)
    assert process.exitcode == 9
    assert not (tmp_path / "entry").exists()
    build_folder(tmp_path / "entry", lambda folder: (folder / "data").write_text("whole") and None)
    assert (tmp_path / "entry" / "data").read_text() == "whole"


def test_a_build_that_cannot_be_put_in_place_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(source: Path, target: Path) -> None:
        raise OSError("no space")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(GelgtError, match="no space") as caught:
        build_folder(tmp_path / "entry", lambda folder: None)
    assert caught.value.code == "cannot_write"
    assert list(tmp_path.iterdir()) == []


def test_hashes_see_names_bytes_and_wishes(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    a.write_bytes(b"one")
    b.write_bytes(b"two")
    key = hash_files([a, b])
    assert hash_files([b, a]) == key
    assert hash_files([a, b], extra="x") != key
    b.write_bytes(b"twO")
    assert hash_files([a, b]) != key
    b.write_bytes(b"two")
    b.rename(tmp_path / "c")
    assert hash_files([a, tmp_path / "c"]) != key


def test_stat_keys_see_a_change_in_place(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"one")
    os.utime(file, ns=(1, 1))
    key = stat_key([file])
    assert stat_key([file]) == key
    os.utime(file, ns=(1, 2))
    assert stat_key([file]) != key


def test_text_keys() -> None:
    assert text_key("a") == text_key("a") != text_key("b")


def _write_one(folder: Path) -> None:
    (folder / "a").write_text("1")


def _use_until_told(entry: Path, ready: str, end: str) -> None:
    build_folder(entry, _write_one)
    Path(ready).touch()
    while not Path(end).exists():
        time.sleep(0.01)


def test_what_another_process_uses_is_not_removed(tmp_path: Path) -> None:
    entry, ready, end = tmp_path / "db" / "graph", tmp_path / "ready", tmp_path / "end"
    context = multiprocessing.get_context("spawn")
    other = context.Process(target=_use_until_told, args=(entry, str(ready), str(end)))
    other.start()
    while not ready.exists():
        time.sleep(0.01)
    build_folder(entry, _write_one)
    assert not remove_unused(entry.parent)
    assert (entry / "a").read_text() == "1"
    end.touch()
    other.join()
    assert remove_unused(entry.parent)
    assert not entry.parent.exists()
    assert remove_unused(entry.parent)  # gone already
    assert build_folder(entry, _write_one).exists()  # and can be made again
    release(entry.parent)


def test_a_process_that_opens_many_does_not_run_out_of_handles(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for number in range(100):
        build_folder(tmp_path / str(number) / "graph", _write_one)
    assert len(os.listdir("/proc/self/fd")) - before <= 40
