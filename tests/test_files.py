"""What is written is whole, or not there; what stood there before survives a failure."""

import os
from pathlib import Path

import pytest

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

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="no room"), whole_folder(target) as temporary:
        (temporary / "new").touch()
    assert names(target) == ["old"]
    assert names(tmp_path) == ["run"]
