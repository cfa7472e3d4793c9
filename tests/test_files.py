"""What is written is whole, or not there; what stood there before survives a failure."""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gelgt import files
from gelgt.files import whole_file, whole_folder, write_text


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def test_a_file_is_replaced_when_all_is_written(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.txt"
    write_text(path, "älter")
    with whole_file(path) as temporary:
        temporary.write_text("newer", encoding="utf-8")
        assert path.read_text(encoding="utf-8") == "älter"
        assert temporary.parent == path.parent
    assert path.read_text(encoding="utf-8") == "newer"
    assert names(path.parent) == ["a.txt"]


def test_a_file_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "before")

    def fail() -> None:
        with whole_file(path) as temporary:
            temporary.write_text("half", encoding="utf-8")
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        fail()
    assert path.read_text(encoding="utf-8") == "before"
    assert names(tmp_path) == ["a.txt"]


def test_a_block_that_writes_nothing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), whole_file(tmp_path / "a.txt"):
        pass
    assert names(tmp_path) == []


def test_a_folder_is_replaced_whole(tmp_path: Path) -> None:
    target = tmp_path / "run"
    for text in ("one", "two"):
        with whole_folder(target) as temporary:
            (temporary / text).write_text(text)
        assert names(target) == [text]
    assert names(tmp_path) == ["run"]


def test_a_folder_that_cannot_be_put_in_place_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "run"
    target.mkdir()
    (target / "old").touch()
    real = os.replace

    def refuse(source: Path, goal: Path) -> None:
        if str(source).endswith(".tmp"):
            raise OSError("no room")
        real(source, goal)

    monkeypatch.setattr(files, "_exchange", lambda one, other: False)  # a system that cannot
    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="no room"), whole_folder(target) as temporary:
        (temporary / "new").touch()
    assert names(target) == ["old"]
    assert names(tmp_path) == ["run"]


@pytest.mark.skipif(
    sys.platform != "linux", reason="two names are exchanged at once on Linux alone"
)
def test_a_folder_is_there_at_every_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed before any step that renames or removes, one of the two is in place."""
    target = tmp_path / "run"
    target.mkdir()
    (target / "old").touch()
    seen = []

    def watched(step: Callable[..., Any]) -> Callable[..., Any]:
        def look(*arguments: Any, **options: Any) -> Any:
            seen.append(names(target))
            return step(*arguments, **options)

        return look

    for module, name in ((os, "replace"), (files, "_exchange"), (files.shutil, "rmtree")):
        monkeypatch.setattr(module, name, watched(getattr(module, name)))
    with whole_folder(target) as temporary:
        (temporary / "new").touch()
    assert (seen[0], seen[-1]) == (["old"], ["new"])
    assert names(tmp_path) == ["run"]


def test_without_an_exchange_a_folder_is_replaced_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_exchange", lambda one, other: False)
    for text in ("one", "two"):
        with whole_folder(tmp_path / "run") as temporary:
            (temporary / text).touch()
    assert (names(tmp_path), names(tmp_path / "run")) == (["run"], ["two"])


def test_what_killed_writers_left_is_removed_a_day_later(tmp_path: Path) -> None:
    left = tmp_path / ".a.txt.0123abcd.tmp"
    folder = tmp_path / ".a.txt.0123abcd.old"
    others = [".a.txt.tmp", ".b.txt.0123abcd.tmp", ".a.txt.mine0000.tmp", ".a.txt.11111111.tmp"]
    for path in (left, *(tmp_path / name for name in others)):
        path.touch()
    folder.mkdir()
    for path in tmp_path.iterdir():
        if "1111" not in path.name:  # somebody writes to that one
            os.utime(path, (time.time() - 90_000,) * 2)
    write_text(tmp_path / "a.txt", "new")
    assert names(tmp_path) == sorted([*others, "a.txt"])
